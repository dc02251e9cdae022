"""A failing environment ends in one named error, soon, with nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from rlpyt.envs.base import build_env
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.runners.hooks import StopSignals
from rlpyt.utils.seed import env_seed
from tests.faulty import FaultError
from tests.parts import EchoAgent
from tests.samplers.trouble import (
    A_VICTIM,
    ALL,
    PARALLEL,
    SERVED,
    B,
    FaultyEnv,
    SerialSampler,
    T,
    faulty,
    run_into,
    turns,
)

pytestmark = pytest.mark.usefixtures("nothing_left")

EXCEPTIONS = {
    "unpicklable": "UnpicklableError: told to fail in step, call 13",
    "unicode": "UnicodeDecodeError: 'utf-8' codec .* told to fail",
    "recursive": r"RecursiveError: \(.*RecursionError\)",
    "mute": r"MuteError: \(.*SystemExit\)",
    "huge": r"FaultError: told to fail.*\(50000029 characters\)",
    "chained": "FaultError: told to fail second",
    "eof": "EOFError: told to fail",
    "broken pipe": "BrokenPipeError: told to fail",
    "interrupt": "KeyboardInterrupt: told to fail",
    "generator exit": "GeneratorExit: told to fail",
    "exit": "SystemExit: 3",
}
DEATHS = {
    "kill": "SIGKILL .*memory",
    "vanish": "code 3",
    "segfault": "SIGSEGV",
    "abort": "SIGABRT",
    "bus error": "SIGBUS",
}


def victim(tmp_path, number=A_VICTIM):
    return dict(victim=number, tally=str(tmp_path / "tally"))


def check_place(error, at=13, iterations_before=0):
    """The error tells where the fault was, in its attributes and in its message."""
    itr, step = divmod(at - 1, T)
    assert error.worker in (0, 1) and error.env_index in range(B)
    assert (error.itr, error.step) == (itr + iterations_before, step)
    assert error.seed == env_seed(1, error.env_index)
    said = str(error)
    assert f"worker {error.worker} (pid {error.pid} on {socket.gethostname()})" in said
    assert f"while stepping environment {error.env_index}, FaultyEnv(fault='" in said
    assert f"seed {error.seed}; iteration {error.itr}, step {error.step} of the batch" in said
    assert "; last action " in said


@pytest.mark.parametrize("SamplerCls", PARALLEL)
def test_a_failing_step_is_told_in_full(SamplerCls, tmp_path):
    with pytest.raises(WorkerError, match="FaultError: told to fail in step") as caught:
        run_into(SamplerCls, "raise", at=13, **victim(tmp_path))
    check_place(caught.value)
    assert "faulty.py" in caught.value.traceback and caught.value.traceback in str(caught.value)


@pytest.mark.parametrize("fault,SamplerCls", turns(EXCEPTIONS, PARALLEL))
def test_whatever_is_raised_arrives_as_text(fault, SamplerCls, tmp_path):
    with pytest.raises(WorkerError, match=EXCEPTIONS[fault]) as caught:
        run_into(SamplerCls, fault, at=13, **victim(tmp_path))
    check_place(caught.value)
    assert "Traceback" in caught.value.traceback and len(str(caught.value)) < 30_000
    if fault == "chained":
        assert "told to fail first" in caught.value.traceback


@pytest.mark.parametrize("fault,SamplerCls", [*turns(DEATHS, PARALLEL), ("kill", SERVED[0])])
def test_a_dying_worker_is_named_with_its_signal_and_stacks(fault, SamplerCls, tmp_path):
    with pytest.raises(WorkerError, match=DEATHS[fault]) as caught:
        run_into(SamplerCls, fault, at=8, **victim(tmp_path))
    check_place(caught.value, at=8)
    if fault in ("segfault", "abort", "bus error"):
        assert "faulty.py" in caught.value.stacks and caught.value.stacks in str(caught.value)
        assert "multiprocessing" not in caught.value.stacks


STILL = ["hang", "spin", "freeze", "stop"]


@pytest.mark.filterwarnings("ignore:.*has made no progress")
@pytest.mark.parametrize("fault,SamplerCls", [*turns(STILL, PARALLEL), ("freeze", SERVED[0])])
def test_a_standstill_is_named_with_the_workers_stack(fault, SamplerCls, tmp_path):
    with pytest.raises(WorkerTimeout, match=r" 2 s \(env_timeout\)") as caught:
        run_into(SamplerCls, fault, at=7, sampler=dict(env_timeout=2.0), **victim(tmp_path))
    check_place(caught.value, at=7)
    if fault != "stop":  # who is stopped says nothing
        assert f"in _{fault}" in caught.value.stacks and "faulty.py" in caught.value.stacks


@pytest.mark.filterwarnings("ignore:.*has made no progress")
@pytest.mark.parametrize(  # it waits for two time limits
    "SamplerCls", [PARALLEL[0], pytest.param(PARALLEL[1], marks=pytest.mark.slow)]
)
def test_resets_have_a_limit_of_their_own(SamplerCls, tmp_path):
    limits = dict(env_timeout=2.0, reset_timeout=4.0)
    (tmp_path / "hanging").mkdir()
    with pytest.raises(WorkerTimeout, match=r" 4 s \(reset_timeout\)") as caught:
        run_into(SamplerCls, "hang", "reset", at=3, sampler=limits, **victim(tmp_path / "hanging"))
    assert "while resetting environment" in str(caught.value)
    sampler = faulty(
        SamplerCls, "slow", "reset", at=3, hang_s=2.5, sampler=limits, **victim(tmp_path)
    )
    sampler.obtain_samples(0)
    sampler.obtain_samples(1)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", PARALLEL[:2])
def test_a_slow_step_is_warned_of_once(SamplerCls, tmp_path):
    with pytest.warns(UserWarning, match="progress .*env_timeout=2.5") as caught:
        run_into(
            SamplerCls, "slow", at=7, hang_s=2.2, sampler=dict(env_timeout=2.5), **victim(tmp_path)
        )
    said = [str(w.message) for w in caught if "no progress" in str(w.message)]
    assert len(said) == 1 and "while stepping environment" in said[0]


@pytest.mark.parametrize(
    "fault,where,SamplerCls",
    [
        ("raise", "init", PARALLEL[0]),
        ("kill", "init", PARALLEL[1]),
        ("raise", "reset", PARALLEL[2]),
        ("segfault", "reset", PARALLEL[3]),
    ],
)
def test_failure_at_start(fault, where, SamplerCls, tmp_path):
    message = {"raise": "FaultError", "kill": "SIGKILL", "segfault": "SIGSEGV"}[fault]
    with pytest.raises(WorkerError, match=message) as caught:
        run_into(SamplerCls, fault, where, **victim(tmp_path))
    doing = {"init": "building", "reset": "resetting"}[where]
    assert f"while {doing} environment {caught.value.env_index}, FaultyEnv" in str(caught.value)
    assert "before the first iteration" in str(caught.value)


@pytest.mark.parametrize("fault,how", [("raise", "FaultError"), ("segfault", "SIGSEGV")])
def test_failure_of_the_first_environment_ever_made(fault, how, tmp_path):
    with pytest.raises(WorkerError, match=rf"trying out FaultyEnv\(.* \(pid \d+ on .*{how}"):
        run_into(PARALLEL[0], fault, "init", **victim(tmp_path, 0))


def test_environment_that_hangs_at_once_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(PARALLEL[0], "start_timeout_s", 1.0)
    with pytest.raises(WorkerTimeout, match=r" 1 s \(timeout_s\)") as caught:
        run_into(PARALLEL[0], "freeze", "init", **victim(tmp_path, 0))
    assert "in _freeze" in caught.value.stacks


@pytest.mark.filterwarnings("ignore:.*has made no progress")
def test_worker_that_hangs_at_start_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(PARALLEL[1], "start_timeout_s", 2.0)
    with pytest.raises(WorkerTimeout, match=r" 2 s \(start_timeout_s\)"):
        run_into(PARALLEL[1], "hang", "init", **victim(tmp_path))


@pytest.mark.parametrize("fault,SamplerCls", [*turns(["raise"] * 4, PARALLEL), ("kill", SERVED[0])])
def test_faults_of_evaluation(fault, SamplerCls, tmp_path):
    own = dict(
        eval_n_envs=2,
        eval_max_steps=2 * 20,
        eval_env_kwargs=dict(fault=fault, at=8, victim=0, tally=str(tmp_path / "tally")),
    )
    with pytest.raises(WorkerError, match="evaluation environment") as caught:
        run_into(SamplerCls, "none", evaluate=True, sampler=own)
    error = caught.value
    assert error.evaluation and error.env_index in (0, 1)
    assert (error.itr, error.step, error.seed) == (0, 7, env_seed(1, error.env_index, "eval env"))
    assert "iteration 0, step 7 of the evaluation; last action" in str(error)


class FailingAgent(EchoAgent):
    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def step(self, *inputs):
        self.calls += 1
        if self.calls == self.at:
            raise ZeroDivisionError("the agent is lost")
        return super().step(*inputs)


@pytest.mark.parametrize("SamplerCls", SERVED)
def test_an_agent_failing_in_the_master_leaves_nothing(SamplerCls, tmp_path):
    closed = tmp_path / "closed"
    sampler = faulty(SamplerCls, "log", "close", agent=FailingAgent(9), tally=str(closed))
    with pytest.raises(ZeroDivisionError, match="the agent is lost"):
        for itr in range(5):
            sampler.obtain_samples(itr)
    assert sampler.workers == []
    assert closed.read_text().count("closed") == B + 1  # with the one tried out
    sampler.shutdown()


def test_an_agent_failing_in_a_worker_is_told_as_such(tmp_path):
    with pytest.raises(WorkerError, match="ZeroDivisionError: ") as caught:
        run_into(PARALLEL[0], "none", agent=FailingAgent(9))
    assert "while choosing actions for environments FaultyEnv" in str(caught.value)
    assert caught.value.env_index == -1


@pytest.mark.parametrize(
    "fault,method,SamplerCls",
    [
        ("raise", "fork", PARALLEL[0]),
        ("kill", "fork", PARALLEL[1]),
        pytest.param("segfault", "spawn", PARALLEL[2], marks=pytest.mark.slow),
        pytest.param("raise", "spawn", PARALLEL[0], marks=pytest.mark.slow),
    ],
)
def test_faults_under_other_start_methods(fault, method, SamplerCls, tmp_path):
    message = {"raise": "FaultError", "kill": "SIGKILL", "segfault": "SIGSEGV"}[fault]
    with pytest.raises(WorkerError, match=message) as caught:
        run_into(SamplerCls, fault, at=3, method=method, **victim(tmp_path))
    check_place(caught.value, at=3)


@pytest.mark.parametrize("SamplerCls", PARALLEL)
def test_a_used_up_sampler_says_so(SamplerCls):
    sampler = faulty(SamplerCls, "none")
    os.kill(sampler.workers[1].pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="worker 1 .* SIGKILL"):
        sampler.obtain_samples(0)
    with pytest.raises(WorkerError, match="not running: worker 1 .* SIGKILL"):
        sampler.obtain_samples(1)
    sampler.shutdown()


def programs_with(seconds):
    lines = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if line and str(seconds) in line]


@pytest.mark.parametrize("fault", ["thread", "program", "session"])
def test_what_environments_leave_behind_is_ended(fault, tmp_path):
    seconds = 1000 + time.time_ns() % 10**9 + 0.5  # for `sleep`, as no other program has
    run_into(PARALLEL[0], fault, "init", hang_s=seconds)
    assert programs_with(seconds) == []


def test_orphans_of_a_killed_worker_are_ended_and_nothing_else():
    seconds = 1000 + time.time_ns() % 10**9 + 0.5
    command = ["sleep", str(seconds + 1)]
    with subprocess.Popen(command, start_new_session=True) as own:  # the user's, not a worker's
        sampler = faulty(PARALLEL[0], "session", "init", hang_s=seconds)
        assert programs_with(seconds)
        os.kill(sampler.workers[0].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="SIGKILL"):
            sampler.obtain_samples(0)
        assert programs_with(seconds) == [] and programs_with(seconds + 1) == [command]
        own.kill()


def test_programs_of_environments_hear_signals_though_workers_do_not(tmp_path):
    """A simulator that is asked to terminate does, and gets Ctrl-C's default."""
    sampler = faulty(PARALLEL[0], "program", "init", hang_s=987.0)
    programs = [p for w in sampler.workers for p in psutil.Process(w.pid).children()]
    assert len(programs) == B
    programs[0].terminate()
    programs[1].send_signal(signal.SIGINT)
    deadline = time.monotonic() + 10
    while {p.status() for p in programs[:2]} != {psutil.STATUS_ZOMBIE}:  # nobody waits for them
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for worker in sampler.workers:
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGINT)
    sampler.obtain_samples(0)
    sampler.shutdown()


