"""Named tuples of arrays that are indexed together, with types defined by their structure.

A ``namedarraytuple`` is a named tuple whose fields are arrays (or nested named tuples of arrays)
with the same leading dimensions. Indexing reads or writes every field::

    >>> import numpy as np
    >>> Points = namedarraytuple("Points", ["x", "y"])
    >>> p = Points(np.array([0, 1]), np.array([10, 11]))
    >>> p[1]
    Points(x=np.int64(1), y=np.int64(11))
    >>> p[0] = 5
    >>> p.x
    array([5, 1])
    >>> "x" in p, p.get(0)
    (True, array([5, 1]))

Types are memoized by (typename, fields): the same structure always gives the same class, and both
classes and instances are pickled as that structure, so that types created at run time (Dict
observations, environment infos) can be sent to worker processes.
"""

import copyreg
from collections import namedtuple
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

RESERVED_NAMES = ("get", "items")


class _StructuralType(type):
    """Metaclass of the memoized tuple types, which pickles classes as their structure."""

    _fields: tuple[str, ...]


class NamedTuple(tuple[Any, ...]):
    """Base of memoized named tuples; ``NamedTuple(typename, fields, values)`` creates one."""

    __slots__ = ()
    _typename: str
    _fields: tuple[str, ...]

    def __new__(cls, typename: str, fields: Iterable[str], values: Iterable[Any]) -> Any:
        """Return an instance of the memoized type for (typename, fields)."""
        return namedtuple_class(typename, fields)._make(values)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (_factory_of(type(self)), self._typename, self._fields, tuple(self))

    if TYPE_CHECKING:  # fields are known at run time only

        def __getattr__(self, name: str) -> Any: ...


