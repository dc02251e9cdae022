"""Augmented random search (Mania, Guy & Recht 2018)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.es.base import Array, MirroredES
from rlpyt.utils.checks import check_range


class ARS(MirroredES):
    """Augmented random search: finite differences along the best random directions.

    Designed for linear policies with normalized observations (version V2 of the paper).

    Args:
        x0, sigma0, opts, popsize, seed: see `BaseES`; popsize must be even, two per direction.
        learning_rate: alpha; 0.01 to 0.05.
        top_frac: fraction of directions to use, b / N; 0.2 to 1.
    """

    _learned = ()

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
        learning_rate: float = 0.02,
        top_frac: float = 0.5,
    ) -> None:
        super().__init__(x0, sigma0, opts, popsize=popsize, seed=seed)
        check_range("learning_rate", learning_rate, 0, open_low=True, finite=True)
        check_range("top_frac", top_frac, 0, 1, open_low=True)
        self.learning_rate = learning_rate
        self.n_top = max(1, round(top_frac * self.popsize / 2))

    @property
    def stds(self) -> Array:
        """Standard deviation of each component, always sigma0."""
        return np.full(self.n, self.sigma0)

    def _update(self, solutions: Array, values: Array) -> None:
        """Move the mean by alpha / (b sigma_R) sum_k (r_k+ - r_k-) delta_k (algorithm 2).

        Raises:
            ValueError: a value is infinite; steps are weighted by values, not by ranks.
        """
        if not np.isfinite(values).all():
            raise ValueError("ARS needs finite function values, since it weights steps by them.")
        plus, minus = self._halves(values)
        top = np.argsort(np.minimum(plus, minus), kind="stable")[: self.n_top]
        std = np.concatenate([plus[top], minus[top]]).std()
        if std == 0:
            return  # all values are equal, which gives no direction
        directions = (self._halves(solutions)[0][top] - self.mean) / self.sigma0
        step = (plus[top] - minus[top]) @ directions
        self.mean = self.mean - self.learning_rate / (self.n_top * std) * step
