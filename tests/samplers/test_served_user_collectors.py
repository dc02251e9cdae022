"""Collectors written by users against rlpyt's protocol with an action server keep working.

Per batch: obs_ready once before the first step and once after every step; act_ready before every
step; the step buffer holds the last observation, action, reward and done.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from parts import EchoAgent

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

SERVED = [GpuSampler, AlternatingSampler, NoOverlapAlternatingSampler]
T, B = 6, 4


class HandWrittenCollector(DecorrelatingStartCollector):
    mid_batch_reset = True

    def collect_batch(self, agent_inputs, traj_infos, itr):
        assert self.agent is None and isinstance(agent_inputs, AgentInputs)
        act_ready, obs_ready = self.sync.act_ready, self.sync.obs_ready
        step = self.step_buffer_np
        agent_buf, env_buf = self.samples_np.agent, self.samples_np.env
        completed = []
        agent_buf.prev_action[0] = step.action
        env_buf.prev_reward[0] = step.reward
        obs_ready.release()
        for t in range(self.batch_T):
            env_buf.observation[t] = step.observation
            act_ready.acquire()
            for b, env in enumerate(self.envs):
                o, r, d, env_info = env.step(step.action[b])
                traj_infos[b].step(
                    step.observation[b], step.action[b], r, d, step.agent_info[b], env_info
                )
                if getattr(env_info, "traj_done", d):
                    completed.append(traj_infos[b].terminate(o))
                    traj_infos[b] = self.TrajInfoCls()
                    o = env.reset()
                step.observation[b] = o
                step.reward[b] = r
                step.done[b] = d
                env_buf.env_info[t, b] = env_info
            agent_buf.action[t] = step.action
            env_buf.reward[t] = step.reward
            env_buf.done[t] = step.done
            agent_buf.agent_info[t] = step.agent_info
            obs_ready.release()
        return agent_inputs, traj_infos, completed


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
    def collect_evaluation(self, itr):
        step, infos = self.step_buffer_np, [self.TrajInfoCls() for _ in self.envs]
        for b, env in enumerate(self.envs):
            step.observation[b], step.action[b], step.reward[b] = env.reset(), 0, 0
        step.done[:] = False
        self.sync.obs_ready.release()
        for t in range(self.max_T):
            self.sync.act_ready.acquire()
            assert not self.sync.stop_eval.value
            for b, env in enumerate(self.envs):
                o, r, d, info = env.step(step.action[b])
                infos[b].step(step.observation[b], step.action[b], r, d, None, info)
                if info.traj_done:
                    self.traj_infos_queue.put(infos[b].terminate(o))
                    infos[b] = self.TrajInfoCls()
                    o = env.reset()
                step.observation[b], step.reward[b], step.done[b] = o, r, d
            self.sync.obs_ready.release()
            if t == self.stop_after:
                break
        self.traj_infos_queue.put(None)

    stop_after = -1


class EarlyEval(HandWrittenEval):
    stop_after = 20


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
        with pytest.raises(WorkerError, match="ended its batch after 2 of 6 steps"):
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
