"""Comparing two versions: what is refused, what is slower, and whose code is measured."""

import copy
import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks import compare, harness
from benchmarks.harness import Contender, Progress, Row, Setting

MACHINE = {
    "commit": "0123456789abcdef",
    "modified": False,
    "date": "2026-01-01",
    "processor": "X",
    "gpu": "no GPU",
    "cores": 2,
    "versions": {"torch": "2.13.0"},
}
SAC = "training: SAC | rlpyt SerialSampler, 1 thread"


def result(rates, threads=1, contender="rlpyt SerialSampler", **machine):
    row = {"setting": "SAC", "contender": contender, "threads": threads, "rates": rates}
    return {"title": "training", "machine": {**MACHINE, **machine}, "rows": [row]}


def test_results_of_one_machine_are_compared():
    old, new = result([100.0, 90.0, 110.0]), result([80.0, 70.0, 90.0])
    compare.check_comparable(old["machine"], new["machine"])
    assert compare.rates_of(old, new) == {SAC: ([100.0, 90.0, 110.0], [80.0, 70.0, 90.0])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processor": "Y"}, r"processor must be equal, got X \(OLD\) and Y \(NEW\)"),
        ({"cores": 4}, r"cores must be equal, got 2 \(OLD\) and 4 \(NEW\)"),
        ({"gpu": "H100"}, r"gpu must be equal, got no GPU \(OLD\) and H100 \(NEW\)"),
        (
            {"versions": {"torch": "2.11.0"}},
            r"torch must have one version, got 2.13.0 \(OLD\) and 2.11.0 \(NEW\)",
        ),
        ({"modified": True}, "NEW must be measured at a commit, got 0123456789 with uncommitted"),
    ],
)
def test_results_of_other_machines_and_of_modified_files_are_refused(change, message):
    with pytest.raises(compare.NotComparable, match=message):
        compare.check_comparable(MACHINE, {**MACHINE, **change})


def test_a_result_that_does_not_tell_whether_files_were_modified_is_refused():
    silent = {name: value for name, value in MACHINE.items() if name != "modified"}
    with pytest.raises(compare.NotComparable, match="OLD must be measured at a commit"):
        compare.check_comparable(silent, MACHINE)


def test_other_numbers_of_threads_are_refused():
    with pytest.raises(compare.NotComparable, match=r"threads must be equal, got \[1\] and \[2\]"):
        compare.rates_of(result([1.0]), result([1.0], threads=2))


def test_rows_of_one_name_are_told_apart_by_their_threads():
    old, new = result([1.0]), result([2.0])
    for given, rate in ((old, 3.0), (new, 6.0)):
        given["rows"] += copy.deepcopy(result([rate], threads=2)["rows"])
    rates = compare.rates_of(old, new)
    assert list(rates.values()) == [([1.0], [2.0]), ([3.0], [6.0])]


def test_results_without_a_common_row_of_rlpyt_are_refused():
    peer = result([1.0], contender="hand-written")
    with pytest.raises(compare.NotComparable, match="no common row"):
        compare.rates_of(peer, peer)


def test_only_rows_beyond_the_tolerance_are_slower():
    rates = {"a": ([100.0], [94.0]), "b": ([100.0], [96.0]), "c": ([50.0, 1.0, 100.0], [90.0])}
    assert compare.slower(rates, 0.05) == ["a"]
    assert compare.ratio(rates["c"]) == 1.8


def test_only_what_is_slower_again_is_reported():
    first = {"a": ([10.0], [8.0]), "b": ([10.0], [7.0]), "c": ([10.0], [11.0])}
    text = compare.report(first, {"a": ([10.0], [8.5]), "b": ([10.0], [10.0])}, 0.05)
    assert text.splitlines()[2:] == [
        "| a | 0.80 | 0.85 |",
        "| b | 0.70 | 1.00 |",
        "| c | 1.10 |  |",
        "",
        "slower: a, 0.85 times",
    ]
    assert "Nothing got slower." in compare.report(first, {}, 0.05)


def test_every_default_table_has_rows_of_rlpyt():
    for table in compare.DEFAULT:
        assert list(compare.rows_of(table))
    with pytest.raises(compare.NotComparable, match=r"training/sac, .*got training/sak"):
        list(compare.rows_of("training/sak"))


def where(depth: float = 0) -> harness.Workload:
    """Report the rlpyt that this process imports, by the length of its path."""
    import rlpyt

    while True:
        time.sleep(1e-3)
        yield Progress(1, float(len(rlpyt.__file__)))


