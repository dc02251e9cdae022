"""A search reads each row of a run once."""

import os

from rlpyt.sweeps.search import Search
from rlpyt.utils.logging import progress_csv

STEPS = "Diagnostics/CumSteps"


def test_rows_are_those_of_the_file_while_it_grows_and_after_it_is_replaced(tmp_path):
    search, path = Search(), tmp_path / "progress.csv"
    assert search.rows(tmp_path) == []
    path.write_text(f"{STEPS},ReturnAverage\n100,1.5\n200,nan\n300,2")
    assert search.rows(tmp_path) == [(100, 1.5)]
    with open(path, "a") as file:
        file.write(".5\n")
    assert search.rows(tmp_path) == [(100, 1.5), (300, 2.5)]
    other = tmp_path / "new.csv"  # with another column
    other.write_text(f"{STEPS},Loss,ReturnAverage\n100,0,1.5\n400,0,3.5\n500,2\n")
    os.replace(other, path)
    assert search.rows(tmp_path) == [(100, 1.5), (400, 3.5)]
    assert search.score(tmp_path) == 3.5
    path.unlink()
    assert search.rows(tmp_path) == []


def test_a_row_is_read_once(tmp_path, monkeypatch):
    search, path, seen = Search(), tmp_path / "progress.csv", []
    real = progress_csv.cells_of
    monkeypatch.setattr(progress_csv, "cells_of", lambda line: seen.append(line) or real(line))
    path.write_text(f"{STEPS},ReturnAverage\n100,1.5\n")
    assert search.rows(tmp_path) == search.rows(tmp_path) == [(100, 1.5)]
    assert len(seen) == 2
    search.forget(tmp_path)
    assert search.rows(tmp_path) == [(100, 1.5)] and len(seen) == 4
