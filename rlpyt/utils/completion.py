"""Objects of other people's classes, given the methods of ours that they lack."""

import inspect
import warnings
from typing import Any

_warned: set[tuple[str, str]] = set()


def completed(part: Any, base: type, defaults: Any = None) -> Any:
    """Give an object whatever of a base class it lacks, and return it.

    Scripts written for rlpyt have samplers, agents and collectors that are not derived from ours,
    or are without methods that came later. What they have themselves is never replaced.

    Args:
        part: the object; a class or ``None`` is returned as it is.
        base: our class, whose methods and class attributes are defaults.
        defaults: an object of ``base``, whose attributes are defaults, too.

    Raises:
        TypeError: methods are missing, and the object's class cannot take them.
    """
    if part is None or isinstance(part, type):
        return part
    names = [name for name in dir(base) if not name.startswith("__")]
    lacking = {n: inspect.getattr_static(base, n) for n in names if not _has(part, n)}
    if lacking:
        own = type(part)
        try:
            part.__class__ = type(own.__name__, (own,), {"__module__": own.__module__, **lacking})
        except TypeError as error:
            raise TypeError(
                f"{own.__name__} lacks {', '.join(sorted(lacking))}, and cannot be given them "
                f"({error}). Derive it from {base.__module__}.{base.__name__}."
            ) from error
    for name, value in ({} if defaults is None else vars(defaults)).items():
        if not hasattr(part, name):
            setattr(part, name, value)
    return part


def _has(part: Any, name: str) -> bool:
    """Return True if the object has this attribute, without running a property of its class."""
    try:
        inspect.getattr_static(part, name)
    except AttributeError:  # or it passes attributes of another object on
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
        consequence: for a resumed run.
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
