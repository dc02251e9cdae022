"""Normalization of rewards by the running standard deviation of discounted returns."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.models.running_mean_std import RunningMeanStdModel

CLIP, EPSILON = 10.0, 1e-8


class RewardNormalizer:
    """Divides rewards by the standard deviation of running discounted returns, and clips them.

        R_t = r_t + gamma (1 - d_{t-1}) R_{t-1},    r'_t = clip(r_t / sqrt(Var[R] + 1e-8), -10, 10)

    as `gymnasium.wrappers.NormalizeReward` and VecNormalize of Stable-Baselines3 do, except that
    all rewards of a batch have the same scale, which includes this batch. The mean is not
    subtracted, since that would change the task. Rewards are only clipped while the variance is
    zero. The variance is that of all steps of all environments and ranks, so that it is the same
    in every sampler.

    Args:
        B: number of environments.
        discount: gamma.
        device: device on which ranks exchange their statistics.
    """

    def __init__(self, B: int, discount: float, device: torch.device) -> None:
        self.discount = discount
        self.moments = RunningMeanStdModel(()).to(device)
        self._return = np.zeros(B)  # R of the last step, zero after a done

    def update(self, reward: Tensor, done: Tensor, valid: Tensor | None = None) -> Tensor:
        """Update the statistics with a batch; return the running returns [N] of its steps.

        Args:
            reward, done: [T, B].
            valid: [T, B], zero for rows that are not steps; ``None``: all are.
        """
        r, ended = reward.numpy(force=True), done.numpy(force=True) > 0
        returns = np.empty(r.shape)
        for t in range(len(r)):
            returns[t] = self._return = self.discount * self._return + r[t]
            self._return = np.where(ended[t], 0.0, self._return)
        data = torch.from_numpy(returns if valid is None else returns[valid.numpy(force=True) > 0])
        self.moments.update(data)
        return data

    def __call__(self, reward: Tensor, done: Tensor, valid: Tensor | None = None) -> Tensor:
        """Update the statistics with a batch; return its normalized rewards.

        Args:
            reward, done, valid: see ``update``.

        Returns:
            [T, B] float32, on the device of ``reward``.
        """
        self.update(reward, done, valid)
        return (reward / self.scale).clamp(-CLIP, CLIP).float()

    @property
    def scale(self) -> float:
        """Return the standard deviation by which rewards are divided; 1 while it is zero."""
        var = float(self.moments.state_dict()["var"])
        counted = float(self.moments.count) > 0 and var > EPSILON
        return float(np.sqrt(var + EPSILON)) if counted else 1.0

    def restart(self) -> None:
        """Start new episodes in all environments."""
        self._return[:] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, and the returns of episodes in progress."""
        moments = {name: x.cpu().clone() for name, x in self.moments.state_dict().items()}
        return {"moments": moments, "return": self._return.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        self.moments.load_state_dict(state["moments"])
        self._return = np.array(state["return"], np.float64)


class ReturnScale(RewardNormalizer):
    """Scale of rewards with which returns vary by about 1, and stay below a limit.

    The scale is max(std[R], min R / low, max R / high) (Lee et al. 2025, SimbaV2, with the limits
    -5 and 5). A limit of the other sign, zero or infinity does not count.

    Args:
        B, discount, device: see `RewardNormalizer`.
        limits: lowest and highest return after scaling.
    """

    def __init__(
        self, B: int, discount: float, device: torch.device, limits: tuple[float, float]
    ) -> None:
        super().__init__(B, discount, device)
        self._low, self._high = limits
        self._lowest = self._highest = 0.0

    def update(self, reward: Tensor, done: Tensor, valid: Tensor | None = None) -> Tensor:
        """Update the statistics with a batch; return the running returns [N] of its steps."""
        returns = super().update(reward, done, valid)
        if len(returns):
            self._lowest = min(self._lowest, float(returns.min()))
            self._highest = max(self._highest, float(returns.max()))
        return returns

    @property
    def scale(self) -> float:
        """Return the number by which rewards are divided."""
        below = self._lowest / self._low if self._low < 0 else 0.0
        above = self._highest / self._high if self._high > 0 else 0.0
        return max(super().scale, below, above)

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, and the returns of episodes in progress."""
        return {**super().state_dict(), "range": [self._lowest, self._highest]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        super().load_state_dict(state)
        self._lowest, self._highest = map(float, state["range"])
