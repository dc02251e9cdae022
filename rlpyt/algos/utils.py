"""Path in rlpyt (2019) of names in `rlpyt.compat.returns`."""

from rlpyt.compat.returns import (
    discount_return,
    discount_return_n_step,
    discount_return_tl,
    generalized_advantage_estimation,
    generalized_advantage_estimation_tl,
    valid_from_done,
)

__all__ = [
    "discount_return",
    "discount_return_n_step",
    "discount_return_tl",
    "generalized_advantage_estimation",
    "generalized_advantage_estimation_tl",
    "valid_from_done",
]
