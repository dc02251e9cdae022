"""Which ready agent fits an environment's spaces, and what none fits."""

import pytest
from gymnasium import spaces

from rlpyt.agents.dqn.vector import dqn_agent_for
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


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (IMAGE, r"observation.inner.odd is an image of shape \(3, 8, 8\)"),
        (spaces.Discrete(4), r"observation.inner.odd is a category number \(Discrete\(4\)"),
        (spaces.MultiDiscrete([2, 3]), "a category number"),
    ],
)
def test_other_dictionaries_are_refused_with_a_remedy(part, said):
    observation = spaces.Dict(at=VECTOR, inner=spaces.Dict(odd=part))
    chosen = spaces_of(observation, spaces.Discrete(2))
    for choose in (agent_for, lambda own: dqn_agent_for("dqn", own)):
        with pytest.raises(TypeError, match=said + ".*FlattenObservation"):
            choose(chosen)


def test_composites_of_a_users_own_are_looked_at_as_well():
    Parts = namedarraytuple("Parts", ["at", "kind"])
    observation = Composite([FloatBox(-1, 1, shape=2), IntBox(0, 4)], Parts)
    with pytest.raises(TypeError, match="observation.kind is a category number"):
        agent_for(EnvSpaces(observation, IntBox(0, 2)))


def test_an_action_of_several_spaces_is_refused_with_what_fits():
    action = spaces.Tuple([spaces.Discrete(2), VECTOR])
    with pytest.raises(TypeError, match=r"Discrete\(2\).*one Box, Discrete, MultiDiscrete or"):
        agent_for(spaces_of(VECTOR, action))
