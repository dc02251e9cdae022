"""Wrappers that standardize observations and rewards by running statistics.

Evaluate with the training statistics, since another scale makes another task:
``evaluation.load_statistics(training.statistics())``, then ``evaluation.freeze()``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.base import EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.envs.vector.base import Elements, Rows
from rlpyt.envs.vector.wrappers.base import VectorWrapper
from rlpyt.envs.vector.wrappers.reward import RewardWrapper
from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.elements import composite_of
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.checks import check_range
from rlpyt.utils.running import RunningMeanVar, merge_statistics  # noqa: F401

Array = np.ndarray[Any, Any]


class StandardizeObservation(VectorWrapper):
    """Wrapper that standardizes observations: (observation - mean) / sqrt(var + epsilon), clipped.

    The result is float32. Every observation counts once: first ones at the reset, others
    (including final ones) at their step. Floating-point parts of composite observations are
    standardized, other parts unchanged.

    Args:
        env: as for `VectorWrapper`.
        clip: results are limited to [-clip, clip].
        epsilon: constant added to the variance.
        constant_moments: fixed (mean, var) to use instead of running statistics.

    Raises:
        ValueError: no part of the observation is floating-point.
    """

    def __init__(
        self,
        env: EnvLike,
        clip: float = 10.0,
        epsilon: float = 1e-8,
        constant_moments: tuple[Any, Any] | None = None,
    ) -> None:
        check_range("clip", clip, low=0.0, open_low=True)
        check_range("epsilon", epsilon, low=0.0, open_low=True)
        super().__init__(env)
        self.clip, self.epsilon = float(clip), float(epsilon)
        self.moments: list[RunningMeanVar | None] = []
        self._observation_space = _map_leaves(self.env.observation_space, self._standard_space)
        if not any(self.moments):
            raise ValueError(f"{self.env.observation_space} has no floating-point part.")
        self._constant = constant_moments is not None
        if constant_moments is not None:
            for moments in filter(None, self.moments):
                mean, var = (np.broadcast_to(x, np.shape(moments.mean)) for x in constant_moments)
                moments.load({"mean": mean, "var": var, "count": 1})

    def _standard_space(self, space: Space) -> Space:
        if np.dtype(space.dtype).kind != "f":
            self.moments.append(None)
            return space
        self.moments.append(RunningMeanVar(space.shape))
        return FloatBox(-self.clip, self.clip, space.shape)

    def _begin(self, observation: Elements, rows: Rows) -> Any:
        return self._standardize(observation, None)

    def _follow(self, step: EnvStep) -> EnvStep:
        counted = ~self._waiting.mask if self._waiting.n else None
        return step._replace(observation=self._standardize(step.observation, counted))

    def _standardize(self, observation: Elements, counted: Array | None) -> Any:
        leaves = []
        for leaf, moments in zip(leaves_of(observation), self.moments, strict=True):
            if moments is None:
                leaves.append(leaf)
                continue
            if self.training and not self._constant:
                moments.update(leaf if counted is None else leaf[counted])
            scaled = (leaf - moments.mean) / np.sqrt(moments.var + self.epsilon)
            leaves.append(np.clip(scaled, -self.clip, self.clip).astype(np.float32))
        standard = iter(leaves)
        return buffer_func(observation, lambda _: next(standard))

    def _get_learnt(self) -> dict[str, Any]:
        if self._constant:
            return {}
        return {str(i): m.state() for i, m in enumerate(self.moments) if m is not None}

    def _set_learnt(self, learnt: Mapping[str, Any]) -> None:
        for i, moments in enumerate(self.moments):
            if moments is not None and not self._constant:
                moments.load(learnt[str(i)])


class StandardizeReward(RewardWrapper):
    """Wrapper that scales rewards: reward / sqrt(var + epsilon), clipped; var of running returns.

    The running return of a row is R <- discount R + reward, reset to zero after each ``done``.
    The mean is not subtracted, since that would change the task. Rewards are unchanged while the
    variance of returns is zero.

    Args:
        env: as for `VectorWrapper`.
        discount: discount of the algorithm, in [0, 1).
        clip: results are limited to [-clip, clip].
        epsilon: constant added to the variance.
        constant_var: fixed variance to use instead of running statistics.
    """

    def __init__(
        self,
        env: EnvLike,
        discount: float = 0.99,
        clip: float = 10.0,
        epsilon: float = 1e-8,
        constant_var: float | None = None,
    ) -> None:
        check_range("discount", discount, low=0.0, high=np.nextafter(1.0, 0.0))
        check_range("clip", clip, low=0.0, open_low=True)
        check_range("epsilon", epsilon, low=0.0, open_low=True)
        super().__init__(env)
        self.discount, self.clip, self.epsilon = float(discount), float(clip), float(epsilon)
        self.moments = RunningMeanVar()
        self._constant = constant_var is not None
        if constant_var is not None:
            check_range("constant_var", constant_var, low=0.0, open_low=True)
            self.moments.load({"mean": 0.0, "var": constant_var, "count": 1})
        self._return = np.zeros(self.n)

    def _begin(self, observation: Elements, rows: Rows) -> Any:
        self._return[rows] = 0.0
        return observation

    def _change(self, reward: NDArray[np.float32], done: NDArray[np.bool_]) -> Any:
        self._return = self.discount * self._return + reward
        if self.training and not self._constant:
            waiting = self._waiting
            self.moments.update(self._return[~waiting.mask] if waiting.n else self._return)
        self._return[done] = 0.0
        var = self.moments.var
        scale = np.sqrt(var + self.epsilon) if var > self.epsilon else 1.0
        return np.clip(reward / scale, -self.clip, self.clip)

    def _get_own(self) -> dict[str, Any]:
        return {"return": self._return.copy()}

    def _set_own(self, state: Mapping[str, Any]) -> None:
        self._return = np.array(state["return"], np.float64)

    def _get_learnt(self) -> dict[str, Any]:
        return {} if self._constant else self.moments.state()

    def _set_learnt(self, learnt: Mapping[str, Any]) -> None:
        if not self._constant:
            self.moments.load(learnt)


def _map_leaves(space: Space, func: Callable[[Space], Space]) -> Space:
    """Return the space with ``func`` applied to each part that is not composite, in order."""
    composite = composite_of(space)
    if composite is None:
        return func(space)
    mapped = [_map_leaves(part, func) for part in composite.spaces]
    return Composite(mapped, type(composite.null_value()))