class NamedArrayTuple(NamedTuple):
    """Base of namedarraytuples, which defines indexing, ``in``, ``get`` and ``items``."""

    __slots__ = ()

    def __new__(cls, typename: str, fields: Iterable[str], values: Iterable[Any]) -> Any:
        """Return an instance of the memoized type for (typename, fields)."""
        return namedarraytuple(typename, fields)._make(values)

    def __getitem__(self, loc: Any) -> Any:
        """Index or slice every field; ``None`` fields stay ``None``."""
        try:
            return tuple.__new__(type(self), [None if f is None else f[loc] for f in self])
        except (IndexError, TypeError, KeyError) as error:
            raise _name_the_field(self, loc, error) from error

    def __setitem__(self, loc: Any, value: Any) -> None:
        """Write to every field.

        A value of the same structure (named tuple or namedarraytuple) is written field by field;
        any other value is written to all fields. Fields that are ``None`` in both are skipped.
        """
        if getattr(value, "_fields", None) == self._fields:
            for name, own, new in zip(self._fields, self, value, strict=True):
                if own is not None:
                    own[loc] = new
                elif new is not None:
                    raise TypeError(f"value of field '{name}' must be None, got {type(new)}.")
        elif hasattr(value, "_fields"):
            raise TypeError(f"value must have the fields {self._fields}, got {value._fields}.")
        else:
            for own in self:
                if own is not None:
                    own[loc] = value

    def __contains__(self, key: object) -> bool:
        return key in self._fields

    def get(self, index: int) -> Any:
        """Return one field by position, as a plain tuple would."""
        return tuple.__getitem__(self, index)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Iterate over (field name, value) in order."""
        return zip(self._fields, self, strict=True)


def with_fields(samples: NamedArrayTuple, **more: Any) -> Any:
    """Return a namedarraytuple of the same name with these fields added."""
    fields = {**dict(samples.items()), **more}
    return namedarraytuple(type(samples).__name__, tuple(fields))(*fields.values())


def without_fields(samples: Any, *names: str, typename: str = "") -> Any:
    """Return a namedarraytuple of the other fields of a named tuple, by default with its name."""
    kept = {k: v for k, v in zip(samples._fields, tuple(samples), strict=True) if k not in names}
    return namedarraytuple(typename or type(samples).__name__, tuple(kept))(*kept.values())


def _name_the_field(array_tuple: NamedArrayTuple, loc: Any, error: Exception) -> Exception:
    for name, field in array_tuple.items():
        try:
            if field is not None:
                field[loc]
        except (IndexError, TypeError, KeyError) as own:
            return type(own)(f"{own} (in field '{name}' of {type(array_tuple).__name__})")
    return error


def _check_names(typename: str, field_names: Iterable[str] | str) -> tuple[str, ...]:
    if isinstance(field_names, str):
        field_names = field_names.replace(",", " ").split()
    fields = tuple(map(str, field_names))
    for name in fields:
        if name in RESERVED_NAMES:
            raise ValueError(f"field name '{name}' of '{typename}' is reserved. Choose another.")
    return fields


@cache
def _structural_class(factory: str, typename: str, fields: tuple[str, ...]) -> Any:
    """Return the memoized type of a structure; ``factory`` is "array" or "plain"."""
    base = namedtuple(typename, fields)  # type: ignore[misc]
    bases = (NamedArrayTuple, base) if factory == "array" else (base, NamedTuple)
    members = {"__slots__": (), "_typename": typename, "__new__": base.__new__}
    return _StructuralType(typename, bases, {**members, "__doc__": base.__doc__})


def _factory_of(cls: type[Any]) -> str:
    return "array" if issubclass(cls, NamedArrayTuple) else "plain"


def _rebuild(factory: str, typename: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _structural_class(factory, typename, fields)._make(values)


def reduce_structural_class(cls: Any) -> Any:
    """Pickle a memoized class as its structure, and a subclass of one by its qualified name."""
    structure = (_factory_of(cls), getattr(cls, "_typename", cls.__name__), cls._fields)
    return (_structural_class, structure) if _structural_class(*structure) is cls else cls.__name__


copyreg.pickle(_StructuralType, reduce_structural_class)  # type: ignore[arg-type]


def namedtuple_class(typename: str, field_names: Iterable[str] | str) -> Any:
    """Return the memoized plain named tuple type for this structure."""
    return _structural_class("plain", typename, _check_names(typename, field_names))


def namedarraytuple(
    typename: str,
    field_names: Iterable[str] | str,
    return_namedtuple_cls: bool = False,
    classname_suffix: bool = False,
) -> Any:
    """Return the namedarraytuple type with these fields.

    Args:
        typename: name of the class.
        field_names: names in order, or one string of names; ``get`` and ``items`` are reserved.
        return_namedtuple_cls: return (namedarraytuple type, named tuple type) instead.
        classname_suffix: append ``_nat`` to the name of the namedarraytuple type (not of the named
            tuple type), to distinguish the two when printed.

    Raises:
        ValueError: a field name is reserved, not an identifier, or given twice.
    """
    fields = _check_names(typename, field_names)
    suffix = "_nat" if classname_suffix else ""
    cls = _structural_class("array", typename + suffix, fields)
    return (cls, _structural_class("plain", typename, fields)) if return_namedtuple_cls else cls


DocExampleNat = namedarraytuple("DocExampleNat", ["field_1", "field_2"])


def tuple_itemgetter(i: int) -> Any:
    """Return a function that reads position ``i`` as a plain tuple would."""

    def get(obj: tuple[Any, ...]) -> Any:
        return tuple.__getitem__(obj, i)

    return get


def is_namedtuple_class(obj: Any) -> bool:
    """Return True if ``obj`` is a named tuple type but not a namedarraytuple type."""
    return (
        isinstance(obj, type)
        and issubclass(obj, tuple)
        and hasattr(obj, "_fields")
        and not issubclass(obj, NamedArrayTuple)
    )


def is_namedarraytuple_class(obj: Any) -> bool:
    """Return True if ``obj`` is a namedarraytuple type."""
    return isinstance(obj, type) and issubclass(obj, NamedArrayTuple) and hasattr(obj, "_fields")


def is_namedtuple(obj: Any) -> bool:
    """Return True if ``obj`` is a named tuple but not a namedarraytuple."""
    return is_namedtuple_class(type(obj))


def is_namedarraytuple(obj: Any) -> bool:
    """Return True if ``obj`` is an instance of a namedarraytuple type."""
    return isinstance(obj, NamedArrayTuple)


def namedarraytuple_like(namedtuple_or_class: Any, classname_suffix: bool = False) -> Any:
    """Return the namedarraytuple type with the name and fields of the given type or instance.

    Raises:
        TypeError: the argument is neither a named tuple, a namedarraytuple, nor a type or schema
            of one.
    """
    given = namedtuple_or_class
    if isinstance(given, NamedTupleSchema):
        return namedarraytuple(given._typename, given._fields, classname_suffix=classname_suffix)
    cls: Any = given if isinstance(given, type) else type(given)
    if is_namedarraytuple_class(cls):
        return cls
    if is_namedtuple_class(cls):
        return namedarraytuple(cls.__name__, cls._fields, classname_suffix=classname_suffix)
    raise TypeError(f"expected a named tuple or namedarraytuple (or a type of one), got {given!r}.")


class NamedTupleSchema:
    """Wrapper of a named tuple type; calling it creates an instance.

    Kept for compatibility: all types can now be sent to spawned processes without it.
    """

    _factory = "plain"

    def __init__(self, typename: str, fields: Iterable[str] | str) -> None:
        self._typename = typename
        self._fields = _check_names(typename, fields)

    @property
    def cls(self) -> Any:
        """The memoized type of this schema."""
        return _structural_class(self._factory, self._typename, self._fields)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Create an instance of the type."""
        return self.cls(*args, **kwargs)

    def _make(self, iterable: Iterable[Any]) -> Any:
        return self.cls._make(iterable)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.cls is self.cls  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self._factory, self._typename, self._fields))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._typename!r}, {self._fields!r})"


class NamedArrayTupleSchema(NamedTupleSchema):
    """Wrapper of a namedarraytuple type; calling it creates an instance."""

    _factory = "array"


def NamedArrayTupleSchema_like(example: Any) -> NamedArrayTupleSchema:
    """Return the schema with the name and fields of the given type, instance or schema."""
    cls = namedarraytuple_like(example)
    return NamedArrayTupleSchema(cls.__name__, cls._fields)


class AttrDict(dict[str, Any]):
    """Dictionary whose entries are also attributes: ``x.key`` is ``x["key"]``."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "AttrDict":
        """Share entries and attributes, also in subclasses and unpickled objects."""
        new = super().__new__(cls)
        new.__dict__ = new
        return new

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __getstate__(self) -> None:
        """Return None: there is no state besides the entries."""

    def copy(self) -> "AttrDict":
        """Return a copy with nested AttrDicts copied and other values shared."""
        copied = {k: v.copy() if isinstance(v, AttrDict) else v for k, v in self.items()}
        new = type(self).__new__(type(self))  # a subclass's constructor may differ
        dict.update(new, copied)
        return new


def own_containers(x: Any) -> Any:
    """Return arguments with dictionaries, lists and sets of their own, and the same other values.

    What is built from them may change them, for example by ``config.pop("size")``.
    """
    if isinstance(x, dict):
        copy = x.copy()
        for key, value in x.items():
            copy[key] = own_containers(value)
        return copy
    if type(x) in (list, tuple, set):
        return type(x)(map(own_containers, x))
    return x
