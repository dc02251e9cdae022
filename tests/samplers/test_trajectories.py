"""Cutting batches, and the runners over samplers, against what the counting environment says."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent, GaussianMlpAgent
from rlpyt.agents.random import RandomAgent
from rlpyt.compat.lagom import bootstrapped_returns, gae, returns
from rlpyt.envs.gym import make
from rlpyt.envs.toy import MemoryEnv, TruncationEnv
from rlpyt.samplers.engines import EpisodeRunner, StepRunner
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.trajectories import StepType, TimeStep, TrajectoryCutter, cut_trajectories
from rlpyt.utils.buffer import buffer_func
from tests.faulty import FaultyEnv

T, B = 16, 3


def sampler_of(EnvCls=make, agent=None, batch_T=T, seed=0, **kwargs):
    env_kwargs = dict(id="CartPole-v1") if EnvCls is make else {}
    settings = dict(max_decorrelation_steps=0, **kwargs)
    sampler = SerialSampler(EnvCls, env_kwargs, batch_T, B, **settings)
    agent = agent or CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8]))
    torch.manual_seed(0)
    sampler.initialize(agent, seed=seed, bootstrap_value=True, final_observation=True)
    return sampler


def batches_of(n=6, **kwargs):
    sampler = sampler_of(**kwargs)
    copies = [buffer_func(sampler.obtain_samples(i)[0], torch.clone) for i in range(n)]
    sampler.shutdown()
    return copies


def slow_cut(batches):
    """Rewards of each trajectory by environment, one row at a time."""
    found = [[[]] for _ in range(B)]
    for batch in batches:
        for t in range(len(batch.env.done)):
            for b in range(B):
                found[b][-1].append(float(batch.env.reward[t, b]))
                if batch.env.done[t, b]:
                    found[b].append([])
    return found


def test_batches_are_cut_where_episodes_end_and_joined_over_their_borders():
    batches = batches_of()
    cutter = TrajectoryCutter()
    finished = [one for batch in batches for one in cutter.add(batch)]
    rest = cutter.cut()
    for b, expected in enumerate(slow_cut(batches)):
        own = [one for one in finished if one.env == b]
        assert len(own) > 1
        assert [len(one) for one in own] == [len(rewards) for rewards in expected[:-1]]
        assert all(one.complete and one.reach_terminal and one.last_value == 0 for one in own)
        assert [len(one) for one in rest if one.env == b] == [len(expected[-1])] * bool(
            expected[-1]
        )
    first = finished[0]
    whole = torch.cat([batch.env.observation[:, first.env] for batch in batches])
    np.testing.assert_array_equal(first.observations, whole[: len(first)])
    assert first.agent_info.dist_info.prob.shape == (len(first), 2)
    np.testing.assert_array_equal(first.values, first.agent_info.value)
    for one in rest:
        assert not one.complete and not one.reach_terminal and not one.reach_time_limit
        assert one.last_value == batches[-1].agent.bootstrap_value[0, one.env].item()


def test_time_limits_keep_their_value_and_observation():
    (batch,) = batches_of(1, EnvCls=TruncationEnv)
    limited = [one for one in cut_trajectories(batch, from_start=True) if one.reach_time_limit]
    assert limited
    one = limited[0]
    t = len(one) - 1
    assert one.complete and not one.reach_terminal
    assert one.last_value == batch.agent.timeout_value[t, one.env].item()
    np.testing.assert_array_equal(
        one.last_observation, batch.env.final_observation[t, one.env].numpy()
    )
    sums = bootstrapped_returns(0.5, one, one.last_value)
    assert sums[-1] == pytest.approx(one.rewards[-1] + 0.5 * one.last_value)


def test_returns_of_trajectories_are_those_of_the_batch():
    """The two ways to the same advantages: cut, then summed; or in the batch as it is."""
    from rlpyt.algos.returns import generalized_advantage_estimation

    for EnvCls in (make, TruncationEnv):
        (batch,) = batches_of(1, EnvCls=EnvCls)
        env, agent = batch.env, batch.agent
        together, _ = generalized_advantage_estimation(
            env.reward,
            agent.agent_info.value,
            env.done,
            agent.bootstrap_value,
            0.9,
            0.8,
            timeout_value=agent.timeout_value,
        )
        parts = cut_trajectories(batch)
        for b in range(B):
            own = [gae(0.9, 0.8, one, one.values, one.last_value) for one in parts if one.env == b]
            np.testing.assert_allclose(np.concatenate(own), together[:, b], rtol=1e-4, atol=1e-5)


def test_time_steps_tell_where_they_stand():
    (batch,) = batches_of(1, EnvCls=TruncationEnv)
    one = next(x for x in cut_trajectories(batch, from_start=True) if x.reach_time_limit)
    steps = list(one.time_steps())
    assert len(steps) == one.T + 1
    kinds = [step.step_type for step in steps]
    assert kinds == [StepType.FIRST] + [StepType.MID] * (one.T - 1) + [StepType.LAST]
    assert steps[0].first() and steps[1].mid() == (one.T > 1) and steps[-1].last()
    assert steps[-1].time_limit() and not steps[-1].terminal()
    assert [step.done for step in steps] == [False] * one.T + [True]
    assert [step.reward for step in steps[1:]] == one.rewards.tolist()
    np.testing.assert_array_equal(steps[0].observation, one.observations[0])
    np.testing.assert_array_equal(steps[-1].observation, one.last_observation)


def test_an_end_without_a_known_time_limit_is_terminal():
    step = TimeStep(StepType.LAST, 0, 1.0, True, {})
    assert step.terminal() and not step.time_limit()


def test_episodes_are_shared_out_and_whole():
    sampler = sampler_of()
    runner = EpisodeRunner(sampler)
    episodes = runner(7)
    assert [one.env for one in episodes] == [0, 0, 0, 1, 1, 2, 2]
    assert all(one.complete for one in episodes)
    assert [returns(1.0, one)[0] for one in episodes] == [len(one) for one in episodes]
    first = [[len(x) for x in slow_cut(batches_of(9))[b][:2]] for b in range(B)]
    own = [[len(one) for one in episodes if one.env == b][:2] for b in range(B)]
    assert own == first  # those that came first, long or short
    again = runner(3)
    assert all(one.complete for one in again)  # what was under way is left out
    sampler.shutdown()


@pytest.mark.parametrize("reset_on_call", [True, False])
def test_calls_go_on_or_begin_anew(reset_on_call):
    sampler = sampler_of(EnvCls=MemoryEnv, batch_T=7)  # episodes of 5 steps
    length = len(EpisodeRunner(sampler)(B)[0])
    sampler.shutdown()
    sampler = sampler_of(EnvCls=MemoryEnv, batch_T=7)
    runner = EpisodeRunner(sampler, reset_on_call)
    calls = [runner(2 * B) for _ in range(3)]
    taken = runner._itr * 7
    assert all(one.complete and len(one) == length for call in calls for one in call)
    assert taken == (35 if not reset_on_call else taken)
    if reset_on_call:
        assert taken > 30
    sampler.shutdown()


def test_steps_are_counted_per_environment_and_may_be_pieces():
    sampler = sampler_of()
    runner = StepRunner(sampler)
    for call in range(2):
        pieces = runner(2 * T)
        assert [sum(len(x) for x in pieces if x.env == b) for b in range(B)] == [2 * T] * B
        begins = {b: next(x for x in pieces if x.env == b).from_start for b in range(B)}
        assert all(begins.values()) == (call == 0)
    with pytest.raises(ValueError, match=f"Use {3 * T}"):
        runner(2 * T + 1)
    sampler.shutdown()


def test_episodes_under_way_are_not_whole_to_a_second_runner():
    sampler = sampler_of(EnvCls=MemoryEnv, batch_T=7)  # episodes of 5 steps: 2 into the second
    EpisodeRunner(sampler)(B)
    assert [len(one) for one in EpisodeRunner(sampler)(B)] == [5] * B
    assert not any(
        one.from_start for one in StepRunner(sampler)(7) if len(one) < 5 and one.complete
    )
    sampler.initialize(RandomAgent(), seed=0)  # from here on they begin anew
    assert all(x.from_start for x in StepRunner(sampler)(7))
    sampler.shutdown()


def test_samplers_that_wait_are_refused():
    sampler = SerialSampler(make, dict(id="CartPole-v1"), T, B, CollectorCls=CpuWaitResetCollector)
    with pytest.raises(ValueError, match="resets at once"):
        EpisodeRunner(sampler)


def test_after_random_first_steps_nothing_is_whole_until_it_began_here():
    sampler = SerialSampler(make, dict(id="CartPole-v1"), T, B, max_decorrelation_steps=5)
    sampler.initialize(RandomAgent(), seed=0)
    pieces = StepRunner(sampler)(5 * T)
    for b in range(B):
        own = [x for x in pieces if x.env == b]
        assert not own[0].from_start and all(x.from_start for x in own[1:])
        assert own[-1].last_value is None or own[-1].reach_terminal  # no values recorded
    sampler.shutdown()


class Broken(SerialSampler):
    """Its third batch does not follow the second, as where a Ray actor was started anew."""

    def fill(self, itr, slot):
        if itr == 2:
            self.collector.env_batch.reset(self.agent_inputs.observation, range(B))
        return super().fill(itr, slot)

    def _note_interruption(self, slot):
        self.n_batches = getattr(self, "n_batches", 0) + 1
        self.interrupted = self.n_batches == 3


def broken_sampler():
    sampler = Broken(make, dict(id="Pendulum-v1"), T, B, max_decorrelation_steps=0)
    torch.manual_seed(0)
    sampler.initialize(GaussianMlpAgent(), seed=0, bootstrap_value=True)
    return sampler


def test_nothing_is_joined_over_an_interruption():
    sampler = broken_sampler()
    pieces = StepRunner(sampler)(4 * T)
    sampler.shutdown()
    assert [len(one) for one in pieces] == [2 * T] * 2 * B
    assert [one.from_start for one in pieces] == [True, False] * B

    sampler = broken_sampler()
    for _ in range(2):
        samples, _ = sampler.obtain_samples(0)
    values = samples.agent.bootstrap_value[0].tolist()  # of what followed the second batch
    sampler.shutdown()
    assert [one.last_value for one in pieces[::2]] == pytest.approx(values)


def test_a_sampler_that_is_not_initialized_is_refused():
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=2, batch_B=1)
    with pytest.raises(RuntimeError, match="initialize the SerialSampler"):
        EpisodeRunner(sampler)


@pytest.mark.parametrize("CollectorCls", [CpuResetCollector, CpuWaitResetCollector])
def test_what_a_fault_has_broken_is_no_trajectory(CollectorCls, tmp_path):
    sampler = SerialSampler(
        FaultyEnv,
        dict(length=9, fixed=True, at=21, victim=1, tally=str(tmp_path / "tally")),
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=0,
        CollectorCls=CollectorCls,
        on_fault="restart",
    )
    sampler.initialize(RandomAgent(), seed=0)
    cutter, found = TrajectoryCutter(), []
    for itr in range(6):
        found += cutter.add(sampler.obtain_samples(itr)[0])
    assert sampler.statistics()["EnvRestarts"] == 1
    sampler.shutdown()
    assert {len(trajectory) for trajectory in found} == {9}
    assert all(trajectory.complete for trajectory in found) and len(found) > 12
