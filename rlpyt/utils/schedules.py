"""Numbers that change over a run by a rule: return what they are at some time.

Our algorithms have schedules of their own among their arguments (``linear_lr_schedule``, agents'
``eps_init`` to ``eps_itr_max``, replays' ``pri_beta_init`` to ``pri_beta_steps``). These are for
loops of your own.
"""

import torch
from torch.optim.lr_scheduler import LambdaLR

from rlpyt.utils.checks import check_range, whole_number


class LinearSchedule:
    """Goes from one value to another in a straight line, and stays there.

    Args:
        initial: value up to and with step ``start``.
        final: value from step ``start + N`` on.
        N: number of steps between, at least 1.
        start: the step it begins at.

    Raises:
        ValueError: N is below 1, or start below 0.
    """

    def __init__(self, initial: float, final: float, N: int, start: int = 0) -> None:
        self.initial, self.final = float(initial), float(final)
        self.N, self.start = whole_number("N", N, 1), whole_number("start", start, 0)

    def __call__(self, x: float) -> float:
        """The value at step ``x``.

        Raises:
            ValueError: x is below 0.
        """
        check_range("x", x, 0)
        share = min(max((x - self.start) / self.N, 0.0), 1.0)
        return (1 - share) * self.initial + share * self.final


def linear_lr_scheduler(optimizer: torch.optim.Optimizer, N: int, min_lr: float) -> LambdaLR:
    """A torch scheduler: learning rates fall in a straight line to ``min_lr`` in N steps, and stay.

    Args:
        optimizer: whose learning rates, as they are now, are where it begins.
        N: calls of ``scheduler.step()`` until the end, at least 1.
        min_lr: at the end, in each parameter group.

    Raises:
        ValueError: N is below 1; min_lr is below 0, or above a learning rate.
    """
    N = whole_number("N", N, 1)
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    check_range("min_lr", min_lr, 0.0, min(rates))
    # a multiple of each group's own rate, which LambdaLR wants, is 0 / 0 where that is zero
    return LambdaLR(
        optimizer, [LinearSchedule(1.0, min_lr / rate if rate else 0.0, N) for rate in rates]
    )
