"""Convert info dicts of Gymnasium environments to named tuples of a fixed structure.

Samplers allocate memory for ``env_info`` after one step, but Gymnasium does not guarantee a fixed
info structure. An ``InfoSchema`` records the numeric entries of one example, including nested
dicts, in the example's order. Later dicts are converted to it: missing entries become zero, extra
ones are dropped, and each kind of mismatch is reported once.
"""

import contextlib
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from rlpyt.utils.collections import namedtuple_class
from rlpyt.utils.names import field_names

Number = float | np.generic | NDArray[Any]  # entry of an info dict that is kept

_MISSING = object()
MOST_REPORTED = 20  # keys of an environment that a warning names


SAME = "Return the same kind of number in every step"
FILL = (
    SAME + ", or wrap the environment in rlpyt.envs.gym.EnvInfoWrapper(env, {{{!r}: 0.0}}), which "
    "fills in what is missing"
)


class InfoSchema:
    """Structure of an environment's info, and the conversion to it.

    Built by ``GymEnvWrapper`` from the first step of an instance; equal examples give the same
    named tuple type in every process.

    Args:
        example: info dict returned by the environment.
        name: name of the type; nested dicts append ``_key``.
        appended: names of bool fields at the end, set by the caller of ``convert``.
        ignored: keys to leave out.
        check_unknown: called by ``convert`` with an info that has other keys than the example.
    """

    def __init__(
        self,
        example: Mapping[Any, Any],
        name: str = "info",
        appended: Sequence[str] = (),
        ignored: Sequence[str] = (),
        check_unknown: Callable[[Mapping[Any, Any]], None] | None = None,
    ) -> None:
        self.fields: dict[Any, Any] = {}  # info key -> InfoSchema, or the example value
        self._known, self._ignored = set(example), set(ignored)
        self._check_unknown = check_unknown
        self._reported: set[Any] = set()
        for key, value in example.items():
            if key in ignored:
                continue
            if key in appended:
                kept = f"env_info.{key} tells where step returned truncated"
                self._report(key, "is dropped", kept)
            elif isinstance(value, Mapping):
                self.fields[key] = InfoSchema(value, f"{name}_{key}")
            elif is_numeric(value):
                self.fields[key] = value
            else:
                self._report(key, f"({type(value).__name__}) is not numeric and is dropped")
        typename = field_names([name])[0]
        self.cls = namedtuple_class(typename, (*field_names(self.fields), *appended))
        self._entries = [
            (k, type(v), v.shape if isinstance(v, np.ndarray) else None)
            for k, v in self.fields.items()
        ]
        self._types = [type(v) for v in self.fields.values()]
        plain = len(self._known - self._ignored) == len(self.fields) > 1
        if plain and not any(issubclass(cls, np.ndarray | InfoSchema) for cls in self._types):
            self._numbers = itemgetter(*self.fields)  # of all keys at once

    _numbers: Any = None

    def convert(self, info: Mapping[Any, Any], *appended: bool) -> Any:
        """Return ``info`` as a named tuple of this structure."""
        if self._numbers is not None and info.keys() == self._known:
            numbers = self._numbers(info)
            if [*map(type, numbers)] == self._types:  # the usual case, twice as fast
                return tuple.__new__(self.cls, (*numbers, *appended))
        values = []
        for key, cls, shape in self._entries:
            value = info.get(key, _MISSING)
            if type(value) is not cls or (shape is not None and value.shape != shape):
                value = self._fit(key, value)
            values.append(value)
        if info.keys() != self._known:
            if self._check_unknown is not None:
                self._check_unknown(info)
            for key in info.keys() - self._known - self._ignored:
                self._report(key, "was absent at the first step and is ignored", FILL)
        return tuple.__new__(self.cls, (*values, *appended))

    def _fit(self, key: Hashable, value: object) -> Any:
        """Convert an absent or mismatched entry to the example's type and shape."""
        example = self.fields[key]
        if isinstance(example, InfoSchema):
            return example.convert(value if isinstance(value, Mapping) else {})
        if value is not _MISSING and is_numeric(value) and np.shape(value) == np.shape(example):
            new, kept = np.asarray(value), np.asarray(example).dtype
            if not np.can_cast(new.dtype, kept, "same_kind"):
                self._report(key, f"is stored as {kept}, its first dtype, but now has {new.dtype}")
            if isinstance(example, np.ndarray):
                return new.astype(kept)
            with contextlib.suppress(ValueError, OverflowError):  # NaN, or out of range
                return type(example)(value)
        if value is not _MISSING and value is not None:
            self._report(
                key, f"is {value!r:.80}, unlike {example!r:.80} at first; replaced by zero"
            )
        if isinstance(example, np.ndarray):
            return np.zeros_like(example)
        try:
            return type(example)(0)
        except ValueError:  # an enumeration without a member 0
            return 0

    def _report(self, key: Hashable, problem: str, remedy: str = SAME) -> None:
        if key in self._reported or len(self._reported) >= MOST_REPORTED:
            return
        self._reported.add(key)
        rest = " Further keys are not reported." * (len(self._reported) == MOST_REPORTED)
        warnings.warn(
            f"env_info: key {key!r} {problem}. {remedy.format(key)}.{rest}",
            stacklevel=2,
        )


def is_numeric(value: object) -> TypeGuard[Number]:
    """Return True if ``value`` is a number, a bool, or an array of these."""
    if isinstance(value, bool | int | float):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf"


def build_info_tuples(info: Mapping[Any, Any], name: str = "info") -> Any:
    """Return the named tuple type for infos like this one, without storing it in the module."""
    return InfoSchema(info, name).cls


def info_to_nt(
    value: Mapping[Any, Any], name: str = "info", example: Mapping[Any, Any] | None = None
) -> Any:
    """Return an info dict as a named tuple.

    Args:
        value: the info dict.
        name: name of the type.
        example: info dict that defines the structure; ``None`` takes ``value`` itself. Keys
            absent from it are dropped, keys only in it become zero.
    """
    return InfoSchema(value if example is None else example, name).convert(value)
