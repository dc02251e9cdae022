"""Experiment trackers: a process sends the rows; a tracker that fails costs the run nothing."""

import contextlib
import json
import os
import signal
import sys
import time
import warnings
from dataclasses import asdict

import pytest

from rlpyt.errors import DamagedFile
from rlpyt.utils.logging import logger, tracker_process
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.logging.tracker_process import WAIT_VARIABLE, Delivery, memory_of, prepare
from rlpyt.utils.logging.tracking import TrackerSink, check_installed, logger_names
from rlpyt.utils.names import UnknownName
from tests.cli.test_commands import rlpyt_command
from tests.fake_mlflow import events, mlflow_server, rows, silent_server  # noqa: F401 - fixtures

PART = {"$call": "rlpyt.algos.pg.ppo:PPO", "kwargs": {}}
RUNNER = {
    "$call": "rlpyt.runners.minibatch_rl:MinibatchRl",
    "kwargs": dict(algo=PART, agent=PART, sampler=PART, n_steps=20),
}


def write_parts(run_dir):
    """Write what a runner writes at its start."""
    parts = dict(logging=dict(loggers=["mlflow"]), runner=RUNNER)
    (run_dir / "parts.json").write_text(json.dumps(parts))


@pytest.fixture
def server(mlflow_server):  # noqa: F811 - the fixture
    with logger.session():
        logger.set_console(False)
        yield mlflow_server


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def dump(steps, **values):
    logger.set_iteration(steps)
    logger.record_tabular("Diagnostics/CumSteps", steps)
    for name, value in values.items():
        logger.record_tabular(name, value)
    logger.dump_tabular()


def test_rows_settings_and_files_of_a_run_are_sent(server, tmp_path):
    params = dict(algo=dict(lr=0.1), seed=3)
    with run_context(tmp_path / "run_3", 3, "ppo", params, loggers="csv,mlflow") as run_dir:
        dump(10, x=1.5, text="on", nothing=None, **{"CumTime (s)": 2})
        (run_dir / "evaluation.json").write_text('{"return_mean": 7.5, "lengths": [1, 2]}')
        logger.attach(run_dir / "evaluation.json")
    name, tags = f"{tmp_path.name}/run_3", {"group": "ppo"}
    settings = {"algo.lr": "0.1", "seed": "3", "name": "ppo", "run_ID": "3"}
    assert events(server) == [
        ["experiment", "rlpyt"],
        ["create", name, tags],
        ["params", settings],
        ["row", 10, {"Diagnostics/CumSteps": 10.0, "x": 1.5, "CumTime s": 2.0}],
        ["row", 10, {"evaluation/return_mean": 7.5}],
        ["file", "evaluation.json"],
        ["end", "FINISHED"],
    ]


def test_a_failed_run_is_marked(server, tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        run_context(tmp_path / "run", 0, "n", loggers=["mlflow"]),
    ):
        dump(10, x=1)
        raise KeyboardInterrupt
    assert events(server)[-1] == ["end", "FAILED"]


def test_a_run_that_fails_to_start_is_not_created(server, tmp_path):
    with pytest.raises(ValueError), run_context(tmp_path / "run", 0, "n", loggers=["mlflow"]):
        raise ValueError
    assert events(server) == []


def test_a_tracker_without_network_is_reported_once_and_receives_its_rows_later(server, tmp_path):
    (server / "down").touch()
    run = run_context(tmp_path / "run", 0, "n", loggers=["mlflow"])
    with pytest.warns(RuntimeWarning) as caught, run:
        dump(10, x=1)
        wait_for(lambda: "ConnectionError" in (tmp_path / "run" / "debug.log").read_text())
        dump(20, x=2)
        dump(30, x=3)
        assert rows(server) == []
        (server / "down").unlink()
    assert [str(warning.message) for warning in caught] == [
        "mlflow failed (ConnectionError: no route to host). The run continues; its rows are kept "
        "in progress.csv and sent when it answers."
    ]
    assert rows(server) == [(10, 1), (20, 2), (30, 3)]


