"""Actors of a Ray cluster collect what this process would."""

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.samplers.ray_parts import cluster, copied, importable, started  # noqa: F401

pytest.importorskip("ray")
from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent, agent_for
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.toy import MemoryEnv
from rlpyt.errors import WorkerError
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.ray_sampler import RaySampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import run_context
from tests.agents.test_observation_groups import agent_of
from tests.agents.test_observation_groups import make as make_groups
from tests.masked_env import MaskedEnv
from tests.oracles.sampler import check_sampler
from tests.parts import EchoAgent, ShapedCountEnv
from tests.samplers.test_matrix import assert_same, described, stochastic_agent

pytestmark = pytest.mark.usefixtures("cluster")
T, B = 7, 4
EVALUATION = dict(eval_n_envs=2, eval_max_steps=2000, eval_max_trajectories=5)


def collected(sampler, n_batches=3, evaluate=False):
    """Batches, with an evaluation after the first."""
    try:
        batches, evaluations = [], []
        for itr in range(n_batches):
            samples, infos = sampler.obtain_samples(itr)
            batches.append((copied(samples), infos))
            if evaluate and itr == 0:
                evaluations = described(sampler.evaluate_agent(itr))
        return batches, evaluations
    finally:
        sampler.shutdown()
        assert sampler.workers == []


def serial(agent, workers=0, **kwargs):
    sampler = SerialSampler(batch_T=T, batch_B=B, **{"max_decorrelation_steps": 0, **kwargs})
    torch.manual_seed(5)
    sampler.initialize(agent, seed=11, bootstrap_value=True)
    return sampler


def test_batches_and_evaluations_are_those_of_the_serial_sampler():
    class Actions(TrajInfo):  # travels by value
        def step(self, observation, action, *rest):
            super().step(observation, action, *rest)
            self.Actions = self.get("Actions", 0) + int(action) + 10 * int(observation.clock[1])

    kwargs = dict(
        EnvCls=ShapedCountEnv,
        env_kwargs=dict(kind="dict", life=3),
        max_decorrelation_steps=6,
        TrajInfoCls=Actions,
        **EVALUATION,
    )
    batches, evaluations = collected(serial(EchoAgent(), **kwargs), evaluate=True)
    assert len(evaluations) == 5
    own, own_evaluations = collected(started(EchoAgent(), T, B, **kwargs), evaluate=True)
    assert_same(batches, own)
    assert own_evaluations == evaluations


def make_masked(**kwargs):
    return GymEnvWrapper(MaskedEnv(**kwargs))  # refuses invalid actions


@pytest.mark.slow
def test_masks_travel_with_observations():
    kwargs = dict(EnvCls=make_masked, deterministic_acting=True, **EVALUATION)
    agents = [agent_for(make_masked().spaces) for _ in range(2)]
    batches, evaluations = collected(serial(agents[0], **kwargs), evaluate=True)
    torch.manual_seed(5)
    own, own_evaluations = collected(started(agents[1], T, B, **kwargs), evaluate=True)
    assert_same(batches, own)
    assert own_evaluations == evaluations


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, "own"])
def test_policies_and_critics_read_their_parts(memory):
    kwargs = dict(EnvCls=make_groups, deterministic_acting=True, **EVALUATION)
    batches, evaluations = collected(serial(agent_of(memory), **kwargs), evaluate=True)
    torch.manual_seed(5)
    own, own_evaluations = collected(started(agent_of(memory), T, B, **kwargs), evaluate=True)
    assert_same(batches, own)
    assert own_evaluations == evaluations


@pytest.mark.slow
def test_an_invalid_mask_is_named_with_environment_and_step():
    faulty = dict(fault="empty", fault_at=T + 3, length=50)
    sampler = started(agent_for(make_masked().spaces), T, B, EnvCls=make_masked, env_kwargs=faulty)
    with pytest.raises(WorkerError, match="action_mask .*allow") as caught:
        for itr in range(3):
            sampler.obtain_samples(itr)
    sampler.shutdown()
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(r"stepping environment \d.*iteration 1, step \d of the batch", said)


