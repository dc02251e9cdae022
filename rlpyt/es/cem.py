"""The cross-entropy method (Rubinstein 1999; de Boer et al. 2005)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.es.base import Array, BaseES
from rlpyt.utils.checks import check_range, whole_number


class CEM(BaseES):
    """Cross-entropy method: independent normal distributions, refitted to the best candidates.

    Simple and fast to converge, often prematurely, which ``extra_std`` delays (Szita & Lorincz
    2006 add such noise to learn Tetris).

    Args:
        x0, sigma0, opts, popsize, seed: see `BaseES`; sigma0 may be [n].
        elite_frac: fraction of candidates that the distributions are fitted to; 0.1 to 0.5.
        extra_std: added noise, in units of sigma0; its variance is added to that of the elite and
            decreases linearly to zero.
        extra_itrs: generations until the added noise is zero.
    """

    takes_stds = True
    _learned = ("_stds",)

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
        elite_frac: float = 0.2,
        extra_std: float = 0.25,
        extra_itrs: int = 50,
    ) -> None:
        super().__init__(x0, sigma0, opts, popsize=popsize, seed=seed)
        check_range("elite_frac", elite_frac, 0, 1, open_low=True)
        check_range("extra_std", extra_std, 0, finite=True)
        self.n_elite = min(self.popsize, max(2, round(elite_frac * self.popsize)))
        self.extra_std = extra_std
        self.extra_itrs = whole_number("extra_itrs", extra_itrs, 1)
        self._stds = np.broadcast_to(self.sigma0, (self.n,)).copy()

    def default_popsize(self) -> int:
        """Return ten times the number of components, between 20 and 200."""
        return int(np.clip(10 * self.n, 20, 200))

    @property
    def stds(self) -> Array:
        """Fitted standard deviations [n], including the added noise."""
        return self._stds

    def _sample(self) -> Array:
        noise = self.rng.standard_normal((self.popsize, self.n))
        solutions: Array = self.mean + self._stds * noise
        return solutions

    def _update(self, solutions: Array, values: Array) -> None:
        elite = solutions[np.argsort(values, kind="stable")[: self.n_elite]]
        fraction = max(0.0, 1 - (self.iterations + 1) / self.extra_itrs)
        extra = fraction * (self.extra_std * self.sigma0) ** 2
        self.mean = elite.mean(0)
        self._stds = np.sqrt(elite.var(0) + extra)
