"""An environment that refuses actions without the dtype and shape of its space."""

import gymnasium
import numpy as np
from gymnasium import spaces

SHAPES = dict(
    grid=spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [0, 5]]),
    plain_grid=spaces.MultiDiscrete([[2, 3], [4, 2]]),
    narrow=spaces.MultiDiscrete([2, 3], dtype=np.int32),
    bits=spaces.MultiBinary((2, 2)),
    choice=spaces.Discrete(3, dtype=np.int32),
    parts=spaces.Dict(
        a=spaces.Box(-1, 2, (2, 2)),
        b=spaces.MultiDiscrete([[2, 3]]),
        c=spaces.Tuple([spaces.Box(-1, 1, (), np.float64), spaces.Discrete(3, dtype=np.int16)]),
    ),
    box=spaces.Box(-0.3, 0.1, (2, 2)),
    half=spaces.Box(-1, 1, (2,), np.float16),
    double=spaces.Box(-0.3, 0.1, (2, 1), np.float64),
    single=spaces.Box(-1, 1, ()),
)


class ShapedEnv(gymnasium.Env):
    """Episodes of four steps.

    Args:
        action: key of ``SHAPES``.
        dict_observation: observations are a Dict, else a vector.
    """

    def __init__(self, action="grid", dict_observation=False):
        self.action_space = SHAPES[action]
        self.dict_observation = dict_observation
        self.observation_space = vector = spaces.Box(0, 4, (2,), np.float32)
        if dict_observation:
            self.observation_space = spaces.Dict({"my-key": vector, "kind": spaces.Discrete(5)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        assert_form(self.action_space, action)
        self.t += 1
        return self._observe(), 1.0, False, self.t == 4, {}

    def _observe(self):
        vector = np.array([self.t, 1], np.float32)
        return {"my-key": vector, "kind": self.t} if self.dict_observation else vector


def assert_form(space, action):
    """Raise AssertionError unless an action has structure, shape and dtype of its space."""
    assert space.contains(action), (space, action)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        keys = space.keys() if isinstance(space, spaces.Dict) else range(len(space))
        for key in keys:
            assert_form(space[key], action[key])
    elif not isinstance(action, int):
        assert (action.dtype, action.shape) == (space.dtype, space.shape), (space, action)
