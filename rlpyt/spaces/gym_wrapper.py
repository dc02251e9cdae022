"""Gymnasium spaces as rlpyt spaces, with conversion of elements in both directions."""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces as gym_spaces
from numpy.typing import ArrayLike

from rlpyt.spaces.base import Space, draw_seed, within
from rlpyt.spaces.composite import Composite
from rlpyt.utils.buffer import keeps_numbers
from rlpyt.utils.collections import is_namedarraytuple, is_namedtuple, namedtuple_class
from rlpyt.utils.names import field_names

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple"
_OF_AGENTS = (np.float32, np.int64)  # dtypes of agents' actions
_new_tuple = tuple.__new__  # twice as fast as calling the named tuple


class _Leaf(NamedTuple):
    """Description of a space without sub-spaces, in rlpyt's form."""

    dtype: np.dtype[Any]
    low: Any  # inclusive, as is high
    high: Any
    n: Any = None
    start: Any = 0  # subtracted from the environment's integers, so that they start at 0


class GymSpaceWrapper(Space):
    """Gymnasium space as an rlpyt space; converts elements between the two forms.

    ========================  ==================================================================
    gymnasium                 rlpyt
    ========================  ==================================================================
    Box                       array; float64 becomes float32 if ``force_float32``
    Discrete, MultiDiscrete   integers that start at 0: ``start`` is subtracted, and added back
    MultiBinary               int8 array
    Dict, Tuple               `Composite`; elements are named tuples with the keys as fields, or
                              ``field_0``, ``field_1`` and so on; these may be nested
    ========================  ==================================================================

    Keys that are not valid field names are changed ("my-key" to ``my_key``, "1" to ``field_1``).
    With ``flat``, as for actions, arrays of any number of dimensions become vectors.

    Attributes:
        space: the gymnasium space, or a `Composite` of wrappers for Dict and Tuple.
        identity: True if `convert` changes nothing, so that hot loops can skip it.
        revert_identity: True if `revert` changes nothing in the actions of agents, which are
            float32 and int64.
    """

    def __init__(
        self,
        space: gym_spaces.Space[Any],
        null_value: ArrayLike = 0,
        name: str = "obs",
        force_float32: bool = True,
        flat: bool = False,
    ) -> None:
        """Wrap a gymnasium space.

        Args:
            space: the gymnasium space.
            null_value: value that fills every part of the result of `null_value`.
            name: name of the named tuple type, and of the space in messages.
            force_float32: convert float64 boxes to float32.
            flat: make vectors of arrays of several dimensions, or of none.

        Raises:
            ValueError: the space or a sub-space is of an unsupported kind or empty; the message
                names it.
        """
        self.name = name
        self._null_value = null_value
        self._parts: list[tuple[Any, GymSpaceWrapper]] = []  # (key, wrapper) of Dict and Tuple
        self.identity = self.revert_identity = False
        self.space: Any = space
        self._gym_space = space  # its name in rlpyt of 2019, which agents read for the parts
        if isinstance(space, gym_spaces.Dict | gym_spaces.Tuple):
            self._wrap_parts(space, null_value, force_float32, flat)
            return
        self._leaf = leaf = _describe(space, force_float32, name)
        self._scalar = isinstance(space, gym_spaces.Discrete)
        self._shape: tuple[int, ...] = space.shape or ()
        self._reshaped = flat and not self._scalar and len(self._shape) != 1
        if self._reshaped:
            self._shape = (math.prod(self._shape),)
            self._leaf = leaf = leaf._replace(
                low=np.ravel(leaf.low), high=np.ravel(leaf.high), start=np.ravel(leaf.start)
            )
        self._shift = bool(np.any(leaf.start != 0))
        same = not self._shift and not self._reshaped
        self.identity = same and leaf.dtype == space.dtype
        self.revert_identity = same and not self._scalar and space.dtype in _OF_AGENTS
        self._bounds: tuple[Any, Any] | None = None  # those of the space, if ours exceed them
        if isinstance(space, gym_spaces.Box):
            low, high = (np.reshape(bound, self._shape) for bound in (space.low, space.high))
            if not np.all((leaf.low >= low) & (leaf.high <= high)):
                self._bounds = low, high

    def _wrap_parts(
        self,
        space: gym_spaces.Space[Any],
        null_value: ArrayLike,
        force_float32: bool,
        flat: bool,
    ) -> None:
        as_dict, parts = isinstance(space, gym_spaces.Dict), self.space.spaces
        items = list(parts.items() if as_dict else enumerate(parts))
        if not items:
            raise ValueError(f"space '{self.name}': {space} is empty. Add at least one sub-space.")
        self._parts = [
            (key, GymSpaceWrapper(part, null_value, f"{self.name}.{key}", force_float32, flat))
            for key, part in items
        ]
        self._outer = dict if as_dict else tuple
        cls = namedtuple_class(_type_name(self.name), field_names(key for key, _ in items))
        self._Cls = cls
        self._n_given: int | None = None  # parts of the elements converted so far, known or not
        wrappers = [part for _, part in self._parts]
        self.space = composite = Composite(wrappers, cls)
        bounds = cls(*(part.low for part in wrappers)), cls(*(part.high for part in wrappers))
        self._leaf = _Leaf(composite.dtype, *bounds)

    def sample(self) -> Any:
        """Return a random element in rlpyt's form, drawn by the gymnasium space's own method."""
        if self._parts:
            return self.space.sample()
        if getattr(self.space, "_np_random", None) is None:  # not seeded yet
            self.seed()
        return self.convert(self.space.sample())

    def null_value(self) -> Any:
        """Return an element in rlpyt's form, filled with the null value."""
        return self.space.null_value() if self._parts else super().null_value()

    def convert(self, value: Any) -> Any:
        """Convert an element returned by the environment to rlpyt's form."""
        if self.identity and getattr(value, "dtype", None) == self._leaf.dtype:
            return value
        if self._parts:
            try:
                converted = [part.convert(value[key]) for key, part in self._parts]
                if len(value) != self._n_given:
                    self._note_number(value)
                return _new_tuple(self._Cls, converted)
            except (KeyError, IndexError, TypeError) as error:
                raise self._wrong_structure(value) or error from None
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different length
            return value
        if array.dtype != self._leaf.dtype and not keeps_numbers(array, self._leaf.dtype):
            return value  # not of this space; storing it raises an error
        array = np.asarray(array, self._leaf.dtype)
        if self._reshaped:
            array = array.reshape(self._shape)
        return array - self._leaf.start if self._shift else array

    def _note_number(self, value: Collection[Any]) -> None:
        """Remember the number of parts of the first element.

        Raises:
            ValueError: it was another one.
        """
        if self._n_given is not None:
            got = f"the keys {list(value)}" if isinstance(value, Mapping) else f"{len(value)} parts"
            raise ValueError(
                f"an element of the space '{self.name}' must have {self._n_given} parts, as in the "
                f"first reset, got {got}. Return the same parts from reset and from every step."
            )
        self._n_given = len(value)

    def _wrong_structure(self, value: Any) -> ValueError | None:
        """Return an error if a value does not have all parts, otherwise ``None``."""
        keys = [key for key, _ in self._parts]
        if self._outer is dict:
            expected, fits = f"a dict with the keys {keys}", isinstance(value, Mapping)
            got = f"the keys {list(value)}" if fits else type(value).__name__
            fits = fits and set(keys) <= set(value)
        else:
            expected, fits = f"a tuple of length {len(keys)}", isinstance(value, tuple | list)
            got = f"length {len(value)}" if fits else type(value).__name__
            fits = fits and len(value) == len(keys)
        if fits:
            return None
        return ValueError(
            f"an element of the space '{self.name}' must be {expected}, got {got}. Return all "
            "parts from reset and from every step."
        )

    def revert(self, value: Any, lead: tuple[int, ...] = ()) -> Any:
        """Convert an element in rlpyt's form to gymnasium's, to pass it to the environment.

        A Discrete element becomes an int, or a number of the space's dtype if that is not int64;
        other leaves become arrays of the space's dtype and shape.

        Args:
            value: the element; one of a flat space may have the shape of the gymnasium space.
            lead: leading dimensions of all leaves, in a batch of elements.
        """
        if self.revert_identity:
            return value
        if self._parts:
            if len(value) != len(self._parts):
                n = len(self._parts)
                raise ValueError(
                    f"an element of space '{self.name}' must have {n} parts, got {value!r:.100}."
                )
            values = [part.revert(v, lead) for (_, part), v in zip(self._parts, tuple(value))]
            if self._outer is tuple:
                return tuple(values)
            return {key: v for (key, _), v in zip(self._parts, values)}
        if self._scalar:
            number = int(value) + self._leaf.start
            return number if self.space.dtype == np.int64 else self.space.dtype.type(number)
        if self._reshaped:
            value = np.reshape(value, (*lead, *self._shape))
        own = np.asarray(value, self.space.dtype)
        if self._bounds is not None:
            own = np.where(value == self._leaf.high, self._bounds[1], own)
            own = np.where(value == self._leaf.low, self._bounds[0], own)
        if self._shift:
            own = own + self._leaf.start
        return np.reshape(own, (*lead, *self.space.shape)) if self._reshaped else own

    def contains(self, x: object) -> bool:
        """Return True if ``x`` is an element in rlpyt's form."""
        if self._parts:
            return bool(self.space.contains(x))
        return within(x, self._leaf.low, self._leaf.high, self.shape, self._leaf.dtype)

    def seed(self, seed: int | None = None) -> None:
        """Seed the random generator; ``None`` draws a seed from numpy's global generator."""
        self.space.seed(draw_seed() if seed is None else int(seed))

    @property
    def keys(self) -> list[Any]:
        """Keys of a Dict, or indices of a Tuple, in the order of the fields; else empty."""
        return [key for key, _ in self._parts]

    @property
    def shape(self) -> Any:
        """Shape of an element; a named tuple of shapes for Dict and Tuple."""
        return self.space.shape if self._parts else self._shape

    @property
    def dtype(self) -> Any:
        """Dtype of an element in rlpyt's form; a named tuple of dtypes for Dict and Tuple."""
        return self._leaf.dtype

    @property
    def low(self) -> Any:
        """Smallest values in rlpyt's form, of ``shape``; a named tuple for Dict and Tuple."""
        return self._leaf.low

    @property
    def high(self) -> Any:
        """Largest values (inclusive), of ``shape``; a named tuple for Dict and Tuple."""
        return self._leaf.high

    @property
    def n(self) -> Any:
        """Number of values of a Discrete or bits of a MultiBinary space."""
        if self._leaf.n is None:
            raise AttributeError(
                f"space '{self.name}' ({self.space}) has no n. For a MultiDiscrete space, high + 1 "
                "is the number of values of each entry."
            )
        return self._leaf.n

    @property
    def start(self) -> Any:
        """Smallest integer of a Discrete or MultiDiscrete space; otherwise 0."""
        return self._leaf.start

    def _spec(self) -> tuple[Any, ...]:
        return self.space, self._leaf.dtype, self.shape

    def __repr__(self) -> str:
        return repr(self.space)


