"""Replaced names of rlpyt's asynchronous runner; calling one raises an error."""

from typing import Any

from rlpyt.utils.old_names import removed

run_async_sampler = removed(
    "run_async_sampler",
    "pass an asynchronous sampler to AsyncRl. In a custom loop call its async_initialize, "
    "initialize and obtain_samples",
)
run_async_sampler_eval = removed(
    "run_async_sampler_eval", "pass an asynchronous sampler to AsyncRlEval"
)
memory_copier = removed(
    "memory_copier",
    "AsyncRl starts a process that stores batches with the algorithm's samples_to_buffer "
    "(rlpyt.runners.replay_writer)",
)


class AsyncOptWorker:
    """Further optimizer process of rlpyt; ``runners.optimizers`` replaces this class."""

    __init__: Any = removed(
        "AsyncOptWorker",
        "pass a list of several affinities to AsyncRl as affinity['optimizer']; it starts the "
        "processes",
    )
    startup: Any = __init__
    optimize, shutdown = startup, startup


def placeholder(x: object) -> None:
    """Do nothing."""
