"""An environment with any kind of observation and action, with a mask of actions or without."""

import copy

import gymnasium
import numpy as np
from gymnasium import spaces

from rlpyt.envs.state import pack_rng, set_rng

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (8, 8, 1), np.uint8)
OBSERVATIONS = dict(
    vector=VECTOR,
    image=IMAGE,
    dict=spaces.Dict(at=VECTOR, inner=spaces.Dict(image=IMAGE, kind=spaces.Discrete(2, start=1))),
)
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32))
ACTIONS = dict(
    discrete=spaces.Discrete(3, start=1),
    multi_discrete=spaces.MultiDiscrete([3, 2]),
    multi_binary=spaces.MultiBinary(2),
    box=BOX,
    hybrid=spaces.Dict(force=BOX, kind=spaces.Discrete(3)),
)
CHOICES = dict(discrete=(3,), multi_discrete=(3, 2), multi_binary=(2, 2), box=(), hybrid=(3,))


class CombinedEnv(gymnasium.Env):
    """Random observations, and rewards for actions; invalid actions are an error.

    Episodes have 1 to 4 steps; those with an odd number are truncated, others terminated.

    Args:
        observation: key of ``OBSERVATIONS``.
        action: key of ``ACTIONS``.
        masked: give masks in info; about half of the choices are valid. With "box", which has no
            choices, this is a mistake.
    """

    def __init__(self, observation="vector", action="discrete", masked=False):
        self.observation_space = copy.deepcopy(OBSERVATIONS[observation])
        self.action_space = copy.deepcopy(ACTIONS[action])
        self.kind, self.choices, self.masked = observation, CHOICES[action], masked

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.last = 0, int(self.np_random.integers(1, 5))
        return self.outputs()

    def step(self, action):
        assert self.action_space.contains(action), action
        chosen, force = action, np.zeros(1)
        if isinstance(self.action_space, spaces.Dict):
            chosen, force = action["kind"], action["force"]
        elif not self.choices:
            chosen, force = (), action
        chosen = np.atleast_1d(chosen) - getattr(self.action_space, "start", 0)
        if self.masked:
            first = np.cumsum((0, *self.choices[:-1]))
            assert self.mask[first + chosen].all(), (action, self.mask)
        self.t += 1
        reward = float(np.sum(chosen) / 4 + np.mean(force))
        over = self.t == self.last
        odd = self.last % 2 == 1
        observation, info = self.outputs()
        return observation, reward, over and not odd, over and odd, info

    def outputs(self):
        rng = self.np_random
        vector = (rng.integers(-4, 5, 3) / 4).astype(np.float32)
        image = rng.integers(0, 256, IMAGE.shape, dtype=np.uint8)
        kind = np.int64(rng.integers(1, 3))
        parts = dict(at=vector, inner=dict(image=image, kind=kind))
        shown = dict(vector=vector, image=image, dict=parts)[self.kind]
        if not self.masked:
            return shown, {}
        masks = []
        for n in self.choices or (2,):
            masks.append(rng.random(n) < 0.5)
            masks[-1][rng.integers(n)] = True
        self.mask = np.concatenate(masks)
        return shown, {"action_mask": self.mask}

    def get_state(self):
        mask = self.mask if self.masked else None
        return dict(t=self.t, last=self.last, mask=mask, rng=pack_rng(self.np_random))

    def set_state(self, state):
        self.t, self.last, self.mask = state["t"], state["last"], state["mask"]
        set_rng(self.np_random, state["rng"])