def test_serial_failure_keeps_its_type_and_says_where():
    sampler = faulty(SerialSampler, "raise", at=7)
    sampler.obtain_samples(0)
    with pytest.raises(FaultError, match="told to fail") as caught:
        sampler.obtain_samples(1)
    (note,) = caught.value.__notes__
    assert "while stepping environment 0, FaultyEnv(fault='raise'" in note
    assert f"seed {env_seed(1, 0)}; iteration 1, step 1 of the batch; last action" in note
    sampler.shutdown()


@pytest.mark.parametrize("fault,name", [("exit", "SystemExit: 3"), ("generator exit", "Generator")])
def test_a_serial_environment_cannot_end_the_program_unnoticed(fault, name):
    sampler = faulty(SerialSampler, fault, at=7)
    sampler.obtain_samples(0)
    with pytest.raises(WorkerError, match=f"{name}.*, while stepping environment 0"):
        sampler.obtain_samples(1)
    sampler.shutdown()


class ExitingEnv(CountEnv):
    """Ends the program, at a place."""

    def __init__(self, place):
        super().__init__()
        self.place = place
        if place == "__init__":
            sys.exit(0)

    def reset(self):
        if self.place == "reset":
            sys.exit(0)
        return super().reset()


@pytest.mark.parametrize("place", ["__init__", "reset"])
def test_nor_can_it_while_it_is_built_and_tried_out(place):
    sampler = SerialSampler(ExitingEnv, dict(place=place), batch_T=2, batch_B=1)
    with pytest.raises(WorkerError, match="ing .*ExitingEnv.* raised SystemExit: 0"):
        sampler.initialize(EchoAgent(), affinity={}, seed=1)


