"""Reading of progress.csv."""

import warnings

import numpy as np
import pytest

from rlpyt.utils.files import write_text
from rlpyt.utils.logging.progress_csv import NewRows, last_row, read_progress
from rlpyt.utils.logging.sinks import CsvSink

STEPS, RETURN = "Diagnostics/CumSteps", "ReturnAverage"


def test_progress_is_read_in_the_order_of_the_file(tmp_path):
    text = f"{STEPS},{RETURN}\n100,1.5\n200,nan\n300,\n400,-inf\n"
    (tmp_path / "progress.csv").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        progress = read_progress(tmp_path)
    assert list(progress) == [STEPS, RETURN]
    assert progress[STEPS].tolist() == [100, 200, 300, 400]
    np.testing.assert_array_equal(progress[RETURN], [1.5, np.nan, np.nan, -np.inf])


def test_unreadable_lines_and_cells_are_skipped_with_a_warning(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a,b\n1,2\n3\n4,5,6\n7,word\n8,9\n10,1")
    with pytest.warns(UserWarning) as caught:
        progress = read_progress(path)
    np.testing.assert_array_equal(progress["a"], [1, 7, 8])
    np.testing.assert_array_equal(progress["b"], [2, np.nan, 9])
    assert str(caught[0].message) == (
        f"{path}: skipped the last line, which is cut off, 2 lines with a wrong number of cells, "
        "1 cells that are not numbers."
    )


def test_lines_that_are_not_csv_are_skipped(tmp_path):
    zeros = "\0" * 200_000  # what a file may hold after the machine went down
    (tmp_path / "progress.csv").write_text(f'a,b\n1,2\n{zeros}\n3,4\n"5,6\n7,8\n')
    with pytest.warns(UserWarning, match="2 lines "):
        progress = read_progress(tmp_path)
    assert progress["a"].tolist() == [1, 3, 7] and progress["b"].tolist() == [2, 4, 8]


def test_a_second_header_is_followed(tmp_path):
    (tmp_path / "progress.csv").write_text("a,b\n1,2\nb,c\n3,4\n")
    progress = read_progress(tmp_path)
    np.testing.assert_array_equal(progress["a"], [1, np.nan])
    np.testing.assert_array_equal(progress["b"], [2, 3])
    np.testing.assert_array_equal(progress["c"], [np.nan, 4])


def test_empty_and_absent_files(tmp_path):
    (tmp_path / "progress.csv").touch()
    assert read_progress(tmp_path) == {}
    with pytest.raises(FileNotFoundError, match=r"absent does not exist"):
        read_progress(tmp_path / "absent")


def test_last_row_has_the_finite_numbers_of_the_newest_complete_line(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a,b,c,d,e\n1,2,3,4,5\r\n6,,nan,word,7\r\n8\n9,9,9,9,9")
    assert last_row(path) == {"a": 6, "e": 7}


def test_columns_that_are_empty_in_some_rows_have_their_newest_number(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a,eval,b\n1,10,2\n3,20,\n5,nan,6\n7,,\n")
    assert last_row(path) == {"a": 7}
    assert last_row(path, newest=["eval", "missing"]) == {"a": 7, "eval": 20}
    assert last_row(path, newest=["b"]) == {"a": 7, "b": 6}


def test_last_row_reads_only_the_end_of_a_long_file(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a,b\n" + "1,2\n" * 100 + "3,4\n")
    assert last_row(path, max_bytes=6) == {"a": 3, "b": 4}
    assert last_row(path, max_bytes=3) == {}, "no complete line within the bytes read"


def test_last_row_of_a_file_without_rows_is_empty(tmp_path):
    path = tmp_path / "progress.csv"
    assert last_row(path) == {}
    path.write_text("a,b\n")
    assert last_row(path) == {}
    path.write_text("a,b\n1,2\na,b\n")  # a concatenated file without new rows
    assert last_row(path) == {"a": 1, "b": 2}


def test_the_last_row_has_the_names_of_its_own_header(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("steps,x\n1,5\n2,6\nsteps,new,x\n3,1,7\n4,1,8\n")
    assert last_row(path) == {"steps": 4, "new": 1, "x": 8}
    path.write_text("steps,x\n1,5\nx,steps\n7,3\n")
    assert last_row(path) == {"steps": 3, "x": 7}


def test_new_rows_are_read_once_as_they_are_written(tmp_path):
    path = tmp_path / "progress.csv"
    rows = NewRows(path)
    assert rows.read() == []
    path.write_text("a,D/CumSteps,text\n1.5,10,on\n,2")
    assert rows.read() == [(10, {"a": 1.5, "D/CumSteps": 10, "text": "on"})]
    with open(path, "a") as file:
        file.write("0,\nnan,30,off\n")
    assert rows.read() == [
        (20, {"D/CumSteps": 20}),
        (30, {"D/CumSteps": 30, "text": "off"}),
    ]
    assert rows.read() == []


def test_new_rows_start_again_when_columns_were_added(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("a\n1\n")
    rows = NewRows(path)
    assert rows.read() == [(1, {"a": 1})]
    path.write_text("a,b\n1,\n2,3\n")  # the same inode, as after two replacements
    assert rows.read() == [(1, {"a": 1}), (2, {"a": 2, "b": 3})] and rows.from_start


@pytest.mark.parametrize("shorter", [True, False])
def test_new_rows_start_again_when_the_file_is_replaced(tmp_path, shorter):
    path = tmp_path / "progress.csv"
    path.write_text("a\n1\n2\n")
    rows = NewRows(path)
    assert rows.read() == [(1, {"a": 1}), (2, {"a": 2})]
    content = "a\n1\n" if shorter else "a,b\n1,\n2,\n3,4\n"
    write_text(path, content)
    assert rows.read() == [(1, {"a": 1}), (2, {"a": 2}), (3, {"a": 3, "b": 4})][: 3 - 2 * shorter]


@pytest.mark.parametrize("steps", ["inf", "many", ""])
def test_a_row_whose_steps_are_no_number_counts_as_its_own(tmp_path, steps):
    path = tmp_path / "progress.csv"
    path.write_text(f"Diagnostics/CumSteps,b\n{steps},2\n")
    ((number, row),) = NewRows(path).read()
    assert (number, row["b"]) == (1, 2.0)


def test_a_table_saved_by_a_spreadsheet_keeps_its_first_column(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_bytes(b"\xef\xbb\xbfDiagnostics/CumSteps,b\r\n1,2\r\n")
    assert list(read_progress(path)) == ["Diagnostics/CumSteps", "b"]
    assert last_row(path) == {"Diagnostics/CumSteps": 1.0, "b": 2.0}
    assert NewRows(path).read() == [(1, {"Diagnostics/CumSteps": 1.0, "b": 2.0})]
    sink = CsvSink(path, append=True)
    assert sink.columns == ["Diagnostics/CumSteps", "b"]
