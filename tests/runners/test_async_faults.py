"""Whatever fails in an asynchronous run is named within seconds, and what was learnt is kept."""

import csv
import multiprocessing
import os
import re
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch

from rlpyt.errors import NonFiniteError, WorkerError, WorkerTimeout
from rlpyt.processes.call import run_in_child
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer
from rlpyt.runners import failure
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import RunDirectoryError, run_context
from rlpyt.utils.synchronize import name_semaphores, remove_semaphores
from tests.runners.async_trouble import (
    DQN,
    ONE,
    TWO,
    AsyncRlEval,
    B,
    DiesTaking,
    DiesWaiting,
    DiesWriting,
    Disaster,
    FirstRankHangs,
    LostAgent,
    Program,
    SlowDQN,
    T,
    check_resumes,
    copier,
    host,
    run_into,
    runner_for,
    send,
    worker,
)

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.filterwarnings("ignore:.*has made no progress"),
]

HOST = r"^sampler process 0 \(pid \d+ on .*\) was killed by SIGKILL.*; iteration \d+"
SECOND = r"^sampler process 1 \(pid \d+ on .*\) was killed by SIGKILL"
WORKER = r"^worker \d \(pid \d+ on .*\) was killed by SIGKILL.*a worker of sampler process 0 \(pid"
COPIER = r"^replay writer 0 \(pid \d+ on .*\) was killed by SIGKILL.*AsyncUniformReplayBuffer"


def second_host(runner):
    return host(runner, 1)


@pytest.mark.parametrize(
    "Sampler, name, whom, match, affinity",
    [
        (AsyncSerialSampler, "dqn", host, HOST, ONE),
        (AsyncSerialSampler, "vtrace", host, HOST, ONE),
        (AsyncSerialSampler, "dqn", copier, COPIER, ONE),
        (AsyncCpuSampler, "dqn", worker, WORKER, ONE),
        (AsyncSerialSampler, "vtrace", second_host, SECOND, TWO),
        pytest.param(AsyncGpuSampler, "vtrace", second_host, SECOND, TWO, marks=pytest.mark.slow),
    ],
)
def test_who_is_killed_is_named_and_the_run_can_go_on(
    Sampler, name, whom, match, affinity, tmp_path
):
    kwargs = dict(Sampler=Sampler, name=name, affinity=affinity)
    disaster = Disaster(12, send(signal.SIGKILL, whom))
    error, runner = run_into(WorkerError, match, tmp_path, disaster, **kwargs)
    assert f"Checkpoint after iteration {runner.trained_itr} in " in error.__notes__[-1]
    saved = check_resumes(tmp_path, AsyncSerialSampler, name)
    assert saved["itr"] == runner.trained_itr >= 12
    if name == "dqn" and whom is not copier:
        assert saved["algo"]["replay"] is not None


@pytest.mark.parametrize("Replay, kept", [(DiesWriting, False), (DiesWaiting, True)])
def test_a_replay_that_may_be_torn_is_not_saved(Replay, kept, tmp_path):
    """The optimizer does not wait for ever for a lock whose holder is dead."""
    settings = dict(ReplayBufferCls=Replay)
    place = f"while storing the batch of iteration 5 in {Replay.__name__}"
    match = rf"^replay writer 0 .*SIGKILL.* {place}"
    _, runner = run_into(WorkerError, match, tmp_path, settings=settings)
    said = "died while writing to the replay" in (tmp_path / "debug.log").read_text()
    assert said is not kept
    saved = check_resumes(tmp_path, more=12)
    assert (saved["algo"]["replay"] is not None) is kept
    learnt, agent = saved["agent"]["model"], runner.agent.state_dict()["model"]
    assert all(torch.equal(learnt[k], agent[k]) for k in agent)


@pytest.mark.slow
@pytest.mark.parametrize("whom, who", [(host, "sampler process 0"), (copier, "replay writer 0")])
def test_who_is_stopped_is_killed_after_its_limit(whom, who, tmp_path):
    disaster = Disaster(8, send(signal.SIGSTOP, whom))
    match = rf"^{who} .* 1 s \(env_timeout\)"
    run_into(WorkerTimeout, match, tmp_path, disaster, sampler=dict(env_timeout=1.0))
    assert load_checkpoint(tmp_path / "checkpoint").state["itr"] >= 8


