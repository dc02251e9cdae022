"""An environment whose observation has an image, a category, a vector and a nested part."""

import gymnasium
import numpy as np
from gymnasium import spaces

ACTIONS = dict(
    discrete=spaces.Discrete(2),
    box=spaces.Box(-2.0, 2.0, (2,)),
    several=spaces.MultiDiscrete([2, 3]),
)


class PartsEnv(gymnasium.Env):
    """Pays 1 for the side that the image shows, or for the other side if the category says so.

    Episodes have three steps. The answer is in image and category together: neither helps alone.

    Args:
        action: "discrete", "box" (the sign of the first component counts) or "several" (the first).
        hide: "image" or "kind" shows the same at all times.
        image_alone: the observation is the image.
    """

    def __init__(self, action="discrete", hide=None, image_alone=False):
        self.action_space = ACTIONS[action]
        self.hide, self.image_alone = hide, image_alone
        image = spaces.Box(0, 255, (6, 6, 3), np.uint8)
        parts = dict(at=spaces.Box(-1, 1, (2,)), kind=spaces.Discrete(2, start=1))
        nested = spaces.Dict(image=image, flags=spaces.MultiBinary(3))
        self.observation_space = image if image_alone else spaces.Dict(**parts, inner=nested)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._observe(), {}

    def step(self, action):
        side = int(np.ravel(action)[0] > 0)
        reward = float(side == (self._side + self._kind) % 2)
        self._t += 1
        return self._observe(), reward, self._t == 3, False, {}

    def _observe(self):
        self._side, self._kind = self.np_random.integers(2, size=2)
        if self.hide == "kind" or self.image_alone:
            shown_kind = 0
        else:
            shown_kind = self._kind
        if self.image_alone:
            self._kind = 0
        image = np.zeros((6, 6, 3), np.uint8)
        if self.hide != "image":
            image[:, 3 * self._side : 3 * self._side + 3] = 255
        if self.image_alone:
            return image
        at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        flags = self.np_random.integers(2, size=3, dtype=np.int8)
        kind = np.int64(1 + shown_kind)
        return dict(at=at, kind=kind, inner=dict(image=image, flags=flags))
