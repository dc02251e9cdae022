"""Loops that people write themselves are watched as ours are: by what their environments do."""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentInputs, AgentStep, BaseAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.collectors import (
    BaseCollector,
    BaseEvalCollector,
    DecorrelatingStartCollector,
)
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import env_seed
from tests.oracles.sampler import check_sampler

PAGE = Path(__file__).parents[2] / "docs" / "sampling.md"
T, B, SEED, VICTIM = 6, 4, 3, 2  # the victim is the first environment of the second worker


class TroubledEnv(CountEnv):
    """One environment of all fails in its third step, in some way; or all are slow."""

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
        if self.mine and self._t == 2 and self.trouble == "raise":
            raise ArithmeticError("told to fail")
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


def test_an_error_of_an_environment_is_told_with_the_action_that_it_took():
    with pytest.raises(WorkerError, match="worker 1 .*told to fail.*; last action 0") as caught:
        run("raise", "eval env")
    assert (caught.value.env_index, caught.value.step) == (VICTIM, 2)


class FailingLoop(OwnLoop):
    """Fails by itself in step 4 of the second batch, or returns too little."""

    def collect_batch(self, agent_inputs, traj_infos, itr):
        super_batch_T, self.batch_T = self.batch_T, 4 if itr == 1 else self.batch_T
        results = super().collect_batch(agent_inputs, traj_infos, itr)
        self.batch_T = super_batch_T
        if itr == 1:
            raise KeyError("my own")
        return results


class Decorrelating(FailingLoop, DecorrelatingStartCollector):
    pass


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
def test_an_error_of_the_loop_itself_is_told_with_its_step_and_not_that_of_others(SamplerCls):
    sampler = SamplerCls(CountEnv, {}, batch_T=T, batch_B=B, CollectorCls=Decorrelating)
    sampler.initialize(Idle(), affinity=dict(n_workers=2), seed=SEED)
    sampler.obtain_samples(0)
    with pytest.raises((KeyError, WorkerError), match="my own") as caught:
        sampler.obtain_samples(1)
    said = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "in the collector's loop over environments CountEnv(); iteration 1, step 3 of" in said


class ReturnsTwo(OwnLoop):
    def collect_batch(self, agent_inputs, traj_infos, itr):
        return agent_inputs, traj_infos


class AsksTheAgent(OwnLoop):
    def collect_batch(self, agent_inputs, traj_infos, itr):
        return self.agent.step(*agent_inputs)


@pytest.mark.parametrize(
    "SamplerCls, CollectorCls, message",
    [
        (SerialSampler, ReturnsTwo, r"collect_batch .*3: \(agent_inputs, "),
        (GpuSampler, AsksTheAgent, "self.agent is None.* master"),
    ],
)
def test_loops_that_do_not_fit_are_told_what_would(SamplerCls, CollectorCls, message):
    sampler = SamplerCls(CountEnv, {}, batch_T=T, batch_B=B, CollectorCls=CollectorCls)
    sampler.initialize(Idle(), affinity=dict(n_workers=2), seed=SEED)
    with pytest.raises((TypeError, WorkerError), match=message):
        sampler.obtain_samples(0)
    sampler.shutdown()


def test_the_collector_of_the_page_is_right():
    scope = {}
    for env_batch in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(env_batch, PAGE.name, "exec"), scope)
    report = check_sampler(CpuSampler, CountEnv, {}, CollectorCls=scope["PlainCollector"])
    assert "same-as-serial" in report.passed
