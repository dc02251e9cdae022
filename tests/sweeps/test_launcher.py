"""The launcher executes every run once, whichever process is killed."""

import itertools
import shutil
import sys
import time
from dataclasses import replace

import psutil
import pytest

from rlpyt.sweeps import directory
from rlpyt.sweeps.executors import ExecutorError, LocalExecutor, supervisor_command
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.launcher import Source
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


def is_gone(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_every_run_is_executed_once(tmp_path):
    sweep = sweep_of(tmp_path, [job(i) for i in range(5)])
    assert launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1] * 5
    assert states(sweep) == ["done"] * 5
    assert (tmp_path / "num_launched.txt").read_text() == "5 of 5 launched\n"


def test_completed_runs_are_not_repeated(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    assert launcher_of(sweep).run() == launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_runs_execute_in_parallel_each_in_its_own_slot(tmp_path):
    code = "import time; time.sleep(0.4)"
    sweep = sweep_of(tmp_path, [job(i, code) for i in range(4)])
    launcher_of(sweep).run()
    spans = [one.attempts()[0] for one in sweep.jobs()]
    for at in [a.begun + 0.05 for a in spans]:
        going = [a.slot for a in spans if a.begun < at < a.ended]
        assert len(going) <= 2 and len(set(going)) == len(going)
    assert any(a.begun < b.begun < a.ended for a in spans for b in spans)  # beside each other


def test_runs_receive_their_slot_and_are_pinned_to_its_cores(tmp_path):
    code = "import os, sys; print(sys.argv[1], sorted(os.sched_getaffinity(0)))"
    told = job(0, command=(*python(code), "{affinity}"))
    sweep = sweep_of(tmp_path, [told])
    launcher = launcher_of(sweep)
    launcher.slots[0] = replace(launcher.slots[0], cpus=launcher.slots[0].cpus[:1])
    launcher.run()
    core = launcher.slots[0].cpus[0]
    assert sweep.jobs()[0].last_lines() == [f"0slt_2cpu_0gpu_1cpr [{core}]"]


def test_a_failed_run_is_retried_up_to_its_limit(tmp_path):
    code = "import sys; print('no luck'); sys.exit(3)"
    sweep, said = sweep_of(tmp_path, [job(0, code, retries=2), job(1)]), []
    assert launcher_of(sweep, said=said).run() == 1
    failed, done = sweep.jobs()
    assert (failed.state(), done.state()) == ("failed", "done")
    assert [a.exit_code for a in failed.attempts()] == [3, 3, 3]
    assert any("exit code 3" in line for line in said) and any("no luck" in line for line in said)


def test_an_invalid_request_is_not_retried(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "import sys; sys.exit(2)", retries=5)])
    assert launcher_of(sweep).run() == 1
    assert len(sweep.jobs()[0].attempts()) == 1


def test_a_missing_program_fails_only_its_own_run(tmp_path):
    missing = job(0, command=("/nonexistent/program",), retries=0)
    sweep = sweep_of(tmp_path, [missing, job(1)])
    assert launcher_of(sweep).run() == 1
    assert states(sweep) == ["failed", "done"]
    assert "cannot be started" in sweep.jobs()[0].last_lines()[0]


def test_a_killed_run_is_retried(tmp_path):
    code = (
        "import os, signal; first = not os.path.exists('{sweep}/once')\n"
        "open('{sweep}/once', 'w').close()\n"
        "first and os.kill(os.getpid(), signal.SIGKILL)\n" + COUNTS
    )
    sweep = sweep_of(tmp_path, [job(0, code)])
    assert launcher_of(sweep).run() == 0
    assert [a.exit_code for a in sweep.jobs()[0].attempts()] == [-9, 0]