def failing(tmp_path, fault, where="step", at=33, victim=2):
    """Arguments of environments of which one fails, neither of those that are tried out."""
    tally = str(tmp_path / "tally")
    return dict(fault=fault, where=where, at=at, victim=victim, tally=tally)


PLACE = r"while stepping environment 1, FaultyEnv\(.*seed \d+; iteration 6, step 2 of the batch"


@pytest.mark.parametrize(
    "Sampler, fault, said",
    [
        (AsyncSerialSampler, "raise", rf"failed with FaultError: told to fail.*Traceback.*{PLACE}"),
        (AsyncSerialSampler, "exit", rf"failed with .*SystemExit: 3.*{PLACE}"),
        (AsyncSerialSampler, "segfault", rf"killed by SIGSEGV, {PLACE}; last action \d.*faulty.py"),
        (AsyncSerialSampler, "hang", rf"no progress for 1 s \(env_timeout\).*{PLACE}.*in _hang"),
        (AsyncSerialSampler, "freeze", rf"no progress for 1 s \(env_timeout\).*{PLACE}.*_freeze"),
        (AsyncCpuSampler, "raise", r"failed with FaultError.*; iteration 6, step 2.*Traceback"),
        pytest.param(
            AsyncGpuSampler, "stop", r"no progress for 1 s \(env_timeout\).*; iteration 6, step 2",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_failing_environments_are_named_wherever_they_are(Sampler, fault, said, tmp_path):
    who = "sampler process 0" if Sampler is AsyncSerialSampler else r"worker \d"
    cls = WorkerTimeout if fault in ("hang", "freeze", "stop") else WorkerError
    # "raise" fails while the main process waits to take a checkpoint, which it does all the time.
    every = dict(checkpoint_interval_steps=T * B) if fault == "raise" else {}
    error, _ = run_into(
        cls, rf"^{who} \(pid \d+ on .*\) .*{said}", tmp_path, **every,
        Sampler=Sampler, env=failing(tmp_path, fault), sampler=dict(env_timeout=1.0),
    )  # fmt: skip
    assert (error.itr, error.step) == (6, 2)
    check_resumes(tmp_path)


@pytest.mark.slow
def test_an_agent_that_fails_in_an_action_server_is_told_in_full(tmp_path):
    match = (
        r"^sampler process 0 .*ZeroDivisionError: the agent is lost.*Traceback.*async_trouble.py"
    )
    run_into(WorkerError, match, tmp_path, Sampler=AsyncAlternatingSampler, Agent=LostAgent)


def test_the_optimizers_own_error_comes_through_and_an_older_checkpoint_stays(tmp_path):
    def spoil(runner):
        with torch.no_grad():
            next(iter(runner.agent.parameters())).fill_(float("nan"))

    disaster = Disaster(12, spoil)
    kwargs = dict(checkpoint_interval_steps=5 * T * B, max_lead=1)  # an update after every batch
    run_into(NonFiniteError, "nan", tmp_path, disaster, **kwargs)
    assert check_resumes(tmp_path)["itr"] in (4, 9)


def test_a_failed_update_is_saved_once_the_sampler_processes_have_no_task(tmp_path):
    calls, overlapping = threading.Lock(), []

    def spoil(runner):
        call = runner.sampler._call

        def slow_call(method, *args):
            if not calls.acquire(blocking=False):
                overlapping.append(method)
                raise AssertionError(method)  # the replies would be mixed up
            try:
                time.sleep(0.3)
                return call(method, *args)
            finally:
                calls.release()

        runner.sampler._call = slow_call
        with torch.no_grad():
            next(iter(runner.agent.parameters())).fill_(float("nan"))

    error, _ = run_into(NonFiniteError, "rlpyt replay", tmp_path, Disaster(12, spoil))
    assert not overlapping
    assert failure.load(tmp_path / "failure")["inputs"] is not None, error.__notes__


@pytest.mark.slow
@pytest.mark.parametrize("fault, said", [("raise", "failed with FaultError"), ("kill", "SIGKILL")])
def test_an_environment_that_cannot_be_built_is_named(fault, said, tmp_path):
    for victim, who in ((0, "trying out"), (3, r"sampler process \d")):
        folder = tmp_path / str(victim)
        folder.mkdir()
        env = failing(folder, fault, "init", victim=victim)
        run_into(WorkerError, f"^{who} .*{said}", folder, env=env, affinity=TWO)
        assert not (folder / "checkpoint").exists()


@pytest.mark.slow
def test_those_who_were_starting_leave_nothing_if_another_cannot_start(tmp_path):
    """Neither a process nor a semaphore of an action server."""
    env = failing(tmp_path, "raise", "init", victim=1)
    run_into(WorkerError, "FaultError", tmp_path, Sampler=AsyncGpuSampler, env=env, affinity=TWO)


def test_semaphores_of_the_killed_can_be_removed():
    prefix = f"/mp{os.getpid()}"
    with pytest.raises(WorkerError, match="SIGKILL"):
        run_in_child(make_semaphores_and_die, prefix)
    assert list(Path("/dev/shm").glob(f"sem{prefix.replace('/', '.')}-*"))
    remove_semaphores(prefix)
    assert not list(Path("/dev/shm").glob(f"sem{prefix.replace('/', '.')}-*"))


def make_semaphores_and_die(prefix):
    name_semaphores(prefix)
    kept = [multiprocessing.get_context("spawn").Lock() for _ in range(3)]
    os.kill(os.getpid(), signal.SIGKILL)
    return kept


@pytest.mark.slow
def test_a_replay_class_of_the_users_script_reaches_the_copier():
    class Own(AsyncUniformReplayBuffer):
        pass

    runner = runner_for(n_itr=6, settings=dict(ReplayBufferCls=Own))
    runner.train()
    replay = runner.algo.replay_buffer
    assert type(replay) is Own and replay.ring.written == 6 * T


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_under_other_start_methods_all_goes_well_and_ends_well(method, tmp_path, monkeypatch):
    monkeypatch.setenv("RLPYT_START_METHOD", method)
    runner_for(AsyncGpuSampler, n_itr=6).train()
    disaster = Disaster(12, send(signal.SIGKILL, host))
    run_into(WorkerError, HOST, tmp_path, disaster, Sampler=AsyncGpuSampler)


@pytest.mark.slow
def test_death_in_an_evaluation_is_named_and_the_evaluation_is_made_up_for(tmp_path):
    victim = 1 + 4 + 1  # the second of those for evaluation
    env = failing(tmp_path, "kill", at=300, victim=victim)
    match = r"^sampler process 0 .*SIGKILL.*while stepping evaluation environment 1, .* evaluation"
    every = dict(Runner=AsyncRlEval, log_interval_steps=10 * T * B)
    run_into(WorkerError, match, tmp_path, env=env, **every)
    saved = check_resumes(tmp_path, **every)
    assert saved["owes_evaluation"]


@pytest.mark.parametrize("whom, said", [(host, HOST.partition(",")[0]), (copier, "")])
def test_death_in_a_checkpoint_leaves_a_good_one(whom, said, tmp_path):
    class Struck(AsyncRl):
        def whole_state(self, itr):
            if itr == 9 and self.saved_itr < 9 and self.sampler.processes:
                os.kill(whom(self), signal.SIGKILL)
            return super().whole_state(itr)

    run_into(
        WorkerError, said or COPIER, tmp_path, Runner=Struck,
        checkpoint_interval_steps=5 * T * B,
    )  # fmt: skip
    assert check_resumes(tmp_path)["itr"] >= 9


@pytest.mark.slow
def test_parameters_can_be_sent_though_a_dead_process_keeps_their_lock(tmp_path):
    run_into(WorkerError, HOST, tmp_path, Agent=DiesTaking, max_lead=1)
    assert load_checkpoint(tmp_path / "checkpoint").state["itr"] >= 7


@pytest.mark.parametrize(
    "number, code",
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_to_the_group_ends_the_run_with_a_checkpoint(number, code, tmp_path):
    Sampler = AsyncSerialSampler if number == signal.SIGINT else AsyncCpuSampler
    program = Program(tmp_path, Sampler=Sampler)
    program.wait_for("learning")
    program.strike(number)
    out, err = program.end()
    assert program.returncode == code, (out, err)
    assert out.count("Stopped by signal after iteration") == 1 and "checkpoint saved in" in out
    assert "Traceback" not in err and "leaked" not in err
    assert check_resumes(tmp_path)["itr"] >= 5


@pytest.mark.slow
def test_a_signal_ends_an_evaluation_early_and_the_next_run_makes_up_for_it(tmp_path):
    slow = dict(fault="hang", at=2050, hang_s=0.02)  # the second evaluation takes a minute
    every = dict(Runner=AsyncRlEval, log_interval_steps=8 * T * B)
    program = Program(tmp_path, sampler=dict(eval_max_steps=4000, eval_env_kwargs=slow), **every)
    program.wait_for("evaluating")
    program.strike(signal.SIGTERM)
    out, err = program.end()
    assert program.returncode == 143, (out, err)
    assert check_resumes(tmp_path, **every)["owes_evaluation"]


class StruckAtFive(AsyncRlEval):
    """Is struck by a signal while the evaluation of the iteration before has no row yet."""

    def run_iteration(self, itr):
        super().run_iteration(itr)
        if itr == 5 and self.start_itr == 0:
            self._signals.received = signal.SIGTERM


def test_rows_of_all_evaluations_that_a_signal_interrupted_are_written_later(tmp_path):
    every = dict(Runner=StruckAtFive, log_interval_steps=T * B, sampler=dict(eval_max_steps=40))
    with pytest.raises(SystemExit), run_context(tmp_path, 0, "run"):
        runner_for(n_itr=50, **every).train()
    assert check_resumes(tmp_path, **every)["owes_evaluation"] == 2  # of iterations 4 and 5
    with open(tmp_path / "progress.csv") as file:
        rows = [int(row["Diagnostics/SamplerIteration"]) for row in csv.DictReader(file)]
    assert len(rows) == 1 + rows[-1] + 1  # before training, and one for each iteration


@pytest.mark.slow
def test_a_second_signal_forces_the_end(tmp_path):
    program = Program(tmp_path, env=failing(tmp_path, "hang", at=1))
    program.wait_for("started")
    time.sleep(1.0)
    program.strike(signal.SIGINT)
    time.sleep(0.5)
    program.strike(signal.SIGINT)
    out, err = program.end()
    assert program.returncode == -signal.SIGINT and "KeyboardInterrupt" in err, (out, err)


@pytest.mark.parametrize(
    "Sampler", [AsyncSerialSampler, pytest.param(AsyncGpuSampler, marks=pytest.mark.slow)]
)
def test_when_the_program_is_killed_all_go_with_it_and_its_directory_is_free(Sampler, tmp_path):
    program = Program(tmp_path, Sampler=Sampler, checkpoint_interval_steps=3 * T * B)
    program.wait_for("learning")
    in_use = pytest.raises(RunDirectoryError, match=f"in use by process {program.pid}")
    with in_use, run_context(tmp_path, 0, "second"):
        pass
    program.strike(signal.SIGKILL)
    program.end()
    assert program.returncode == -signal.SIGKILL
    check_resumes(tmp_path)


@pytest.mark.slow  # it waits for two time limits
def test_a_hang_of_the_first_optimizer_ends_the_program(tmp_path):
    ranks = dict(sampler=dict(n_workers=1), optimizer=[dict(torch_threads=1)] * 2)
    program = Program(
        tmp_path, Algo=FirstRankHangs, rank_timeout_s=2.0, checkpoint_interval_steps=T * B,
        affinity=ranks,
    )  # fmt: skip
    program.wait_for("started")
    program.family = psutil.Process(program.pid).children(recursive=True)
    _, err = program.end()
    assert program.returncode == 1
    hung = r"optimizer rank 0 of 2 \(pid \d+, this process\) has made no progress for 2 s"
    assert re.search(hung, err) and "time.sleep(10**6)" in err, err
    assert load_checkpoint(tmp_path / "checkpoint").state["itr"] >= 3


@pytest.mark.parametrize(
    "slow, warnings", [("optimizer", 1), pytest.param("sampler", 0, marks=pytest.mark.slow)]
)
def test_an_optimizer_that_does_not_keep_up_is_reported_once(slow, warnings, tmp_path):
    n_itr = 400 if slow == "optimizer" else 12
    runner = runner_for(
        Algo=SlowDQN if slow == "optimizer" else DQN, n_itr=n_itr, settings=dict(replay_ratio=20),
        log_interval_steps=T * B * n_itr,
        env=dict(fault="none" if slow == "optimizer" else "hang", hang_s=0.02),
    )  # fmt: skip
    with run_context(tmp_path, 0, "run"):
        runner.train()
    said = (tmp_path / "debug.log").read_text()
    assert said.count("the optimizer does not keep up with the sampler") == warnings