def test_a_signal_ends_the_program_while_an_environment_is_built():
    def handler(*_):
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises(SystemExit):
            build_env(lambda: os.kill(os.getpid(), signal.SIGTERM), {})
    finally:
        signal.signal(signal.SIGTERM, before)


class Leaving(BaseException):
    """An exception that `except Exception` does not catch."""


class LeavingEnv(CountEnv):
    """Raises one in its fourth step."""

    n_steps = 0

    def step(self, action):
        self.n_steps += 1
        if self.n_steps == 4:
            raise Leaving("gone")
        return super().step(action)


def test_any_exception_of_a_serial_environment_is_named_with_its_place():
    sampler = SerialSampler(LeavingEnv, {}, batch_T=6, batch_B=1, max_decorrelation_steps=0)
    sampler.initialize(EchoAgent(), seed=0)
    with pytest.raises(WorkerError, match="Leaving: gone, .*LeavingEnv"):
        sampler.obtain_samples(0)
    sampler.shutdown()


def test_an_interrupt_raised_by_a_serial_environment_is_not_the_users():
    with StopSignals():  # as in training
        sampler = faulty(SerialSampler, "interrupt", at=7)
        sampler.obtain_samples(0)
        with pytest.raises(WorkerError, match="KeyboardInterrupt: .*stepping"):
            sampler.obtain_samples(1)
        sampler.shutdown()


