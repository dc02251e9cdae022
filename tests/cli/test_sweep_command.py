"""`rlpyt sweep` and `rlpyt status`: files, directories, scripts, requests, terminals."""

import errno
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from types import SimpleNamespace

import pytest

from rlpyt.cli.main import main
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.start import command_line
from rlpyt.sweeps.view import read_sweep
from tests.sweeps.launching import job, python, sweep_of

SCRIPT = """
import json, os, sys, time
code, log_dir, run_ID, what = sys.argv[1:]
rate = json.load(open(f"{log_dir}/variant_config.json"))["algo"]["rate"]
print("slot", code, flush=True)
if what == "sleep":
    time.sleep(60)
if rate == 2 and not os.path.exists(what):
    sys.exit("no luck")
with open(f"{log_dir}/run_{run_ID}.done", "a") as file:
    file.write("x")
"""


def rlpyt_command(*argv):
    """Run in this process; the exit code."""
    with pytest.raises(SystemExit) as stop:
        main([str(arg) for arg in argv])
    return stop.value.code


def write_file(path, what, n_rates=2, more=""):
    """A sweep file of scripts that do nothing for long."""
    (path / "script.py").write_text(SCRIPT)
    rates = list(range(1, n_rates + 1))
    file = path / "rates.yaml"
    file.write_text(
        f"script: script.py\nargs: ['{what}']\ngrid: {{algo.rate: {rates}}}\n"
        f"slots: 2cpu_1cpr_0saf\nretries: 0\n{more}"
    )
    return file


class Terminal:
    """A program on a pseudo terminal of 60 columns and 12 rows."""

    def __init__(self, *argv):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))
        command = [sys.executable, "-m", "rlpyt", *map(str, argv)]
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env
        )
        os.close(theirs)
        self.text = ""

    def read(self, wanted=None, limit_s=60):
        """Everything up to ``wanted``; without it, up to the end. Returns what was new."""
        new, deadline = "", time.monotonic() + limit_s
        while wanted is None or wanted not in new:
            assert time.monotonic() < deadline, self.text + new
            if not select.select([self.ours], [], [], 0.1)[0]:
                continue
            try:
                new += os.read(self.ours, 4096).decode()
            except OSError:  # Linux's way to say that the other side is closed
                assert wanted is None, self.text + new
                break
        self.text += new
        return new

    def end(self):
        self.read()
        os.close(self.ours)
        return self.process.wait(30)


def test_a_failed_run_is_retried_after_a_fix(tmp_path, capsys):
    fixed, directory = tmp_path / "fixed", tmp_path / "rates"
    file = write_file(tmp_path, fixed)
    assert rlpyt_command("sweep", file, "--dir", directory) == 1
    said = re.sub(r"after \d+ s", "after 0 s", capsys.readouterr().out)
    assert said.startswith(f"rates: 2 runs, 2 at once (1 core each, local) in {directory}\n")
    assert f"From another terminal: rlpyt status {directory}\n" in said
    assert "rate_1/run_0: done after 0 s (" in said
    assert (
        "rate_2/run_0: exit code 1 after 0 s\n    slot 1slt_2cpu_0gpu_1cpr_0saf\n    no luck\n"
        in said
    )
    assert f"failed: rate_2/run_0: exit code 1; {directory}/queue/00001/output.log" in said
    assert "2 runs: 1 done, 1 failed.\n" in said
    assert f"\nRetry failed runs: rlpyt sweep retry {directory}\n" in said

    assert rlpyt_command("status", directory) == 1  # of a run that failed
    title, _, header, first, second = capsys.readouterr().out.splitlines()
    begins = r"rates: 2 runs, 1 done, 1 failed · slots \d+% in use"
    assert re.fullmatch(f"{begins} · retry failed runs with: rlpyt sweep retry {directory}", title)
    assert header.split() == ["run", "state", "steps", "steps/s", "return", "time", "left"]
    assert first.split()[:2] == ["rate_1/run_0", "done"]
    assert second.split()[:2] == ["rate_2/run_0", "failed"] and second.endswith("exit code 1")

    fixed.touch()
    assert rlpyt_command("sweep", "retry", directory) == 0
    retried = capsys.readouterr().out
    assert retried.splitlines()[:2] == ["Queued again: 1 failed run.", "  rate_2/run_0"]
    assert f"Resume with: rlpyt sweep {directory}" in retried
    assert rlpyt_command("sweep", directory) == 0
    assert f"Write a report: rlpyt report {directory}" in capsys.readouterr().out
    for rate in (1, 2):
        assert (directory / f"rate_{rate}" / "run_0.done").read_text() == "x"
    assert rlpyt_command("status", directory) == 0


