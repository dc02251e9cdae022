"""Collectors written by users against rlpyt's protocol with an action server keep working.

Per batch: obs_ready once before the first step and once after every step; act_ready before every
step; the step buffer holds the last observation, action, reward and done.
"""

import numpy as np
import pytest

from rlpyt.agents.base import AgentInputs
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import WorkerError
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.collectors import BaseEvalCollector, DecorrelatingStartCollector
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func
from tests.parts import EchoAgent

SERVED = [GpuSampler, AlternatingSampler, NoOverlapAlternatingSampler]
T, B = 6, 4


def served(sync, steps):
    """Yield each step between receiving its actions and posting its results."""
    sync.obs_ready.release()
    for t in range(steps):
        sync.act_ready.acquire()
        yield t
        sync.obs_ready.release()


class Player:
    """Steps environments into the record shared with the server, and counts trajectories."""

    def __init__(self, envs, record, make_info, on_end):
        self.envs, self.record, self.make_info, self.on_end = envs, record, make_info, on_end

    def step(self, infos):
        """Replace actions by their results; return the environments' infos."""
        return [self._step(b, infos) for b in range(len(self.envs))]

    def _step(self, b, infos):
        asked, env = self.record[b], self.envs[b]
        result = env.step(asked.action)
        infos[b].step(asked.observation, asked.action, *result[1:3], asked.agent_info, result[3])
        observation = result.observation
        if result.env_info.traj_done:
            self.on_end(infos[b].terminate(observation))
            infos[b], observation = self.make_info(), env.reset()
        self.record.observation[b], self.record.done[b] = observation, result.done
        self.record.reward[b] = result.reward
        return result.env_info


class HandWrittenCollector(DecorrelatingStartCollector):
    """Copies the shared record into the batch before and after each step."""

    before = {"observation": "env", "action": "agent", "agent_info": "agent"}
    after = {"reward": "env", "done": "env"}

    def collect_batch(self, agent_inputs, traj_infos, itr):
        assert self.agent is None and isinstance(agent_inputs, AgentInputs)
        ended, record = [], self.step_buffer_np
        player = Player(self.envs, record, self.TrajInfoCls, ended.append)
        self.samples_np.agent.prev_action[0] = agent_inputs.prev_action
        self.samples_np.env.prev_reward[0] = agent_inputs.prev_reward
        for t in served(self.sync, self.batch_T):
            self.copy(t, self.before)
            for b, env_info in enumerate(player.step(traj_infos)):
                self.samples_np.env.env_info[t, b] = env_info
            self.copy(t, self.after)
        return agent_inputs, traj_infos, ended

    def copy(self, t, fields):
        for field, part in fields.items():
            getattr(getattr(self.samples_np, part), field)[t] = getattr(self.step_buffer_np, field)


def start(SamplerCls, **kwargs):
    sampler = SamplerCls(
        EnvCls=CountEnv, env_kwargs=dict(life=3, end="termination"), batch_T=T, batch_B=B,
        **{"max_decorrelation_steps": 5, **kwargs},
    )  # fmt: skip
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=7, bootstrap_value=True)
    return sampler


def batches(SamplerCls, **kwargs):
    sampler = start(SamplerCls, **kwargs)
    try:
        return [
            buffer_func(sampler.obtain_samples(i)[0], lambda x: x.numpy().copy()) for i in (0, 1, 2)
        ]
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", SERVED)
def test_hand_written_served_collector_gets_the_same_answers(SamplerCls):
    for own, ours in zip(
        batches(SamplerCls, CollectorCls=HandWrittenCollector), batches(SerialSampler), strict=True
    ):
        assert np.array_equal(own.env.observation, ours.env.observation)
        assert np.array_equal(own.agent.action, ours.agent.action)
        assert np.array_equal(own.agent.agent_info.memory, ours.agent.agent_info.memory)
        assert np.array_equal(own.agent.bootstrap_value, ours.agent.bootstrap_value)


class HandWrittenEval(BaseEvalCollector):
    """Plays whole episodes until the steps are used up, or ends of its own accord."""

    own_limit = None

    def collect_evaluation(self, itr):
        record, queue = self.step_buffer_np, self.traj_infos_queue
        infos = [self.TrajInfoCls() for _ in self.envs]
        for b, env in enumerate(self.envs):
            record.observation[b] = env.reset()
        record.action[:], record.reward[:], record.done[:] = 0, 0, False
        player = Player(self.envs, record, self.TrajInfoCls, queue.put)
        for _ in served(self.sync, self.own_limit or self.max_T):
            assert not self.sync.stop_eval.value
            player.step(infos)
        queue.put(None)


class EarlyEval(HandWrittenEval):
    own_limit = 21


@pytest.mark.parametrize("SamplerCls", SERVED)
@pytest.mark.parametrize("EvalCls", [HandWrittenEval, EarlyEval])
def test_hand_written_served_evaluation_may_end_when_it_likes(SamplerCls, EvalCls):
    sampler = start(SamplerCls, eval_CollectorCls=EvalCls, eval_n_envs=4, eval_max_steps=200)
    try:
        first = sampler.evaluate_agent(0)
        assert sum(info.Length for info in first) > 60
        sampler.obtain_samples(0)
        assert len(sampler.evaluate_agent(1)) > 10
    finally:
        sampler.shutdown()


class TooFewSteps(HandWrittenCollector):
    def collect_batch(self, agent_inputs, traj_infos, itr):
        self.batch_T = 2
        return super().collect_batch(agent_inputs, traj_infos, itr)


@pytest.mark.parametrize("SamplerCls", SERVED)
def test_a_collector_that_stops_short_does_not_hang_the_server(SamplerCls):
    sampler = start(SamplerCls, CollectorCls=TooFewSteps)
    try:
        with pytest.raises(WorkerError, match="2 of 6 steps"):
            sampler.obtain_samples(0)
    finally:
        sampler.shutdown()


class SubclassedEval(GpuEvalCollector):
    def collect_evaluation(self, itr):
        return super().collect_evaluation(itr)


class RememberingInfo(TrajInfo):
    """Sums what the agent's memory was; wrong if it was asked more or less than once a step."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Memory = 0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        self.Memory += 0 if agent_info is None else int(agent_info.memory)


@pytest.mark.parametrize("SamplerCls", SERVED)
def test_a_subclass_of_our_evaluation_is_served_step_by_step(SamplerCls):
    def memories(**kwargs):
        sampler = start(
            SamplerCls, eval_n_envs=4, eval_max_steps=800, TrajInfoCls=RememberingInfo, **kwargs
        )
        try:
            return sorted(info.Memory for info in sampler.evaluate_agent(0))
        finally:
            sampler.shutdown()

    assert memories(eval_CollectorCls=SubclassedEval) == memories()