def test_what_was_not_sent_is_named_and_sent_by_upload(server, tmp_path, capsys):
    (server / "down").touch()
    run_dir = tmp_path / "run"
    with pytest.warns(RuntimeWarning) as caught, run_context(run_dir, 0, "n", loggers=["mlflow"]):
        dump(10, x=1)
        dump(20, x=2)
    assert str(caught[-1].message) == (
        "mlflow has not received 2 rows (ConnectionError: no route to host). Send the rest with: "
        f"rlpyt upload {run_dir}"
    )
    (server / "down").unlink()
    write_parts(run_dir)
    assert rlpyt_command("upload", str(run_dir), "--trust") == 0
    assert "mlflow has received everything." in capsys.readouterr().out
    assert rows(server) == [(10, 1), (20, 2)]
    assert rlpyt_command("upload", str(run_dir), "--trust") == 0  # nothing is sent twice
    assert rows(server) == [(10, 1), (20, 2)]


def test_a_resumed_run_continues_without_repeated_rows(server, tmp_path):
    with run_context(tmp_path / "run", 0, "n", loggers=["mlflow"]):
        for steps in (10, 20, 30):
            dump(steps, x=steps)
    with run_context(tmp_path / "run", 0, "n", loggers=["mlflow"], resume=True):
        logger.rewind("Diagnostics/CumSteps", 10)
        for steps in (20, 30, 40):
            dump(steps, x=-steps)
    assert rows(server) == [(10, 10), (20, 20), (30, 30), (40, -40)]
    kinds = [event[0] for event in events(server)]
    assert kinds.count("create") == 1 and kinds.count("params") == 1
    assert ["resume", "id", "RUNNING"] in events(server)


def test_a_tracker_that_hangs_does_not_stop_the_run(server, tmp_path, monkeypatch):
    monkeypatch.setenv(WAIT_VARIABLE, "0.3")
    (server / "hangs").touch()
    warned = pytest.warns(RuntimeWarning, match=r"1 row \(not sent within 0.3 s, see RLPYT_TRACK")
    with warned, run_context(tmp_path / "run", 0, "n", loggers=["mlflow"]):
        dump(10, x=1)
        [sink] = logger.current()._sinks
        for steps in range(10_000):  # more messages than fit into the pipe
            sink.write({}, steps)
    assert sink.output._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("error", [None, ValueError], ids=["finished", "failed"])
def test_upload_sends_what_a_server_without_answers_did_not_take(
    silent_server,  # noqa: F811 - the fixture
    server,
    tmp_path,
    monkeypatch,
    capsys,
    error,
):
    """Rows, files that the process never read of, settings, and how the run ended."""
    monkeypatch.setenv(WAIT_VARIABLE, "0.2")
    run_dir, plot = tmp_path / "run", tmp_path / "plot.png"
    plot.touch()
    ends = pytest.raises(error) if error else contextlib.nullcontext()
    with (
        pytest.warns(RuntimeWarning) as caught,
        ends,
        run_context(run_dir, 0, "n", loggers=["mlflow"]),
    ):
        dump(10, x=1)
        wait_for(lambda: memory_of(run_dir, "mlflow"))  # it asks the server
        dump(20, x=2)
        logger.attach(plot)
        if error:
            raise error
    assert [str(warning.message) for warning in caught] == [
        "mlflow has not received 2 rows, 1 file (not sent within 0.2 s, see RLPYT_TRACKER_WAIT_S)."
        f" Send the rest with: rlpyt upload {run_dir}"
    ]
    assert silent_server.received == []
    silent_server.answers.set()
    write_parts(run_dir)
    for _ in range(2):  # the second time nothing is left
        assert rlpyt_command("upload", str(run_dir), "--trust") == 0
        assert "mlflow has received everything." in capsys.readouterr().out
    assert [event[0] for event in silent_server.received] == [
        *("experiment", "create", "params", "row", "row", "file", "end")
    ]
    assert [event[1] for event in silent_server.received[3:]] == [
        *(10, 20, "plot.png", "FAILED" if error else "FINISHED")
    ]


