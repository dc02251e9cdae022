"""Executors: SLURM with submitit's local cluster, Ray with a cluster on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from rlpyt.sweeps.clusters import RayExecutor
from rlpyt.sweeps.directory import About
from rlpyt.sweeps.executors import ExecutorError, LocalExecutor, build_executor
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.slots import Slot, read_code, slots_of
from rlpyt.sweeps.start import launch, resume
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.resources import Resources
from tests.sweeps.launching import COUNTS, job, states, sweep_of, times_done, until

RESOURCES = Resources(n_cpu_core=2, set_affinity=False)
SHARE = Slot(0, Resources(run_slot=0), (0,))
LOCAL_SLURM = {"cluster": "local"}
UNTIL_GO = f"import os, time\nwhile not os.path.exists('{{sweep}}/go'): time.sleep(0.05)\n{COUNTS}"
LAUNCH = "import sys; from rlpyt.sweeps.start import resume; sys.exit(resume(sys.argv[1]))"


def cluster_sweep(path, jobs, where="slurm", **settings):
    about = About("cluster", RESOURCES, where=where, place=settings)
    return sweep_of(path, jobs, about)


def start_launcher(sweep):
    return subprocess.Popen([sys.executable, "-c", LAUNCH, str(sweep.path)], process_group=0)


@pytest.fixture
def slurm(monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setattr("rlpyt.sweeps.clusters.POLL_INTERVAL_S", 0.2)


def test_cluster_jobs_run_with_the_configured_number_in_parallel(tmp_path, slurm):
    sweep, said = cluster_sweep(tmp_path, [job(i) for i in range(3)], **LOCAL_SLURM), []
    assert resume(tmp_path, say=said.append) == 0
    assert times_done(sweep) == [1, 1, 1]
    attempts = [attempt for one in sweep.jobs() for attempt in one.attempts()]
    assert all(a.where == "slurm" and a.remote_id.isdigit() and a.cpus is None for a in attempts)
    assert {a.slot for a in attempts} == {0, 1}
    assert read_sweep(tmp_path).n_slots == 2


@pytest.mark.slow
def test_cluster_jobs_survive_their_launcher_and_the_next_adopts_them(tmp_path, slurm):
    sweep = cluster_sweep(tmp_path, [job(i, UNTIL_GO) for i in range(3)], **LOCAL_SLURM)
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["running", "running", "queued"])
    first.kill()
    first.wait()
    assert states(sweep).count("running") == 2
    second = start_launcher(sweep)
    until(lambda: sweep.launcher() == f"process {second.pid} on {os.uname().nodename}")
    (tmp_path / "go").touch()
    assert second.wait(60) == 0
    assert times_done(sweep) == [1, 1, 1]
    assert [len(one.attempts()) for one in sweep.jobs()] == [1, 1, 1]


SAVES = (
    "import os, signal, sys, time\n"
    "def save(*_):\n"
    "    os.makedirs('{run_dir}/checkpoint/checkpoint-1'); sys.exit(143)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "print('ready', flush=True); time.sleep(60)"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM])
def test_a_run_at_its_cluster_time_limit_saves_and_resumes(tmp_path, slurm, number):
    again = job(0, SAVES, retries=0, resume=job(0).command)
    sweep = cluster_sweep(tmp_path, [again], **LOCAL_SLURM)
    launcher = start_launcher(sweep)
    one = sweep.jobs()[0]
    until(lambda: one.last_lines() == ["ready"])
    [attempt] = one.attempts()
    # The cluster signals every process of the job: submitit's, the supervisor, the run.
    supervisor = psutil.Process(attempt.pid)
    for process in [*supervisor.children(), supervisor, supervisor.parent()]:
        process.send_signal(number)
        if number == signal.SIGTERM:
            break  # a run that hears it too ends by itself
    if number == signal.SIGTERM:
        supervisor.send_signal(number)
    assert launcher.wait(60) == 0
    first, second = one.attempts()
    assert first.outcome() == "interrupted by the cluster" and not first.failed
    assert second.exit_code == 0 and times_done(sweep) == [1]


def test_a_cluster_that_refuses_a_job_raises_an_executor_error(tmp_path, slurm, monkeypatch):
    import submitit

    def refuse(*_):
        raise submitit.core.utils.FailedJobError("sbatch: error: the controller does not answer")

    sweep = cluster_sweep(tmp_path, [job(0)])
    made = build_executor("slurm", SHARE, {"cluster": "local"})
    monkeypatch.setattr("submitit.AutoExecutor.submit", refuse)
    with pytest.raises(ExecutorError, match="controller does not answer"):
        made.start(sweep.jobs()[0].path, Attempt(1), SHARE)


@pytest.mark.parametrize(
    "name, settings, complaint",
    [
        ("moon", {}, "where='moon' .*local, slurm, ray"),
        ("local", {"partition": "x"}, "^place "),
        ("slurm", {"cluster": "local", "colour": "red"}, "SLURM: .*colour"),
    ],
)
def test_executors_refuse_unknown_settings(name, settings, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "slurm":
        pytest.importorskip("submitit")
    with pytest.raises(ValueError, match=complaint):
        build_executor(name, SHARE, settings)
    assert not [*tmp_path.iterdir()]  # submitit creates directories of its own


def test_an_executor_with_invalid_settings_creates_no_sweep(tmp_path, slurm):
    place = {"cluster": "local", "colour": "red"}
    with pytest.raises(ValueError, match="colour"):
        launch(tmp_path / "new", [job(0)], About("", Resources(), where="slurm", place=place))
    assert not (tmp_path / "new").exists()


def test_cluster_slots_may_exceed_the_hardware_of_the_launching_machine():
    machine = Resources(n_cpu_core=4096, n_gpu=8, gpu_per_run=4)
    first, second = slots_of(machine, "slurm")
    assert first == replace(second, number=0)
    assert (first.resources.to_code(), len(first.cpus), first.gpus) == (
        "0slt_4096cpu_8gpu_4gpr", 2048, (0, 1, 2, 3)
    )  # fmt: skip
    unpinned = Resources(n_cpu_core=8, cpu_per_run=8, set_affinity=False)
    assert len(slots_of(unpinned, "ray")[0].cpus) == 8  # requested, though nothing is pinned
    with pytest.raises(ValueError, match="4096 cores"):
        slots_of(Resources(n_cpu_core=4096, cpu_per_run=4096))


@pytest.mark.parametrize(
    ("code", "cpus"),
    [
        ("2cpu_1gpu", (0, 1)),
        ("2cpu_1gpu_0hto", (0, 1)),
        ("2cpu_1gpu_2hto", (0, 1, 2, 3)),
        ("2cpu_1gpu_4hto", (0, 1, 4, 5)),
    ],
)
def test_jobs_of_clusters_request_second_threads_only_if_the_code_has_them(code, cpus):
    [slot] = slots_of(read_code(code), "slurm")
    assert slot.cpus == cpus
    # Scripts receive a code with the same meaning, and a run slot.
    assert affinity_from_code(slot.resources.to_code()) == affinity_from_code(f"0slt_{code}")


def test_a_stopped_job_in_the_cluster_queue_is_cancelled(tmp_path, slurm):
    sweep = cluster_sweep(tmp_path, [job(0)], **LOCAL_SLURM)
    [one] = sweep.jobs()
    one.prepare(Attempt(1, one.job.command, where="slurm"))
    one.note_remote(1, "7")  # it waits
    sweep.stop()  # nobody launches, so the cluster would begin it some day
    assert one.attempts()[0].told == "stopped"
    handle = build_executor("slurm", SHARE, {"cluster": "local"}).start(
        one.path, one.attempts()[0], SHARE
    )
    handle.cancel()
    until(handle.has_ended)
    assert times_done(sweep) == [0] and one.state() == "queued"
    assert resume(tmp_path, say=lambda line: None) == 0
    assert one.attempts()[-1].told == "" and times_done(sweep) == [1]


def test_a_launcher_survives_a_full_output_device(tmp_path, monkeypatch):
    sweep = cluster_sweep(tmp_path, [job(0)], "local")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert resume(tmp_path) == 0
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    assert times_done(sweep) == [1]


def test_an_attempt_known_only_by_its_lock_is_adopted(tmp_path, slurm):
    sweep = sweep_of(tmp_path, [job(0, UNTIL_GO)])
    one = sweep.jobs()[0]
    code = one.job.command[-1].replace("{sweep}", str(tmp_path))
    command = (*one.job.command[:-1], code.replace("{run_dir}", f"{tmp_path}/{one.job.run_dir}"))
    one.prepare(Attempt(1, command))
    LocalExecutor().start(one.path, one.attempts()[0], SHARE)
    until(lambda: states(sweep) == ["running"])
    handle = build_executor("slurm", SHARE, {"cluster": "local"}).reattach(
        one.path, one.attempts()[0]
    )
    assert handle is not None and not handle.has_ended()
    (tmp_path / "go").touch()
    until(handle.has_ended)
    assert times_done(sweep) == [1]


@pytest.mark.slow
def test_ray_tasks_end_with_their_launcher_and_start_again_with_the_next(tmp_path):
    pytest.importorskip("ray")
    jobs = [job(0), job(1, UNTIL_GO, retries=0), job(2, UNTIL_GO, retries=0)]
    sweep = cluster_sweep(tmp_path, jobs, "ray", num_cpus=2)
    first = start_launcher(sweep)
    until(lambda: states(sweep) == ["done", "running", "running"], 120)
    first.kill()
    first.wait()
    second = start_launcher(sweep)
    until(lambda: sweep.launcher() == f"process {second.pid} on {os.uname().nodename}", 120)
    (tmp_path / "go").touch()
    assert second.wait(120) == 0
    assert times_done(sweep) == [1, 1, 1]
    attempts = [attempt for one in sweep.jobs() for attempt in one.attempts()]
    assert len(attempts) == 5 and not any(attempt.failed for attempt in attempts)
    assert sum("its launcher had ended" in attempt.outcome() for attempt in attempts) == 2
    assert all(attempt.where == "ray" for attempt in attempts)


@pytest.mark.slow
def test_a_ray_task_on_a_machine_that_is_preempted_saves_and_resumes(tmp_path):
    pytest.importorskip("ray")
    again = job(0, SAVES, retries=0, resume=job(0).command)
    sweep = cluster_sweep(tmp_path, [again], "ray", num_cpus=1)
    launcher = start_launcher(sweep)
    one = sweep.jobs()[0]
    until(lambda: one.last_lines() == ["ready"])
    psutil.Process(one.attempts()[0].pid).send_signal(signal.SIGTERM)  # as to all processes
    assert launcher.wait(60) == 0
    first, second = one.attempts()
    assert first.outcome() == "interrupted by the cluster" and not first.failed
    assert second.exit_code == 0 and times_done(sweep) == [1]


def test_a_program_keeps_its_signal_handlers_when_it_connects_to_ray(monkeypatch):
    """Ray's own handler exits at SIGTERM without the program's."""
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "init", lambda **_: signal.signal(signal.SIGTERM, lambda *_: None))
    before = signal.getsignal(signal.SIGTERM)
    try:
        RayExecutor(Slot(0, Resources(), (0,)), {})
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)