def test_status_as_json_has_everything(tmp_path, capsys):
    sweep = sweep_of(tmp_path, [job(0, total_steps=400), job(1)])
    attempt = Attempt(1, python("raise SystemExit"), begun=10.0, ended=14.0, exit_code=0)
    sweep.jobs()[0].prepare(attempt)
    run_dir = tmp_path / sweep.jobs()[0].job.run_dir
    run_dir.mkdir()
    names = "Diagnostics/CumSteps,Diagnostics/StepsPerSecond,ReturnAverage"
    (run_dir / "progress.csv").write_text(f"{names}\n100,50,1.5\n200,60.5,nan\n300,")
    assert rlpyt_command("status", tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"queued": 1, "done": 1}
    assert found["utilisation"] == 0.5 and found["n_slots"] == 2
    done, queued = found["runs"]
    assert (done["steps"], done["total_steps"], done["steps_per_second"]) == (200, 400, 60.5)
    assert done["return"] == 1.5  # of the newest row that has one
    assert done["seconds"] == 4.0 and done["seconds_left"] is None
    assert (queued["state"], queued["steps"], queued["attempts"]) == ("queued", None, [])


def test_status_shows_steps_speed_and_a_missing_launcher(tmp_path, capsys):
    test_status_as_json_has_everything(tmp_path, capsys)
    assert rlpyt_command("status", tmp_path, "--once") == 0
    title, _, _, done, queued = capsys.readouterr().out.splitlines()
    assert title.endswith(f"no launcher running; resume with: rlpyt sweep {tmp_path}")
    assert done.split() == ["setting_0/run_0", "done", "200", "(", "50%)", "60", "1.5", "00:04"]
    assert queued.split() == ["setting_1/run_0", "queued"]


def test_status_redraws_on_a_terminal_until_the_sweep_is_over(tmp_path):
    sweep = sweep_of(tmp_path, [job(i) for i in range(20)])
    terminal = Terminal("status", tmp_path, "--interval-s", "0.1")
    first = terminal.read("more\r\n")
    shown = [line.removeprefix("\x1b[2K") for line in first.split("\r\n")]
    assert "... and 14 more" in shown  # of 20 runs, twelve rows have room for six
    assert all(len(line) < 60 for line in shown)
    assert "\x1b[10F\x1b[2Ktest: 20 runs, 20 queued" in terminal.read("more\r\n")  # in its place
    for one in sweep.jobs():
        one.prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0))
    assert terminal.end() == 0
    assert "20 runs, 20 done" in terminal.text and terminal.text.endswith("\x1b[J")


def test_a_damaged_file_of_the_queue_is_named_and_hides_no_other_run(tmp_path, capsys):
    sweep = sweep_of(tmp_path, [job(0), job(1), job(2)])
    attempt = Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0)
    for one in sweep.jobs():
        one.prepare(attempt)
    (tmp_path / "queue/00000/attempt_1.json").write_text('{"number": ')
    (tmp_path / "queue/00001/job.json").write_text("[]")
    assert rlpyt_command("status", tmp_path, "--once") == 1
    title, _, _, first, second, third = capsys.readouterr().out.splitlines()
    assert "3 runs, 1 done, 2 failed" in title
    assert first.startswith("setting_0/run_0") and "00000/attempt_1.json is damaged" in first
    assert second.startswith("queue/00001") and f"remove {tmp_path}/queue/00001 to drop" in second
    assert third.split()[:2] == ["setting_2/run_0", "done"]
    run_dir = tmp_path / sweep.jobs()[2].job.run_dir
    run_dir.mkdir()
    (run_dir / "progress.csv").write_text("Diagnostics/CumSteps,ReturnAverage\n100,1.5\n")
    assert rlpyt_command("report", tmp_path) == 0
    assert "job.json is damaged" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert rlpyt_command("sweep", tmp_path, "--slots", "1cpu_1cpr_0saf") == 2
    assert "attempt_1.json is damaged" in capsys.readouterr().err


def test_a_header_of_half_a_line_ends_neither_status_nor_report(tmp_path, capsys):
    sweep = sweep_of(tmp_path, [job(0)])
    run_dir = tmp_path / sweep.jobs()[0].job.run_dir
    run_dir.mkdir()
    (run_dir / "progress.csv").write_bytes(b"Diagnostics/CumSteps,Return\rAverage\n100,1.5\n")
    assert rlpyt_command("status", tmp_path) == 0
    assert "setting_0/run_0  queued" in capsys.readouterr().out
    assert rlpyt_command("report", tmp_path) == 0
    assert "wrong number of cells" in (tmp_path / "report.html").read_text()


