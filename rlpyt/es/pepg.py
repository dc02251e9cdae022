"""Parameter-exploring policy gradients (Sehnke et al. 2010), with symmetric sampling."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.es.base import Array, MirroredES
from rlpyt.es.openai_es import adam_step
from rlpyt.utils.checks import check_range
from rlpyt.utils.transforms import rank_transform


class PEPG(MirroredES):
    """OpenAI-ES with a standard deviation per component, also learned by gradient.

    Values are replaced by their ranks, and Adam takes the steps of the mean.

    Args:
        x0, sigma0, opts, popsize, seed: see `BaseES`; popsize must be even; sigma0 may be [n].
        learning_rate: learning rate of Adam, for the mean; 0.001 to 0.1.
        std_learning_rate: learning rate of the standard deviations; 0.05 to 0.5.
        max_change: maximum relative change of a standard deviation per generation; below 1.
    """

    takes_stds = True
    _learned = ("_stds", "_m", "_v")

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
        learning_rate: float = 0.01,
        std_learning_rate: float = 0.1,
        max_change: float = 0.2,
    ) -> None:
        super().__init__(x0, sigma0, opts, popsize=popsize, seed=seed)
        check_range("learning_rate", learning_rate, 0, open_low=True, finite=True)
        check_range("std_learning_rate", std_learning_rate, 0)
        # At 1 a standard deviation could become zero.
        check_range("max_change", max_change, 0, np.nextafter(1.0, 0.0))
        self.learning_rate, self.std_learning_rate = learning_rate, std_learning_rate
        self.max_change = max_change
        self._stds = np.broadcast_to(self.sigma0, (self.n,)).copy()
        self._m, self._v = np.zeros(self.n), np.zeros(self.n)

    @property
    def stds(self) -> Array:
        """Learned standard deviations [n]."""
        return self._stds

    def _update(self, solutions: Array, values: Array) -> None:
        """Update mean and standard deviations by symmetric estimates (Sehnke et al. 2010)."""
        noise = self._halves(solutions)[0] - self.mean
        plus, minus = self._halves(rank_transform(values, share_ties=True))
        gradient = (plus - minus) @ noise / self.popsize
        step, self._m, self._v = adam_step(gradient, self._m, self._v, self.iterations + 1)
        self.mean = self.mean - self.learning_rate * step
        # Centered ranks have mean zero, which is the baseline.
        curvature = (noise**2 - self._stds**2) / self._stds
        change = -self.std_learning_rate * ((plus + minus) / 2) @ curvature / (self.popsize / 2)
        limit = self.max_change * self._stds
        self._stds = self._stds + np.clip(change, -limit, limit)
