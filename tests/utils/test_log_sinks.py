"""A sink that fails costs its rows, never the run."""

import csv
import errno
import os
import subprocess
import sys
import types

import pytest

from rlpyt.utils.logging.logger import Logger
from rlpyt.utils.logging.sinks import (
    CallbackSink,
    CsvSink,
    MlflowSink,
    TrackioSink,
    WandbSink,
)


@pytest.fixture
def log():
    logger = Logger()
    logger.set_console(False)
    with logger.session():
        yield logger


def dump(logger, n):
    for i in range(n):
        logger.set_iteration(i)
        logger.record_tabular("x", i)
        logger.dump_tabular()


class Flaky:
    """Fails at the given calls."""

    def __init__(self, fails):
        self.fails, self.calls, self.closed = fails, [], 0

    def write(self, row, step):
        self.calls.append(step)
        if step in self.fails:
            raise ConnectionError("gone")

    def close(self):
        self.closed += 1
        raise OSError("cannot close")


def test_three_failures_in_a_row_drop_a_sink_with_two_warnings(log):
    flaky, rows = Flaky({0, 1, 3, 5, 6, 7}), []
    log.add_sink(flaky)
    log.add_sink(CallbackSink(lambda row, step: rows.append((row["x"], step))))
    with pytest.warns(RuntimeWarning) as caught:
        dump(log, 10)
    assert [str(w.message) for w in caught] == [
        "Flaky failed (ConnectionError: gone); the run continues without this output.",
        "Flaky failed 3 times in a row and is dropped.",
    ]
    assert flaky.calls == list(range(8))  # two in a row were forgiven, three were not
    assert rows == [(i, i) for i in range(10)]
    with pytest.warns(RuntimeWarning, match="Flaky .*closed"):
        log.remove_sink(flaky)
    log.remove_sink(flaky)
    assert flaky.closed == 1


def test_a_callback_may_change_its_row(log):
    rows = []
    log.add_sink(CallbackSink(lambda row, step: row.clear()))
    log.add_sink(CallbackSink(lambda row, step: rows.append(row)))
    dump(log, 1)
    assert rows == [{"x": 0}]


def test_a_full_disk_leaves_no_partial_line_and_all_rows_are_written_later(
    log, tmp_path, monkeypatch
):
    path = tmp_path / "progress.csv"
    log.add_tabular_output(path)
    dump(log, 1)
    real = CsvSink.write.__globals__["_write_all"]

    def full(file, content):
        file.write(content[:1])
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("rlpyt.utils.logging.sinks._write_all", full)
        with pytest.warns(RuntimeWarning, match=r"progress\.csv.*full") as caught:
            dump(log, 5)  # more than three: a table is never given up
    assert len(caught) == 1 and real is not full
    dump(log, 2)
    with open(path, newline="") as file:
        assert [row for (row,) in csv.reader(file)] == ["x", "0", *"01234", *"01"]


@pytest.mark.parametrize("how", ["mark", "close"])
def test_a_checkpoint_and_the_end_write_rows_that_could_not_be_written(tmp_path, monkeypatch, how):
    sink = CsvSink(tmp_path / "progress.csv")
    sink.write({"x": 0})
    with monkeypatch.context() as patch:
        patch.setattr(sink, "_append", failing)
        with pytest.raises(OSError, match="full"):
            sink.write({"x": 1})
        assert sink.mark()["rows"] == 1
    assert getattr(sink, how)() in ({"columns": ["x"], "rows": 2, "last": ["1"]}, None)
    assert (tmp_path / "progress.csv").read_text() == "x\n0\n1\n"


def failing(*_):
    raise OSError(errno.ENOSPC, "full")


def test_the_rows_of_a_checkpoint_are_on_the_disk(tmp_path, monkeypatch):
    """After a loss of power a checkpoint with more rows than the file would be resumed from."""
    sink, synced = CsvSink(tmp_path / "progress.csv"), []
    sink.write({"x": 0})
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    sink.mark()
    assert synced == [os.stat(sink.path).st_ino]


def test_a_header_is_written_again_if_someone_removed_the_file(log, tmp_path):
    log.add_tabular_output(tmp_path / "progress.csv")
    dump(log, 1)
    (tmp_path / "progress.csv").unlink()
    dump(log, 1)
    assert (tmp_path / "progress.csv").read_text() == "x\n0\n"


def test_a_failed_widening_keeps_the_table(log, tmp_path, monkeypatch):
    path = tmp_path / "progress.csv"
    log.add_tabular_output(path)
    dump(log, 1)

    def full(*args):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        log.record_tabular("y", 2)
        with pytest.warns(RuntimeWarning, match=r"progress\.csv.*full"):
            log.dump_tabular()
    assert path.read_text() == "x\n0\n"
    log.record_tabular("y", 3)
    log.dump_tabular()
    assert path.read_text() == "x,y\n0,\n,2\n,3\n"
    assert os.listdir(tmp_path) == ["progress.csv"]


