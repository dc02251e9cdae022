"""Statistics of updates that stay on the device until the iteration ends."""

import functools
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

FEW = 256  # numbers, for which a list is faster than operations on tensors
MOST_UPDATES = 10_000  # a limit on memory, for custom algorithms that never read the record

Columns = dict[str, list[Tensor]]  # by name, the values of each statistic in several updates


class UpdateRecord:
    """Record of statistics, which are tensors of any shape, by update and name.

    Attributes:
        current: statistics of the current update.
    """

    def __init__(self) -> None:
        self.current: dict[str, Tensor] = {}
        self._updates: deque[dict[str, Tensor]] = deque(maxlen=MOST_UPDATES)

    def end_update(self) -> None:
        """Begin the next update."""
        if self.current:
            self._updates.append(self.current)
            self.current = {}

    def isolated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a compiled function that finds ``current`` empty at each call.

        Otherwise it would be compiled again for each number of statistics that it finds there.
        """

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before, self.current = self.current, {}
            result = function(*args, **kwargs)
            self.current = {**before, **self.current}
            return result

        return call

    def take(self) -> Columns:
        """Return all statistics and clear the record."""
        self.end_update()
        columns: Columns = {}
        for update in self._updates:
            for name, x in update.items():
                columns.setdefault(name, []).append(x)
        self._updates.clear()
        return columns


def only_valid(x: Tensor, valid: Tensor | None) -> Tensor:
    """Replace invalid entries by NaN, which does not count in means."""
    return x if valid is None else torch.where(valid > 0, x, torch.nan)


def stacked(tensors: list[Tensor]) -> list[Tensor]:
    """Stack U tensors of one shape into one [U, ...]; return others as U tensors [1, ...]."""
    if not tensors:
        return []
    if all(x.shape == tensors[0].shape for x in tensors):
        return [torch.stack(tensors)]
    return [x.unsqueeze(0) for x in tensors]


def row_means(x: Tensor) -> list[Tensor]:
    """Return the mean of each row of x [U, ...], without NaN entries, as U scalars."""
    return list(x.flatten(1).nanmean(1).unbind())


def read_means(columns: Columns) -> dict[str, list[float]]:
    """Return the mean of each statistic in each update; from a GPU, by one transfer.

    NaN entries of tensors do not count.
    """
    flat = [x if x.is_floating_point() else x.float() for xs in columns.values() for x in xs]
    device = next((x.device for x in flat if x.device.type != "cpu"), None)
    if device is None:
        numbers = [_mean(x) for x in flat]
    else:
        scalars = [(x if x.dim() == 0 else x.nanmean()).to(device) for x in flat]
        numbers = torch.stack(scalars).tolist()
    means = iter(numbers)
    return {name: [next(means) for _ in xs] for name, xs in columns.items()}


def _mean(x: Tensor) -> float:
    if x.dim() == 0:
        return x.item()
    if 0 < x.numel() <= FEW:
        mean = sum(x.flatten().tolist()) / x.numel()
    else:
        mean = x.mean().item()  # faster than nanmean
    return x.nanmean().item() if math.isnan(mean) else mean
