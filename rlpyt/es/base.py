"""Interface of evolution strategies: ask for candidates, tell their values."""

from collections import namedtuple
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.utils.checks import whole_number

Array = NDArray[np.float64]

# xbest: best solution evaluated. fbest: its value. evals_best: evaluations when it was evaluated,
# itself included. evaluations, iterations: so far. xfavorite: mean of the search distribution, the
# best guess of the optimum where values are noisy. stds: deviations of the distribution.
ESResult = namedtuple(
    "ESResult", "xbest fbest evals_best evaluations iterations xfavorite stds", module=__name__
)


class BaseES:
    """Minimises a function of n numbers that can only be evaluated.

    ::

        es = CMAES(x0=np.zeros(5), sigma0=0.5, seed=1)
        while es.result.fbest > 1e-8:
            solutions = es.ask()
            es.tell(solutions, [f(x) for x in solutions])

    To maximise, tell values with a minus. All numbers are float64. A subclass samples candidates
    (``_sample``), moves its distribution (``_update``), and names what it has learnt (``_learnt``).

    Args:
        x0: [n], where the search begins.
        sigma0: standard deviation of the first candidates in each component, about a quarter of
            the range in which the optimum is expected; some strategies take [n] of them.
        opts: "popsize" and "seed", for those who keep settings in a dictionary.
        popsize: candidates per generation; ``None``: the strategy's own choice.
        seed: of the candidates; ``None``: drawn by numpy.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, shape or range.
    """

    least_popsize = 2
    takes_stds = False  # whether sigma0 may be [n]
    _learnt: ClassVar[tuple[str, ...]] = ()  # attributes that a checkpoint keeps

    def __init__(
        self,
        x0: ArrayLike,
        sigma0: ArrayLike,
        opts: Mapping[str, Any] | None = None,
        *,
        popsize: int | None = None,
        seed: int | None = None,
    ) -> None:
        given = {"popsize": popsize, "seed": seed, **(opts or {})}
        unknown = sorted(given.keys() - {"popsize", "seed"})
        if unknown:
            raise ValueError(f"opts has {unknown}; it takes 'popsize' and 'seed'.")
        self.mean = _start(x0)
        self.n = len(self.mean)
        self.sigma0 = self._spread(sigma0)
        size = given["popsize"]
        self.popsize = whole_number(
            "popsize", self.usual_popsize() if size is None else size, self.least_popsize
        )
        self.rng = np.random.default_rng(given["seed"])
        self.evaluations = 0
        self.iterations = 0
        self._xbest, self._fbest, self._evals_best = self.mean.copy(), np.inf, 0

    def usual_popsize(self) -> int:
        """Candidates per generation where none are asked for: 4 + 3 ln n (Hansen 2016, eq. 48)."""
        return 4 + int(3 * np.log(self.n))

    @property
    def stds(self) -> Array:
        """Deviations [n] of the distribution that the next candidates are drawn from."""
        raise NotImplementedError(f"{type(self).__name__} must implement stds.")

    def _sample(self) -> Array:
        """Candidates [popsize, n]."""
        raise NotImplementedError(f"{type(self).__name__} must implement _sample.")

    def _update(self, solutions: Array, values: Array) -> None:
        """Move the distribution, given candidates [popsize, n] and their values [popsize]."""
        raise NotImplementedError(f"{type(self).__name__} must implement _update.")

    def ask(self) -> Array:
        """Draw the candidates of a generation, [popsize, n]."""
        return self._sample()

    def tell(self, solutions: ArrayLike, function_values: ArrayLike) -> None:
        """Learn what the candidates are worth.

        Args:
            solutions: [popsize, n], as ``ask`` gave them and in that order.
            function_values: [popsize]; less is better. Infinity stands for a candidate that could
                not be evaluated, where the strategy only looks at ranks.

        Raises:
            ValueError: a wrong number of either, or a value is NaN.
        """
        x, f = np.asarray(solutions, np.float64), np.asarray(function_values, np.float64)
        self._check_told(x, f)
        best = int(np.argmin(f))
        if f[best] < self._fbest:
            self._xbest, self._fbest = x[best].copy(), float(f[best])
            self._evals_best = self.evaluations + best + 1
        self._update(x, f)
        self.evaluations += self.popsize
        self.iterations += 1

    def _check_told(self, x: Array, f: Array) -> None:
        if x.shape != (self.popsize, self.n) or f.shape != (self.popsize,):
            raise ValueError(
                f"tell was given solutions of shape {x.shape} and function_values of shape "
                f"{f.shape}; a generation is ({self.popsize}, {self.n}) and ({self.popsize},): "
                "all candidates that ask gave, one value for each."
            )
        if not np.isfinite(x).all():
            raise ValueError("a solution is not finite; the search has diverged. Lower sigma0.")
        if np.isnan(f).any():
            raise ValueError(
                f"function value {int(np.flatnonzero(np.isnan(f))[0])} of {self.popsize} is NaN; "
                "tell infinity for a candidate that cannot be evaluated."
            )

    @property
    def result(self) -> ESResult:
        """Best point found; before the first ``tell`` xbest is x0, fbest infinity."""
        return ESResult(
            self._xbest.copy(),
            self._fbest,
            self._evals_best,
            self.evaluations,
            self.iterations,
            self.mean.copy(),
            self.stds.copy(),
        )

    def state_dict(self) -> dict[str, Any]:
        """All that the search has learnt, as arrays and plain values; without its settings."""
        state: dict[str, Any] = {name: _copy(getattr(self, name)) for name in self._names()}
        state["rng"] = self.rng.bit_generator.state
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state: the same candidates follow, bit for bit.

        Raises:
            ValueError: it is of another strategy, of another number of components, or of another
                kind of covariance.
        """
        this = f"the state is not that of this {type(self).__name__} of {self.n} components"
        odd = sorted({*self._names(), "rng"} ^ state.keys())
        if odd:
            raise ValueError(f"{this}: names that only one has: {odd}.")
        for name in self._names():
            shape, own = np.shape(state[name]), np.shape(getattr(self, name))
            if shape != own:
                raise ValueError(f"{this}: its {name} has shape {shape} instead of {own}.")
        for name in self._names():
            setattr(self, name, _copy(state[name]))
        self.rng.bit_generator.state = state["rng"]

    def _names(self) -> tuple[str, ...]:
        own = ("mean", "evaluations", "iterations", "_xbest", "_fbest", "_evals_best")
        return (*own, *self._learnt)

    def _spread(self, sigma0: ArrayLike) -> Any:
        """Check sigma0; returns a float, or [n] where the strategy takes that."""
        sigma = np.asarray(sigma0, np.float64)
        shapes = [(), (self.n,)] if self.takes_stds else [()]
        if sigma.shape not in shapes:
            raise ValueError(
                f"sigma0 of shape {sigma.shape} must be one number"
                + (f" or {self.n} of them." if self.takes_stds else ".")
            )
        if not np.isfinite(sigma).all() or (sigma <= 0).any():
            raise ValueError(f"sigma0={sigma0!r:.100} must be positive and finite.")
        return sigma.copy() if sigma.ndim else float(sigma)


class MirroredES(BaseES):
    """Base of strategies whose candidates come in pairs: mean + sigma eps and mean - sigma eps.

    Rows i and i + popsize / 2 are a pair (antithetic sampling).

    Raises:
        ValueError: popsize is odd; and what `BaseES` raises.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.popsize % 2:
            raise ValueError(f"popsize={self.popsize} must be even: candidates come in pairs.")

    def usual_popsize(self) -> int:
        """An even number."""
        return 2 * ((super().usual_popsize() + 1) // 2)

    def _sample(self) -> Array:
        noise = self.rng.standard_normal((self.popsize // 2, self.n)) * self.stds
        return np.concatenate([self.mean + noise, self.mean - noise])

    def _halves(self, x: Array) -> tuple[Array, Array]:
        """The first of each pair, and the second."""
        return x[: self.popsize // 2], x[self.popsize // 2 :]


def _start(x0: ArrayLike) -> Array:
    x = np.array(x0, np.float64)
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise ValueError(
            f"x0 of shape {x.shape} must be a vector [n] of finite numbers, where to begin."
        )
    return x


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
