"""Tables of benchmarks name their machine, and are not written from a busy one."""

import json

import pytest

from benchmarks import harness


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
