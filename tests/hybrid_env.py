"""An environment with an action of several parts, each of which must fit the observation."""

import copy

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (2,), np.float32)
HALF = spaces.Box(np.array([-2, -np.inf], np.float32), np.array([4, np.inf], np.float32))
ACTIONS = dict(
    dict=spaces.Dict(kind=spaces.Discrete(3, start=1), force=BOX),
    tuple=spaces.Tuple([spaces.Discrete(2), HALF, spaces.MultiBinary(2)]),
    nested=spaces.Dict(
        arm=spaces.Dict(force=HALF, grip=spaces.Discrete(2)),
        legs=spaces.Tuple([spaces.MultiDiscrete([2, 3]), BOX]),
    ),
    discrete=spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([3])]),
    boxes=spaces.Tuple([BOX, HALF]),
)


def leaves(space, action):
    """Return (space, value) of every part of an action."""
    if isinstance(space, spaces.Dict):
        return [x for key, part in space.items() for x in leaves(part, action[key])]
    if isinstance(space, spaces.Tuple):
        return [x for part, value in zip(space, action, strict=True) for x in leaves(part, value)]
    return [(space, action)]


class HybridEnv(gymnasium.Env):
    """The observation is a target in [0, 1]; each part of the action scores up to 1 if it fits it.

    A discrete component must be its last choice if the target is above 1/2, else its first; a Box
    must be near 1 or -1. With ``masked``, a random half of the choices that do not fit is invalid.

    Args:
        action: key of ``ACTIONS``, or an action space.
        length: steps of an episode.
        masked: give masks of valid choices.
    """

    def __init__(self, action="dict", length=4, masked=False):
        self.action_space = copy.deepcopy(ACTIONS[action] if isinstance(action, str) else action)
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.length, self.masked = length, masked
        self.t, self.high, self.parts, self.sizes = 0, False, [], []
        for space, _ in leaves(self.action_space, self.action_space.sample()):
            if isinstance(space, spaces.Discrete):
                self.sizes.append(int(space.n))
            elif not isinstance(space, spaces.Box):
                self.sizes += getattr(space, "nvec", np.full(space.shape, 2)).tolist()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.outputs()

    def step(self, action):
        assert self.action_space.contains(action), action
        scores, parts = [], iter(self.parts)
        for space, value in leaves(self.action_space, action):
            if isinstance(space, spaces.Box):
                scores += (1 - np.abs(value - (1 if self.high else -1)).clip(0, 1)).tolist()
                continue
            chosen = np.ravel(value) - getattr(space, "start", 0) * np.ones(1, int)
            sizes = np.ravel(getattr(space, "nvec", getattr(space, "n", 2)))
            sizes = np.full(chosen.shape, 2) if isinstance(space, spaces.MultiBinary) else sizes
            scores += (chosen == (sizes - 1 if self.high else 0)).tolist()
            if self.masked:
                assert all(next(parts)[v] for v in chosen), "an invalid choice"
        self.t += 1
        observation, info = self.outputs()
        return observation, float(np.mean(scores)), False, self.t == self.length, info

    def outputs(self):
        target = self.np_random.random(1, np.float32)
        self.high = bool(target[0] > 0.5)
        if not self.masked:
            return target, {}
        self.parts = []
        for n in self.sizes:
            part = self.np_random.random(n) < 0.5
            part[-1 if self.high else 0] = True
            self.parts.append(part)
        return target, {"action_mask": np.concatenate(self.parts)}

    def get_state(self):
        return {"t": self.t, "high": self.high, "parts": list(self.parts)}

    def set_state(self, state):
        self.t, self.high, self.parts = state["t"], state["high"], state["parts"]
