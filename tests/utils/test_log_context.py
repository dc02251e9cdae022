"""A run has a directory of its own, and leaves nothing open behind."""

import contextlib
import errno
import fcntl
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import torch

import rlpyt
from rlpyt.errors import ConcurrentRunError, DamagedFile
from rlpyt.experiments.options import RunOptions
from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup
from rlpyt.processes.pipe import Pipes
from rlpyt.sweeps.directory import LauncherLock
from rlpyt.utils.logging import context, logger
from rlpyt.utils.logging.context import (
    RunDirectoryError,
    add_exp_param,
    check_progress,
    get_log_dir,
    logger_context,
    run_context,
    started_by_this_job,
)
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.serialize import ByValue


class Rows:
    def __init__(self):
        self.rows = []

    def write(self, row, step):
        self.rows.append(row)

    def close(self):
        pass


class Logs(Child):
    def log(self):
        write_row(x=-1)
        logger.rewind("x", -1)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Scripts assign LOG_DIR; it must be read at call time."""
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path / "data"))
    with logger.use(logger.Logger()):
        yield tmp_path / "data"


def write_row(**values):
    for key, value in values.items():
        logger.record_tabular(key, value)
    logger.dump_tabular()


def files_below(directory):
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def open_files():
    return {file.path for file in psutil.Process().open_files()}


def test_the_default_root_is_in_the_repository(monkeypatch):
    monkeypatch.undo()
    assert Path(context.LOG_DIR) == Path(rlpyt.__file__).parent.parent / "data"


def test_an_installed_package_logs_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    installed = tmp_path / "lib" / "site-packages"
    assert Path(context.default_log_dir(installed)) == tmp_path / "data"
    assert Path(context.default_log_dir(tmp_path / "repo")) == tmp_path / "repo" / "data"


def test_a_run_has_its_documented_directory_and_files(root):
    with logger_context("exp/ppo", 3, "ppo", {"lr": 1e-3, "cls": dict}, "last") as run_dir:
        write_row(x=1)
        logger.save_itr_params(0, {"itr": 0})
        assert (run_dir / "run.lock").exists()
    local, day, time_of_day, *rest = run_dir.relative_to(root).parts
    assert (local, rest) == ("local", ["exp", "ppo", "run_3"])
    assert len(day) == 8 and len(time_of_day) == 6 and (day + time_of_day).isdigit()
    assert sorted(path.name for path in run_dir.iterdir()) == [
        *("debug.log", "params.json", "params.pkl", "progress.csv")
    ]
    params = json.loads((run_dir / "params.json").read_text())
    assert params == {
        **{"lr": 1e-3, "cls": {"$class": "builtins.dict"}},
        **{"name": "ppo", "run_ID": 3},
    }
    assert (run_dir / "progress.csv").read_text() == "x\n1\n"
    assert "logging to" in (run_dir / "debug.log").read_text()
    assert torch.load(run_dir / "params.pkl") == {"itr": 0}


def test_settings_of_the_caller_are_not_changed():
    params = {"lr": 1}
    with logger_context("exp", 0, "n", params):
        pass
    assert params == {"lr": 1}


def test_directories_of_other_log_dirs(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with logger_context(tmp_path / "abs", "a", "n") as run_dir:
        assert run_dir == tmp_path / "abs" / "run_a"
    with logger_context("here", 0, "n", override_prefix=True) as run_dir:
        assert run_dir == tmp_path / "here" / "run_0"
    with logger_context("data/inside", 0, "n") as run_dir:
        assert run_dir == root / "inside" / "run_0"
    with run_context(tmp_path / "exact", 0, "n") as run_dir:
        assert run_dir == tmp_path / "exact"
    assert get_log_dir("e", "/r", date=False) == "/r/local/e"


def test_runs_with_the_time_in_their_path_get_different_directories(root, monkeypatch):
    monkeypatch.setattr(context, "get_log_dir", lambda path: root / "one second" / path)
    found = []
    for _ in range(2):
        with logger_context("exp", 0, "n") as run_dir:
            write_row(x=1)
            found.append(run_dir.name)
    with pytest.raises(ValueError), logger_context("exp", 0, "n", loggers=["no such"]):
        pass
    assert found == sorted(path.name for path in (root / "one second/exp").iterdir())
    assert found == ["run_0", "run_0-2"]


def test_a_second_thread_is_refused_while_the_first_logs_a_run(tmp_path):
    def enter():
        with logger_context(tmp_path, 1, "n"):
            pass

    with ThreadPoolExecutor(1) as thread, logger_context(tmp_path, 0, "n"):
        with pytest.raises(ConcurrentRunError, match="thread.* n_jobs=1"):
            thread.submit(enter).result()
        write_row(x=1)
    assert not (tmp_path / "run_1").exists()
    assert (tmp_path / "run_0" / "progress.csv").read_text() == "x\n1\n"
    with ThreadPoolExecutor(1) as thread:  # one after the other
        thread.submit(enter).result()


def test_a_run_inside_another_one_has_its_own_outputs(tmp_path):
    outside, seen = Rows(), Rows()
    logger.add_sink(outside)
    with logger_context(tmp_path, 0, "n"):
        logger.add_sink(seen)
        logger.record_tabular("x", 1)
        with logger.prefix("outer "), logger_context(tmp_path, 1, "n"):
            logger.log("inner line")
            write_row(y=2)
        logger.dump_tabular()
    assert (tmp_path / "run_0" / "progress.csv").read_text() == "x\n1\n"
    assert (tmp_path / "run_1" / "progress.csv").read_text() == "y\n2\n"
    assert seen.rows == [{"x": 1}] and outside.rows == [{"y": 2}, {"x": 1}]
    assert "| inner line" in (tmp_path / "run_1" / "debug.log").read_text()
    assert "inner line" not in (tmp_path / "run_0" / "debug.log").read_text()


def test_a_forked_child_does_not_write_to_the_files_of_its_parent(tmp_path):
    with logger_context(tmp_path, 0, "n"):
        write_row(x=1)
        children = ChildGroup("child", [ChildSpec(0, Logs, ByValue(None))], transport=Pipes("fork"))
        assert children.call("log") == [None]
        children.shutdown()
        write_row(x=2)
    assert (tmp_path / "run_0" / "progress.csv").read_text() == "x\n1\n2\n"


def test_everything_is_closed_and_reset_after_an_error(tmp_path):
    before = open_files()
    for run_ID in (0, 1):
        with pytest.raises(KeyError), logger_context(tmp_path, run_ID, "n", snapshot_mode="all"):
            write_row(**{f"column{run_ID}": 1})
            logger.record_tabular("pending", 1)
            raise KeyError
        assert (tmp_path / f"run_{run_ID}" / "progress.csv").read_text() == f"column{run_ID}\n1\n"
        assert not (tmp_path / f"run_{run_ID}" / "run.lock").exists()
    assert open_files() == before
    assert logger.get_snapshot_dir() is None and logger.get_snapshot_mode() == "none"


def test_the_log_says_why_a_run_ended_early_and_the_terminal_does_not(tmp_path, capsys):
    for error, said in ((KeyError("lost it"), "in fails\n"), (SystemExit(143), "SystemExit(143)")):
        error.add_note("(in step 3)")

        def fails(error=error):
            raise error

        with pytest.raises(type(error)), run_context(tmp_path / repr(said), 0, "run"):
            fails()
        log = (tmp_path / repr(said) / "debug.log").read_text()
        assert said in log and ("(in step 3)" in log) == isinstance(error, KeyError)
        assert "lost it" not in capsys.readouterr().out


def test_the_summary_writer_is_closed(tmp_path):
    pytest.importorskip("tensorboard")
    with logger_context(tmp_path, 0, "n", use_summary_writer=True) as run_dir:
        writer = logger.get_tf_summary_writer()
        write_row(x=1)
    assert list(run_dir.glob("events.out.tfevents*")) and writer.all_writers is None


# Errors at the door


def test_results_of_an_earlier_run_are_moved_aside_unless_resumed(tmp_path):
    for x, name in ((7, "oldest"), (8, "older"), (1, "first")):
        moved = pytest.warns(UserWarning, match="results of another run")
        with contextlib.nullcontext() if x == 7 else moved, logger_context(tmp_path, 0, name):
            (tmp_path / "run_0" / "variant_config.json").touch()
            write_row(itr=0, x=x)
    for aside, x in ((".1", 7), (".2", 8)):
        old = tmp_path / f"run_0{aside}"
        assert (old / "progress.csv").read_text() == f"itr,x\n0,{x}\n"
        assert (old / "variant_config.json").exists() and not (old / "run.lock").exists()
    assert (tmp_path / "run_0" / "variant_config.json").exists()
    assert not (tmp_path / "run_0" / "run.lock").exists()
    with logger_context(tmp_path, 0, "second", resume=True) as run_dir:
        write_row(itr=1, x=2, late=3)
    assert (run_dir / "progress.csv").read_text() == "itr,x,late\n0,1,\n1,2,3\n"
    assert json.loads((run_dir / "params.json").read_text())["name"] == "first"
    assert (run_dir / "debug.log").read_text().count("logging to") == 2


def test_only_what_rlpyt_writes_is_moved_aside(tmp_path):
    project = tmp_path / "project"
    results = [
        *("progress.csv", "debug.log", "params.json", "params.pkl", "itr_9.pkl"),
        *("checkpoint/checkpoint-1/manifest.json", "events.out.tfevents.17.host"),
        *("evaluation.json", "learning_curve.png", "video.mp4"),
    ]
    others = [
        *("my_script.py", "data/images.npy", "run_1/progress.csv", "run_1/run.lock"),
        *("config.json", "model.pkl", "params.yaml", "checkpoints/checkpoint-500/model.bin"),
        *("run_1/checkpoint/checkpoint-1/manifest.json", "itr_mean.pkl"),
    ]
    for name in [*results, *others]:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("{}")
    with pytest.warns(UserWarning, match="moved to"), run_context(project, 0, "n"):
        pass
    assert files_below(tmp_path / "project.1") == {*results}
    assert files_below(project) == {*others, "progress.csv", "debug.log", "params.json"}


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [f".curve.png.tmp-{ended.pid}", f".curve.png.tmp-{os.getpid()}"]
    kept = [
        f".curve.png.tmp-{os.getppid()}",
        ".curve.png.tmp-9999999999",
        ".tmp-x",
        "curve.png.tmp-1",
    ]
    for name in (*left, *kept):
        (tmp_path / name).write_text("half")
    (tmp_path / f".checkpoint-1.tmp-{ended.pid}").mkdir()
    with run_context(tmp_path, 0, "ppo", resume=True):
        assert {*kept, "params.json"} < {path.name for path in tmp_path.iterdir()}
        assert not {*left, f".checkpoint-1.tmp-{ended.pid}"} & {*os.listdir(tmp_path)}


def test_the_command_lines_configuration_is_moved_aside(tmp_path):
    (tmp_path / "run").mkdir()
    RunOptions(algo_name="ppo", env="CartPole-v1").write(tmp_path / "run")
    (tmp_path / "run" / "progress.csv").write_text("x\n1\n")
    with pytest.warns(UserWarning, match="moved to"), run_context(tmp_path / "run", 0, "n"):
        assert not (tmp_path / "run" / "config.json").exists()
    assert (tmp_path / "run.1" / "config.json").exists()


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_a_configuration_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    (tmp_path / "progress.csv").write_text("x\n1\n")
    (tmp_path / "other.txt").touch()
    with pytest.warns(UserWarning, match="moved to"), run_context(tmp_path, 0, "n"):
        assert (tmp_path / "config.json").is_fifo()


def test_damaged_parameters_are_named_under_torchrun(tmp_path, monkeypatch):
    for name, value in dict(RANK=0, WORLD_SIZE=1, LOCAL_RANK=0, MASTER_PORT=1).items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    for content in ('{"a": ', "[1]"):
        (tmp_path / "params.json").write_text(content)
        with pytest.raises(DamagedFile, match=r"params\.json"):
            started_by_this_job(tmp_path)


def test_an_empty_run_or_a_variant_file_is_not_moved_aside(tmp_path):
    with logger_context(tmp_path, 0, "n") as run_dir:
        (run_dir / "variant_config.json").touch()
    with logger_context(tmp_path, 0, "n"):
        pass


def test_a_path_through_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for log_dir in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with (
            pytest.raises(RunDirectoryError, match="/file "),
            logger_context(log_dir, 0, "n"),
        ):
            pass


@pytest.mark.parametrize("method", ["mkdir", "touch"])
def test_a_directory_without_permission_is_refused(tmp_path, monkeypatch, method):
    def refuse(*args, **kwargs):  # tests may run as root, whom no permission stops
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, method, refuse)
    with (
        pytest.raises(RunDirectoryError, match="not writable"),
        logger_context(tmp_path, 0, "n"),
    ):
        pass


def test_an_unknown_snapshot_mode_releases_the_directory(tmp_path):
    with (
        pytest.raises(ValueError, match="snapshot_mode"),
        logger_context(tmp_path, 0, "n", None, "x"),
    ):
        pass
    assert not (tmp_path / "run_0" / "run.lock").exists()


# The lock


def test_a_second_live_process_is_refused_by_the_first_ones_pid(tmp_path):
    with logger_context(tmp_path, 0, "n"):
        script = (
            "from rlpyt.utils.logging.context import logger_context\n"
            f"with logger_context({str(tmp_path)!r}, 0, 'n', resume=True): pass\n"
        )
        second = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
    assert second.returncode == 1
    assert f"is in use by process {os.getpid()} on" in second.stderr
    with logger_context(tmp_path, 0, "n", resume=True):
        pass


def test_the_same_process_is_refused_too_while_it_holds_the_lock(tmp_path):
    with (
        logger_context(tmp_path, 0, "n"),
        pytest.raises(RunDirectoryError, match=f"process {os.getpid()}"),
        logger_context(tmp_path, 0, "n"),
    ):
        pass


def lock_content(**changes):
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), **changes})


def dead_pid():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_a_lock_that_links_to_nowhere_is_refused(tmp_path):
    (tmp_path / "run.lock").symlink_to("nowhere")
    refused = pytest.raises(RunDirectoryError, match="symbolic link")
    with refused, run_context(tmp_path, 0, "run"):
        pass


@pytest.mark.parametrize(
    "content",
    [
        lambda: lock_content(pid=dead_pid()),
        lambda: lock_content(pid=os.getppid()),  # its pid, reused
        lambda: "",
        lambda: "no json",
    ],
)
def test_a_stale_lock_is_replaced_and_removed(tmp_path, content):
    lock = tmp_path / "run_0" / "run.lock"
    lock.parent.mkdir()
    lock.write_text(content())
    os.utime(lock, (time.time() - 60, time.time() - 60))
    with logger_context(tmp_path, 0, "n") as run_dir:
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert not list(run_dir.glob("*lock*")) and not list(run_dir.glob(".*"))


def test_a_lock_of_another_machine_is_respected(tmp_path):
    """Its file system may not pass locks on, so nobody here can tell whether it is live."""
    lock = tmp_path / "run_0" / "run.lock"
    lock.parent.mkdir()
    lock.write_text(lock_content(pid=dead_pid(), host="elsewhere"))
    with (
        pytest.raises(RunDirectoryError, match=r"in use .*run\.lock"),
        logger_context(tmp_path, 0, "n"),
    ):
        pass
    assert lock.exists() and "elsewhere" in RunLock(lock.parent).owner()
    RunLock(lock.parent).forget({"somewhere"})
    assert lock.exists()
    RunLock(lock.parent).forget({"elsewhere"})
    assert not lock.exists()


def hold_until_killed(directory, held):
    with RunLock(directory):
        held.set()
        time.sleep(60)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_lock_that_cannot_be_opened_is_of_the_live_process_it_names(
    number, tmp_path, monkeypatch
):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("rlpyt.utils.logging.lock.FileLock.acquire", refuse)
    for pid, expected in ((os.getpid(), os.getpid()), (2**22 + 1, None), (10**30, None)):
        text = json.dumps({"pid": pid, "host": socket.gethostname()})
        (tmp_path / "run.lock").write_text(text)
        assert RunLock(tmp_path).process() == expected
    with pytest.raises(OSError, match=r"run\.lock"), RunLock(tmp_path):
        pass


def test_a_killed_owners_lock_is_free(tmp_path):
    fork = multiprocessing.get_context("fork")
    held = fork.Event()
    child = fork.Process(target=hold_until_killed, args=(tmp_path, held))
    child.start()
    assert held.wait(20)
    described = f"process {child.pid} on {socket.gethostname()}"
    assert RunLock(tmp_path).owner() == described
    with pytest.raises(RunDirectoryError, match=f"in use by {described}"), RunLock(tmp_path):
        pass
    child.kill()
    child.join()
    assert RunLock(tmp_path).owner() == "" and not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["[" * 10**5, "[]", "1e400", "[1]", "-1", "9" * 5000, ""])
def test_a_lock_with_other_content_names_no_process(tmp_path, content):
    with RunLock(tmp_path) as lock:
        short = len(content) < 10 and content not in ("", "[]")
        owner = f'{{"pid": {content}, "host": "{socket.gethostname()}"}}'
        lock.path.write_text(owner if short else content)
        assert RunLock(tmp_path).owner() == "process unknown on this machine"
        assert RunLock(tmp_path).process() is None


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_a_lock_that_is_no_file_is_not_read(tmp_path, kind):
    path, mine = tmp_path / "run.lock", tmp_path / "mine"
    mine.write_text('{"pid": 1, "host": "elsewhere"}')
    make = {"pipe": os.mkfifo, "directory": os.mkdir, "link": lambda path: path.symlink_to(mine)}
    make[kind](path)
    assert RunLock(tmp_path).owner() == "" and RunLock(tmp_path).process() is None
    refused = pytest.raises(RunDirectoryError, match=r"run\.lock must be a regular file")
    with refused, RunLock(tmp_path):
        pass
    assert "elsewhere" in mine.read_text()


def test_a_lock_whose_file_an_environment_has_closed_is_named(tmp_path):
    closed = pytest.raises(OSError, match="such as the environment, has closed it.*lock")
    with closed, RunLock(tmp_path) as lock:
        (file,) = (f for f in psutil.Process().open_files() if f.path == str(lock.path))
        copy = os.dup(file.fd)
        os.close(file.fd)
    os.dup2(copy, file.fd)  # else the lock would close another file of this number when it ends
    os.close(copy)
    lock._lock.release()


@pytest.fixture(params=["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def without_locks(request, monkeypatch):
    """Let flock fail as on network file systems without locks."""
    number = getattr(errno, request.param)

    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_locks_the_named_process_counts(without_locks, tmp_path):
    with RunLock(tmp_path) as lock:
        assert RunLock(tmp_path).process() == os.getpid()
        with pytest.raises(RunDirectoryError, match="in use by process"), RunLock(tmp_path):
            pass
    assert not lock.path.exists()
    killed = lock_content(pid=dead_pid())
    lock.path.write_text(killed)
    with RunLock(tmp_path):
        assert RunLock(tmp_path).process() == os.getpid()
    lock.path.write_text(killed)
    assert RunLock(tmp_path).owner() == "" and not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_locks_another_process_of_the_same_number_does_not_count(without_locks, tmp_path):
    """A container that is started again gives its processes the numbers of the killed ones."""
    path = tmp_path / "run.lock"
    with RunLock(tmp_path) as lock:
        written = json.loads(path.read_text())
        path.write_text(json.dumps(written | {"began": written["began"] - 5}))
        assert lock.owner() == "" and not path.exists()
    for pid in (os.getpid(), os.getppid()):
        path.write_text(lock_content(pid=pid, began=1.0))
        with RunLock(tmp_path):
            assert RunLock(tmp_path).process() == os.getpid()
    path.write_text(lock_content(pid=os.getppid()))  # of an earlier version
    assert RunLock(tmp_path).process() == os.getppid()


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_sweep_without_locks_is_refused(without_locks, tmp_path):
    refused = pytest.raises(RunDirectoryError, match="launcher.lock is on a file system without")
    with refused, LauncherLock(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def try_lock(directory, start, finish, results):
    start.wait()
    try:
        with RunLock(directory):
            results.put("held")
            finish.wait(timeout=20)
    except RunDirectoryError:
        results.put("refused")


def test_only_one_process_acquires_a_stale_lock(tmp_path):
    (tmp_path / "run.lock").write_text(lock_content(pid=dead_pid()))
    fork = multiprocessing.get_context("fork")
    start, finish, results = fork.Barrier(6), fork.Event(), fork.Queue()
    arguments = (tmp_path, start, finish, results)
    children = [fork.Process(target=try_lock, args=arguments) for _ in range(6)]
    for child in children:
        child.start()
    outcomes = [results.get(timeout=20) for _ in children]
    finish.set()
    for child in children:
        child.join()
    assert sorted(outcomes) == ["held"] + ["refused"] * 5


def refuse_and_exit(run_dir):
    with pytest.raises(RunDirectoryError), RunLock(run_dir):
        pass


def test_a_forked_child_leaves_the_lock_alone(tmp_path):
    with logger_context(tmp_path, 0, "n") as run_dir:
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=refuse_and_exit, args=(run_dir,))
        child.start()
        child.join()
        assert child.exitcode == 0 and (run_dir / "run.lock").exists()
        assert RunLock(run_dir).owner()


# After the fact


def test_parameters_are_added_to_immediate_subdirectories(tmp_path, capsys):
    for run_ID in (0, 1):
        with logger_context(tmp_path, run_ID, "n", {"lr": run_ID}):
            pass
    capsys.readouterr()
    add_exp_param("batch", [2, 3], tmp_path)
    add_exp_param("lr", 9, tmp_path / ".")
    assert capsys.readouterr().out.count("already") == 2
    add_exp_param("run_ID", 7, str(tmp_path), overwrite=True)
    params = [json.loads((tmp_path / f"run_{i}" / "params.json").read_text()) for i in (0, 1)]
    assert params == [{"lr": i, "name": "n", "run_ID": 7, "batch": [2, 3]} for i in (0, 1)]


def test_parameters_are_added_to_all_runs_of_a_sweep(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}: .*params.json"):
        add_exp_param("lab", "b", tmp_path)
    for name in ("lr_1/run_0", "lr_2/run_0", "queue/00000/run_dir_of_attempt_1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "params.json").write_text("{}")
        (tmp_path / name / "progress.csv").write_text("a\n")
    add_exp_param("lab", "b", tmp_path)
    texts = [json.loads(path.read_text()) for path in sorted(tmp_path.rglob("params.json"))]
    assert texts == [{"lab": "b"}, {"lab": "b"}, {}]  # what was put aside stays as it was


def test_attempts_moved_aside_are_not_counted(tmp_path, capsys):
    test_parameters_are_added_to_all_runs_of_a_sweep(tmp_path)
    check_progress(tmp_path)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_progress_is_counted_in_lines(tmp_path, capsys, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "progress.csv").write_text("x\n1\n2\n")
    (tmp_path / "a" / "b" / "progress.csv").write_text("x\n")
    check_progress(tmp_path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["1", str(tmp_path / "a" / "b" / "progress.csv")],
        ["3", str(tmp_path / "a" / "progress.csv")],
    ]
    monkeypatch.chdir(tmp_path / "a" / "b")
    check_progress()
    assert capsys.readouterr().out.split() == ["1", "progress.csv"]


@pytest.mark.parametrize("given", [dict(run_ID="x" * 252), dict(log_dir="d" * 256)])
def test_names_that_are_too_long_for_a_file_system_are_refused(given, root):
    with (
        pytest.raises(RunDirectoryError, match=r"must be at most 255 bytes, got 256.*run_ID"),
        logger_context(**{"log_dir": "d", "run_ID": 0, **given}, name="n"),
    ):
        pass
    assert not root.exists()
