"""Messages of agents, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.agents.base import EnvSpaces
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from tests.wording import check

VECTOR = spaces.Box(-1, 1, (3,))


def spaces_of(action, observation=VECTOR):
    return EnvSpaces(GymSpaceWrapper(observation), GymSpaceWrapper(action))


BOX = spaces_of(spaces.Box(-1, 1, (2,)))
DISCRETE = spaces_of(spaces.Discrete(4))
UNBOUNDED = spaces_of(spaces.Box(np.array([-1, -np.inf], "f"), np.array([1, np.inf], "f")))
INTEGERS = spaces_of(spaces.Box(0, 5, (2,), np.int32))
MASKED = spaces_of(spaces.Discrete(4), spaces.Dict(state=VECTOR, action_mask=spaces.MultiBinary(5)))

MESSAGES = {
    "actions for Q-learning": (
        TypeError,
        lambda: DqnMlpAgent().initialize(BOX),
        (
            "DqnMlpAgent needs a Discrete action space, got Box(-1.0, 1.0, (2,), float32). For "
            "continuous actions use ppo or a2c with a Gaussian agent, or sac, td3, ddpg; for "
            "several discrete actions or actions of several parts (Dict, Tuple) use ppo, a2c, "
            "vtrace or sac."
        ),
    ),
    "actions for continuous control": (
        TypeError,
        lambda: Td3Agent().initialize(DISCRETE),
        (
            "this agent needs a continuous Box action space of one dimension, got Discrete(4). "
            "For discrete actions and actions of several parts use sac, ppo or a2c; for a "
            "single discrete action also deep Q-learning (dqn, ...)."
        ),
    ),
    "integers in a Box": (
        TypeError,
        lambda: SacAgent().initialize(INTEGERS),
        (
            "this agent needs a continuous Box action space of one dimension, got Box(0, 5, "
            "(2,), int32). For integers use MultiDiscrete, or a Box of floats that the "
            "environment rounds."
        ),
    ),
    "no bounds": (
        ValueError,
        lambda: SacAgent().initialize(UNBOUNDED),
        (
            "component 1 of the action space must have bounds below 1,000,000, got [-inf, inf]. "
            "Declare the range of useful actions (gymnasium.wrappers.RescaleAction does, or a "
            "custom space), or use ppo or a2c, which accept unbounded actions."
        ),
    ),
    "no model": (
        ValueError,
        lambda: DqnAgent().initialize(DISCRETE),
        (
            "DqnAgent has no ModelCls. Pass one, or use an agent with a default model "
            "(rlpyt.agents.dqn.vector for vectors, rlpyt.agents.dqn.atari for images)."
        ),
    ),
    "a mask of another size": (
        ValueError,
        lambda: CategoricalMlpAgent().initialize(MASKED),
        (
            "the observation part 'action_mask' must be a vector of 4 entries 0 or 1, one for "
            "each choice of Discrete(4), got shape (5,) and dtype int8. Correct its space, or "
            "rename the part if it is not a mask of valid actions."
        ),
    ),
    "part of no observation": (
        ValueError,
        lambda: CategoricalMlpAgent(critic_observation=["state"]).initialize(DISCRETE),
        (
            "critic_observation=['state'] must select parts of a Dict or Tuple observation, "
            "but observations have the shape (3,) and no parts. Leave it out, or return a Dict."
        ),
    ),
    "memory of a critic": (
        ValueError,
        lambda: CategoricalMlpAgent(critic_memory="own").initialize(DISCRETE),
        (
            "critic_memory='own' is for recurrent agents, got CategoricalMlpAgent. Leave it "
            "out, or choose a memory."
        ),
    ),
    "memory of critics alone": (
        ValueError,
        lambda: SacAgent(q_model_kwargs=dict(memory="gru")).initialize(BOX),
        (
            "q_model_kwargs: memory must be None if the policy has no memory, got 'gru'. Give "
            "the policy one: model_kwargs=dict(memory=...)."
        ),
    ),
    "exploration that grows": (
        ValueError,
        lambda: DqnMlpAgent(eps_init=0.1, eps_final=0.2),
        "eps_final must not exceed eps_init=0.1, got 0.2: exploration must not grow.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
