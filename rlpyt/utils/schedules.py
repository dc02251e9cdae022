"""Schedules: values of settings as functions of the progress of a run, and of custom loops.

The progress is 0 in the first iteration of a run and rises linearly to 1 at its last step, whatever
part of the run a process trains. (Stable-Baselines3's ``progress_remaining`` falls from 1 to 0.)
"""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from rlpyt.utils.checks import check_range, scalar, whole_number

SHAPES: dict[str, Callable[[float], float]] = {  # share of the initial value
    "linear": lambda progress: 1 - progress,
    "cosine": lambda progress: (1 + math.cos(math.pi * progress)) / 2,
}
FORMS = (
    'a number, "linear:START" or "cosine:START" (to zero, or to END with another ":END"), a list '
    "of (progress, value) pairs, or a function of the progress"
)


@dataclass(frozen=True)
class Decay:
    """Schedule from an initial to a final value, along a straight line or half a cosine.

    Args:
        shape: "linear" or "cosine".
        start, end: initial and final value.
    """

    shape: str
    start: float
    end: float = 0.0

    def __call__(self, progress: float) -> float:
        """Return the value at a progress in [0, 1]."""
        share = SHAPES[self.shape](progress)
        return self.start * share + self.end * (1 - share)


@dataclass(frozen=True)
class Piecewise:
    """Schedule through points, with straight lines in between and constant outside.

    Args:
        points: (progress, value) pairs, by increasing progress.
    """

    points: tuple[tuple[float, float], ...]

    def __call__(self, progress: float) -> float:
        """Return the value at a progress in [0, 1]."""
        after = bisect_right(self.points, progress, key=lambda point: point[0])
        if after in (0, len(self.points)):
            return self.points[min(after, len(self.points) - 1)][1]
        (left, low), (right, high) = self.points[after - 1 : after + 1]
        share = (progress - left) / (right - left)
        return low * (1 - share) + high * share


def schedule_of(name: str, value: Any, default: float | None = None) -> Callable[[float], float]:
    """Return the schedule that a setting's value describes, a function of the progress.

    Args:
        name: name of the setting, for errors.
        value: text such as "linear:3e-4", "cosine:3e-4:1e-5" or "linear"; (progress, value) pairs,
            or a list of them in JSON; or a function of the progress.
        default: initial value of "linear" and "cosine" without one.

    Raises:
        ValueError: `value` is not a schedule, or has no initial value.
    """
    if callable(value):
        return value  # type: ignore[no-any-return]
    try:
        if not isinstance(value, str):
            return Piecewise(_points(value))
        if value.startswith("["):
            return Piecewise(_points(json.loads(value)))
        shape, *numbers = value.split(":")
        if shape not in SHAPES or len(numbers) > 2:
            raise ValueError
        ends = [float(number) for number in numbers]
    except (TypeError, ValueError) as error:
        why = f" ({error})" if str(error) and not isinstance(value, str) else ""
        raise ValueError(f"{name}={value!r:.80} must be {FORMS}{why}.") from None
    if not ends and default is None:
        raise ValueError(f"{name}={value!r} must contain its initial value, as in {value}:0.1.")
    return Decay(shape, *(ends or [float(default or 0)]))


def with_start(value: Any, start: Any) -> Any:
    """Return "linear" or "cosine" with an initial value, "linear:0.001"; other values unchanged.

    Args:
        value: value of a setting.
        start: the value that it replaces: the initial value, or a schedule that begins with it.
    """
    if not (isinstance(value, str) and value in SHAPES):
        return value
    if isinstance(start, str | list | tuple) and start not in (*SHAPES,):
        start = schedule_of("start", start)(0.0)
    number = isinstance(start, int | float) and not isinstance(start, bool)
    return f"{value}:{start}" if number else value


def _points(pairs: Sequence[Sequence[float]]) -> tuple[tuple[float, float], ...]:
    points = tuple((float(scalar(progress)), float(scalar(value))) for progress, value in pairs)
    if not points or not all(0 <= progress <= 1 for progress, _ in points):
        raise ValueError("pairs have a progress in [0, 1]")
    if not all(before < after for (before, _), (after, _) in pairwise(points)):
        raise ValueError("the progress increases from pair to pair")
    return points


class LinearSchedule:
    """Linear interpolation from an initial to a final value, which is then kept.

    Args:
        initial: value up to step ``start``.
        final: value from step ``start + N`` on.
        N: number of steps in between, at least 1.
        start: step at which the change starts.

    Raises:
        ValueError: N is below 1, or start is below 0.
    """

    def __init__(self, initial: float, final: float, N: int, start: int = 0) -> None:
        self.initial, self.final = float(initial), float(final)
        self.N, self.start = whole_number("N", N, 1), whole_number("start", start, 0)

    def __call__(self, x: float) -> float:
        """Return the value at step ``x``.

        Raises:
            ValueError: x is below 0.
        """
        check_range("x", x, 0)
        share = min(max((x - self.start) / self.N, 0.0), 1.0)
        return (1 - share) * self.initial + share * self.final


def linear_lr_scheduler(optimizer: torch.optim.Optimizer, N: int, min_lr: float) -> LambdaLR:
    """Return a torch scheduler that decays learning rates linearly to ``min_lr`` in N steps.

    Args:
        optimizer: optimizer with the initial learning rates.
        N: number of calls of ``scheduler.step()`` until the end, at least 1.
        min_lr: final learning rate of each parameter group.

    Raises:
        ValueError: N is below 1, or min_lr is below 0 or above a learning rate.
    """
    N = whole_number("N", N, 1)
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    check_range("min_lr", min_lr, 0.0, min(rates))
    # LambdaLR takes multiples of each group's rate: 0 / 0 for a rate of zero
    return LambdaLR(
        optimizer, [LinearSchedule(1.0, min_lr / rate if rate else 0.0, N) for rate in rates]
    )
