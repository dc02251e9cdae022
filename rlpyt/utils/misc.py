"""Path in rlpyt (2019) of names in `rlpyt.compat.misc`."""

from rlpyt.compat.misc import empty, extract_sequences, iterate_mb_idxs, zeros

__all__ = ["empty", "extract_sequences", "iterate_mb_idxs", "zeros"]
