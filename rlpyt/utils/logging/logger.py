"""Module-level logging functions, each a method of the current ``Logger``.

logger.record_tabular("LossAverage", 0.5)
logger.dump_tabular()
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from rlpyt.utils.logging import console, core, params

Logger = core.Logger
TerminalTablePrinter = console.TerminalTablePrinter
MyEncoder = params.MyEncoder
log_parameters = params.log_parameters
log_parameters_lite = params.log_parameters_lite
log_variant = params.log_variant
stub_to_json = params.stub_to_json

P = ParamSpec("P")
R = TypeVar("R")

_current = Logger()
_of_parent: Logger | None = None  # a forked child's


def current() -> Logger:
    """Return the logger used by the functions of this module."""
    return _current


@contextmanager
def use(logger: Logger) -> Iterator[Logger]:
    """Use ``logger`` in the functions of this module during a block."""
    global _current
    before, _current = _current, logger
    try:
        yield logger
    finally:
        _current = before


def exchange(logger: Logger) -> Logger:
    """Use ``logger`` in the functions of this module from now on; return the one until now."""
    global _current
    before, _current = _current, logger
    return before


def forget_parent() -> None:
    """Replace the logger in a child process, whose parent owns the files of the run."""
    global _current, _of_parent
    _of_parent, _current = _current, Logger()  # closing outputs would flush the parent's buffers


# Private variables of rlpyt's (2019) module, by the attribute of the current logger.
_OLD_NAMES = {
    "_iteration": "_step",
    **{name: name for name in ("_snapshot_dir", "_snapshot_mode", "_snapshot_gap", "_disabled")},
    **{name: name for name in ("_tabular_disabled", "_log_tabular_only", "_disable_prefix")},
    **{name: name for name in ("_prefixes", "_tabular_prefixes")},
    "_tf_summary_dir": "_summary_dir",
}


def __getattr__(name: str) -> Any:
    """Return the current logger's ``table_printer``, or a variable of rlpyt's (2019) module."""
    if name == "table_printer":
        return _current.table_printer
    if name in _OLD_NAMES:
        return getattr(_current, _OLD_NAMES[name])
    if name in ("_prefix_str", "_tabular_prefix_str"):
        return "".join(getattr(_current, name.replace("_str", "es")))
    if name == "_tf_summary_writer":
        return _current.get_tf_summary_writer()
    raise AttributeError(f"module {__name__} has no attribute {name!r}.")


def _of_current(method: Callable[Concatenate[Logger, P], R]) -> Callable[P, R]:
    """Return a function that calls this method of the current logger."""
    name = method.__name__

    @functools.wraps(method)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, getattr(_current, name)(*args, **kwargs))

    signature = inspect.signature(method)
    without_self = list(signature.parameters.values())[1:]
    function.__signature__ = signature.replace(parameters=without_self)  # type: ignore[attr-defined]
    return function


log = _of_current(Logger.log)
push_prefix = _of_current(Logger.push_prefix)
pop_prefix = _of_current(Logger.pop_prefix)
prefix = _of_current(Logger.prefix)
set_disable_prefix = _of_current(Logger.set_disable_prefix)
get_disable_prefix = _of_current(Logger.get_disable_prefix)
record_tabular = _of_current(Logger.record_tabular)
_record_tabular = record_tabular


def record_tabular_misc_stat(key: str, values: Any, placement: str = "back") -> None:
    """Set five columns; see `Logger.record_tabular_misc_stat`.

    A function that was assigned to ``record_tabular`` in this module gets them, as in rlpyt.
    """
    own = None if record_tabular is _record_tabular else record_tabular
    _current.record_tabular_misc_stat(key, values, placement, own)


dump_tabular = _of_current(Logger.dump_tabular)
push_tabular_prefix = _of_current(Logger.push_tabular_prefix)
pop_tabular_prefix = _of_current(Logger.pop_tabular_prefix)
tabular_prefix = _of_current(Logger.tabular_prefix)
set_iteration = _of_current(Logger.set_iteration)
rewind = _of_current(Logger.rewind)
table_marks = _of_current(Logger.table_marks)
begun_row = _of_current(Logger.begun_row)
changed_tables = _of_current(Logger.changed_tables)
add_text_output = _of_current(Logger.add_text_output)
get_text_outputs = _of_current(Logger.get_text_outputs)
remove_text_output = _of_current(Logger.remove_text_output)
add_tabular_output = _of_current(Logger.add_tabular_output)
remove_tabular_output = _of_current(Logger.remove_tabular_output)
hold_tabular_output = _of_current(Logger.hold_tabular_output)
add_sink = _of_current(Logger.add_sink)
remove_sink = _of_current(Logger.remove_sink)
attach = _of_current(Logger.attach)
get_trackers = _of_current(Logger.get_trackers)
set_console = _of_current(Logger.set_console)
set_log_tabular_only = _of_current(Logger.set_log_tabular_only)
get_log_tabular_only = _of_current(Logger.get_log_tabular_only)
set_tf_summary_dir = _of_current(Logger.set_tf_summary_dir)
get_tf_summary_dir = _of_current(Logger.get_tf_summary_dir)
set_tf_summary_writer = _of_current(Logger.set_tf_summary_writer)
get_tf_summary_writer = _of_current(Logger.get_tf_summary_writer)
set_snapshot_dir = _of_current(Logger.set_snapshot_dir)
get_snapshot_dir = _of_current(Logger.get_snapshot_dir)
set_snapshot_mode = _of_current(Logger.set_snapshot_mode)
get_snapshot_mode = _of_current(Logger.get_snapshot_mode)
set_snapshot_gap = _of_current(Logger.set_snapshot_gap)
get_snapshot_gap = _of_current(Logger.get_snapshot_gap)
save_itr_params = _of_current(Logger.save_itr_params)
lacks_snapshot = _of_current(Logger.lacks_snapshot)
set_settings_file = _of_current(Logger.set_settings_file)
check_run_dir = _of_current(Logger.check_run_dir)
disable = _of_current(Logger.disable)
enable = _of_current(Logger.enable)
disable_tabular = _of_current(Logger.disable_tabular)
enable_tabular = _of_current(Logger.enable_tabular)
session = _of_current(Logger.session)
run_session = _of_current(Logger.run_session)
training = _of_current(Logger.training)