@pytest.mark.parametrize("given", ["soon", "-1", "nan"])
def test_the_longest_wait_is_a_number_of_seconds(tmp_path, monkeypatch, given):
    monkeypatch.setenv(WAIT_VARIABLE, given)
    refused = pytest.raises(ValueError, match="RLPYT_TRACKER_WAIT_S")
    with refused, run_context(tmp_path / "run", 0, "n", loggers=["mlflow"]):
        pass


def test_a_process_that_dies_is_reported_once(server, tmp_path):
    run = run_context(tmp_path / "run", 0, "n", loggers=["mlflow"])
    with pytest.warns(RuntimeWarning) as caught, run:
        process = logger.current()._sinks[0].output._process
        process.kill()
        process.wait()
        dump(10, x=1)
        dump(20, x=1)
    first, last = [str(warning.message) for warning in caught]
    assert first.startswith("TrackerSink failed (RuntimeError: its process ended with exit code -9")
    assert last.startswith("mlflow has not received 2 rows (its process ended with exit code -9")


def test_a_process_ends_after_a_run_that_was_killed(server, tmp_path, monkeypatch):
    """Its standard input ends, and it sends what is there."""
    (tmp_path / "progress.csv").write_text("x,CumSteps\n1,10\n")
    (tmp_path / "params.json").write_text("{}")
    sink = TrackerSink(tmp_path, "mlflow")
    sink._stdin.close()
    assert sink._process.wait(20) == 0
    assert rows(server) == [(10, 1)]
    sink._stdout.close()


@pytest.mark.parametrize("given", ["csv,wandb", "wandb , wandb", ["csv", "wandb"], ("csv,wandb",)])
def test_names_of_loggers_are_a_list_or_separated_by_commas(given):
    assert set(logger_names(given)) | {"csv"} == {"csv", "wandb"}


def test_an_unknown_logger_is_refused_before_anything_is_written(tmp_path):
    refused = pytest.raises(UnknownName, match="logger 'wandbb'; .*'wandb'")
    with refused, run_context(tmp_path / "run", 0, "n", loggers="wandbb"):
        pass
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()  # as the package leaves it in a working directory
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with (
        pytest.raises(ImportError, match=r" wandb\. .*\[wandb\]'"),
        run_context(tmp_path / "run", 0, "n", loggers="wandb"),
    ):
        pass
    assert not (tmp_path / "run").exists()
    check_installed(["csv"])


class Remote:
    """Sink that keeps its rows; offline, every process starts with none."""

    def __init__(self, kept, run_id, offline=False):
        self.rows = kept
        self.run_id, self.last_step = run_id or "new", -1 if offline else None
        if offline:
            kept.clear()

    def write_rows(self, rows):
        self.rows += [(step, row["x"]) for step, row in rows]

    def attach(self, path, step):
        self.rows.append((step, path.name))

    def close(self, failed=False):
        self.rows.append("failed" if failed else "finished")


def deliver(run_dir, kept, server="", failed=False, **kwargs):
    delivery = Delivery(run_dir, "wandb", server, lambda run_id: Remote(kept, run_id, **kwargs))
    delivery.attach(str(run_dir / "video.mp4"))
    delivery.send()
    delivery.close(failed)


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "progress.csv").write_text("CumSteps,x\n10,1\n20,2\n")
    (tmp_path / "video.mp4").touch()
    return tmp_path


def test_an_offline_run_that_is_resumed_is_written_again_as_a_whole(run_dir):
    kept = []
    deliver(run_dir, kept, offline=True)
    with open(run_dir / "progress.csv", "a") as file:
        file.write("30,3\n")
    deliver(run_dir, kept, offline=True)
    assert kept == [(10, 1), (20, 2), (30, 3), (30, "video.mp4"), "finished"]


MEMORY = {"run_id": "a", "server": "", "steps": 10, "files": {}, "failed": False, "closed": True}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"run_id": "a', "[" * 1000, json.dumps(MEMORY).replace("10", "9" * 5000)),
        *(json.dumps({**MEMORY, **x}) for x in ({"files": []}, {"steps": "x"}, {"server": 5})),
    ],
    ids=range(8),
)
def test_a_damaged_memory_is_named(run_dir, text):
    path = run_dir / "logger_wandb.json"
    path.write_text(json.dumps(MEMORY))
    assert asdict(memory_of(run_dir, "wandb")) == MEMORY
    path.write_text(text)
    with pytest.raises(DamagedFile, match=r"logger_wandb.json is not what wandb has received"):
        memory_of(run_dir, "wandb")