@pytest.mark.slow
def test_a_recurrent_network_collects_the_same_bits_in_tiles():
    kwargs = dict(EnvCls=ShapedCountEnv, env_kwargs=dict(kind="image"), deterministic_acting=True)
    batches, _ = collected(serial(stochastic_agent(True, "image"), **kwargs))
    torch.manual_seed(5)
    own, _ = collected(started(stochastic_agent(True, "image"), T, B, **kwargs))
    assert_same(batches, own)
    assert len(np.unique(own[0][0].agent.action)) > 1


@pytest.mark.slow
def test_new_weights_are_in_the_next_batch_and_travel_only_when_they_are_new():
    agent = EchoAgent()
    sampler = started(agent, T, B, EnvCls=ShapedCountEnv, env_kwargs={})
    try:
        versions = []
        for weight in (1.0, 1.0, 3.0):
            agent.model.weight.data.fill_(weight)
            samples, _ = sampler.obtain_samples(0)
            began = torch.cat([torch.ones(1, B, dtype=torch.bool), samples.env.done[:-1]])
            reward = torch.where(began, 0, samples.env.prev_reward)
            if versions:  # in the first row of a later batch, the episode may go on
                reward[0] = samples.env.prev_reward[0]
            expected = weight * (samples.env.observation[..., 2] + reward)
            assert torch.equal(samples.agent.agent_info.value, expected)
            versions.append(sampler._worker_group.version)
        assert versions == [1, 1, 2]
    finally:
        sampler.shutdown()


@pytest.mark.slow
def test_states_are_those_of_the_cpu_sampler():
    kwargs = dict(EnvCls=ShapedCountEnv, env_kwargs=dict(length=6))
    cpu = CpuSampler(batch_T=T, batch_B=B, max_decorrelation_steps=0, **kwargs)
    cpu.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=11, bootstrap_value=True)
    cpu.obtain_samples(0)
    state = cpu.state_dict()
    expected, _ = collected(cpu)
    sampler = started(EchoAgent(), T, B, seed=12, **kwargs)
    assert sampler.load_state_dict(state) is True
    own_state = sampler.state_dict()
    own, _ = collected(sampler)
    assert_same(expected, own)
    assert not own_state["breaks"]["pending"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "AgentCls",
    [CategoricalMlpAgent, CategoricalLstmAgent],
)
def test_training_by_the_runner(AgentCls, tmp_path):
    sampler = RaySampler(make, dict(id="CartPole-v1"), batch_T=8, batch_B=4, n_actors=2)
    runner = MinibatchRl(
        algo=A2C(), agent=AgentCls(), sampler=sampler, n_steps=6 * 32, seed=1,
        affinity=dict(n_workers=1, master_torch_threads=1), log_interval_steps=64,
    )  # fmt: skip
    before = {}
    runner.hooks.append(type("Keep", (), {"on_start": lambda self, r: before.update(state(r))})())
    with run_context(tmp_path, 0, "run"):
        runner.train()
    assert any(not torch.equal(before[k], v) for k, v in state(runner).items())
    with open(tmp_path / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["Diagnostics/CumSteps"]) for row in rows] == [64, 128, 192]
    assert {row["Diagnostics/ActorRestarts"] for row in rows} == {"0"}
    assert sampler.workers == []


def state(runner):
    return {name: value.clone() for name, value in runner.agent.state_dict().items()}


def test_arguments_are_checked_at_the_door():
    for wrong in (dict(n_actors=0), dict(max_restarts=-2), dict(n_actors=1.5)):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            RaySampler(make, dict(id="CartPole-v1"), 4, 4, **wrong)
    sampler = RaySampler(make, dict(id="CartPole-v1"), 4, 4, n_actors=3)
    with pytest.raises(ValueError, match="batch_B=4 .*n_workers=3"):
        sampler.initialize(CategoricalMlpAgent())


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    sampler = RaySampler(make, dict(id="CartPole-v1"), 4, 4)
    with pytest.raises(ImportError, match=r"RaySampler .* ray\. .*\[ray\]'"):
        sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=1))


@pytest.mark.slow
def test_conformance():
    assert check_sampler(RaySampler, MemoryEnv).ok


def test_the_page_builds_a_sampler():
    page = (Path(__file__).parents[2] / "docs" / "ray.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope = {}
    exec(code, scope)
    assert scope["sampler"].batch_size == 128 * 64
