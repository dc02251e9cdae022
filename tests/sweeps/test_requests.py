"""Requests to launchers: stop, pause, retry; and one launcher at a time."""

import os
import signal

import pytest

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.launcher import Source
from rlpyt.utils.logging.lock import RunDirectoryError
from tests.sweeps.launching import (
    COUNTS,
    job,
    launcher_of,
    python,
    start_launcher,
    states,
    sweep_of,
    times_done,
    until,
)


def test_failed_runs_can_be_retried(tmp_path):
    code = f"import os, sys; os.path.exists('{tmp_path}/mended') or sys.exit(1)"
    sweep = sweep_of(tmp_path, [job(0, code, retries=0)])
    assert launcher_of(sweep).run() == 1
    (tmp_path / "mended").touch()
    assert launcher_of(sweep).run() == 1  # nobody has asked for it
    assert sweep.forgive() == ["setting_0/run_0"]
    assert launcher_of(sweep).run() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_runs_of_a_stopped_launcher_save_and_resume_later(tmp_path, number):
    code = (
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    os.makedirs('{run_dir}/checkpoint/checkpoint-1'); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    sweep = sweep_of(tmp_path, [job(0, code, retries=0, resume=python(COUNTS))])
    launcher = start_launcher(sweep)
    until(lambda: sweep.jobs()[0].last_lines() == ["ready"])
    os.kill(sweep.jobs()[0].attempts()[0].pid, number)  # as if sent to the process group
    launcher.send_signal(number)
    assert launcher.wait(30) == 128 + number
    assert states(sweep) == ["queued"]
    assert sweep.jobs()[0].attempts()[0].outcome() == "stopped"
    assert launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_a_stop_request_ends_runs_and_launcher(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "print('ready', flush=True)\nimport time; time.sleep(60)")])
    launcher = start_launcher(sweep)
    until(lambda: sweep.jobs()[0].last_lines() == ["ready"])
    SweepDirectory(tmp_path).stop()
    assert launcher.wait(30) == 143
    assert states(sweep) == ["queued"] and sweep.launcher() == ""
    attempt = sweep.jobs()[0].attempts()[0]
    assert attempt.exit_code == -15


def test_no_run_starts_while_the_sweep_is_paused(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, f"import time; time.sleep(0.5); {COUNTS}"), job(1)])
    launcher = launcher_of(sweep, n_slots=1)
    looks = []

    def look():
        looks.append(states(sweep))
        if len(looks) == 1:
            sweep.pause()
        if looks[-1] == ["done", "queued"] and len(looks) > 4:
            sweep.pause(False)

    launcher.on_poll.append(look)
    assert launcher.run() == 0
    assert times_done(sweep) == [1, 1]
    assert looks.count(["done", "queued"]) >= 2  # the slot was free, and stayed so


def test_a_second_launcher_is_refused(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "import time; time.sleep(60)")])
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["running"])
    with pytest.raises(RunDirectoryError, match=f"launcher: process {first.pid}"):
        launcher_of(sweep).run()
    first.terminate()
    assert first.wait(30) == 143


def test_a_refused_launcher_does_not_ask_the_source_for_runs(tmp_path):
    sweep, asked = sweep_of(tmp_path, [job(0)]), []

    def source():
        asked.append(sweep.launcher())
        return Source()

    with sweep.lock(), pytest.raises(RunDirectoryError):
        launcher_of(sweep, source=source).run()
    assert asked == []
    assert launcher_of(sweep, source=source).run() == 0
    assert asked == [f"process {os.getpid()} on {os.uname().nodename}"]


def test_retried_runs_are_picked_up_by_an_active_launcher(tmp_path):
    code = "import os, sys; os.path.exists('{sweep}/mended') or sys.exit(1)"
    waits = "import os, time\nwhile not os.path.exists('{sweep}/go'): time.sleep(0.02)"
    sweep, said = sweep_of(tmp_path, [job(0, code, retries=0), job(1, waits)]), []
    launcher, asked = launcher_of(sweep, said=said), []

    def look():
        if states(sweep)[0] == "failed" and not asked:
            (tmp_path / "mended").touch()
            asked.extend(sweep.forgive())
        if states(sweep)[0] == "done":
            (tmp_path / "go").touch()

    launcher.on_poll.append(look)
    assert launcher.run() == 0
    assert asked == ["setting_0/run_0"]
    # It is forgiven before or after the launcher itself has seen that it failed.
    words = ("setting_0/run_0: queued again", "setting_0/run_0: forgiven")
    assert any(line.startswith(words) for line in said)


def test_a_paused_launcher_reports_that_it_waits(tmp_path):
    sweep, said = sweep_of(tmp_path, [job(0)]), []
    sweep.pause()
    launcher = launcher_of(sweep, said=said)
    launcher.on_poll.append(lambda: sweep.pause(False))
    assert launcher.run() == 0
    assert said[0] == f"paused: no run starts until rlpyt sweep unpause {tmp_path}"