def test_runs_of_a_killed_launcher_continue_and_the_next_adopts_them(tmp_path):
    code = f"import os, time\nwhile not os.path.exists('{{sweep}}/go'): time.sleep(0.02)\n{COUNTS}"
    sweep = sweep_of(tmp_path, [job(i, code) for i in range(4)])
    first = start_launcher(sweep)
    until(lambda: states(sweep).count("running") == 2)
    first.kill()
    first.wait()
    assert states(sweep).count("running") == 2  # they have not noticed
    said = []
    second = launcher_of(sweep, said=said)
    second.on_poll.append((tmp_path / "go").touch)
    assert second.run() == 0
    assert times_done(sweep) == [1] * 4
    assert sum("adopted" in line for line in said) == 2
    assert all(len(one.attempts()) == 1 for one in sweep.jobs())


def test_runs_that_ended_without_a_launcher_count(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, f"import time; time.sleep(1); {COUNTS}")])
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["running"])
    first.kill()
    first.wait()
    until(lambda: states(sweep) == ["done"])
    assert launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_a_launcher_killed_before_its_supervisor_started_loses_no_run(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    sweep.jobs()[0].prepare(Attempt(1, python("raise SystemExit(1)")))  # then it was killed
    assert states(sweep) == ["queued"]
    assert launcher_of(sweep).run() == 0
    assert [a.exit_code for a in sweep.jobs()[0].attempts()] == [0]


def test_only_one_of_two_supervisors_runs_an_attempt(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    one = sweep.jobs()[0]
    code = f"import time; time.sleep(1); {COUNTS}".replace(
        "{run_dir}", f"{tmp_path}/{one.job.run_dir}"
    )
    one.prepare(Attempt(1, python(code)))
    place = LocalExecutor()
    handles = [place.start(one.path, one.attempts()[0], None) for _ in range(2)]
    until(lambda: all(handle.has_ended() for handle in handles))
    late = place.start(one.path, one.attempts()[0], None)
    until(late.has_ended)
    assert times_done(sweep) == [1]


def test_the_run_of_a_killed_supervisor_ends_and_is_retried(tmp_path):
    code = (
        "import os, time\nfirst = not os.path.exists('{sweep}/begun')\nopen('{sweep}/begun', 'w')\n"
        f"time.sleep(60 if first else 0)\n{COUNTS}"
    )
    sweep = sweep_of(tmp_path, [job(0, code)])
    first = start_launcher(sweep)
    until((tmp_path / "begun").exists)
    supervisor = psutil.Process(sweep.jobs()[0].attempts()[0].pid)
    (child,) = supervisor.children()
    supervisor.kill()
    assert first.wait(30) == 0
    assert is_gone(child)
    lost, done = sweep.jobs()[0].attempts()
    assert "not recorded" in lost.outcome() and done.exit_code == 0
    assert times_done(sweep) == [1]


def test_launcher_and_supervisors_end_when_their_sweep_is_removed(tmp_path):
    sweep = sweep_of(tmp_path / "sweep", [job(0, "import time; time.sleep(0.5)")])
    launcher, supervisors = launcher_of(sweep), []

    def remove():
        attempts = sweep.jobs()[0].attempts()
        if not supervisors and attempts[0].pid is not None:
            supervisors.append(psutil.Process(attempts[0].pid))
            shutil.rmtree(sweep.path)

    launcher.on_poll.append(remove)
    with pytest.raises(FileNotFoundError, match="was removed while"):
        launcher.run()
    until(lambda: is_gone(supervisors[0]))


@pytest.mark.parametrize("removed", [0, 1])
def test_a_run_whose_job_is_removed_is_dropped_and_the_others_go_on(tmp_path, removed):
    sleep = "import time; time.sleep({})"
    jobs = [job(i, sleep.format(60 if i == removed else 0.1)) for i in range(3)]
    sweep, said = sweep_of(tmp_path, jobs), []
    path = sweep.jobs()[removed].path
    launcher = launcher_of(sweep, n_slots=2 - removed, said=said)  # it is active, or waits

    def remove():
        if path.exists() and sweep.jobs()[0].attempts()[0].pid is not None:
            shutil.rmtree(path)

    launcher.on_poll.append(remove)
    assert launcher.run() == 0
    assert states(sweep) == ["done", "done"]
    assert [line for line in said if "dropped from the sweep" in line]


def test_a_starting_supervisor_of_an_earlier_launcher_is_adopted(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "import time; time.sleep(1); raise SystemExit(1)")])
    [one] = sweep.jobs()

    class Late(Source):
        """Begins the attempt of an earlier launcher once this one has seen it wait."""

        def watch(self, running):
            if not one.attempts():
                one.prepare(Attempt(1, one.job.command))
                LocalExecutor().start(one.path, one.attempts()[0], None)
                until(lambda: one.state() == "running")

    assert launcher_of(sweep, source=Late).run() == 1  # it has seen all of its attempts fail
    assert [a.exit_code for a in one.attempts()] == [1, 1]
    assert states(sweep) == ["failed"]


