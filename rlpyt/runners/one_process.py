"""Train in one process and thread, where a debugger, ``print`` and an exception work."""

import os

from rlpyt.runners.async_rl import AsyncRlBase
from rlpyt.runners.heartbeat import HeartbeatHook
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.runners.sync_rl import SyncRlMixin
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.layout import split_affinity
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.tensor_sampler import TensorSampler


def in_one_process(runner: MinibatchRlBase) -> MinibatchRlBase:
    """Return a runner that samples, stores and optimizes in this process and thread.

        runner = AsyncRl(algo, agent, AsyncCpuSampler(...), n_steps=10_000)
        rlpyt.in_one_process(runner).train()

    It has the same algorithm, agent, environments, hooks and settings: a `SerialSampler` in place
    of workers, action servers and sampler processes, and one optimizer in place of ranks and
    asynchronous ones. Unwritten rows of batches and replays are NaN or extreme values.

    Args:
        runner: a runner that has not started.

    Raises:
        TypeError: the sampler is a custom one, which decides itself where it runs.
    """
    os.environ.setdefault("RLPYT_DEBUG", "1")  # lets batches and replays begin with such values
    sampler = _serial(runner.sampler)
    if isinstance(runner, AsyncRlBase):
        affinity = split_affinity(runner.affinity)["optimizer"][0]
    elif isinstance(runner, SyncRlMixin):
        affinity = runner.affinities[0]
    else:
        runner.sampler = sampler
        return _in_one_thread(runner)
    kind = MinibatchRlEval if runner._eval else MinibatchRl
    alone = kind(
        algo=runner.algo,
        agent=runner.agent,
        sampler=sampler,
        n_steps=runner.n_steps,
        seed=runner.seed,
        affinity=affinity,
        log_interval_steps=runner.log_interval_steps,
        checkpoint_dir=runner.checkpoint_dir,
        checkpoint_interval_steps=runner.checkpoint_interval_steps,
        resume_from=runner.resume_from,
        hooks=runner.hooks[runner._n_own_hooks :],
        eval_interval_steps=runner.eval_interval_steps,
    )
    alone.log_traj_window = runner.log_traj_window
    return _in_one_thread(alone)


def _in_one_thread(runner: MinibatchRlBase) -> MinibatchRlBase:
    runner.hooks = [hook for hook in runner.hooks if not isinstance(hook, HeartbeatHook)]
    return runner


def _serial(sampler: BaseSampler) -> BaseSampler:
    """Return a sampler of this process with the settings of another sampler."""
    if isinstance(sampler, SerialSampler | TensorSampler):
        return sampler
    if sampler.layout is None:
        raise TypeError(
            f"{type(sampler).__name__} decides itself where it runs. Replace it by SerialSampler."
        )
    return SerialSampler(**sampler.arguments())
