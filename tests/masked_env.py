"""An environment with random masks of valid actions, which refuses invalid ones."""

import copy

import gymnasium
import numpy as np
from gymnasium import spaces

SIZES = dict(discrete=(6,), start=(6,), several=(3, 2, 4), bits=(2, 2, 2))
SPACES = dict(
    discrete=spaces.Discrete(6),
    start=spaces.Discrete(6, start=2),
    several=spaces.MultiDiscrete([3, 2, 4]),
    bits=spaces.MultiBinary(3),
)

FRAMES = (4, 6, 6)  # frames, height, width


class InvalidAction(Exception):
    """Raised for an action that the mask forbids."""


class MaskedEnv(gymnasium.Env):
    """In each component about half of the choices are valid; the reward is for the last valid one.

    Episodes are truncated or terminated after 3 to ``length`` steps. The mask is given in one of
    several ways (``source``); with "none" it is not, and invalid actions end the episode. With
    ``image`` the observation is a stack of frames. A ``strict`` environment takes its own faulty
    mask seriously.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = "rgb_array"

    def __init__(
        self, source="info", action="discrete", length=6, fault=None, fault_at=2, image=False,
        strict=False,
    ):  # fmt: skip
        self.action_space, self.sizes = copy.deepcopy(SPACES[action]), SIZES[action]
        self.image, self.strict = image, strict
        self.source, self.length, self.fault, self.fault_at = source, length, fault, fault_at
        self.vector = spaces.Box(0, 255, FRAMES, np.uint8) if image else spaces.Box(-1, 1, (3,))
        self.observation_space = self.vector
        if source == "part":
            mask = spaces.MultiBinary(sum(self.sizes))
            self.observation_space = spaces.Dict(state=self.vector, action_mask=mask)
        if source == "method":
            self.action_masks = self.given
        self.t = self.last = self.steps = 0  # steps in all episodes
        self.parts, self.frames = [], np.zeros(FRAMES, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.last = 0, int(self.np_random.integers(3, self.length + 1))
        self.frames = np.zeros(FRAMES, np.uint8)
        return self.outputs()

    def step(self, action):
        if isinstance(self.action_space, spaces.Discrete):
            action = [action - self.action_space.start]
        valid = [part[a] for part, a in zip(self.parts, action, strict=True)]
        if self.strict and self.fault == "empty" and self.steps >= self.fault_at:
            valid = [False]
        if self.source != "none" and not all(valid):
            raise InvalidAction(f"{action} with {self.parts}")
        best = [a == np.flatnonzero(part)[-1] for part, a in zip(self.parts, action)]
        reward = float(np.mean(best)) if all(valid) else 0.0
        self.t += 1
        self.steps += 1
        over = self.t == self.last
        terminated = not all(valid) or (over and self.last % 2 == 0)
        return (out := self.outputs())[0], reward, terminated, over and not terminated, out[1]

    def outputs(self):
        self.parts = []
        for n in self.sizes:
            part = self.np_random.random(n) < 0.5
            part[self.np_random.integers(n)] = True
            self.parts.append(part)
        state = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        if self.image:
            frame = np.concatenate(self.parts)[None] * self.np_random.integers(1, 255, FRAMES[1:])
            state = self.frames = np.stack([*self.frames[1:], frame.astype(np.uint8)])
        mask = self.given()
        info = {"t": self.t}
        if self.source == "part":
            return {"state": state, "action_mask": mask.astype(np.int8)}, info
        if self.source == "info" and mask is not None:
            info["action_mask"] = mask
        if self.source == "components":
            info["action_mask"] = tuple(part.astype(np.int8) for part in self.parts)
        return state, info

    def get_state(self):
        return dict(
            t=self.t, last=self.last, steps=self.steps, parts=self.parts, frames=self.frames
        )

    def set_state(self, state):
        vars(self).update(state)

    def render(self):
        return np.full((32, 32, 3), 40 * self.t, np.uint8)

    def given(self):
        mask = np.concatenate(self.parts)
        if self.fault is None or self.steps < self.fault_at:
            return mask
        return {
            "missing": lambda: None,
            "empty": lambda: np.zeros_like(mask),
            "final": lambda: mask & (self.t < self.last),
            "short": lambda: mask[:-1],
            "object": lambda: mask.astype(object),
            "values": lambda: mask * 2,
            "large": lambda: mask.astype(np.int8) * 3,
            "text": lambda: mask.astype(str),
            "floats": lambda: mask * 1.0,
            "ints": lambda: mask.astype(np.int64),
        }[self.fault]()
