"""Compare observations with their space, part by part, and name the first difference."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlpyt.spaces.action_mask import choices_of, unwrapped
from rlpyt.spaces.base import Space
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import leaves_of

IMAGE_DIM = 3
WHOLE = 2.0**24  # float32 holds each whole number up to this one


class Finding(NamedTuple):
    """A difference between an observation and its space.

    Attributes:
        what: the observation and the space.
        fix: what to do about it.
        kind: "structure", "shape", "dtype", "finite" or "bounds".
    """

    what: str
    fix: str
    kind: str


def composite_of(space: object) -> Any:
    """Return the space with named parts inside of ``space``, or None."""
    inner = space if hasattr(space, "names") else getattr(space, "space", None)
    return inner if hasattr(inner, "names") else None


def leaf_spaces(space: object, path: str = "") -> list[tuple[str, Any]]:
    """Return (path, space) of every part that has no named parts itself."""
    composite = composite_of(space)
    if composite is None:
        return [(path, space)]
    pairs = zip(composite.names, composite.spaces, strict=True)
    return [leaf for name, part in pairs for leaf in leaf_spaces(part, f"{path}.{name}")]


def find_difference(
    path: str, space: Space, leaf: object, lead: tuple[int, ...] = ()
) -> Finding | None:
    """Compare a part of an observation with its space.

    Args:
        path: name of the part, "observation.image".
        space: space of the part.
        leaf: the part [*lead, ...].
        lead: leading dimensions.
    """
    numeric = isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biuf"
    number = isinstance(leaf, bool | int | float) and not lead
    if not numeric and not number:
        fix = "return a numpy array of numbers (np.asarray(x, space.dtype))."
        what = f"{path} is a {type(leaf).__name__} ({leaf!r:.60})"
        return Finding(what, fix, "structure")
    array, shape, dtype = np.asarray(leaf), (*lead, *space.shape), np.dtype(space.dtype)
    if array.shape != shape:
        what = f"{path} has shape {array.shape}; expected {shape}"
        fix = "make observation_space agree with what reset and step return."
        return Finding(what, fix, "shape")
    fits = number and np.can_cast(array.dtype, dtype, "same_kind")
    if array.dtype != dtype and not fits and not _exceeds(array, space):
        what = f"{path} is {array.dtype}, its space is {dtype}"
        fix = "convert it with x.astype(space.dtype), or change the space's dtype."
        if array.dtype.kind == "f" and dtype.kind in "iu":
            fix = (
                "return integers (of an image in [0, 1]: (255 * x).astype(np.uint8)), or declare a "
            )
            fix += "space of floats."
        return Finding(what, fix, "dtype")
    outside = [row for row in (array if lead else [array]) if not space.contains(row)]
    if outside and isinstance(space, IntBox):
        outside = [row for row in outside if _exceeds(row, space)]
    if not outside:
        return None
    if array.dtype.kind == "f" and not np.isfinite(outside[0]).all():
        what = f"{path} is not finite: {outside[0]!r:.80}"
        fix = "find where NaN or infinity arises: one update spreads it to all weights."
        return Finding(what, fix, "finite")
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    start = getattr(space, "start", 0)  # in the environment's numbers
    shown = outside[0] + start if np.any(start) else outside[0]
    text = ""
    if low is not None and high is not None:
        text = f" [{np.min(low + start)}, {np.max(high + start)}]"
    what = f"{path} is outside the bounds{text} of its space: {shown!r:.120}"
    return Finding(what, "widen the bounds of the space, or clip the observation.", "bounds")


def check_first(space: Space, observation: object, lead: tuple[int, ...] = ()) -> str | None:
    """Check the first observation of an environment, where a network would misread it.

    Other differences are left to the checks of every step, which compare with this observation.

    Args:
        space: observation space.
        observation: the observation, leaves [*lead, ...].
        lead: leading dimensions.

    Returns:
        A warning, or ``None``.

    Raises:
        ValueError: the shape of a part is not that of its space, or an image or a category, whose
            space has integers, is a floating-point number or outside of its bounds.
        TypeError: a part is not an array of numbers.
    """
    spaces, leaves = leaf_spaces(space, "observation"), leaves_of(observation)
    warning: str | None = None
    for (path, part), leaf in zip(spaces, leaves) if len(spaces) == len(leaves) else ():
        try:
            array = np.asarray(leaf)
            found = find_difference(path, part, array if array.dtype.kind in "biuf" else leaf, lead)
            integers = np.dtype(part.dtype).kind in "iu"
            is_category = choices_of(part) is not None
        except (AttributeError, TypeError, ValueError):  # a custom space, or a ragged list
            continue
        if found is None or found.kind == "finite":
            warning = warning or (None if is_category else too_large(path, array))
            continue
        text = f"{found.what}. {found.fix[0].upper()}{found.fix[1:]}"
        if found.kind == "structure":
            raise TypeError(text)
        if found.kind == "shape":
            raise ValueError(text)
        is_float = array.dtype.kind == "f"
        if is_category:  # read one-hot, unlike bits
            outside = found.kind == "bounds" and type(unwrapped(part)).__name__ != "MultiBinary"
        else:
            outside = _exceeds(array, part)
        if not integers or not (is_float or outside):
            continue
        if is_category or len(part.shape) >= IMAGE_DIM:
            raise ValueError(text)
        warning = warning or text
    return warning


def too_large(path: str, array: NDArray[Any], read: str = "Networks read it") -> str | None:
    """Return a warning if float32, in which networks compute, does not hold each whole number."""
    sizes = np.abs(np.asarray(array, np.float64))
    largest = np.max(sizes, initial=0.0, where=np.isfinite(sizes))
    if largest <= WHOLE:
        return None
    return (
        f"{path} has the number {largest:.6g}. {read} as float32, whose numbers of this size are "
        f"{np.spacing(np.float32(largest)):g} apart. Subtract an offset or rescale it in the "
        "environment."
    )


def strict_bounds(space: Space) -> tuple[Any, Any] | None:
    """Return the bounds, in the environment's numbers, that `check_first` enforces.

    Returns:
        Lowest and highest values of a category or an image of integers, [*space.shape] or scalars;
        ``None`` for other spaces.
    """
    try:
        is_bits = type(unwrapped(space)).__name__ == "MultiBinary"
        is_read = choices_of(space) is not None or len(space.shape) >= IMAGE_DIM
        if is_bits or not is_read or np.dtype(space.dtype).kind not in "iu":
            return None
        start = getattr(space, "start", 0)
        return space.low + start, _highest(space) + start
    except (AttributeError, TypeError):  # a custom space
        return None


def _exceeds(array: NDArray[Any], space: Space) -> bool:
    """Return True if integers of any dtype are outside of the bounds of their space."""
    if array.dtype.kind not in "iu" or np.dtype(space.dtype).kind not in "iu":
        return False
    return bool(((array < space.low) | (array > _highest(space))).any())


def _highest(space: Any) -> Any:
    """Return the highest value of an observation.

    Images in an `IntBox` may have the value ``high``: environments of rlpyt (2019) declare
    ``IntBox(0, 255)``.
    """
    return space.high - (isinstance(space, IntBox) and not space.shape)
