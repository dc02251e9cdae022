"""Tables of benchmarks name their machine, and are not written from a busy one."""

import ast
import json
import os
import re
import sys

import psutil
import pytest

from benchmarks import deterministic_acting, harness, startup


def row(disturbance):
    return harness.Row("setting", "contender", 1, "", rates=[2.0, 3.0], disturbance=disturbance)


@pytest.fixture
def machine():
    return harness.describe_machine()


def test_a_table_and_its_numbers_name_commit_and_processor(tmp_path, machine):
    harness.publish(tmp_path / "t.json", machine, [row(0.04)], "| table |", title="t")
    head = (tmp_path / "t.md").read_text().splitlines()[0]
    assert machine["commit"][:10] in head and machine["processor"] in head
    assert "others used 4% of the cores" in head
    written = json.loads((tmp_path / "t.json").read_text())
    assert written["machine"] == machine and written["rows"][0]["rates"] == [2.0, 3.0]


def test_nothing_is_written_when_others_used_the_machine(tmp_path, machine):
    with pytest.raises(SystemExit, match="at most 5% of the cores, got 6%"):
        harness.publish(tmp_path / "t.json", machine, [row(0.01), row(0.06)], "| table |")
    assert list(tmp_path.iterdir()) == []


def test_the_page_shows_the_kept_cost_of_deterministic_acting():
    page = deterministic_acting.PAGE.read_text(encoding="utf-8")
    assert deterministic_acting.render(page) == page


def test_the_cost_of_deterministic_acting_is_filled_in_from_its_numbers(
    tmp_path, machine, monkeypatch
):
    rows = [
        harness.Row("MLP, 2 environments", "without", 1, "", rates=[1000.0, 900.0, 2000.0]),
        harness.Row("MLP, 2 environments", "with", 1, "", rates=[700.0, 750.0, 800.0], ratio=0.75),
    ]
    kept = tmp_path / "kept.json"
    harness.publish(kept, machine, rows, "| table |", command=["benchmarks.x", "--windows", "3"])
    monkeypatch.setattr(deterministic_acting, "RESULTS", kept)
    page = deterministic_acting.PAGE.read_text(encoding="utf-8")
    filled = deterministic_acting.render(page)
    assert "| MLP, 2 environments | 1,000 | 750 | 0.75 |" in filled
    assert f"`python -m benchmarks.x --windows 3`, {machine['date']}" in filled
    assert machine["processor"] in filled and "70d08ba" not in filled
    block = "(?s)<!-- table deterministic-acting -->.*?<!-- end of table -->"
    assert re.sub(block, "", filled) == re.sub(block, "", page)
    assert deterministic_acting.render(filled) == filled


def test_each_network_is_measured_with_and_without_deterministic_acting():
    measured = deterministic_acting.settings()
    assert [len(measured[env]) for env in ("cartpole", "pong")] == [9, 3]
    for contender, expected in zip(measured["cartpole"][0].contenders, (False, True), strict=True):
        workload = contender.build(**contender.kwargs)
        assert next(workload).steps == 2 * deterministic_acting.T
        assert workload.gi_frame.f_locals["sampler"].deterministic_acting is expected
        workload.close()


@pytest.mark.parametrize("env", startup.ENVS)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_programs_whose_start_is_measured_are_python(env, workers):
    for contender in startup.CONTENDERS:
        ast.parse(startup.Row(env, contender, workers).program())
    ast.parse(startup.Row("", "import torch, gymnasium", 0).program())


def test_starts_are_compared_by_medians_with_the_first_row():
    rows = [
        startup.Row("", "import torch, gymnasium", 0, [2.0, 1.0, 9.0], [1.0, 1.0, 1.0]),
        startup.Row("pong", "script", 8, [5.0, 4.0, 1.0], [3.0, 2.5, 2.0], [20.0, 21.0, 22.0]),
        startup.Row("pong", "command line", 32, problem="too many workers"),
    ]
    text = startup.table(rows)
    assert "| pong | script | 8 | 4.0 | 2.00 | 2.5 | 2.50 | 21.0 |" in text
    assert "- pong, command line, 32 workers: not measured, too many workers" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_memory_of_a_process_is_in_megabytes():
    assert (
        1 < startup.proportional_megabytes(os.getpid()) < psutil.Process().memory_info().rss / 1e6
    )
