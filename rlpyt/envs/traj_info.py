"""Statistics of trajectories."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.utils.collections import AttrDict


class TrajInfo(AttrDict):
    """Statistics of one trajectory; every public entry is logged.

    Subclass it and extend ``step`` to log more; entries with a leading underscore are not logged.
    Samplers compute this class from complete batches, with the same results; ``step`` of a
    subclass is called after every environment step.
    """

    _discount: float = 1.0  # set by the runner through ``traj_info_kwargs``

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # In the order of the columns of progress.csv.
        self.Length, self.Return = 0, 0.0
        self.NonzeroRewards, self.DiscountedReturn = 0, 0.0

    def step(
        self,
        observation: Any,
        action: Any,
        reward: float,
        done: bool,
        agent_info: Any,
        env_info: Any,
    ) -> None:
        """Add one step to the sums; ``observation`` is the one the action was chosen for.

        If ``env_info`` has a number ``raw_reward`` (the reward before it was scaled), that is added
        instead of the reward.
        """
        t, r = self.Length, float(raw_reward(reward, env_info))
        self.DiscountedReturn += r * self._discount**t
        self.Return += r
        if r:
            self.NonzeroRewards += 1
        self.Length = t + 1

    def terminate(self, observation: Any) -> "TrajInfo":
        """Return the statistics to log for a trajectory that ended with this final observation."""
        return self


def raw_reward(reward: ArrayLike, env_info: object) -> Any:
    """Return ``env_info.raw_reward`` if it has the shape of the reward, otherwise the reward.

    Args:
        reward: a number, or rewards [T, B].
        env_info: info of the same steps.
    """
    raw = getattr(env_info, "raw_reward", None)
    return reward if raw is None or np.shape(raw) != np.shape(reward) else raw