def test_status_says_why_no_run_starts_and_what_to_do_next(tmp_path, capsys, monkeypatch):
    sweep = sweep_of(tmp_path, [job(0)])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    rlpyt_command("status", tmp_path)
    title = capsys.readouterr().out.splitlines()[0]
    assert title.startswith("test: 1 run, 1 queued · waiting: the disk of ")
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=2))
    rlpyt_command("status", tmp_path)
    title = capsys.readouterr().out.splitlines()[0]
    assert "waiting" not in title
    assert title.endswith(f"retry failed runs with: rlpyt sweep retry {tmp_path}")


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf"])
def test_status_refuses_an_invalid_interval(tmp_path, capsys, seconds):
    assert rlpyt_command("status", tmp_path, f"--interval-s={seconds}") == 2
    assert "--interval-s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("stop", "Nothing to stop: no runs are active."),
        ("pause", "Launching of new runs paused."),
        ("unpause", "Launching of new runs resumed."),
        ("retry", "Queued again: 0 failed runs."),
    ],
)
def test_requests_without_a_launcher_say_so(tmp_path, capsys, request_, said):
    sweep = sweep_of(tmp_path, [job(0)])
    assert rlpyt_command("sweep", request_, tmp_path) == 0
    what, unattended = capsys.readouterr().out.splitlines()
    assert what == said
    assert unattended == f"No launcher is running. Resume with: rlpyt sweep {tmp_path}"
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0))
    rlpyt_command("sweep", request_, tmp_path)
    assert capsys.readouterr().out.endswith("No launcher is running: the sweep is over.\n")


def test_a_dry_run_lists_runs_and_starts_nothing(tmp_path, capsys):
    file = write_file(tmp_path, "x", 3, "seeds: 20\n")
    before = sorted(tmp_path.iterdir())
    assert rlpyt_command("sweep", file, "--dry-run", "--dir", tmp_path / "new") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rates: 60 runs, 2 at once (1 core each, local)"
    assert lines[1:4] == [f"  rate_{rate}/run_0" for rate in (1, 2, 3)]
    assert len(lines) == 42 and lines[-1] == "  ... and 20 more"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("flags", [["--dry-run"], ["--yes"], ["--dir", "elsewhere"]])
def test_flags_of_new_sweeps_are_refused_when_resuming(tmp_path, capsys, flags):
    sweep = sweep_of(tmp_path, [job(0)])
    assert rlpyt_command("sweep", tmp_path, *flags) == 2
    assert f"{flags[0]} is for a sweep file" in capsys.readouterr().err
    assert sweep.jobs()[0].attempts() == []


@pytest.mark.parametrize(
    "error, code",
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1),  # a sweep tries the run again
        (BlockingIOError(errno.EAGAIN, "no more processes"), 1),
        (FileNotFoundError(errno.ENOENT, "nothing there"), 2),
        (PermissionError(errno.EACCES, "not yours"), 2),
    ],
)
def test_exit_codes_separate_transient_system_errors_from_bad_requests(monkeypatch, error, code):
    def fail(args):
        raise error

    monkeypatch.setattr("rlpyt.cli.status.main", fail)
    assert rlpyt_command("status", ".") == code


def test_too_many_runs_are_refused(tmp_path, capsys):
    file = write_file(tmp_path, "x", 3, "max_runs: 2\n")
    for flags in ([], ["--dry-run"]):
        assert rlpyt_command("sweep", file, "--dir", tmp_path / "new", *flags) == 2
        error = capsys.readouterr().err
        assert "3 runs, and max_runs is 2" in error and "--yes" in error
    assert not (tmp_path / "new").exists()
    assert rlpyt_command("sweep", file, "--dry-run", "--yes") == 0
    assert "3 runs" in capsys.readouterr().out


def test_any_number_of_runs_starts_if_asked(tmp_path):
    file, directory = write_file(tmp_path, tmp_path, 2, "max_runs: 1\n"), tmp_path / "new"
    command = [sys.executable, "-m", "rlpyt", "sweep", file, "--dir", directory, "--yes"]
    subprocess.run([*map(str, command)], check=True)
    view = read_sweep(directory)
    assert view.counts() == {"done": 2}
    assert view.about.made_by == f"rlpyt sweep {file} --dir {directory} --yes"