def test_a_supervisor_that_fails_to_start_is_retried_after_a_delay(tmp_path, monkeypatch):
    monkeypatch.setattr("rlpyt.sweeps.launcher.RETRY_DELAY_S", 0.5)
    sweep, said, starts = sweep_of(tmp_path, [job(0)]), [], []
    right = supervisor_command

    def command(*args):
        starts.append(time.monotonic())
        return right(*args) if len(starts) > 2 else [sys.executable, "-c", ""]

    monkeypatch.setattr("rlpyt.sweeps.executors.supervisor_command", command)
    assert launcher_of(sweep, said=said).run() == 0
    assert "setting_0/run_0: failed to start; retrying." in said
    assert len(starts) == 3 and all(b - a > 0.5 for a, b in itertools.pairwise(starts))
    assert len(sweep.jobs()[0].attempts()) == 1 and times_done(sweep) == [1]


def test_no_run_starts_on_a_full_disk(tmp_path, monkeypatch):
    sweep, said = sweep_of(tmp_path, [job(0)]), []
    monkeypatch.setattr(directory, "LEAST_FREE_BYTES", 2**62)
    launcher = launcher_of(sweep, said=said)
    launcher.on_poll.append(lambda: monkeypatch.setattr(directory, "LEAST_FREE_BYTES", 0))
    assert launcher.run() == 0
    assert "nearly full" in said[0] and times_done(sweep) == [1]


@pytest.mark.parametrize("new_session", [False, True])
def test_processes_left_by_a_run_end_with_it(tmp_path, new_session):
    code = (
        "import subprocess, sys\n"
        "sleep = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
        f"print(subprocess.Popen(sleep, start_new_session={new_session}).pid)"
    )
    sweep = sweep_of(tmp_path, [job(0, code)])
    assert launcher_of(sweep).run() == 0
    left = int(sweep.jobs()[0].last_lines()[0])
    assert not psutil.pid_exists(left) or is_gone(psutil.Process(left))


def test_a_run_that_fails_to_start_is_started_later(tmp_path, monkeypatch):
    monkeypatch.setattr("rlpyt.sweeps.launcher.RETRY_DELAY_S", 0.1)
    sweep, said = sweep_of(tmp_path, [job(0), job(1)]), []
    launcher = launcher_of(sweep, said=said)

    class Crowded(LocalExecutor):
        refusals = [ExecutorError("no node is free"), OSError("no more processes")]

        def start(self, *args):
            if self.refusals:
                raise self.refusals.pop(0)
            return super().start(*args)

    launcher.executor = Crowded()
    assert launcher.run() == 0
    assert times_done(sweep) == [1, 1]
    assert [len(one.attempts()) for one in sweep.jobs()] == [1, 1]
    assert "setting_0/run_0: failed to start (no node is free)" in said[0]
    assert "no more processes" in said[1]


def test_each_finished_run_reports_the_progress_of_the_sweep(tmp_path):
    sweep, said = sweep_of(tmp_path, [job(i) for i in range(3)]), []
    launcher_of(sweep, said=said).run()
    ends = [line.rpartition(" (")[2] for line in said if "done" in line]
    assert ends == ["1 of 3 runs)", "2 of 3 runs)", "3 of 3 runs)"]
