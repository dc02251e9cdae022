"""Covariance matrix adaptation, with a full or a diagonal covariance.

Equation numbers refer to Hansen 2016, "The CMA evolution strategy: a tutorial" (arXiv 1604.00772).
The diagonal variant is Ros & Hansen 2008.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.es.base import Array, BaseES


class Rates(NamedTuple):
    """Recombination weights and learning rates (table 1)."""

    weights: Array  # [popsize], best candidate first; not positive in the second half
    mu: int  # number of candidates that the mean moves towards
    mu_eff: float
    c_sigma: float
    d_sigma: float
    c_c: float
    c_1: float
    c_mu: float


def default_rates(n: int, popsize: int, diagonal: bool = False) -> Rates:
    """Return the default rates for n components (Hansen 2016, eq. 49 to 58).

    A diagonal covariance has fewer parameters, so c_1 and c_mu are (n + 2) / 3 times as large (Ros
    & Hansen 2008).
    """
    raw = np.log((popsize + 1) / 2) - np.log(np.arange(1, popsize + 1))  # 49
    mu = popsize // 2
    best, worst = raw[:mu], raw[mu:]
    mu_eff = float(best.sum() ** 2 / (best**2).sum())
    mu_eff_minus = float(worst.sum() ** 2 / (worst**2).sum()) if worst.any() else 0.0
    c_sigma = (mu_eff + 2) / (n + mu_eff + 5)  # eq. 55
    d_sigma = 1 + 2 * max(0.0, np.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma  # 55
    c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)  # 56
    faster = (n + 2) / 3 if diagonal else 1.0
    c_1 = min(0.5, faster * 2 / ((n + 1.3) ** 2 + mu_eff))  # 57
    c_mu = 2 * (0.25 + mu_eff + 1 / mu_eff - 2) / ((n + 2) ** 2 + mu_eff)  # 58
    c_mu = min(1 - c_1, faster * c_mu)
    alpha = min(  # 50, 51, 52
        1 + c_1 / c_mu, 1 + 2 * mu_eff_minus / (mu_eff + 2), (1 - c_1 - c_mu) / (n * c_mu)
    )
    weights = np.where(raw >= 0, raw / best.sum(), alpha * raw / max(-worst.sum(), 1e-300))  # 53
    return Rates(weights, mu, mu_eff, c_sigma, float(d_sigma), c_c, c_1, c_mu)


class CMAES(BaseES):
    """CMA-ES: adapts mean, step size and covariance of a normal distribution.

    The strongest choice for up to a few hundred components. A full covariance takes n^2 memory and
    n^3 / popsize time per candidate; use ``diagonal`` for more components or for few evaluations
    per component.

    Args:
        x0, sigma0, opts, popsize, seed: see `BaseES`; sigma0 may be [n].
        diagonal: learn a standard deviation for each component, but no correlations.
    """

    takes_stds = True
    min_popsize = 4
    _learned = ("sigma", "C", "p_sigma", "p_c", "_axes", "_lengths", "_decomposed")

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
        diagonal: bool = False,
    ) -> None:
        super().__init__(x0, sigma0, opts, popsize=popsize, seed=seed)
        n, self.diagonal = self.n, diagonal
        self.rates = default_rates(n, self.popsize, diagonal)
        self.sigma = float(np.max(self.sigma0))
        variances = np.broadcast_to((self.sigma0 / self.sigma) ** 2, (n,)).copy()
        self.C: Any = variances if diagonal else np.diag(variances)  # [n] or [n, n]
        self.p_sigma, self.p_c = np.zeros(n), np.zeros(n)
        # C = axes diag(lengths^2) axes^T, as of iteration ``_decomposed``.
        self._lengths: Array = np.sqrt(variances)
        self._axes: Array = np.zeros(0) if diagonal else np.eye(n)
        self._decomposed = 0
        self._norm = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # E ||N(0, I)||

    @property
    def stds(self) -> Array:
        """Standard deviations [n], sigma sqrt(C_ii)."""
        variances = self.C if self.diagonal else np.diag(self.C)
        stds: Array = self.sigma * np.sqrt(variances)
        return stds

    def _sample(self) -> Array:
        z = self.rng.standard_normal((self.popsize, self.n))  # 38
        y = z * self._lengths  # 39
        if not self.diagonal:
            y = y @ self._axes.T
        solutions: Array = self.mean + self.sigma * y  # 40
        return solutions

    def _whiten(self, y: Array) -> Array:
        """Return C^(-1/2) y for rows [..., n]."""
        if self.diagonal:
            return y / self._lengths
        white: Array = ((y @ self._axes) / self._lengths) @ self._axes.T
        return white

    def _update(self, solutions: Array, values: Array) -> None:
        if values.min() == values.max():  # equally good candidates carry no information
            return
        w, mu, mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu = self.rates
        order = np.argsort(values, kind="stable")
        y = (solutions[order] - self.mean) / self.sigma
        step = w[:mu] @ y[:mu]  # 41
        self.mean = self.mean + self.sigma * step  # 42
        rate = np.sqrt(c_sigma * (2 - c_sigma) * mu_eff)
        self.p_sigma = (1 - c_sigma) * self.p_sigma + rate * self._whiten(step)  # 43
        length = float(np.linalg.norm(self.p_sigma))
        expected = np.sqrt(1 - (1 - c_sigma) ** (2 * (self.iterations + 1)))
        h = float(length / expected < (1.4 + 2 / (self.n + 1)) * self._norm)
        self.p_c = (1 - c_c) * self.p_c + h * np.sqrt(c_c * (2 - c_c) * mu_eff) * step  # 45
        lengths = (self._whiten(y[mu:]) ** 2).sum(1)
        scaled = w.copy()
        scaled[mu:] *= self.n / np.maximum(lengths, 1e-300)  # 46
        keep = 1 + c_1 * (1 - h) * c_c * (2 - c_c) - c_1 - c_mu * w.sum()
        if self.diagonal:
            added = c_1 * self.p_c**2 + c_mu * (scaled @ y**2)
        else:
            added = c_1 * np.outer(self.p_c, self.p_c) + c_mu * ((y.T * scaled) @ y)
        self.C = keep * self.C + added  # 47
        # At most a factor of e per generation, as in Hansen's implementation.
        self.sigma *= float(np.exp(min(1.0, c_sigma / d_sigma * (length / self._norm - 1))))  # 44
        self._decompose()

    def _decompose(self) -> None:
        """Update the eigendecomposition of C, unless C has hardly changed (appendix B.2)."""
        if self.diagonal:
            self.C = np.maximum(self.C, 1e-300)
            self._lengths = np.sqrt(self.C)
            return
        now = self.iterations + 1
        interval = max(1, int(1 / (10 * self.n * (self.rates.c_1 + self.rates.c_mu))))
        if now - self._decomposed < interval:
            return
        self._decomposed = now
        self.C = (self.C + self.C.T) / 2
        variances, self._axes = np.linalg.eigh(self.C)
        # Rounding may make the smallest eigenvalues zero or negative.
        self._lengths = np.sqrt(np.maximum(variances, 1e-14 * variances[-1]))
        if variances[0] < 1e-14 * variances[-1] or variances[-1] < 1e-12:
            # C degenerates if many candidates stay equally good. Moving its scale into sigma leaves
            # the distribution as it is.
            scale = self._lengths[-1]
            self._lengths, self.p_c = self._lengths / scale, self.p_c / scale
            self.sigma *= float(scale)
            self.C = (self._axes * self._lengths**2) @ self._axes.T
