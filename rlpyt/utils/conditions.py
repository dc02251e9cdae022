"""Public import path of lagom's conditions; see `rlpyt.compat.conditions`."""

from rlpyt.compat.conditions import IntervalConditioner, NConditioner

__all__ = ["IntervalConditioner", "NConditioner"]