def from_gym(space: Space, value: Any) -> Any:
    """Convert an element as a Gymnasium environment returns it to an element of an rlpyt space.

    Args:
        space: the space; the parts of a `Composite` are given as a dict with their names.
        value: the element.

    Raises:
        ValueError: a part is missing.
    """
    if not isinstance(space, Composite):
        return space.convert(value) if isinstance(space, GymSpaceWrapper) else value
    missing = set(space.names).difference(value)
    if missing:
        raise ValueError(
            f"an element of {space} must be a dict with the keys {list(space.names)}, got no "
            f"{sorted(missing)}."
        )
    pairs = zip(space.names, space.spaces, strict=True)
    return space.null_value()._make([from_gym(part, value[name]) for name, part in pairs])


def to_gym(space: Space, value: Any) -> Any:
    """Convert an element of an rlpyt space to one for a Gymnasium environment; see `from_gym`."""
    if isinstance(space, Composite):
        parts = zip(space.names, space.spaces, tuple(value), strict=True)
        return {name: to_gym(part, x) for name, part, x in parts}
    return space.revert(value) if isinstance(space, GymSpaceWrapper) else value


def _describe(space: gym_spaces.Space[Any], force_float32: bool, name: str) -> _Leaf:
    if isinstance(space, gym_spaces.Box):
        narrow = force_float32 and space.dtype == np.float64
        dtype = np.dtype(np.float32 if narrow else space.dtype).newbyteorder("=")
        with np.errstate(over="ignore"):  # a bound beyond float32 becomes infinite
            return _Leaf(dtype, space.low.astype(dtype), space.high.astype(dtype))
    if isinstance(space, gym_spaces.Discrete):
        zero = space.dtype.type(0)
        return _Leaf(space.dtype, zero, zero + space.n - 1, int(space.n), int(space.start))
    if isinstance(space, gym_spaces.MultiDiscrete):
        high = (space.nvec - 1).astype(space.dtype)
        return _Leaf(space.dtype, np.zeros_like(high), high, None, space.start)
    if isinstance(space, gym_spaces.MultiBinary):
        ones = np.ones(space.shape, space.dtype)
        return _Leaf(space.dtype, np.zeros_like(ones), ones, space.n)
    kind = f"{type(space).__module__.split('.')[0]} space {type(space).__name__}"
    raise ValueError(
        f"space '{name}': {kind} is not supported. Use {SUPPORTED} of gymnasium, in any nesting, "
        "or transform it in an environment wrapper first, for example with "
        "gymnasium.wrappers.TransformObservation or TransformAction."
    )


def _type_name(name: str) -> str:
    return field_names([name])[0]


def dict_to_nt(value: object, name: str) -> Any:
    """Convert a dictionary to a named tuple, recursively; other values are returned unchanged.

    Types are cached by name and fields, so that several environments can share a name.
    """
    if not isinstance(value, Mapping):
        return value
    cls = namedtuple_class(_type_name(name), field_names(value))
    return cls(*[dict_to_nt(v, f"{name}_{k}") for k, v in value.items()])


def nt_to_dict(value: Any) -> Any:
    """Convert a named tuple to a dictionary, recursively; other values are returned unchanged."""
    if not (is_namedtuple(value) or is_namedarraytuple(value)):
        return value
    return {k: nt_to_dict(v) for k, v in zip(value._fields, tuple(value), strict=True)}