def test_requests_reach_a_running_launcher(tmp_path, capsys, request):
    directory = tmp_path / "sleepers"
    with open(tmp_path / "log", "w") as log:
        command = [sys.executable, "-m", "rlpyt", "sweep", write_file(tmp_path, "sleep")]
        launcher = subprocess.Popen([*map(str, command), "--dir", directory], stdout=log)
    request.addfinalizer(launcher.terminate)
    deadline = time.monotonic() + 60
    while not (directory / "queue").exists() or read_sweep(directory).counts() != {"running": 2}:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert rlpyt_command("sweep", "pause", directory) == 0
    rlpyt_command("status", directory)
    title = capsys.readouterr().out.splitlines()[1]
    assert " · paused · " in title and f"launched by process {launcher.pid} on " in title
    assert rlpyt_command("sweep", "unpause", directory) == 0
    assert not SweepDirectory(directory).paused
    assert rlpyt_command("sweep", directory) == 2  # a second one
    assert "already has a launcher" in capsys.readouterr().err
    assert rlpyt_command("sweep", "stop", directory) == 0
    assert f"Stopping: process {launcher.pid}" in capsys.readouterr().out
    assert launcher.wait(30) == 143
    assert read_sweep(directory).counts() == {"queued": 2}
    assert f"Resume with: rlpyt sweep {directory}" in (tmp_path / "log").read_text()
    assert rlpyt_command("sweep", "stop", directory) == 0
    assert "No launcher is running" in capsys.readouterr().out


def test_a_launch_script_runs_as_python_would_run_it(tmp_path, capsys):
    (tmp_path / "beside_it.py").write_text("import sys\nsaid = sys.argv\n")
    script = tmp_path / "launch.py"
    script.write_text("import beside_it\nprint(__name__, beside_it.said)")
    before = list(sys.argv), list(sys.path)
    assert rlpyt_command("sweep", script, "--some", "arguments") == 0
    assert capsys.readouterr().out == f"__main__ {[str(script), '--some', 'arguments']}\n"
    assert (sys.argv, sys.path) == before


@pytest.mark.parametrize(
    "argv, complaint",
    [
        (["sweep", "nowhere.yaml"], "'nowhere.yaml' not found. Give a sweep file"),
        (["sweep", "nowhere.py"], "Launch script 'nowhere.py' not found"),
        (["sweep", "pause"], "as in `rlpyt sweep pause DIR`"),
        (["sweep", "retry", "nowhere"], "nowhere holds no sweep"),
        (["sweep", "."], ". holds no sweep"),
        (["status", "nowhere"], "nowhere holds no sweep"),
    ],
)
def test_missing_files_are_named(argv, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rlpyt_command(*argv) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "argv, typed",
    [
        (["/usr/bin/rlpyt", "sweep", "my file.yaml"], "rlpyt sweep 'my file.yaml'"),
        (["/lib/rlpyt/__main__.py", "sweep", "x"], "rlpyt sweep x"),
        (["launch.py", "3"], "python launch.py 3"),
    ],
)
def test_the_command_line_reads_as_it_was_typed(argv, typed, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    assert command_line() == typed


def test_a_file_named_as_that_of_the_queue_is_kept(tmp_path):
    file = tmp_path / "sweep.json"
    (tmp_path / "s.py").touch()
    file.write_text('{"script": "s.py", "slots": "1cpu_1cpr_0saf"}')
    assert rlpyt_command("sweep", file, "--dir", tmp_path / "runs") == 0
    sweep = SweepDirectory(tmp_path / "runs")
    assert (sweep.queue / sweep.about.file_name).read_bytes() == file.read_bytes()


def test_a_sweep_of_rlpyt_train_has_the_options_of_its_file(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(
        "train: ppo\nenv: CartPole-v1\nslots: 1cpu_1cpr_0saf\nseeds: [3]\n"
        "grid: {algo.learning_rate: [0.002]}\n"
        "options:\n  steps: 75\n  log_interval_steps: 32\n  eval_episodes: 0\n"
        "  sampler: {kind: serial, batch_T: 8, batch_B: 2}\n"
        "  algo: {minibatches: 2, epochs: 1}\n  agent.hidden_sizes: [8]\n"
    )
    assert rlpyt_command("sweep", file, "--dir", tmp_path / "tiny") == 0
    [run] = read_sweep(tmp_path / "tiny").runs
    assert (run.state, run.steps, run.total_steps) == ("done", 64, 64)  # four whole batches
    config = json.loads((run.run_dir / "config.json").read_text())
    assert (config["seed"], config["algo"]["learning_rate"]) == (3, 0.002)
    assert config["video"] is False and config["sampler"]["batch_T"] == 8
    assert config == json.loads((run.output.parent / "config.json").read_text())
