"""Loops that people write themselves are watched as ours are: by what their environments do."""

import os
import signal
import time

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentInputs, AgentStep, BaseAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.collectors import BaseCollector, BaseEvalCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.seed import env_seed

T, B, SEED, VICTIM = 6, 4, 3, 2  # the victim is the first environment of the second worker


class TroubledEnv(CountEnv):
    """One environment of all is killed or hangs in its third step; or all are slow."""

    def __init__(self, trouble, purpose="env"):
        super().__init__(fixed=True, length=100)
        self.trouble, self.purpose, self.mine = trouble, purpose, False

    def seed(self, seed):
        super().seed(seed)
        self.mine = seed == env_seed(SEED, VICTIM, self.purpose)

    def step(self, action):
        if self.mine and self._t == 2 and self.trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mine and self._t == 2 and self.trouble == "hang":
            time.sleep(1000)
        if self.trouble == "slow":
            time.sleep(0.25)
        return super().step(action)


class Idle(BaseAgent):
    def __init__(self):
        super().__init__(ModelCls=lambda: torch.nn.Linear(1, 1))

    def step(self, observation, prev_action, prev_reward):
        return AgentStep(torch.zeros_like(prev_action), ())


class OwnLoop(BaseCollector):
    """Knows nothing of progress."""

    def collect_batch(self, agent_inputs, traj_infos, itr):
        for t in range(self.batch_T):
            for b, env in enumerate(self.envs):
                o, r, _, _ = env.step(np.int64(0))
                self.samples_np.env.observation[t, b] = o
                self.samples_np.env.reward[t, b] = r
        return AgentInputs(*agent_inputs), traj_infos, []


class OwnEvaluation(BaseEvalCollector):
    def collect_evaluation(self, itr):
        for env in self.envs:
            env.reset()
        for _ in range(self.max_T):
            for env in self.envs:
                env.step(np.int64(0))
        return []


def run(trouble, purpose="env", env_timeout=60.0):
    """Collect a batch with the user's loop, or evaluate with it."""
    evaluate = purpose == "eval env"
    sampler = CpuSampler(
        TroubledEnv,
        dict(trouble="none" if evaluate else trouble),
        batch_T=T,
        batch_B=B,
        CollectorCls=OwnLoop,
        env_timeout=env_timeout,
        eval_n_envs=4,
        eval_CollectorCls=OwnEvaluation,
        eval_env_kwargs=dict(trouble=trouble, purpose=purpose),
        eval_max_steps=4 * T,
    )
    try:
        sampler.initialize(Idle(), affinity=dict(n_workers=2), seed=SEED)
        return sampler.evaluate_agent(0) if evaluate else sampler.obtain_samples(0)
    finally:
        sampler.shutdown()


def test_a_killed_worker_is_named_with_its_environment():
    with pytest.raises(WorkerError, match="worker 1 .*SIGKILL") as caught:
        run("kill")
    assert (caught.value.worker, caught.value.env_index) == (1, VICTIM)
    assert caught.value.step >= 0


def test_a_hanging_step_is_named_with_its_environment():
    with pytest.raises(WorkerTimeout, match="worker 1 ") as caught:
        run("hang", env_timeout=1.0)
    assert caught.value.env_index == VICTIM


@pytest.mark.parametrize("purpose", ["env", "eval env"])
def test_many_slow_steps_are_no_standstill(purpose):
    """A batch takes three seconds and a step a quarter: only a step is limited."""
    run("slow", purpose, env_timeout=1.0)


def test_a_killed_evaluation_is_noticed():
    with pytest.raises(WorkerError, match="worker 1 .*SIGKILL"):
        run("kill", "eval env")
