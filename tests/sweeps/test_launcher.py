"""The queue: every run carried out once, whatever ends in between."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.keeper import boot
from rlpyt.sweeps.places import LocalPlace, PlaceError
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.logging.lock import RunDirectoryError
from tests.sweeps.launching import COUNTS, job, launcher_of, python, sweep_of, times_done

LAUNCH = """
import sys
from rlpyt.sweeps.directory import SweepDirectory
from tests.sweeps.launching import launcher_of
sys.exit(launcher_of(SweepDirectory(sys.argv[1])).run())
"""


def start_launcher(sweep):
    return subprocess.Popen([sys.executable, "-c", LAUNCH, str(sweep.path)])


def until(condition, limit_s=30):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def is_gone(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def states(sweep):
    return [one.state() for one in sweep.jobs()]


def test_all_runs_are_carried_out_once(tmp_path):
    sweep = sweep_of(tmp_path, [job(i) for i in range(5)])
    launcher = launcher_of(sweep)
    assert launcher.run() == 0
    assert times_done(sweep) == [1] * 5
    assert states(sweep) == ["done"] * 5 == list(launcher.states.values())
    assert (tmp_path / "num_launched.txt").read_text() == "5 of 5 launched\n"


def test_nothing_is_run_again(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    assert launcher_of(sweep).run() == launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_as_many_at_once_as_there_are_slots_each_in_its_own(tmp_path):
    code = "import time; time.sleep(0.4)"
    sweep = sweep_of(tmp_path, [job(i, code) for i in range(4)])
    launcher_of(sweep).run()
    spans = [one.attempts()[0] for one in sweep.jobs()]
    for at in [a.begun + 0.05 for a in spans]:
        going = [a.slot for a in spans if a.begun < at < a.ended]
        assert len(going) <= 2 and len(set(going)) == len(going)
    assert any(a.begun < b.begun < a.ended for a in spans for b in spans)  # beside each other


def test_runs_are_told_their_slot_and_kept_on_its_cores(tmp_path):
    code = "import os, sys; print(sys.argv[1], sorted(os.sched_getaffinity(0)))"
    told = job(0, command=(*python(code), "{affinity}"))
    sweep = sweep_of(tmp_path, [told])
    launcher = launcher_of(sweep)
    launcher.slots[0] = type(launcher.slots[0])(0, "0slt_2cpu_1cpr", launcher.slots[0].cpus[:1])
    launcher.run()
    core = launcher.slots[0].cpus[0]
    assert sweep.jobs()[0].last_lines() == [f"0slt_2cpu_1cpr [{core}]"]


def test_a_failed_run_is_tried_again_as_often_as_allowed(tmp_path):
    code = "import sys; print('no luck'); sys.exit(3)"
    sweep, said = sweep_of(tmp_path, [job(0, code, retries=2), job(1)]), []
    assert launcher_of(sweep, said=said).run() == 1
    failed, done = sweep.jobs()
    assert (failed.state(), done.state()) == ("failed", "done")
    assert [a.exit_code for a in failed.attempts()] == [3, 3, 3]
    assert any("exit code 3" in line for line in said) and any("no luck" in line for line in said)


def test_a_request_that_cannot_be_carried_out_is_not_tried_again(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "import sys; sys.exit(2)", retries=5)])
    assert launcher_of(sweep).run() == 1
    assert len(sweep.jobs()[0].attempts()) == 1


def test_failed_runs_can_be_queued_again(tmp_path):
    code = f"import os, sys; os.path.exists('{tmp_path}/mended') or sys.exit(1)"
    sweep = sweep_of(tmp_path, [job(0, code, retries=0)])
    assert launcher_of(sweep).run() == 1
    (tmp_path / "mended").touch()
    assert launcher_of(sweep).run() == 1  # nobody has asked for it
    assert sweep.forgive() == ["setting_0/run_0"]
    assert launcher_of(sweep).run() == 0


def test_a_program_that_does_not_exist_fails_its_run_alone(tmp_path):
    missing = job(0, command=("/nonexistent/program",), retries=0)
    sweep = sweep_of(tmp_path, [missing, job(1)])
    assert launcher_of(sweep).run() == 1
    assert states(sweep) == ["failed", "done"]
    assert "cannot be started" in sweep.jobs()[0].last_lines()[0]


def test_a_retried_run_begins_anew_where_it_has_no_checkpoint(tmp_path):
    code = (
        "import os, sys\n"
        "os.makedirs('{run_dir}')\n"  # fails where the first attempt's files were still there
        "open('{run_dir}/progress.csv', 'w').write('a')\n"
        "sys.exit(0 if os.path.exists('{sweep}/once') else open('{sweep}/once', 'w').close() or 1)"
    )
    sweep = sweep_of(tmp_path, [job(0, code)])
    assert launcher_of(sweep).run() == 0
    kept = sweep.jobs()[0].path / "run_dir_of_attempt_1" / "progress.csv"
    assert kept.read_text() == "a"


def test_a_retried_run_goes_on_from_its_checkpoint(tmp_path):
    code = "import os, sys; os.makedirs('{run_dir}/checkpoint/checkpoint-1'); sys.exit(1)"
    say = "import os; print('resumed', os.environ['RLPYT_RESUME'])"
    sweep = sweep_of(tmp_path, [job(0, code, resume=python(say))])
    assert launcher_of(sweep).run() == 0
    assert sweep.jobs()[0].last_lines() == [f"resumed {tmp_path}/setting_0/run_0"]


def test_a_killed_run_is_tried_again(tmp_path):
    code = (
        "import os, signal; first = not os.path.exists('{sweep}/once')\n"
        "open('{sweep}/once', 'w').close()\n"
        "first and os.kill(os.getpid(), signal.SIGKILL)\n" + COUNTS
    )
    sweep = sweep_of(tmp_path, [job(0, code)])
    assert launcher_of(sweep).run() == 0
    assert [a.exit_code for a in sweep.jobs()[0].attempts()] == [-9, 0]


def test_a_killed_launcher_leaves_its_runs_going_and_the_next_takes_them_over(tmp_path):
    code = f"import os, time\nwhile not os.path.exists('{{sweep}}/go'): time.sleep(0.02)\n{COUNTS}"
    sweep = sweep_of(tmp_path, [job(i, code) for i in range(4)])
    first = start_launcher(sweep)
    until(lambda: states(sweep).count("running") == 2)
    first.kill()
    first.wait()
    assert states(sweep).count("running") == 2  # they have not noticed
    said = []
    second = launcher_of(sweep, said=said)
    second.on_look.append((tmp_path / "go").touch)
    assert second.run() == 0
    assert times_done(sweep) == [1] * 4
    assert sum("taken over" in line for line in said) == 2
    assert all(len(one.attempts()) == 1 for one in sweep.jobs())


def test_runs_that_ended_while_nobody_launched_count(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, f"import time; time.sleep(1); {COUNTS}")])
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["running"])
    first.kill()
    first.wait()
    until(lambda: states(sweep) == ["done"])
    assert launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_a_launcher_killed_before_its_keeper_began_loses_nothing(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    sweep.jobs()[0].prepare(Attempt(1, python("raise SystemExit(1)")))  # then it was killed
    assert states(sweep) == ["queued"]
    assert launcher_of(sweep).run() == 0
    assert [a.exit_code for a in sweep.jobs()[0].attempts()] == [0]


def test_of_two_keepers_of_an_attempt_one_runs_it(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    one = sweep.jobs()[0]
    code = f"import time; time.sleep(1); {COUNTS}".replace(
        "{run_dir}", f"{tmp_path}/{one.job.run_dir}"
    )
    one.prepare(Attempt(1, python(code)))
    place = LocalPlace()
    handles = [place.start(one.path, one.attempts()[0], None) for _ in range(2)]
    until(lambda: all(handle.over() for handle in handles))
    late = place.start(one.path, one.attempts()[0], None)
    until(late.over)
    assert times_done(sweep) == [1]


def test_a_keeper_that_is_killed_takes_its_run_along_and_it_is_tried_again(tmp_path):
    code = f"import os, time; time.sleep(0 if os.path.exists('{{sweep}}/now') else 60); {COUNTS}"
    sweep = sweep_of(tmp_path, [job(0, code)])
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["running"] and sweep.jobs()[0].attempts()[0].pid)
    keeper = psutil.Process(sweep.jobs()[0].attempts()[0].pid)
    until(keeper.children)
    (child,) = keeper.children()
    (tmp_path / "now").touch()
    keeper.kill()
    assert first.wait(30) == 0
    assert is_gone(child)
    lost, done = sweep.jobs()[0].attempts()
    assert "not recorded" in lost.outcome() and done.exit_code == 0
    assert times_done(sweep) == [1]


def test_attempts_that_a_reboot_ended_do_not_count_against_a_run(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, retries=0)])
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, boot="another start", pid=1))
    assert states(sweep) == ["queued"]
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=1))
    assert states(sweep) == ["failed"]


def test_an_attempt_that_a_cluster_has_lost_counts_or_it_would_be_tried_for_ever(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, retries=0)])
    lost = Attempt(1, python(""), begun=1.0, boot="of another machine", pid=1, where="slurm")
    sweep.jobs()[0].prepare(lost)
    assert states(sweep) == ["failed"]


def test_an_end_that_is_recorded_while_one_looks_counts(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    one = sweep.jobs()[0]
    one.prepare(Attempt(1, python(""), begun=1.0, boot=boot(), pid=1))
    seen = one.attempts()
    one.prepare(Attempt(1, python(""), begun=1.0, boot=boot(), pid=1, ended=2.0, exit_code=0))
    assert one.state(seen) == "done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_launcher_has_its_runs_save_first_and_they_go_on_later(tmp_path, number):
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
    launcher.send_signal(number)
    assert launcher.wait(30) == 128 + number
    assert states(sweep) == ["queued"]
    assert sweep.jobs()[0].attempts()[0].outcome() == "stopped"
    assert launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_stopping_from_elsewhere_ends_runs_and_launcher(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "print('ready', flush=True)\nimport time; time.sleep(60)")])
    launcher = start_launcher(sweep)
    until(lambda: sweep.jobs()[0].last_lines() == ["ready"])
    SweepDirectory(tmp_path).stop()
    assert launcher.wait(30) == 0
    assert states(sweep) == ["queued"] and sweep.launcher() == ""
    attempt = sweep.jobs()[0].attempts()[0]
    assert attempt.exit_code == -15


def test_while_paused_no_run_begins(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, f"import time; time.sleep(0.5); {COUNTS}"), job(1)])
    launcher = launcher_of(sweep, n_slots=1)
    looks = []

    def look():
        looks.append(states(sweep))
        if len(looks) == 1:
            sweep.pause()
        if looks[-1] == ["done", "queued"] and len(looks) > 4:
            sweep.pause(False)

    launcher.on_look.append(look)
    assert launcher.run() == 0
    assert times_done(sweep) == [1, 1]
    assert looks.count(["done", "queued"]) >= 2  # the slot was free, and stayed so


def test_where_a_sweep_is_removed_its_launcher_and_keepers_end(tmp_path):
    sweep = sweep_of(tmp_path / "sweep", [job(0, "import time; time.sleep(0.5)")])
    launcher, keepers = launcher_of(sweep), []

    def remove():
        attempts = sweep.jobs()[0].attempts()
        if not keepers and attempts[0].pid is not None:
            keepers.append(psutil.Process(attempts[0].pid))
            shutil.rmtree(sweep.path)

    launcher.on_look.append(remove)
    with pytest.raises(FileNotFoundError, match="was removed while"):
        launcher.run()
    until(lambda: is_gone(keepers[0]))


def test_a_second_launcher_is_refused(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, "import time; time.sleep(60)")])
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["running"])
    with pytest.raises(RunDirectoryError, match=f"launched already, by process {first.pid}"):
        launcher_of(sweep).run()
    first.terminate()
    assert first.wait(30) == 143


def test_no_run_begins_on_a_full_disk(tmp_path):
    sweep, said = sweep_of(tmp_path, [job(0)]), []
    launcher = launcher_of(sweep, said=said, least_free_bytes=2**62)
    launcher.on_look.append(lambda: setattr(launcher, "least_free_bytes", 0))
    assert launcher.run() == 0
    assert "nearly full" in said[0] and times_done(sweep) == [1]


@pytest.mark.parametrize("new_session", [False, True])
def test_what_a_run_leaves_behind_ends_with_it(tmp_path, new_session):
    code = (
        "import subprocess, sys\n"
        "sleep = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
        f"print(subprocess.Popen(sleep, start_new_session={new_session}).pid)"
    )
    sweep = sweep_of(tmp_path, [job(0, code)])
    assert launcher_of(sweep).run() == 0
    left = int(sweep.jobs()[0].last_lines()[0])
    assert not psutil.pid_exists(left) or is_gone(psutil.Process(left))


def test_a_run_that_cannot_be_begun_now_is_begun_later(tmp_path, monkeypatch):
    monkeypatch.setattr("rlpyt.sweeps.launcher.AGAIN_S", 0.1)
    sweep, said = sweep_of(tmp_path, [job(0), job(1)]), []
    launcher = launcher_of(sweep, said=said)

    class Crowded(LocalPlace):
        refusals = [PlaceError("no node is free"), OSError("no more processes")]

        def start(self, *args):
            if self.refusals:
                raise self.refusals.pop(0)
            return super().start(*args)

    launcher.place = Crowded()
    assert launcher.run() == 0
    assert times_done(sweep) == [1, 1]
    assert [len(one.attempts()) for one in sweep.jobs()] == [1, 1]
    assert "setting_0/run_0: cannot be begun (no node is free)" in said[0]
    assert "no more processes" in said[1]


def test_the_use_of_slots_leaves_out_attempts_whose_end_is_lost(tmp_path):
    sweep = sweep_of(tmp_path, [job(0), job(1)])  # two slots
    one, other = sweep.jobs()
    one.prepare(Attempt(1, python(""), begun=100.0, pid=1, boot="another start"))
    one.prepare(Attempt(2, python(""), begun=110.0, ended=130.0, exit_code=0))
    other.prepare(Attempt(1, python(""), begun=110.0, ended=120.0, exit_code=0))
    view = read_sweep(tmp_path)
    assert view.utilisation() == (20 + 10) / (2 * 20)
    assert [run.seconds for run in view.runs] == [20.0, 10.0]


def test_a_clusters_sweep_has_as_many_slots_as_runs_at_once(tmp_path):
    about = About(title="test", slots="2cpu_2cpr", where="slurm", place={"at_once": 4})
    sweep = sweep_of(tmp_path, [job(0)], about)
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0))
    assert read_sweep(tmp_path).utilisation() == 0.25


def test_each_end_says_how_far_the_sweep_is(tmp_path):
    sweep, said = sweep_of(tmp_path, [job(i) for i in range(3)]), []
    launcher_of(sweep, said=said).run()
    assert [line[-8:] for line in said if "done" in line] == ["(1 of 3)", "(2 of 3)", "(3 of 3)"]


def test_a_sweep_is_put_into_place_whole_or_not_at_all(tmp_path):
    def jobs():
        yield job(0)
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        SweepDirectory.create(tmp_path, sweep_of(tmp_path / "other", []).about, jobs())
    assert os.listdir(tmp_path) == ["other"]
    with pytest.raises(FileNotFoundError, match="holds no sweep"):
        SweepDirectory(tmp_path)


def test_a_directory_holds_one_sweep(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    with pytest.raises(FileExistsError, match="rlpyt sweep"):
        SweepDirectory.create(tmp_path, sweep.about, [])


def test_a_sweep_of_a_newer_format_is_refused(tmp_path):
    about = sweep_of(tmp_path, []).queue / "sweep.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        SweepDirectory(tmp_path)
