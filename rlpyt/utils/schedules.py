"""Schedules for custom training loops.

The schedules of rlpyt's algorithms are arguments instead (``linear_lr_schedule``, agents'
``eps_init`` to ``eps_itr_max``, replays' ``pri_beta_init`` to ``pri_beta_steps``).
"""

import torch
from torch.optim.lr_scheduler import LambdaLR

from rlpyt.utils.checks import check_range, whole_number


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