def test_a_contender_imports_the_rlpyt_of_its_folder(tmp_path):
    module = tmp_path / "rlpyt" / "__init__.py"
    module.parent.mkdir()
    module.touch()
    contender = Contender("c", where, path=str(tmp_path))
    (row,) = harness.measure_setting(Setting("s", (contender,)), windows=1, seconds=0.01)
    own = Path(harness.__file__).parents[1] / "rlpyt" / "__init__.py"
    assert row.return_ == len(str(module)) != len(str(own))


def test_a_commit_is_checked_out_without_its_other_files(tmp_path):
    if not harness.git("rev-parse", "HEAD", check=False):
        pytest.skip("not a git repository")
    folder = compare.checkout("HEAD", tmp_path / "head")
    assert [path.name for path in folder.iterdir()] == ["rlpyt"]
    assert (folder / "rlpyt" / "version.py").exists() or (folder / "rlpyt" / "__init__.py").exists()
    with pytest.raises(compare.NotComparable, match="must be commits or JSON files"):
        compare.checkout("no-such-commit", tmp_path / "none")


def compared(monkeypatch, again, *arguments, modified=False):
    """Compare with made-up measurements: the first says 0.8, the second ``again``."""
    answers = iter([0.8, again])

    def measure(contenders, paths, windows, seconds):
        factor = next(answers)
        return {name: ([10.0], [10.0 * factor]) for name in contenders}, []

    monkeypatch.setattr(compare, "measure", measure)
    monkeypatch.setattr(compare, "checkout", lambda commit, folder: folder)
    monkeypatch.setattr(harness, "describe_machine", lambda: {**MACHINE, "modified": modified})
    return compare.main([*arguments, "--tables", "training/sac", "--only", "compiled"])


def test_what_looks_slower_is_measured_again(monkeypatch, capsys):
    assert compared(monkeypatch, 0.85, "main", "HEAD") == 1
    assert "slower: training: SAC" in capsys.readouterr().out
    assert compared(monkeypatch, 1.0, "main", "HEAD") == 0
    assert "Nothing got slower." in capsys.readouterr().out


def test_a_modified_tree_is_refused(monkeypatch, capsys):
    assert compared(monkeypatch, 1.0, "main", "HEAD", modified=True) == 2
    assert capsys.readouterr().err.startswith("Not compared: the working tree must be clean")


def test_results_are_refused_on_another_machine(monkeypatch, capsys, tmp_path):
    for name in ("old", "new"):
        (tmp_path / f"{name}.json").write_text(json.dumps(result([1.0], processor="Y")))
    files = [str(tmp_path / f"{name}.json") for name in ("old", "new")]
    assert compared(monkeypatch, 1.0, *files) == 2
    assert "processor must be equal, got Y (OLD) and X (NEW)" in capsys.readouterr().err


def test_neighbours_are_busy_inside_the_context_only():
    others = psutil.Process().children()
    with harness.busy_neighbours(2):
        running = [p for p in psutil.Process().children() if p not in others]
        assert len(running) == 2
        deadline = time.monotonic() + 60
        while sum(p.cpu_times().user for p in running) < 0.2:
            assert time.monotonic() < deadline, "the neighbours use no processor time"
            time.sleep(0.05)
    assert not any(p.is_running() for p in running)


def test_neighbours_end_with_their_parent():
    script = (
        "import os, psutil\n"
        "from benchmarks import harness\n"
        "with harness.busy_neighbours(1):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    os._exit(0)\n"
    )
    command = [sys.executable, "-c", script]
    pid = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    deadline = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the neighbour still runs"
        time.sleep(0.05)


def test_each_row_is_measured_quietly_and_beside_neighbours():
    setting = Setting("s", (Contender("c", where),))
    (row,) = harness.measure_setting(setting, windows=2, seconds=0.01, n_busy=1)
    assert len(row.rates) == len(row.busy_rates) == 2


def test_the_busy_ratio_is_that_of_medians_and_in_the_table():
    row = Row("s", "c", 1, "", rates=[10.0, 20.0, 30.0], busy_rates=[1.0, 15.0, 16.0])
    assert row.busy_ratio == 0.75
    head, _, line = harness.markdown_table([row]).splitlines()[:3]
    assert head.endswith("| busy ratio |") and line.endswith("| 0.75 |")
    assert "busy" not in harness.markdown_table([Row("s", "c", 1, "", rates=[1.0])])
