"""Path in rlpyt (2019) of names in `rlpyt.compat.array`."""

from rlpyt.compat.array import (
    from_onehot,
    infer_leading_dims,
    select_at_indexes,
    to_onehot,
    valid_mean,
)

__all__ = ["from_onehot", "infer_leading_dims", "select_at_indexes", "to_onehot", "valid_mean"]
