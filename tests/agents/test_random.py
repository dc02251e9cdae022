"""Uniform actions: of every kind of space, reproducible, the same in every layout."""

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.random import RandomAgent, UniformActions
from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv, ReachEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.action_mask import mask_sizes
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing import check_agent
from rlpyt.utils.buffer import buffer_func

SPACES = {
    "discrete": gymnasium.spaces.Discrete(3, start=5),
    "several": gymnasium.spaces.MultiDiscrete([2, 3]),
    "binary": gymnasium.spaces.MultiBinary(2),
    "box": gymnasium.spaces.Box(np.array([-1, 2], np.float32), np.array([1, 6], np.float32)),
}


def wrapped(space):
    return GymSpaceWrapper(space, name="act")


@pytest.mark.parametrize("kind", SPACES)
def test_actions_are_uniform_in_their_space(kind):
    space = wrapped(SPACES[kind])
    torch.manual_seed(0)
    actions = UniformActions(space).sample_rows((3000,)).numpy()
    for action in actions[:50]:
        assert SPACES[kind].contains(space.revert(action.astype(space.null_value().dtype)))
    if kind == "box":
        np.testing.assert_allclose(actions.mean(0), [0, 4], atol=0.1)
        np.testing.assert_allclose(actions.std(0), [2 / 12**0.5, 4 / 12**0.5], rtol=0.05)
        return
    n = {"discrete": [3], "several": [2, 3], "binary": [2, 2]}[kind]
    for column, count in zip(actions.reshape(3000, -1).T, n):
        np.testing.assert_allclose(np.bincount(column) / 3000, 1 / count, atol=0.04)


def test_actions_of_several_parts_are_uniform_and_valid():
    pair = gymnasium.spaces.Tuple([SPACES["several"], SPACES["box"]])
    space = wrapped(gymnasium.spaces.Dict(SPACES, pair=pair))
    uniform = UniformActions(space)
    mask = torch.ones(5000, sum(mask_sizes(space)), dtype=torch.int8)
    assert uniform.n_choices == mask.shape[1] == 17
    names = space.null_value()._fields
    first = sum(sum(mask_sizes(wrapped(SPACES[x]))) for x in names[: names.index("discrete")])
    mask[:, first + 1] = 0  # the second of three choices
    for given, expected in ((None, [1 / 3, 1 / 3, 1 / 3]), (mask, [1 / 2, 0, 1 / 2])):
        actions = uniform.sample_rows((5000,), given)
        for row in range(50):
            assert space.contains(buffer_func(actions, lambda leaf, row=row: leaf[row].numpy()))
        shares = torch.bincount(actions.discrete, minlength=3) / 5000
        np.testing.assert_allclose(shares, expected, atol=0.04)
        np.testing.assert_allclose(actions.pair.field_1.mean(0), [0, 4], atol=0.1)
        together = actions.several[:, 1] * 3 + actions.pair.field_0[:, 1]  # independent
        np.testing.assert_allclose(torch.bincount(together) / 5000, 1 / 9, atol=0.03)


def test_a_space_without_bounds_is_refused():
    agent = RandomAgent()
    space = wrapped(gymnasium.spaces.Box(-np.inf, np.inf, (1,)))
    with pytest.raises(ValueError, match="bounds"):
        agent.initialize(EnvSpaces(space, space))


def collected(Sampler, EnvCls, **env_kwargs):
    sampler = Sampler(EnvCls, env_kwargs, batch_T=5, batch_B=3)
    agent = RandomAgent()
    sampler.initialize(agent, affinity=dict(n_workers=1), seed=3, bootstrap_value=True)
    agent.sample_mode(0)
    samples, _ = sampler.obtain_samples(0)
    action, value = samples.agent.action.clone(), samples.agent.bootstrap_value.clone()
    sampler.shutdown()
    return action, value


@pytest.mark.parametrize("EnvCls", [ReachEnv, CountEnv])
def test_the_same_seed_gives_the_same_actions(EnvCls):
    action, value = collected(SerialSampler, EnvCls)
    again, _ = collected(SerialSampler, EnvCls)
    assert torch.equal(action, again) and len(action.unique()) > 2
    assert not value.any()


def test_it_keeps_the_contract():
    assert check_agent(RandomAgent(), ReachEnv, skip=["parameters"]).ok  # it has none


def test_workers_act_as_one_process_does():
    kwargs = dict(id="CartPole-v1")
    (serial, _), (workers, _) = (
        collected(Sampler, make, **kwargs) for Sampler in (SerialSampler, CpuSampler)
    )
    assert torch.equal(serial, workers)
