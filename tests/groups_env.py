"""An environment whose returns depend on a part of the observation that the policy need not see."""

import copy

import gymnasium
import numpy as np
from gymnasium import spaces

ACTIONS = dict(
    discrete=spaces.Discrete(2),
    box=spaces.Box(-2.0, 2.0, (1,)),
    several=spaces.MultiDiscrete([2, 3]),
    hybrid=spaces.Dict(side=spaces.Discrete(2), force=spaces.Box(-1.0, 1.0, (1,))),
)


class GroupsEnv(gymnasium.Env):
    """Pays 1 for the sign of the state's first number, plus the level of the episode.

    The level, -1 or 1, is in the part ``privileged`` only: it does not help to act, but without it
    values cannot be predicted. ``extra`` has a category and an image.
    """

    def __init__(self, action="discrete", length=8, mask=False):
        self.action_space, self.length = copy.deepcopy(ACTIONS[action]), length
        extra = spaces.Dict(kind=spaces.Discrete(3), image=spaces.Box(0, 255, (4, 4, 1), np.uint8))
        parts = dict(state=spaces.Box(-1, 1, (2,)), privileged=spaces.Box(-1, 1, (1,)), extra=extra)
        if mask:
            parts["action_mask"] = spaces.MultiBinary(2)
        self.observation_space = spaces.Dict(parts)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.level = float(self.np_random.choice([-1.0, 1.0]))
        return self.observe(), {}

    def step(self, action):
        action = action["side"] if isinstance(action, dict) else action
        right = (np.ravel(action)[0] > 0) == (self.state[0] > 0)
        self.t += 1
        return self.observe(), float(right) + self.level, self.t == self.length, False, {}

    def observe(self):
        self.state = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        observation = dict(
            state=self.state,
            privileged=np.array([self.level], np.float32),
            extra=dict(
                kind=np.int64(self.np_random.integers(3)),
                image=self.np_random.integers(256, size=(4, 4, 1), dtype=np.uint8),
            ),
        )
        if "action_mask" in self.observation_space.spaces:
            observation["action_mask"] = np.ones(2, np.int8)
        return observation

    def get_state(self):
        return dict(t=self.t, level=self.level, state=self.state.tolist())

    def set_state(self, state):
        self.t, self.level = state["t"], state["level"]
        self.state = np.float32(state["state"])