def test_text_continues_after_a_failure(log, tmp_path, monkeypatch):
    log.add_text_output(tmp_path / "debug.log")
    log.log("lone surrogate \ud800", with_timestamp=False)
    log.remove_text_output(tmp_path / "debug.log")
    log.remove_text_output(tmp_path / "debug.log")
    assert (tmp_path / "debug.log").read_text() == "lone surrogate \\ud800\n"
    if os.path.exists("/dev/full"):
        log.add_text_output("/dev/full")
        with pytest.warns(RuntimeWarning, match="/dev/full failed"):
            log.log("lost")
            log.log("lost too")


def test_a_broken_pipe_does_not_end_the_run(tmp_path):
    """``python script | head -1``: the script goes on, warns once, and exits with 0."""
    script = (
        "from rlpyt.utils.logging.logger import Logger\n"
        "import sys\n"
        "log = Logger()\n"
        f"log.add_text_output({str(tmp_path / 'debug.log')!r})\n"
        "log.log('first')\n"
        "sys.stdin.readline()\n"  # until the reader has gone
        "for i in range(50): log.log(f'line {i}')\n"
        "print('straight to stdout')\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "first" in child.stdout.readline()
    child.stdout.close()
    child.stdin.write("\n")
    child.stdin.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert child.wait(30) == 0
    assert errors.count("BrokenPipeError") == 1 and "terminal failed" in errors
    assert len((tmp_path / "debug.log").read_text().splitlines()) == 51


def test_a_terminal_without_unicode_gets_escapes(log):
    script = "from rlpyt.utils.logging.logger import log; log('grün', with_timestamp=False)"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=environment, check=True
    )
    assert done.stdout == b"gr\\xfcn\n" and done.stderr == b""


@pytest.fixture
def wandb(monkeypatch, tmp_path):
    """A package that stands for wandb, without a key; yields the calls."""
    calls = []
    run = types.SimpleNamespace(
        id="abc",
        offline=False,
        starting_step=31,
        log=lambda row, step: calls.append((row, step)),
        finish=lambda exit_code: calls.append(("finished", exit_code)),
    )
    fake = types.SimpleNamespace(init=lambda **kwargs: calls.append(kwargs) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return calls


def test_wandb_receives_rows_and_the_outcome(log, wandb):
    sink = WandbSink("project", name="run", config={"lr": 1}, group="g", tags=["t"])
    assert wandb.pop() == {
        **{"project": "project", "name": "run", "config": {"lr": 1}, "group": "g", "tags": ["t"]},
        "mode": "offline",
    }
    log.add_sink(sink)
    log.set_iteration(4)
    log.record_tabular_misc_stat("Return", [2.0])
    log.dump_tabular()
    log.remove_sink(sink)
    (row, step), outcome = wandb
    assert row["ReturnAverage"] == 2.0 and step == 4 and outcome == ("finished", 0)


def test_wandb_is_online_with_a_key_which_it_finds_itself(wandb, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password secret")
    WandbSink()
    assert "mode" not in wandb[0] and "secret" not in str(wandb)
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.com")  # has another key
    WandbSink()
    assert wandb[1]["mode"] == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    WandbSink()
    assert "mode" not in wandb[2] and "secret" not in str(wandb)


def test_wandb_continues_a_run_after_the_rows_that_it_has(wandb, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    sink = WandbSink(run_id="abc")
    assert sink.run_id == "abc" and sink.last_step == 30
    assert wandb[0].items() >= {"id": "abc", "resume": "allow", "project": "theirs"}.items()


@pytest.mark.parametrize("Sink", [WandbSink, MlflowSink, TrackioSink])
def test_a_missing_tracker_error_names_the_remedy(Sink, monkeypatch):
    name = Sink.__name__.removesuffix("Sink").lower()
    for module in (name, f"{name}.entities"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf" {name}\. .*\[{name}\]'"):
        Sink()


def test_tensorboard_shows_attached_images_and_results(log, tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 3)).save(tmp_path / "curve.png")
    (tmp_path / "evaluation.json").write_text('{"return_mean": 2.5, "lengths": [1, 2]}')
    (tmp_path / "video.mp4").touch()  # TensorBoard has no videos
    log.set_tf_summary_dir(tmp_path)
    log.set_iteration(30)
    for name in ("curve.png", "evaluation.json", "video.mp4"):
        log.attach(tmp_path / name)
    log.set_tf_summary_dir(None)
    found = accumulator(str(tmp_path)).Reload()
    assert found.Tags()["images"] == ["curve"]
    assert found.Images("curve")[0].encoded_image_string == (tmp_path / "curve.png").read_bytes()
    [scalar] = found.Scalars("evaluation/return_mean")
    assert (scalar.step, scalar.value) == (30, 2.5) and len(found.Tags()["scalars"]) == 1


def test_a_missing_tensorboard_error_names_the_remedy(log, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"\[tensorboard\]"):
        log.set_tf_summary_dir(tmp_path)
