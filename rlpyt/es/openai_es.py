"""Evolution strategy of Salimans et al. 2017, with a gradient from random directions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.es.base import Array, BaseES
from rlpyt.utils.checks import check_range
from rlpyt.utils.transforms import rank_transform

ADAM = (0.9, 0.999, 1e-8)  # beta1, beta2, epsilon


def adam_step(gradient: Array, m: Array, v: Array, t: int) -> tuple[Array, Array, Array]:
    """Return one step of Adam (Kingma & Ba 2015, algorithm 1).

    Args:
        gradient: [n].
        m, v: [n], moment estimates, initially zero.
        t: number of this step, starting at 1.

    Returns:
        (step, m, v): step to subtract, for a learning rate of one, and new moment estimates.
    """
    beta1, beta2, epsilon = ADAM
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    step = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon)
    return step, m, v


class OpenAIES(BaseES):
    """Gradient descent on the smoothed function E f(mean + sigma eps), with a scheduled sigma.

    For many components and large populations. Candidates come in pairs mean + sigma eps and mean -
    sigma eps (antithetic sampling), rows i and i + popsize / 2. Values are replaced by their ranks,
    and Adam takes the steps.

    Args:
        x0, sigma0, opts, popsize, seed: see `BaseES`; popsize must be even.
        learning_rate: learning rate of Adam, the step size of each component; 0.001 to 0.1.
        weight_decay: coefficient of the mean that is added to the gradient, whose components are
            below 1 / sigma since values are ranks; 0 to 0.01.
        learning_rate_decay, sigma_decay: factors per generation.
        sigma_min: the smallest sigma, in units of sigma0.
    """

    _learned = ("sigma", "learning_rate", "_m", "_v")

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        learning_rate_decay: float = 1.0,
        sigma_decay: float = 1.0,
        sigma_min: float = 0.01,
    ) -> None:
        super().__init__(x0, sigma0, opts, popsize=popsize, seed=seed)
        if self.popsize % 2:
            raise ValueError(f"popsize={self.popsize} must be even: candidates come in pairs.")
        check_range("learning_rate", learning_rate, 0, finite=True)
        check_range("weight_decay", weight_decay, 0, finite=True)
        check_range("learning_rate_decay", learning_rate_decay, 0, 1, open_low=True)
        check_range("sigma_decay", sigma_decay, 0, 1, open_low=True)
        check_range("sigma_min", sigma_min, 0, 1)
        self.sigma: float = self.sigma0
        self.learning_rate = float(learning_rate)
        self.weight_decay = weight_decay
        self.learning_rate_decay = learning_rate_decay
        self.sigma_decay, self.sigma_min = sigma_decay, sigma_min
        self._m, self._v = np.zeros(self.n), np.zeros(self.n)

    def default_popsize(self) -> int:
        """Return the default number of candidates, rounded up to an even number."""
        return 2 * ((super().default_popsize() + 1) // 2)

    @property
    def stds(self) -> Array:
        """Standard deviation of each component, always sigma."""
        return np.full(self.n, self.sigma)

    def _sample(self) -> Array:
        noise = self.rng.standard_normal((self.popsize // 2, self.n)) * self.stds
        return np.concatenate([self.mean + noise, self.mean - noise])

    def gradient(self, solutions: Array, values: Array) -> Array:
        """Estimate the gradient [n] of the smoothed function, from centered ranks of values.

            g = 1 / (popsize sigma) sum_i F_i eps_i        (Salimans et al. 2017, algorithm 1)

        Equal values share their rank, so that the order of candidates has no effect.

        Args:
            solutions: [popsize, n], sampled around the current mean.
            values: [popsize].
        """
        noise = (solutions - self.mean) / self.sigma
        ranks = rank_transform(values, share_ties=True)
        gradient: Array = ranks @ noise / (self.popsize * self.sigma)
        return gradient

    def _update(self, solutions: Array, values: Array) -> None:
        gradient = self.gradient(solutions, values) + self.weight_decay * self.mean
        step, self._m, self._v = adam_step(gradient, self._m, self._v, self.iterations + 1)
        self.mean = self.mean - self.learning_rate * step
        self.learning_rate *= self.learning_rate_decay
        self.sigma = max(self.sigma * self.sigma_decay, self.sigma_min * self.sigma0)
