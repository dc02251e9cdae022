"""Statistics of data that comes in parts: mean and variance of all, or an average of late."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.utils.checks import check_range

Array = NDArray[Any]


def update_mean_var_count_from_moments(
    mean: Any, var: Any, count: float, batch_mean: Any, batch_var: Any, batch_count: float
) -> tuple[Any, Any, float]:
    """Moments of two sets of data together (Chan, Golub & LeVeque 1979).

    Args:
        mean, var, count: [*shape], [*shape] and the number of the one; var is the population's.
        batch_mean, batch_var, batch_count: of the other; at least one of the two is not empty.

    Returns:
        mean [*shape], var [*shape] and count.

    Raises:
        ValueError: both are empty.
    """
    total = count + batch_count
    if total <= 0:
        raise ValueError(f"counts of {count} and {batch_count}: there is no datum to be of.")
    share, delta = batch_count / total, batch_mean - mean
    var = (1 - share) * var + share * batch_var + share * (1 - share) * delta**2
    return mean + share * delta, var, total


class RunningMeanVar:
    """Mean and population variance of all that came, merged batch by batch.

    In float64, as ``RunningMeanStdModel`` does in torch: the result is that of one pass over
    everything, in any order and split.

    Args:
        shape: of one datum.
        epsilon: counts that many data of mean 0 and variance 1 in, to begin with; 0 is exact.

    Attributes:
        mean: [*shape], zero at first.
        var: [*shape], one at first.
        count: how many came, and epsilon.
    """

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 0.0) -> None:
        check_range("epsilon", epsilon, 0.0)
        self.mean: Any = np.zeros(shape)
        self.var: Any = np.ones(shape)
        self.count = self._epsilon = float(epsilon)

    def __call__(self, batch: Any) -> None:
        """Take in a batch, as ``update`` does."""
        self.update(batch)

    def update(self, batch: Any) -> None:
        """Take in a batch [k, *shape]; k may be 0.

        Raises:
            ValueError: the data are of another shape.
        """
        batch = np.asarray(batch)
        if not batch.ndim or batch.shape[1:] != np.shape(self.mean):
            raise ValueError(
                f"a batch of shape {batch.shape} came; it must be [k, *shape] with the shape of "
                f"one datum, {np.shape(self.mean)}."
            )
        if not len(batch):
            return
        batch = batch.astype(np.float64)
        mean = batch.mean(0)
        self.update_from_moments(mean, np.square(batch - mean).mean(0), len(batch))

    def update_from_moments(self, batch_mean: Any, batch_var: Any, batch_count: float) -> None:
        """Take in the mean, population variance and number (above 0) of other data."""
        moments = update_mean_var_count_from_moments(
            self.mean, self.var, self.count, batch_mean, batch_var, batch_count
        )
        self.mean, self.var, self.count = moments

    @property
    def n(self) -> int:
        """Number of data so far."""
        return round(self.count - self._epsilon)

    def state(self) -> dict[str, Any]:
        """Return copies, as a plain tree."""
        return {"mean": np.array(self.mean), "var": np.array(self.var), "count": float(self.count)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a state.

        Raises:
            ValueError: it is of data of another shape.
        """
        mean, var = np.array(state["mean"], np.float64), np.array(state["var"], np.float64)
        if mean.shape != np.shape(self.mean) or var.shape != np.shape(self.mean):
            raise ValueError(
                f"statistics of shape {mean.shape} do not fit data of {np.shape(self.mean)}."
            )
        self.mean, self.var, self.count = mean, var, float(state["count"])


class PolyakAverage:
    """An average in which what came earlier counts less: x_avg <- alpha x_avg + (1 - alpha) x.

    It begins with the first datum. (Of whole models: `rlpyt.models.utils.update_state_dict`.)

    Args:
        alpha: in [0, 1]; 0 knows only the newest, 1 only the first.
    """

    def __init__(self, alpha: float) -> None:
        check_range("alpha", alpha, 0.0, 1.0)
        self.alpha = alpha
        self._average: Any = None

    def __call__(self, x: Any) -> Any:
        """Take in a number, list, array or tensor; returns the average with it."""
        if isinstance(x, list | tuple):
            x = np.asarray(x)
        if self._average is None:
            self._average = 1.0 * x  # a copy
        else:
            self._average = self.alpha * self._average + (1 - self.alpha) * x
        return self._average

    def get_current(self) -> Any:
        """The average now; ``None`` before anything came."""
        return self._average
