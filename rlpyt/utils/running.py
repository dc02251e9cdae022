"""Running mean and variance, and Polyak averages."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.utils.checks import check_range

Array = NDArray[Any]


def update_mean_var_count_from_moments(
    mean: Any, var: Any, count: float, batch_mean: Any, batch_var: Any, batch_count: float
) -> tuple[Any, Any, float]:
    """Combine the moments of two sets of data (Chan, Golub & LeVeque 1979).

    Args:
        mean, var, count: mean [*shape], population variance [*shape] and size of the first set.
        batch_mean, batch_var, batch_count: those of the second set.

    Returns:
        mean [*shape], var [*shape] and count of both sets together.

    Raises:
        ValueError: both sets are empty.
    """
    total = count + batch_count
    if total <= 0:
        raise ValueError(
            f"count and batch_count must not both be zero, got {count} and {batch_count}."
        )
    share, delta = batch_count / total, batch_mean - mean
    var = (1 - share) * var + share * batch_var + share * (1 - share) * delta**2
    return mean + share * delta, var, total


class RunningMeanVar:
    """Running mean and population variance, updated batch by batch.

    Computed in float64, like ``RunningMeanStdModel`` in torch. The result does not depend on the
    order and size of batches.

    Args:
        shape: shape of one sample.
        epsilon: initial count of samples with mean 0 and variance 1; 0 is exact.

    Attributes:
        mean: [*shape], initially zero.
        var: [*shape], initially one.
        count: number of samples plus epsilon.
    """

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 0.0) -> None:
        check_range("epsilon", epsilon, 0.0)
        self.mean: Any = np.zeros(shape)
        self.var: Any = np.ones(shape)
        self.count = self._epsilon = float(epsilon)

    def __call__(self, batch: Any) -> None:
        """Update with a batch, like ``update``."""
        self.update(batch)

    def update(self, batch: Any) -> None:
        """Update with a batch [k, *shape]; k may be 0.

        Raises:
            ValueError: `batch` has a different shape.
        """
        batch = np.asarray(batch)
        if not batch.ndim or batch.shape[1:] != np.shape(self.mean):
            raise ValueError(
                f"batch must have shape [k, *shape] with shape={np.shape(self.mean)}, got "
                f"{batch.shape}."
            )
        if not len(batch):
            return
        batch = batch.astype(np.float64)
        mean = batch.mean(0)
        self.update_from_moments(mean, np.square(batch - mean).mean(0), len(batch))

    def update_from_moments(self, batch_mean: Any, batch_var: Any, batch_count: float) -> None:
        """Update with the mean, population variance and number (above 0) of new samples."""
        moments = update_mean_var_count_from_moments(
            self.mean, self.var, self.count, batch_mean, batch_var, batch_count
        )
        self.mean, self.var, self.count = moments

    @property
    def n(self) -> int:
        """Number of samples so far."""
        return round(self.count - self._epsilon)

    def state(self) -> dict[str, Any]:
        """Return a copy of the state as a plain tree."""
        return {"mean": np.array(self.mean), "var": np.array(self.var), "count": float(self.count)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load a state.

        Raises:
            ValueError: the state has a different shape.
        """
        mean, var = np.array(state["mean"], np.float64), np.array(state["var"], np.float64)
        if mean.shape != np.shape(self.mean) or var.shape != np.shape(self.mean):
            raise ValueError(f"statistics must have shape {np.shape(self.mean)}, got {mean.shape}.")
        self.mean, self.var, self.count = mean, var, float(state["count"])


def merge_statistics(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the running statistics of equally wrapped vector environments.

    For saving and evaluation, when each worker has the statistics of its rows. Do not load the
    result into workers that continue training, since it would be counted again by the next merge.

    Args:
        parts: states of `RunningMeanVar`, or (nested) dictionaries of them, as the ``statistics``
            of vector environments return.
    """
    first = parts[0]
    if {"mean", "var", "count"} != set(first):
        return {name: merge_statistics([part[name] for part in parts]) for name in first}
    moments = RunningMeanVar(np.shape(first["mean"]))
    for part in parts:
        if part["count"]:
            moments.update_from_moments(
                np.asarray(part["mean"]), np.asarray(part["var"]), part["count"]
            )
    return moments.state()


class PolyakAverage:
    """Exponential moving average: x_avg <- alpha x_avg + (1 - alpha) x.

    It is initialized by the first value. For models, see `rlpyt.models.utils.update_state_dict`.

    Args:
        alpha: weight of the average, in [0, 1]; 0 keeps only the newest value, 1 only the first.
    """

    def __init__(self, alpha: float) -> None:
        check_range("alpha", alpha, 0.0, 1.0)
        self.alpha = alpha
        self._average: Any = None

    def __call__(self, x: Any) -> Any:
        """Update with a number, list, array or tensor and return the average."""
        if isinstance(x, list | tuple):
            x = np.asarray(x)
        if self._average is None:
            self._average = 1.0 * x  # a copy
        else:
            self._average = self.alpha * self._average + (1 - self.alpha) * x
        return self._average

    def get_current(self) -> Any:
        """Return the current average, or ``None`` before the first value."""
        return self._average
