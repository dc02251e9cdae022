"""Order of an algorithm's constructor arguments, for compatibility with rlpyt."""

import dataclasses
import inspect
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def own_fields_first(cls: C) -> C:
    """Make a dataclass's own fields its positional arguments, and inherited ones keyword-only.

    By default, inherited fields come first. In rlpyt, a subclass takes its own arguments first
    (``CategoricalDQN(V_min, V_max, **kwargs)``). Apply it above ``@dataclass``.
    """
    construct: Any = cls.__init__  # type: ignore[misc]
    init = {item.name for item in dataclasses.fields(cls) if item.init}
    own = [name for name in inspect.get_annotations(cls) if name in init]
    by_name = inspect.signature(construct).parameters

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(own):
            raise TypeError(
                f"{cls.__name__} takes {len(own)} arguments by position ({', '.join(own)}), got "
                f"{len(args)}. Pass the others by keyword."
            )
        twice = [name for name in own[: len(args)] if name in kwargs]
        if twice:
            raise TypeError(f"{cls.__name__} got {twice} by position and by keyword.")
        construct(self, **dict(zip(own, args)), **kwargs)

    own_parameters = [by_name[name] for name in own]
    others = [p for name, p in by_name.items() if name not in ("self", *own)]
    others = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in others]
    signature = inspect.Signature([by_name["self"], *own_parameters, *others])
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__doc__ = construct.__doc__
    cls.__init__ = __init__  # type: ignore[misc]
    return cls
