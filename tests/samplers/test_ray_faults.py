"""Actors that die are restarted and their episodes dropped; other faults end in one named error."""

import csv
import os
import re
import signal
import threading
import time

import pytest

from tests.samplers.ray_parts import cluster, copied, importable, started  # noqa: F401

ray = pytest.importorskip("ray")
from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.ray_sampler import RaySampler
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.seed import env_seed
from tests.faulty import FaultyEnv
from tests.oracles.healed import HealedRows
from tests.parts import EchoAgent

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]
T, B = 5, 4
LENGTH = 8  # of episodes: longer than a batch


def kill(sampler, rank=0):
    os.kill(sampler.workers[rank].pid, signal.SIGKILL)


def check_after_restart(before, after, first=0, n=2):
    """The restarted actor's rows begin new episodes; others go on."""
    broken = slice(first, first + n)
    goes_on = slice(n, None) if first == 0 else slice(0, first)
    assert (after.env.observation[0, broken, 1:] == 0).all()
    assert (after.agent.prev_action[0, broken] == 0).all()
    assert (after.env.prev_reward[0, broken] == 0).all()
    assert (after.agent.agent_info.memory[0, broken] == 0).all()
    ranks = before.env.observation[0, :, 0], after.env.observation[0, :, 0]
    assert (ranks[0][broken] != ranks[1][broken]).all()  # seeds of their own
    assert (ranks[0][goes_on] == ranks[1][goes_on]).all()
    t = before.env.observation[-1, goes_on, 2]
    assert (after.env.observation[0, goes_on, 2] == (t + 1) % LENGTH).all()


def test_a_killed_actor_begins_anew_and_its_episodes_are_dropped_and_counted(capsys):
    sampler = started(
        EchoAgent(), T, B, EnvCls=CountEnv, env_kwargs=dict(length=LENGTH, fixed=True)
    )
    try:
        first = copied(sampler.obtain_samples(0)[0])
        assert sampler.interrupted is False
        kill(sampler)
        samples, infos = sampler.obtain_samples(1)
        check_after_restart(first, copied(samples))
        assert sampler.interrupted is True
        assert sampler.statistics() == {"ActorRestarts": 1, "DroppedEpisodes": 2}
        assert len(infos) == 2  # of the actor that lived
        said = capsys.readouterr().out
        assert "worker 0 (a Ray actor, pid " in said and "2 environments start new episodes" in said
        # Between batches, or in the next one if the kill took a while.
        assert re.search(r"died, last seen .*environments? .*CountEnv\(", said)
        second = copied(samples)
        samples, infos = sampler.obtain_samples(2)
        assert sampler.interrupted is False
        assert (samples.env.observation[0, :2, 2].numpy() == T).all()
        assert {info.Length for info in infos} == {LENGTH}
        assert (second.env.observation[0, :2, 0] == samples.env.observation[0, :2, 0].numpy()).all()
    finally:
        sampler.shutdown()


