"""CartPole with difficulty levels, for curricula."""

from typing import Any

import numpy as np

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.gym_registry import make_registered
from rlpyt.utils.checks import whole_number


class CartPoleLevels(GymEnvWrapper):
    """CartPole-v1 with a different pole length and gravity in each level.

    Level 0 is standard CartPole. Towards the last level the pole gets shorter and gravity
    stronger, so that the pole falls faster: in the last one within a few steps unless corrected
    at once. Observations do not contain the level.

    Args:
        n_levels: number of levels, at least 2.
        render_mode, kwargs: arguments of ``gymnasium.make``.
    """

    HALF_LENGTH = (0.5, 0.06)  # of the pole, m, in the first and last level
    GRAVITY = (9.8, 25.0)  # m/s^2

    def __init__(self, n_levels: int = 50, render_mode: str | None = None, **kwargs: Any) -> None:
        super().__init__(make_registered("CartPole-v1", render_mode=render_mode, **kwargs))
        self.n_levels = whole_number("n_levels", n_levels, 2)
        self.set_task(0)

    def set_task(self, level: int) -> None:
        """Use this level from the next reset on.

        Raises:
            ValueError: ``level`` is not in [0, n_levels).
        """
        if not 0 <= level < self.n_levels:
            raise ValueError(f"level={level} must be in [0, {self.n_levels}).")
        self.task = int(level)
        share = level / (self.n_levels - 1)
        cart: Any = self.env.unwrapped
        cart.length = float(np.interp(share, (0, 1), self.HALF_LENGTH))
        cart.gravity = float(np.interp(share, (0, 1), self.GRAVITY))
        cart.polemass_length = cart.masspole * cart.length
