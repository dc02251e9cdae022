"""Attempts of a run: start, settings, retries, and recovery after a crash."""

import json
import os
from dataclasses import replace

from rlpyt.sweeps.executors import LocalExecutor
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.launcher import next_attempt
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.supervisor import boot
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.machine import names_of_gpus
from tests.sweeps.launching import (
    ABOUT,
    RESOURCES,
    job,
    launcher_of,
    python,
    states,
    sweep_of,
    times_done,
    until,
)


def test_a_retried_run_without_a_checkpoint_starts_again(tmp_path):
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


def test_a_retried_run_resumes_from_its_checkpoint(tmp_path):
    code = "import os, sys; os.makedirs('{run_dir}/checkpoint/checkpoint-1'); sys.exit(1)"
    say = "import os; print('resumed', os.environ['RLPYT_RESUME'])"
    sweep = sweep_of(tmp_path, [job(0, code, resume=python(say))])
    assert launcher_of(sweep).run() == 0
    assert sweep.jobs()[0].last_lines() == [f"resumed {tmp_path}/setting_0/run_0"]


def test_attempts_ended_by_a_reboot_do_not_use_up_retries(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, retries=0)])
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, boot="another start", pid=1))
    assert states(sweep) == ["queued"]
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=1))
    assert states(sweep) == ["failed"]


def test_an_attempt_lost_by_a_cluster_uses_up_a_retry(tmp_path):
    sweep = sweep_of(tmp_path, [job(0, retries=0)])
    lost = Attempt(1, python(""), begun=1.0, boot="of another machine", pid=1, where="slurm")
    sweep.jobs()[0].prepare(lost)
    assert states(sweep) == ["failed"]


def test_an_end_recorded_after_attempts_were_read_counts(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    one = sweep.jobs()[0]
    one.prepare(Attempt(1, python(""), begun=1.0, boot=boot(), pid=1))
    seen = one.attempts()
    one.prepare(Attempt(1, python(""), begun=1.0, boot=boot(), pid=1, ended=2.0, exit_code=0))
    assert one.state(seen) == "done"


def test_an_attempt_told_to_end_before_its_start_does_not_start(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    [one] = sweep.jobs()
    one.prepare(Attempt(1, one.job.command))
    one.request_end(1, "stopped")
    place = LocalExecutor()
    until(place.start(one.path, one.attempts()[0], None).has_ended)
    assert one.attempts()[0].outcome() == "stopped" and one.state() == "queued"
    assert launcher_of(sweep).run() == 0
    assert times_done(sweep) == [1]


def test_a_request_to_end_applies_only_to_its_own_attempt(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    [one] = sweep.jobs()
    one.prepare(Attempt(1, one.job.command))
    one.note_remote(1, "17")
    one.request_end(1, "stopped")
    assert launcher_of(sweep).run() == 0
    [attempt] = one.attempts()
    assert (attempt.told, attempt.remote_id, attempt.exit_code) == ("", "", 0)


def test_the_first_reason_to_end_is_kept(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    [one] = sweep.jobs()
    one.prepare(Attempt(1, one.job.command, begun=1.0, ended=2.0, exit_code=143))
    one.request_end(1, "pruned")
    one.request_end(1, "stopped")
    assert one.attempts()[0].told == "pruned" and one.state() == "pruned"


def test_the_lock_of_a_run_on_a_lost_node_is_removed(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    [one] = sweep.jobs()
    lost = dict(begun=1.0, boot="another", pid=1, host="node7", where="slurm")
    one.prepare(Attempt(1, one.job.command, **lost))
    lock = tmp_path / one.job.run_dir / "run.lock"
    checkpoint = lock.parent / "checkpoint" / "checkpoint-1"
    checkpoint.mkdir(parents=True)
    places = sweep, one, one.attempts(), Slot(0, RESOURCES), LocalExecutor()
    for host, stays in (("node8", True), ("node7", False)):  # the first is somebody else's
        lock.write_text(json.dumps({"pid": os.getpid(), "started": 1.0, "host": host}))
        assert next_attempt(*places).env["RLPYT_RESUME"] == str(lock.parent)
        assert lock.exists() == stays


def test_gpus_of_a_slot_are_among_those_visible_to_the_launcher(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    sweep = sweep_of(tmp_path, [job(0), job(1, env={"CUDA_VISIBLE_DEVICES": "6"})])
    seen = [
        next_attempt(sweep, one, [], Slot(1, RESOURCES, gpus=(1, 2)), LocalExecutor()).env
        for one in sweep.jobs()
    ]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in seen] == ["6,7", "6"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert names_of_gpus([1, 2]) == ["1", "2"]


def test_egl_numbers_gpus_of_the_machine_and_not_visible_ones(tmp_path, monkeypatch):
    about = replace(ABOUT, egl_device=True)
    sweep = sweep_of(tmp_path, [job(0)], about)
    places = sweep, sweep.jobs()[0], [], Slot(1, RESOURCES, gpus=(1,)), LocalExecutor()
    for visible, device in (("4,6", "6"), ("GPU-a,GPU-b", "1"), (None, "1")):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert next_attempt(*places).env["EGL_DEVICE_ID"] == device


def test_an_attempt_whose_record_was_removed_keeps_its_number(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    [one] = sweep.jobs()
    one.prepare(Attempt(2, python(""), begun=1.0, ended=2.0, exit_code=1))
    assert next_attempt(sweep, one, one.attempts(), Slot(0, RESOURCES), LocalExecutor()).number == 3


def test_utilization_counts_the_slots_of_a_larger_later_launcher(tmp_path):
    sweep = sweep_of(tmp_path, [job(i) for i in range(4)])  # planned for two slots
    for slot, one in enumerate(sweep.jobs()):
        one.prepare(Attempt(1, python(""), slot=slot, begun=0.0, ended=10.0, exit_code=0))
    assert read_sweep(tmp_path).utilization() == 1.0


def test_utilization_leaves_out_attempts_without_a_recorded_end(tmp_path):
    sweep = sweep_of(tmp_path, [job(0), job(1)])  # two slots
    one, other = sweep.jobs()
    one.prepare(Attempt(1, python(""), begun=100.0, pid=1, boot="another start"))
    one.prepare(Attempt(2, python(""), begun=110.0, ended=130.0, exit_code=0))
    other.prepare(Attempt(1, python(""), begun=110.0, ended=120.0, exit_code=0))
    view = read_sweep(tmp_path)
    assert view.utilization() == (20 + 10) / (2 * 20)
    assert [run.seconds for run in view.runs] == [20.0, 10.0]