def test_ctrl_c_in_a_serial_environment_is_the_users(interruptible):
    sampler = faulty(SerialSampler, "slow", at=2, hang_s=5.0)
    threading.Timer(
        0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    ).start()
    with pytest.raises(KeyboardInterrupt):
        sampler.obtain_samples(0)
    sampler.shutdown()


def test_a_signal_handler_may_end_the_program_from_within_a_serial_environment():
    def leave(number, frame):
        raise SystemExit(7)

    sampler = faulty(SerialSampler, "slow", at=2, hang_s=5.0)
    previous = signal.signal(signal.SIGALRM, leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(SystemExit) as caught:
            sampler.obtain_samples(0)
        assert caught.value.code == 7
    finally:
        signal.signal(signal.SIGALRM, previous)
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", ALL)
def test_shutdown_can_come_often_early_and_without_a_start(SamplerCls):
    never = SamplerCls(EnvCls=FaultyEnv, env_kwargs=dict(fault="none"), batch_T=T, batch_B=B)
    never.shutdown()
    never.shutdown()
    sampler = faulty(SamplerCls, "none")
    sampler.obtain_samples(0)
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=2)  # without a shutdown
    sampler.obtain_samples(0)
    sampler.shutdown()
    sampler.shutdown()
    forgotten = faulty(SamplerCls, "none")
    forgotten.obtain_samples(0)
    del forgotten


@pytest.mark.parametrize("fault", ["raise", "exit", "generator exit", "hang", "kill"])
def test_failures_to_close_concern_nobody(fault, tmp_path):
    run_into(PARALLEL[0], fault, "close", n_batches=1, **victim(tmp_path))
    if fault in ("raise", "exit", "generator exit"):
        run_into(SerialSampler, fault, "close", n_batches=1, **victim(tmp_path))


@pytest.mark.parametrize("fault", ["raise", "exit", "kill"])
def test_failures_to_close_the_environment_tried_out_concern_nobody(fault):
    run_into(PARALLEL[0], fault, "close", n_batches=1)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(10))
@pytest.mark.parametrize("SamplerCls", PARALLEL)
def test_workers_killed_at_any_time_are_named(SamplerCls, repetition):
    import random
    import threading

    sampler = faulty(SamplerCls, "none")
    chosen = random.randrange(2)
    timer = threading.Timer(
        random.uniform(0, 1), os.kill, (sampler.workers[chosen].pid, signal.SIGKILL)
    )
    timer.start()
    with pytest.raises(WorkerError, match=f"worker {chosen} .* SIGKILL"):
        for itr in range(10**9):
            sampler.obtain_samples(itr)
    sampler.shutdown()
