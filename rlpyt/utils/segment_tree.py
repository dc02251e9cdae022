"""Public import path of lagom's segment trees; see `rlpyt.compat.segment_tree`."""

from rlpyt.compat.segment_tree import MinTree, SegmentTree, SumTree

__all__ = ["MinTree", "SegmentTree", "SumTree"]
