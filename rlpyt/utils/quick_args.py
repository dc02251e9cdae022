"""Path in rlpyt (2019) of names in `rlpyt.compat.quick_args`."""

from rlpyt.compat.quick_args import save__init__args

__all__ = ["save__init__args"]
