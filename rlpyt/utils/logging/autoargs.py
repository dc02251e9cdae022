"""Names of rlpyt's constructor-based command lines, which `tyro.cli` replaces.

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
    """Return a decorator without effect, in place of an argument description."""
    return _unchanged


def prefix(prefix_: str) -> Callable[[F], F]:
    """Return a decorator without effect, in place of a prefix for all arguments."""
    return _unchanged


def inherit(base_func: Any) -> Callable[[F], F]:
    """Return a decorator without effect, in place of inherited argument descriptions."""
    return _unchanged


def add_args(_: Any) -> NoReturn:
    """Raise an error that names the replacement of this function.

    Raises:
        NotImplementedError: always.
    """
    _refuse("add_args")


def new_from_args(_: Any) -> NoReturn:
    """Raise an error that names the replacement of this function.

    Raises:
        NotImplementedError: always.
    """
    _refuse("new_from_args")


def get_all_parameters(cls: Any, parsed_args: Any) -> NoReturn:
    """Raise an error that names the replacement of this function.

    Raises:
        NotImplementedError: always.
    """
    _refuse("get_all_parameters")


def _unchanged(fun: F) -> F:
    return fun


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"autoargs.{name} is no longer supported. Call tyro.cli(MyClass), which builds a command "
        "line from the constructor's signature, or declare arguments with argparse."
    )
