"""Base of evolution strategies: ``ask`` for candidates and ``tell`` their values."""

from collections import namedtuple
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.utils.checks import whole_number

Array = NDArray[np.float64]

# xbest: best solution evaluated. fbest: its value. evals_best: number of evaluations up to and
# including that one. evaluations, iterations: numbers so far. xfavorite: mean of the search
# distribution, the best estimate of the optimum if values are noisy. stds: standard deviations of
# the search distribution.
ESResult = namedtuple(
    "ESResult", "xbest fbest evals_best evaluations iterations xfavorite stds", module=__name__
)


class BaseES:
    """Base class of strategies that minimize a black-box function of n numbers.

    ::

        es = CMAES(x0=np.zeros(5), sigma0=0.5, seed=1)
        while es.result.fbest > 1e-8:
            solutions = es.ask()
            es.tell(solutions, [f(x) for x in solutions])

    To maximize, tell negated values. All numbers are float64. A subclass samples candidates
    (``_sample``), updates its distribution (``_update``), and lists its learned attributes
    (``_learned``).

    Args:
        x0: [n], starting point of the search.
        sigma0: initial standard deviation of each component, about a quarter of the range in which
            the optimum is expected; some strategies accept an array [n].
        opts: "popsize" and "seed" as a dictionary, an alternative to the arguments.
        popsize: candidates per generation; ``None`` for the strategy's default.
        seed: seed of the candidates; ``None`` for a random one.

    Raises:
        TypeError, ValueError: an argument has the wrong type or shape, or is out of range.
    """

    min_popsize = 2
    takes_stds = False  # True if sigma0 may be [n]
    _learned: ClassVar[tuple[str, ...]] = ()  # attributes saved in checkpoints

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
    ) -> None:
        unknown = sorted((opts or {}).keys() - {"popsize", "seed"})
        if unknown:
            raise ValueError(f"opts has {unknown}; it takes 'popsize' and 'seed'.")
        arguments = {"popsize": popsize, "seed": seed}
        own = {name: value for name, value in (opts or {}).items() if value is not None}
        for name in own:
            if arguments[name] is not None:
                raise ValueError(f"{name} is given both as an argument and in opts; remove one.")
        given = {**arguments, **own}
        self.mean = _checked_x0(x0)
        self.n = len(self.mean)
        self.sigma0 = self._checked_sigma0(sigma0)
        size = given["popsize"]
        self.popsize = whole_number(
            "popsize", self.default_popsize() if size is None else size, self.min_popsize
        )
        self.rng = np.random.default_rng(given["seed"])
        self.evaluations = 0
        self.iterations = 0
        self._xbest, self._fbest, self._evals_best = self.mean.copy(), np.inf, 0

    def default_popsize(self) -> int:
        """Return the default number of candidates, 4 + 3 ln n (Hansen 2016, eq. 48)."""
        return 4 + int(3 * np.log(self.n))

    @property
    def stds(self) -> Array:
        """Standard deviations [n] of the distribution of the next candidates."""
        raise NotImplementedError(f"{type(self).__name__} must implement stds.")

    def _sample(self) -> Array:
        """Sample candidates [popsize, n]."""
        raise NotImplementedError(f"{type(self).__name__} must implement _sample.")

    def _update(self, solutions: Array, values: Array) -> None:
        """Update the distribution from candidates [popsize, n] and their values [popsize]."""
        raise NotImplementedError(f"{type(self).__name__} must implement _update.")

    def ask(self) -> Array:
        """Draw the candidates of a generation, [popsize, n]."""
        return self._sample()

    def tell(self, solutions: ArrayLike, function_values: ArrayLike) -> None:
        """Update the strategy with the values of the candidates.

        Args:
            solutions: [popsize, n], as returned by ``ask``, in the same order.
            function_values: [popsize]; lower is better. Infinity marks a candidate that could not
                be evaluated, for strategies that use only ranks.

        Raises:
            ValueError: a shape is wrong, a solution is not finite, or a value is NaN.
        """
        x, f = np.asarray(solutions, np.float64), np.asarray(function_values, np.float64)
        self._check_values(x, f)
        best = int(np.argmin(f))
        if f[best] < self._fbest:
            self._xbest, self._fbest = x[best].copy(), float(f[best])
            self._evals_best = self.evaluations + best + 1
        self._update(x, f)
        self.evaluations += self.popsize
        self.iterations += 1

    def _check_values(self, x: Array, f: Array) -> None:
        if x.shape != (self.popsize, self.n) or f.shape != (self.popsize,):
            raise ValueError(
                f"solutions and function_values must have shapes ({self.popsize}, {self.n}) and "
                f"({self.popsize},), got {x.shape} and {f.shape}. Tell all candidates returned by "
                "ask, with one value for each."
            )
        if not np.isfinite(x).all():
            raise ValueError("A solution is not finite: the search has diverged. Lower sigma0.")
        if np.isnan(f).any():
            raise ValueError(
                f"function value {int(np.flatnonzero(np.isnan(f))[0])} of {self.popsize} is NaN. "
                "Tell infinity for a candidate that cannot be evaluated."
            )

    @property
    def result(self) -> ESResult:
        """Result so far; before the first ``tell`` xbest is x0 and fbest is infinity."""
        best = (self._xbest.copy(), self._fbest, self._evals_best)
        numbers = (self.evaluations, self.iterations)
        return ESResult(*best, *numbers, self.mean.copy(), self.stds.copy())

    def state_dict(self) -> dict[str, Any]:
        """Return the learned state as arrays and plain values, without settings."""
        state: dict[str, Any] = {name: _copy(getattr(self, name)) for name in self._names()}
        state["rng"] = self.rng.bit_generator.state
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a saved state; the same candidates follow, bit for bit.

        Raises:
            ValueError: the state belongs to another strategy, or has another number of components
                or another kind of covariance.
        """
        mismatch = f"The state does not match this {type(self).__name__} of {self.n} components"
        unmatched = sorted({*self._names(), "rng"} ^ state.keys())
        if unmatched:
            raise ValueError(f"{mismatch}: only one of them has {unmatched}.")
        for name in self._names():
            shape, expected = np.shape(state[name]), np.shape(getattr(self, name))
            if shape != expected:
                raise ValueError(f"{mismatch}: {name} must have shape {expected}, got {shape}.")
        for name in self._names():
            setattr(self, name, _copy(state[name]))
        self.rng.bit_generator.state = state["rng"]

    def _names(self) -> tuple[str, ...]:
        common = ("mean", "evaluations", "iterations", "_xbest", "_fbest", "_evals_best")
        return (*common, *self._learned)

    def _checked_sigma0(self, sigma0: ArrayLike) -> Any:
        """Check sigma0 and return it as a float, or as [n] if the strategy accepts that."""
        sigma = np.asarray(sigma0, np.float64)
        shapes = [(), (self.n,)] if self.takes_stds else [()]
        if sigma.shape not in shapes:
            expected = f"a number or an array ({self.n},)" if self.takes_stds else "a number"
            raise ValueError(f"sigma0 must be {expected}, got an array of shape {sigma.shape}.")
        if not np.isfinite(sigma).all() or (sigma <= 0).any():
            raise ValueError(f"sigma0 must be positive and finite, got {sigma0!r:.100}.")
        return sigma.copy() if sigma.ndim else float(sigma)


def _checked_x0(x0: ArrayLike) -> Array:
    x = np.array(x0, np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(
            f"x0 must be a nonempty vector of finite numbers, got an array of shape {x.shape}."
        )
    return x


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
