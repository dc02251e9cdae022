"""Addition of methods that rlpyt needs to objects of user-defined classes."""

import inspect
import warnings
from typing import Any

_warned: set[tuple[str, str]] = set()


def completed(part: Any, base: type, defaults: Any = None) -> Any:
    """Return a view of an object with the attributes of a base class that it lacks.

    Samplers, agents and collectors written for earlier versions may not be derived from the base
    classes, or may lack newer methods. Existing attributes are not replaced. The view shares the
    object's attributes, and can be pickled and copied if the object can be.

    Args:
        part: the object; it is returned itself if it lacks nothing, or is a class or ``None``.
        base: class whose methods and class attributes are added.
        defaults: instance of ``base`` whose attributes are also added.

    Raises:
        TypeError: the object stores its attributes elsewhere than in its ``__dict__``.
    """
    if part is None or isinstance(part, type):
        return part
    names = [name for name in dir(base) if not name.startswith("__")]
    lacking = [name for name in names if not _has(part, name)]
    if lacking:
        try:
            part = _view(part, base, lacking)
        except TypeError as error:
            own = type(part).__name__
            raise TypeError(
                f"{own} lacks {', '.join(sorted(lacking))}, which cannot be added ({error}). "
                f"Derive it from {base.__module__}.{base.__name__}."
            ) from error
    for name, value in ({} if defaults is None else vars(defaults)).items():
        if not hasattr(part, name):
            setattr(part, name, value)
    return part


def _view(part: Any, base: type, names: list[str]) -> Any:
    """Return an object of a subclass that has these class attributes of ``base``, too."""
    own: Any = type(part)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        reduced = own.__reduce_ex__(self, protocol)
        if isinstance(reduced, str):  # the name of a global object
            return reduced
        # The subclass cannot be pickled by name: store the original class and the additions.
        make, args, *state = reduced
        args = tuple(own if arg is type(self) else arg for arg in args)
        return _make_extended, (base, names, own if make is type(self) else make, args), *state

    added = {name: inspect.getattr_static(base, name) for name in names}
    added |= {"__module__": own.__module__, "__reduce_ex__": __reduce_ex__}
    if any(vars(cls).get("__slots__") for cls in own.__mro__):
        raise TypeError("it has __slots__")
    view: Any = object.__new__(type(own.__name__, (own,), added))
    object.__setattr__(view, "__dict__", vars(part))
    return view


def _make_extended(base: type, names: list[str], make: Any, args: tuple[Any, ...]) -> Any:
    return _view(make(*args), base, names)


def _has(part: Any, name: str) -> bool:
    """Return True if the object has this attribute, without running a property of its class."""
    try:
        inspect.getattr_static(part, name)
    except AttributeError:  # it may forward attributes of another object
        return hasattr(type(part), "__getattr__") and hasattr(part, name)
    return True


def takes(function: Any, argument: str) -> bool:
    """Return True if a function can be called with a keyword argument of this name."""
    parameters = inspect.signature(function).parameters
    return argument in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def warn_of_lost_state(part: Any, consequence: str) -> None:
    """Warn, once for each class, that checkpoints lack an object's state.

    Args:
        part: the object, or its class.
        consequence: consequence for a resumed run, added to the message.
    """
    cls = part if isinstance(part, type) else type(part)
    key = (cls.__module__, cls.__qualname__)
    if key not in _warned:
        _warned.add(key)
        warnings.warn(
            f"{cls.__name__} has no state_dict and load_state_dict: checkpoints lack its "
            f"state. {consequence}",
            stacklevel=3,
        )