def test_the_warning_at_the_end_names_a_damaged_memory(run_dir, monkeypatch):
    monkeypatch.setattr("rlpyt.utils.logging.tracking.PROCESS", "rlpyt.none")  # fails at once
    sink = TrackerSink(run_dir, "wandb")
    (run_dir / "logger_wandb.json").write_text("[]")
    with pytest.warns(RuntimeWarning, match=r"not received everything: .*logger_wandb.json is not"):
        sink.wait()


def test_a_file_is_sent_again_when_it_has_changed(run_dir):
    kept = []
    deliver(run_dir, kept)
    deliver(run_dir, kept)
    assert kept == [(10, 1), (20, 2), (20, "video.mp4"), "finished"]
    os.utime(run_dir / "video.mp4", (0, 0))
    deliver(run_dir, kept, failed=None)
    assert kept[4:] == [(20, "video.mp4"), "finished"]


def test_another_server_receives_the_whole_run(run_dir):
    first, second = [], []
    deliver(run_dir, first, "here")
    deliver(run_dir, second, "there")
    assert first == second != []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://user:pass/word@host:5000/api", "https://host:5000/api"),
        ("https://host/?write_token=secret", "https://host/"),
        ("sqlite:////home/me@work/mlflow.db", "sqlite:////home/me@work/mlflow.db"),
    ],
)
def test_the_memory_holds_no_passwords(given, kept, tmp_path, monkeypatch):
    monkeypatch.setattr("os.environ", {"MLFLOW_TRACKING_URI": given})
    assert prepare(tmp_path, "mlflow") == kept


def test_local_runs_stay_in_their_database(tmp_path, monkeypatch):
    monkeypatch.setattr("os.environ", {})
    monkeypatch.chdir(tmp_path)
    server = prepare(tmp_path, "mlflow")
    assert server == f"sqlite:///{tmp_path}/mlflow.db"
    Delivery(tmp_path, "mlflow", server, Remote).remember()
    monkeypatch.setattr("os.environ", {})
    monkeypatch.chdir("/")
    assert prepare(tmp_path, "mlflow") == server


def test_a_row_that_could_not_be_written_is_not_lost(run_dir, monkeypatch):
    kept, errors = [], [ConnectionError()]

    class Flaky(Remote):
        def write_rows(self, rows):
            if errors and rows[0][0] == 20:
                raise errors.pop()
            super().write_rows(rows)

    monkeypatch.setattr(tracker_process, "MLFLOW_METRICS", 3)  # of one row
    delivery = Delivery(run_dir, "wandb", "", lambda run_id: Flaky(kept, run_id))
    with pytest.raises(ConnectionError):
        delivery.send()
    assert kept == [(10, 1)] and delivery.unsent() == "1 row"
    delivery.send()
    assert kept == [(10, 1), (20, 2)] and delivery.unsent() == ""


@pytest.mark.parametrize(("most", "counts"), [(1, [1, 1, 1]), (4, [2, 1]), (5, [2, 1]), (9, [3])])
def test_rows_are_sent_together_up_to_the_size_of_a_request(tmp_path, monkeypatch, most, counts):
    (tmp_path / "progress.csv").write_text("CumSteps,x\n10,1\n20,2\n30,3\n")
    found = []

    class Counting(Remote):
        def write_rows(self, rows):
            found.append(len(rows))

    monkeypatch.setattr(tracker_process, "MLFLOW_METRICS", most)
    Delivery(tmp_path, "wandb", "", lambda run_id: Counting([], run_id)).send()
    assert found == counts


def test_a_run_that_a_tracker_did_not_close_is_closed_by_the_next_process(run_dir):
    kept = []
    Delivery(run_dir, "wandb", "", lambda run_id: Remote(kept, run_id)).send()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deliver(run_dir, kept)
    assert kept == [(10, 1), (20, 2), (20, "video.mp4"), "finished"]
