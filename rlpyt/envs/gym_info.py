"""Info dicts of Gymnasium environments as named tuples of a fixed structure.

Samplers allocate memory for ``env_info`` after one step, Gymnasium promises nothing about info.
An ``InfoSchema`` holds what one example contained: numeric entries and nested dicts of such, in
the example's order. Later dicts are brought into that form: missing entries become zero, others
are left out, and each kind of departure is reported once.
"""

import warnings
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from rlpyt.spaces.gym_wrapper import field_names
from rlpyt.utils.collections import namedtuple_class

_MISSING = object()


class InfoSchema:
    """The structure of one environment's info, and the conversion to it.

    Built by ``GymEnvWrapper`` from the first step of an instance; equal examples give the same
    named tuple type in every process.

    Args:
        example: info dict as the environment returned it.
        name: typename; nested dicts append ``_key``.
        appended: names of bool fields that follow, filled by the caller of ``convert``.
    """

    def __init__(
        self, example: Mapping[Any, Any], name: str = "info", appended: Sequence[str] = ()
    ) -> None:
        self.fields: dict[Any, Any] = {}  # info key -> InfoSchema, or the example value
        self._known = set(example)
        self._reported: set[Any] = set()
        for key, value in example.items():
            if key in appended:
                self._report(key, "is left out: this field is filled here")
            elif isinstance(value, Mapping):
                self.fields[key] = InfoSchema(value, f"{name}_{key}")
            elif is_numeric(value):
                self.fields[key] = value
            else:
                self._report(key, f"({type(value).__name__}) is not numeric and is left out")
        typename = field_names([name])[0]
        self.cls = namedtuple_class(typename, (*field_names(self.fields), *appended))
        self._entries = [
            (k, type(v), v.shape if isinstance(v, np.ndarray) else None)
            for k, v in self.fields.items()
        ]
        self._types = [type(v) for v in self.fields.values()]
        plain = len(self._known) == len(self.fields) > 1
        if plain and not any(issubclass(cls, np.ndarray | InfoSchema) for cls in self._types):
            self._numbers = itemgetter(*self.fields)  # of all keys at once

    _numbers: Any = None

    def convert(self, info: Mapping[Any, Any], *appended: bool) -> Any:
        """Return ``info`` as a named tuple of this structure."""
        if self._numbers is not None and info.keys() == self._known:
            numbers = self._numbers(info)
            if [*map(type, numbers)] == self._types:  # the usual case, in half the time
                return tuple.__new__(self.cls, (*numbers, *appended))
        values = []
        for key, cls, shape in self._entries:
            value = info.get(key, _MISSING)
            if type(value) is not cls or (shape is not None and value.shape != shape):
                value = self._fit(key, value)
            values.append(value)
        if info.keys() != self._known:
            for key in info.keys() - self._known:
                self._report(key, "was not there at the first step and is ignored")
        return tuple.__new__(self.cls, (*values, *appended))

    def _fit(self, key: Any, value: Any) -> Any:
        """Bring an entry that is absent or of another type to the example's type and shape."""
        example = self.fields[key]
        if isinstance(example, InfoSchema):
            return example.convert(value if isinstance(value, Mapping) else {})
        if value is not _MISSING and is_numeric(value) and np.shape(value) == np.shape(example):
            return self._cast(key, value, example)
        if value is not _MISSING and value is not None:
            self._report(key, f"came as {value!r:.80}, unlike {example!r:.80} first: zero instead")
        return np.zeros_like(example) if isinstance(example, np.ndarray) else type(example)(0)

    def _cast(self, key: Any, value: Any, example: Any) -> Any:
        new, kept = np.asarray(value), np.asarray(example).dtype
        if not np.can_cast(new.dtype, kept, "same_kind"):
            self._report(key, f"is stored as {kept}, as it came first; now it is {new.dtype}")
        return new.astype(kept) if isinstance(example, np.ndarray) else type(example)(value)

    def _report(self, key: Any, what: str) -> None:
        if key not in self._reported:
            self._reported.add(key)
            warnings.warn(
                f"env_info: key {key!r} {what}. EnvInfoWrapper, or info_example in make(), "
                "says which keys to expect.",
                stacklevel=2,
            )


def is_numeric(value: Any) -> bool:
    """Whether memory can be allocated for it: a number, bool, or array of such."""
    if isinstance(value, bool | int | float):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf"


def build_info_tuples(info: Mapping[Any, Any], name: str = "info") -> Any:
    """Return the named tuple type for infos like this one; nothing is stored in the module."""
    return InfoSchema(info, name).cls


def info_to_nt(
    value: Mapping[Any, Any], name: str = "info", example: Mapping[Any, Any] | None = None
) -> Any:
    """Return an info dict as a named tuple.

    Args:
        value: the info dict.
        name: typename.
        example: what the structure comes from; ``None`` takes ``value`` itself. Keys that it
            lacks are dropped, keys that only it has become zero.
    """
    return InfoSchema(value if example is None else example, name).convert(value)
