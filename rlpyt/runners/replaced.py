"""Replaced names of rlpyt's asynchronous runner; calling one raises an error."""

from typing import NoReturn


def _refuse(name: str, advice: str) -> NoReturn:
    raise NotImplementedError(f"{name} was removed: {advice}")


def run_async_sampler(
    sampler: object, affinity: object, ctrl: object, traj_infos_queue: object, n_itr: int
) -> NoReturn:
    """Raise NotImplementedError; ``samplers.sampler_process`` replaces this function."""
    _refuse(
        "run_async_sampler",
        "pass an asynchronous sampler to AsyncRl. In a custom loop call its async_initialize, "
        "initialize and obtain_samples.",
    )


def run_async_sampler_eval(
    sampler: object,
    affinity: object,
    ctrl: object,
    traj_infos_queue: object,
    n_itr: int,
    eval_itrs: object,
) -> NoReturn:
    """Raise NotImplementedError; ``samplers.sampler_process`` replaces this function."""
    _refuse("run_async_sampler_eval", "pass an asynchronous sampler to AsyncRlEval.")


def memory_copier(
    sample_buffer: object, samples_to_buffer: object, replay_buffer: object, ctrl: object
) -> NoReturn:
    """Raise NotImplementedError; ``runners.replay_writer`` replaces this function."""
    _refuse(
        "memory_copier",
        "AsyncRl starts a process that stores batches with the algorithm's samples_to_buffer "
        "(rlpyt.runners.replay_writer).",
    )


class AsyncOptWorker:
    """Further optimizer process of rlpyt; ``runners.optimizers`` replaces this class."""

    def __init__(
        self,
        rank: int,
        world_size: int,
        algo: object,
        agent: object,
        n_itr: int,
        affinity: object,
        seed: int,
        ctrl: object,
        port: int,
    ) -> None:
        _refuse(
            "AsyncOptWorker",
            "pass a list of several affinities to AsyncRl as affinity['optimizer']; it starts "
            "the processes.",
        )

    def startup(self) -> None:
        """Do nothing."""

    optimize = shutdown = startup


def placeholder(x: object) -> None:
    """Do nothing."""
