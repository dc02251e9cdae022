"""Messages of environments, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.base import Env
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.toy import TruncationEnv
from rlpyt.envs.vector.make import make_vec
from tests.wording import check


class Spaceless(Env):
    def reset(self):
        return 0

    def step(self, action):
        return 0


class Returns(gymnasium.Env):
    """Return one thing from reset and another from step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reset, step=None):
        self.results = reset, step

    def reset(self, *, seed=None, options=None):
        return self.results[0]

    def step(self, action):
        return self.results[1]


def stepped(**changed):
    parts = dict(observation=np.zeros(2), reward=1.0, terminated=False, truncated=False, info={})
    first = np.zeros(2, np.float32), {}
    env = GymEnvWrapper(Returns(first, tuple({**parts, **changed}.values())))
    env.reset()
    env.step(0)


MESSAGES = {
    "no space": (
        AttributeError,
        lambda: Spaceless().action_space,
        (
            "Spaceless has no action_space: set self._action_space in its constructor, or "
            "define the property action_space."
        ),
    ),
    "class for an instance": (
        TypeError,
        lambda: GymEnvWrapper(gymnasium.Env),
        (
            "GymEnvWrapper requires an environment, got <class 'gymnasium.core.Env'>. Build it "
            "first: GymEnvWrapper(MyEnv()), or make('CartPole-v1') for an id."
        ),
    ),
    "result of reset": (
        TypeError,
        lambda: GymEnvWrapper(Returns(reset=None)).reset(),
        "<Returns instance>.reset() returned None, expected (observation, info dict).",
    ),
    "reward": (
        TypeError,
        lambda: stepped(reward=None),
        (
            "<Returns instance>.step() returned reward None (NoneType), expected a number. "
            "Return float(reward); sum several rewards."
        ),
    ),
    "huge reward": (
        TypeError,
        lambda: stepped(reward=10**5000),
        (
            "<Returns instance>.step() returned a reward (int) beyond the range of floats. Return "
            "float(reward), of moderate size."
        ),
    ),
    "end of an episode": (
        TypeError,
        lambda: stepped(terminated="no"),
        (
            "<Returns instance>.step() returned terminated='no' (str), expected True or False. "
            "Return bool(terminated)."
        ),
    ),
    "info": (
        TypeError,
        lambda: stepped(info=[]),
        (
            "<Returns instance>.step() returned info=[] (list), expected a dict. Return {} if "
            "there is nothing to report."
        ),
    ),
    "no id": (
        TypeError,
        lambda: make(id=None),
        "make() needs the id of an environment, e.g. make('CartPole-v1').",
    ),
    "old version": (
        UserWarning,
        lambda: make("Pendulum-v0"),
        (
            "'Pendulum-v0' is no longer available: running 'Pendulum-v1'; results may differ "
            "from those published for the old version."
        ),
    ),
    "range": (
        TypeError,
        lambda: TruncationEnv(horizon=1.5),
        "horizon=1.5 must be a whole number of at least 1.",
    ),
    "number of environments": (
        TypeError,
        lambda: make_vec("CartPole-v1"),
        "make_vec() requires num_envs; samplers pass it unless env_kwargs contains it.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
