"""Checks of arguments, and dataclass fields that declare their allowed values."""

import dataclasses
import math
import numbers
import types
import typing
import warnings
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Number = TypeVar("Number", float, float | None)
Schedulable = float | str | Sequence[tuple[float, float]] | Callable[[float], float]

_declared: dict[type, dict[str, "dataclasses.Field[Any]"]] = {}  # by class, see `declared`
MOST = 2**64 - 1  # upper bound of all counts; greater ones are mistakes


def whole_number(name: str, value: Any, least: int = -MOST) -> int:
    """Return an argument that counts something as an int; whole floats such as 1e6 are accepted.

    Raises:
        TypeError: `value` is not a whole number.
        ValueError: `value` is below `least`, or beyond 64 bits.
    """
    value = scalar(value)
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not (isinstance(value, int) or math.isfinite(value)) or value != int(value):
        bound = f" of at least {least}" if least > -MOST else ""
        raise TypeError(f"{name}={value!r} must be a whole number{bound}.")
    if value < least:
        raise ValueError(f"{name}={value!r} must be at least {least}.")
    if value > MOST:
        raise ValueError(f"{name}={value!r} must be at most {MOST}.")
    return int(value)


def scalar(value: Any) -> Any:
    """Return the Python number in a numpy or torch scalar or 0-d array, other values unchanged."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def check_range(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    finite: bool = False,
) -> None:
    """Check a numeric hyperparameter.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is outside [low, high] (or (low, high]), is NaN, or is infinite where
            it must be ``finite``.
    """
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} must be a number.")
    number = float(min(max(value, -MOST), MOST)) if isinstance(value, int) else float(value)
    too_low = number <= low if open_low else number < low
    if math.isnan(number) or too_low or number > high:
        bracket = "(" if open_low else "["
        raise ValueError(f"{name}={value!r} must be in {bracket}{low:g}, {high:g}].")
    if finite and math.isinf(number):
        raise ValueError(f"{name}={value!r} must be finite.")


def warn_without(condition: str, **given: tuple[Any, Any]) -> None:
    """Warn of arguments, each (value, default), that have no effect without ``condition``."""
    names = [f"{name}={value!r}" for name, (value, default) in given.items() if value != default]
    if names:
        has = "has" if len(names) == 1 else "have"
        warnings.warn(f"{', '.join(names)} {has} no effect without {condition}.", stacklevel=3)


def true_or_false(name: str, value: Any) -> bool:
    """Return a switch as a bool; 1 and 0 are accepted, strings such as "false" are not.

    Raises:
        TypeError: `value` is not True, False, 1 or 0.
    """
    value = scalar(value)
    if not isinstance(value, bool | int | float) or value not in (0, 1):
        raise TypeError(f"{name}={value!r} must be True or False.")
    return bool(value)


@dataclass(frozen=True)
class FieldLimits:
    """Documentation and allowed values of a dataclass field, see `setting`.

    Attributes:
        doc: effect and usual range, as ``rlpyt train --help`` prints it.
        gt, ge, le: bounds: numbers must be greater than, at least, at most this.
        finite: if True, infinite numbers are invalid.
        warn_above: greater numbers cause a warning that they are unusually large.
        fixed: if True, an algorithm refuses to change it after ``initialize``.
        scheduled: if True, it may follow a schedule.
    """

    doc: str
    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    finite: bool = False
    warn_above: float | None = None
    fixed: bool = False
    scheduled: bool = False

    @property
    def help(self) -> str:
        """The documentation with the range: ``gamma, per environment step [>= 0, <= 1]``."""
        bounds = ((">", self.gt), (">=", self.ge), ("<=", self.le))
        given = [f"{sign} {bound:g}" for sign, bound in bounds if bound is not None]
        return f"{self.doc} [{', '.join(given)}]".strip() if given else self.doc


def setting(default: T, *, doc: str, **limits: Any) -> T:
    """Declare a dataclass field with its allowed values, which `check_settings` checks.

    A setting is read in every update, so that it can be changed during training, unless it is
    ``fixed``.

    Args:
        default: default value.
        doc, **limits: see `FieldLimits`.
    """
    metadata = {"limits": FieldLimits(doc, **limits)}
    return dataclasses.field(default=default, metadata=metadata)  # type: ignore[no-any-return]


def fixed(default: T, **limits: Any) -> T:
    """Declare a setting that an algorithm refuses to change after ``initialize``; see `setting`."""
    return setting(default, fixed=True, **limits)


class Scheduled(Generic[Number]):
    """Type of a setting that may follow a schedule: a number when it is read.

    It can be set to a number or to one of the forms of `rlpyt.utils.schedules.schedule_of`.
    """

    def __get__(self, owner: Any, cls: Any = None) -> Number:
        raise NotImplementedError

    def __set__(self, owner: Any, value: Number | Schedulable) -> None:
        raise NotImplementedError


def scheduled(default: Any, *, doc: str, **limits: Any) -> Any:
    """Declare a number that may follow a schedule, a field of type `Scheduled`.

    Args:
        default: default value.
        doc, **limits: see `setting`. Schedules may also reach a bound ``gt``.
    """
    return setting(default, doc=doc, scheduled=True, **limits)


def rate(default: Any, *, doc: str) -> Any:
    """Declare a learning rate, which may follow a schedule; see `scheduled`."""
    return scheduled(default, gt=0, le=100, warn_above=1, doc=doc)


def declared(cls: type) -> dict[str, "dataclasses.Field[Any]"]:
    """Return the fields of a dataclass that are settings or that its constructor does not take."""
    if cls not in _declared:
        fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        _declared[cls] = {
            item.name: item
            for item in fields
            if "limits" in item.metadata or item.type in (bool, "bool") or not item.init
        }
    return _declared[cls]


def limits_of(item: "dataclasses.Field[Any]") -> FieldLimits:
    """Return the limits of a field; one that the constructor does not take is fixed."""
    return item.metadata.get("limits") or FieldLimits("", fixed=not item.init)


def check_settings(settings: Any, scheduled: Container[str] = ()) -> None:
    """Check the fields of a dataclass that are declared by `setting`, and all boolean ones.

    Counts and switches are stored as int and bool: 1e6 and 1 are accepted for 1000000 and True.

    Args:
        settings: the dataclass.
        scheduled: names of fields that follow a schedule, which has been checked. Its values may be
            at an excluded lower limit, as a learning rate that starts at 0.

    Raises:
        TypeError: a value does not have its field's type.
        ValueError: a value is outside its field's range.
    """
    for name, item in declared(type(settings)).items():
        value = getattr(settings, name)
        check = item.init and name not in scheduled
        stored = checked(item, value, limits_of(item)) if check else value
        if stored is not value:
            setattr(settings, name, stored)


def checked(item: "dataclasses.Field[Any]", value: Any, limits: FieldLimits) -> Any:
    """Return the value of a field, counts and switches as int and bool; see `check_settings`."""
    kind = item.type
    if typing.get_origin(kind) is Scheduled:
        (kind,) = typing.get_args(kind)
    union = typing.get_origin(kind) in (types.UnionType, typing.Union)
    kinds = list(typing.get_args(kind)) if union else [kind]
    literals = [kind for kind in kinds if typing.get_origin(kind) is typing.Literal]
    choices = [choice for literal in literals for choice in typing.get_args(literal)]
    if (value is None and types.NoneType in kinds) or (isinstance(value, str) and value in choices):
        return value
    if bool in kinds or "bool" in kinds:
        return true_or_false(item.name, value)
    if int in kinds:
        return whole_number(item.name, value, -MOST if limits.ge is None else int(limits.ge))
    if float in kinds:
        low, high = limits.ge if limits.gt is None else limits.gt, limits.le
        check_range(
            item.name,
            value,
            -math.inf if low is None else low,
            math.inf if high is None else high,
            open_low=limits.gt is not None,
            finite=limits.finite,
        )
        if limits.warn_above is not None and value > limits.warn_above:
            warnings.warn(f"{item.name}={value} is unusually large.")
    elif choices:
        raise ValueError(f"{item.name}={value!r} must be {' or '.join(map(str, choices))}.")
    return value
