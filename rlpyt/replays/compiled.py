"""The inner loops of the sum tree, compiled by numba where it is installed (``rlpyt[fast]``).

They do what `SumTree`'s array operations do, which are taken where it is not, and which tests hold
them to.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

FANOUT = 16  # children of a node
UNDER_ONE = 1 - 2.0**-53


class Loops(NamedTuple):
    """What is compiled.

    Attributes:
        descend: (level, node, rest): from nodes [n] to those of their children, on the level
            below, under which ``rest`` [n] falls; both are overwritten, ``rest`` by what is left
            of it there.
        sum_above: (level, node, parents): from nodes [n] of a level to their parents, whose sums
            are computed anew; ``node`` is overwritten.
    """

    descend: Callable[[Any, Any, Any], None]
    sum_above: Callable[[Any, Any, Any], None]


@functools.cache
def loops() -> Loops | None:
    """The compiled loops; ``None`` without numba. Compiling takes seconds, once per machine."""
    try:
        from numba import njit
    except ImportError:
        return None
    compile_ = njit(cache=True, nogil=True)
    return Loops(compile_(_descend), compile_(_sum_above))


def _descend(level: Any, node: Any, rest: Any) -> None:
    for i in range(len(node)):
        base, sought = node[i] * FANOUT, rest[i]
        start, child = 0.0, -1
        while child < 0:
            start = 0.0
            for k in range(FANOUT):
                end = start + level[base + k]
                if sought < end:
                    child = k
                    break
                start = end
            if child < 0:  # a rounding beyond the last end
                if not start > 0:
                    child = 0
                sought = start * UNDER_ONE
        node[i] = base + child
        rest[i] = sought - start


def _sum_above(level: Any, node: Any, parents: Any) -> None:
    for i in range(len(node)):
        parent = node[i] // FANOUT
        total = 0.0
        for k in range(parent * FANOUT, (parent + 1) * FANOUT):
            total += level[k]
        parents[parent] = total
        node[i] = parent
