"""Choice of a ready agent by an environment's spaces, and spaces that are refused."""

import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.dqn.vector import AGENTS, dqn_agent_for
from rlpyt.agents.pg.vector import agent_for
from rlpyt.envs.base import EnvSpaces
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple

VECTOR = spaces.Box(-1, 1, (3,))
IMAGE = spaces.Box(0, 255, (3, 8, 8), "uint8")


def spaces_of(observation, action):
    return EnvSpaces(GymSpaceWrapper(observation), GymSpaceWrapper(action, name="act"))


def test_dictionaries_of_vectors_are_read_side_by_side():
    parts = dict(at=VECTOR, inner=spaces.Dict(bits=spaces.MultiBinary(2)))
    chosen = spaces_of(spaces.Dict(parts), spaces.Discrete(2))
    assert type(agent_for(chosen)).__name__ == "CategoricalMlpAgent"
    assert type(dqn_agent_for("dqn", chosen)).__name__ == "DqnMlpAgent"


@pytest.mark.parametrize("part", [IMAGE, spaces.Discrete(4), spaces.MultiDiscrete([2, 3])])
def test_dictionaries_with_images_and_categories_have_ready_agents(part):
    observation = spaces.Dict(at=VECTOR, inner=spaces.Dict(odd=part))
    chosen = spaces_of(observation, spaces.Discrete(2))
    for agent in (agent_for(chosen), dqn_agent_for("dqn", chosen)):
        agent.initialize(chosen)
        features = {(3, 8, 8): 256, (): 4, (2,): 5}[part.shape]
        assert agent.model.observation_size == 3 + features


def test_composites_of_our_own_have_ready_agents():
    Parts = namedarraytuple("Parts", ["at", "kind"])
    observation = Composite([FloatBox(-1, 1, shape=2), IntBox(0, 4)], Parts)
    agent = agent_for(chosen := EnvSpaces(observation, IntBox(0, 2)))
    agent.initialize(chosen)
    assert agent.model.observation_size == 2 + 4


@pytest.mark.parametrize(
    "action,name",
    [
        (spaces.Discrete(2), "AtariFfAgent"),
        (spaces.MultiDiscrete([2, 3]), "MultiCategoricalMlpAgent"),
        (VECTOR, "GaussianMlpAgent"),
    ],
)
def test_images_have_ready_agents_for_every_action(action, name):
    agent = agent_for(chosen := spaces_of(spaces.Box(0, 255, (3, 40, 40), "uint8"), action))
    agent.initialize(chosen)
    assert type(agent).__name__ == name


@pytest.mark.parametrize("shape", [(3, 8, 8), (8, 8, 3), (84, 84, 1), (12, 10, 10), (1, 1, 1)])
@pytest.mark.parametrize("kind", ["ff", "lstm", *AGENTS])
def test_images_of_any_size_have_channels_first_or_last(kind, shape):
    chosen = spaces_of(spaces.Box(0, 255, shape, "uint8"), spaces.Discrete(2))
    agent = (
        agent_for(chosen, kind == "lstm") if kind in ("ff", "lstm") else dqn_agent_for(kind, chosen)
    )
    agent.initialize(chosen)
    agent.sample_mode(1)
    observation = torch.randint(255, (5, *shape), dtype=torch.uint8)
    action, _ = agent.step(observation, torch.zeros(5, dtype=torch.long), torch.zeros(5))
    assert action.shape == (5,)
    first = next(m for m in agent.model.modules() if isinstance(m, torch.nn.Conv2d))
    assert first.in_channels == (shape[2] if shape[2] < min(shape[:2]) else shape[0])


@pytest.mark.parametrize("recurrent", [False, True])
def test_order_of_channels_and_type_of_pixels_change_nothing(recurrent):
    image, values = torch.randint(256, (5, 9, 7, 3), dtype=torch.uint8), []
    pixels = [(image, 255), (image.movedim(-1, 1), 255), (image.float(), 255), (image / 255, 1)]
    for x, high in pixels:
        dtype = "uint8" if x.dtype == torch.uint8 else "float32"
        chosen = spaces_of(spaces.Box(0, high, x.shape[1:], dtype), spaces.Discrete(2))
        agent = agent_for(chosen, recurrent)
        torch.manual_seed(0)
        agent.initialize(chosen)
        agent.sample_mode(0)
        _, info = agent.step(x, torch.zeros(5, dtype=torch.long), torch.zeros(5))
        values.append(info.value)
    for other in values[1:]:
        torch.testing.assert_close(values[0], other)
    assert values[0].std() > 0.01
