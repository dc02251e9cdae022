"""rlpyt's names for command lines made from constructors; `tyro.cli` makes them from signatures.

Decorated constructors work as before, without a command line.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

F = TypeVar("F")


def arg(
    name: str,
    type: Any = None,
    help: str | None = None,
    nargs: Any = None,
    mapper: Any = None,
    choices: Any = None,
    prefix: bool = True,
) -> Callable[[F], F]:
    """Return a decorator without effect: rlpyt described an argument here."""
    return _unchanged


def prefix(prefix_: str) -> Callable[[F], F]:
    """Return a decorator without effect: rlpyt named all arguments with a prefix here."""
    return _unchanged


def inherit(base_func: Any) -> Callable[[F], F]:
    """Return a decorator without effect: rlpyt took descriptions of a base class over here."""
    return _unchanged


def add_args(_: Any) -> NoReturn:
    """Raise, as there is no parser to add arguments to.

    Raises:
        NotImplementedError: always.
    """
    _refuse("add_args")


def new_from_args(_: Any) -> NoReturn:
    """Raise, as there are no parsed arguments to build from.

    Raises:
        NotImplementedError: always.
    """
    _refuse("new_from_args")


def get_all_parameters(cls: Any, parsed_args: Any) -> NoReturn:
    """Raise, as there are no parsed arguments to read.

    Raises:
        NotImplementedError: always.
    """
    _refuse("get_all_parameters")


def _unchanged(fun: F) -> F:
    return fun


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"autoargs.{name} is not used any more. Call tyro.cli(MyClass), which makes a command line "
        "from the constructor's signature, or declare arguments with argparse."
    )
