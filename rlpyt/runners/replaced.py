"""Functions of rlpyt's asynchronous runner; a call raises an error that names the successor."""

from typing import Any, NoReturn


def run_async_sampler(
    sampler: Any, affinity: Any, ctrl: Any, traj_infos_queue: Any, n_itr: int
) -> NoReturn:
    """rlpyt's loop of the sampler's process.

    Raises:
        NotImplementedError: always; ``samplers.sampler_process`` does it.
    """
    raise NotImplementedError(
        "run_async_sampler is not used any more: give an asynchronous sampler to AsyncRl. In a "
        "loop of your own call its async_initialize, initialize and obtain_samples."
    )


def run_async_sampler_eval(
    sampler: Any, affinity: Any, ctrl: Any, traj_infos_queue: Any, n_itr: int, eval_itrs: Any
) -> NoReturn:
    """The same with evaluation.

    Raises:
        NotImplementedError: always; see ``run_async_sampler``.
    """
    raise NotImplementedError(
        "run_async_sampler_eval is not used any more: give an asynchronous sampler to AsyncRlEval."
    )


def memory_copier(
    sample_buffer: Any, samples_to_buffer: Any, replay_buffer: Any, ctrl: Any
) -> NoReturn:
    """rlpyt's loop of the process that copies batches into the replay.

    Raises:
        NotImplementedError: always; ``runners.replay_writer.ReplayWriter`` does it.
    """
    raise NotImplementedError(
        "memory_copier is not used any more: rlpyt.runners.replay_writer starts a process that "
        "stores batches by the algorithm's samples_to_buffer."
    )


class AsyncOptWorker:
    """rlpyt's further process of the optimizer.

    Raises:
        NotImplementedError: always; ``runners.optimizers.Optimizer`` is one.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        algo: Any,
        agent: Any,
        n_itr: int,
        affinity: Any,
        seed: int,
        ctrl: Any,
        port: int,
    ) -> None:
        raise NotImplementedError(
            "AsyncOptWorker is not used any more: give AsyncRl a list of several affinities as "
            "affinity['optimizer'], and it starts the processes."
        )

    def startup(self) -> None:
        """Nothing."""

    def optimize(self) -> None:
        """Nothing."""

    def shutdown(self) -> None:
        """Nothing."""


def placeholder(x: Any) -> None:
    """Nothing, as ever."""
