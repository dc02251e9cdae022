"""Path in rlpyt (2019) of names in `rlpyt.compat.returns`."""

from rlpyt.compat.returns import *  # noqa: F403