def test_a_batch_in_which_an_actor_dies_is_collected_anew_in_its_rows(tmp_path):
    """Killed from within, in the middle of a batch; the one constructed later does not die."""
    fault = dict(fault="kill", at=8, victim=2, tally=str(tmp_path / "tally"))
    sampler = started(
        EchoAgent(), T, B, EnvCls=FaultyEnv, env_kwargs=dict(length=LENGTH, fixed=True, **fault)
    )
    try:
        batches, infos = [], []
        for itr in range(5):
            samples, new = sampler.obtain_samples(itr)
            batches.append(copied(samples))
            infos += new
        broken = 0 if (batches[1].env.observation[0, 0, 1:] == 0).all() else 2
        check_after_restart(batches[0], batches[1], broken)
        assert sampler.statistics() == {"ActorRestarts": 1, "DroppedEpisodes": 2}
        assert {info.Length for info in infos} == {LENGTH}
        assert len(infos) == 2 * (5 * T // LENGTH) + 2 * (4 * T // LENGTH)
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_with_on_fault_what_a_broken_episode_recorded_is_void(fault, tmp_path):
    """A replay can then void what it has stored of the episode, as with other samplers."""
    own = dict(fault=fault, at=8, victim=2, tally=str(tmp_path / "tally"), length=LENGTH)
    sampler = started(EchoAgent(), T, B, EnvCls=FaultyEnv, env_kwargs=own, on_fault="restart")
    rows, n_void = HealedRows(B), []
    try:
        for itr in range(5):
            samples, infos = sampler.obtain_samples(itr)
            n_void.append(rows.check(copied(samples), infos).tolist())
            assert not sampler.interrupted
        statistics = sampler.statistics()
    finally:
        sampler.shutdown()
    lost = sorted(n_void.pop(1))
    assert lost == [0, 0, T, T] if fault == "kill" else lost[:3] == [0, 0, 0] and 0 < lost[3] < T
    assert not any(map(any, n_void)) and statistics["VoidSteps"] == sum(lost)
    assert statistics["ActorRestarts"] == (fault == "kill")
    assert statistics["EnvRestarts"] == (fault == "raise")


def test_learning_from_replay_goes_on_and_is_told_of_the_break(tmp_path):
    class Killed(RaySampler):
        def fill(self, itr, slot):
            if itr == 4:
                kill(self)
            return super().fill(itr, slot)

    sampler = Killed(
        CountEnv, dict(length=30, fixed=True), T, B, max_decorrelation_steps=0, n_actors=2
    )
    algo = DQN(min_steps_learn=2 * T * B, replay_size=30 * T * B, n_step_return=3, batch_size=8)
    told = []
    interrupt = algo.interrupt
    algo.interrupt = lambda: told.append(algo.replay_buffer.t) or interrupt()
    affinity = dict(n_workers=1, master_torch_threads=1)
    runner = MinibatchRl(
        algo=algo, agent=DqnMlpAgent(), sampler=sampler, n_steps=8 * T * B, seed=1,
        affinity=affinity, log_interval_steps=T * B,
    )  # fmt: skip
    with run_context(tmp_path, 0, "run"):
        runner.train()
    assert told == [4 * T]  # before the batch was appended
    storage = algo.replay_buffer.storage
    samples, ends = storage.samples, storage.samples.done.all(1).nonzero()[0].tolist()
    assert ends == [4 * T - 2] and storage.extra.truncated[ends].all()  # episodes were cut here
    assert (samples.observation[4 * T - 1, :2, 2] == 0).all()
    with open(tmp_path / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["Diagnostics/ActorRestarts"] for row in rows] == ["0"] * 4 + ["1"] * 4
    assert rows[-1]["Diagnostics/DroppedEpisodes"] == "2"


def test_an_actor_that_waits_for_a_free_node_has_the_time_of_a_start():
    class Hog:
        def hold(self):
            return True

    everything = dict(workers=4, env_timeout=1.0)  # of the cluster's CPUs
    sampler = started(
        EchoAgent(), T, B, EnvCls=CountEnv, env_kwargs=dict(length=LENGTH, fixed=True), **everything
    )
    try:
        sampler.obtain_samples(0)
        hog = ray.remote(num_cpus=1)(Hog).remote()  # waits until a CPU is free
        holds = hog.hold.remote()
        time.sleep(1)
        kill(sampler)
        held = []

        def let_go():
            held.append(ray.get(holds, timeout=30))
            time.sleep(4)  # much longer than env_timeout
            ray.kill(hog)

        thread = threading.Thread(target=let_go)
        thread.start()
        sampler.obtain_samples(1)
        thread.join()
        assert held == [True] and sampler.statistics()["ActorRestarts"] == 1
    finally:
        sampler.shutdown()


def test_an_evaluation_in_which_an_actor_dies_begins_anew():
    evaluation = dict(eval_n_envs=2, eval_max_steps=2000, eval_max_trajectories=6)
    sampler = started(
        EchoAgent(), T, B, EnvCls=CountEnv, env_kwargs=dict(length=40, fixed=True), **evaluation
    )
    try:
        sampler.obtain_samples(0)

        def kill_once():
            if sampler.statistics()["ActorRestarts"] == 0:
                kill(sampler, 1)
            return False

        sampler.should_stop = kill_once
        infos = sampler.evaluate_agent(0)
        assert [info.Length for info in infos] == [40] * 6
        sampler.should_stop = lambda: False
        state = sampler.state_dict()
        sampler.obtain_samples(1)
        assert sampler.interrupted is True  # training environments died, too
        assert sampler.load_state_dict(state) is False  # whoever goes on from there is told
    finally:
        sampler.shutdown()


def faulty(fault, at=8, max_restarts=3, **kwargs):
    sampler = started(
        EchoAgent(), T, B, seed=1, workers=1, EnvCls=FaultyEnv,
        env_kwargs=dict(fault=fault, at=at), max_restarts=max_restarts, **kwargs,
    )  # fmt: skip
    try:
        for itr in range(4):
            sampler.obtain_samples(itr)
    finally:
        assert sampler.workers == []
        sampler.shutdown()


def test_what_an_environment_raises_is_told_in_full_and_restarts_nothing():
    began = time.monotonic()
    with pytest.raises(WorkerError, match="FaultError: told to fail in step") as caught:
        faulty("raise")
    assert time.monotonic() - began < 30
    error = caught.value
    assert (error.itr, error.step) == (1, 2) and error.worker == 0
    assert error.seed == env_seed(1, error.env_index)
    said = str(error)
    assert f"worker {error.worker} (a Ray actor, pid {error.pid} on " in said
    assert f"while stepping environment {error.env_index}, FaultyEnv(fault='raise'" in said
    assert "iteration 1, step 2 of the batch; last action " in said
    assert "faulty.py" in error.traceback and error.traceback in said
    wait_for_free_cpus()


def wait_for_free_cpus():
    """No actor holds any, soon after the end."""
    deadline = time.monotonic() + 10
    while ray.available_resources().get("CPU") != ray.cluster_resources()["CPU"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_environment_cannot_end_the_actor_by_an_exception():
    with pytest.raises(WorkerError, match="SystemExit: 3"):
        faulty("exit")


def test_an_actor_that_dies_too_often_ends_the_run():
    with pytest.raises(WorkerError, match="max_restarts=1; Ray says") as caught:
        faulty("kill", at=3, max_restarts=1)
    assert caught.value.worker == 0
    wait_for_free_cpus()


@pytest.mark.filterwarnings("ignore:.*has made no progress")
@pytest.mark.parametrize("fault", ["hang", pytest.param("freeze", marks=pytest.mark.slow)])
def test_a_standstill_is_named(fault):
    began = time.monotonic()
    with pytest.raises(WorkerTimeout, match=r" 1 s \(env_timeout\)") as caught:
        faulty(fault, env_timeout=1.0)
    assert time.monotonic() - began < 30
    assert "while stepping environment" in str(caught.value) and caught.value.step == 2
    if fault == "hang":  # who keeps the interpreter lock says nothing
        assert "in _hang" in caught.value.stacks
    wait_for_free_cpus()


def test_failure_at_start():
    with pytest.raises(WorkerError, match="PermissionError: no licence") as caught:
        started(EchoAgent(), T, B, workers=1, EnvCls=OnlyHere, env_kwargs={})
    assert "while building environment" in str(caught.value)


class OnlyHere(CountEnv):
    """Works where it is tried out, and nowhere else."""

    def __init__(self):
        super().__init__()
        if ray.is_initialized():
            raise PermissionError("no licence on this node")
