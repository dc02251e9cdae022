"""Action server mixins for custom samplers, with rlpyt's (2019) protocol.

rlpyt's own samplers use ``samplers.serving.ActionServer``.
"""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import torch

from rlpyt.errors import WorkerError
from rlpyt.samplers.policy_source import ActionNoise, LocalPolicy, ServerChannel, StepRecord
from rlpyt.samplers.serving import Group, serve
from rlpyt.utils.collections import NamedArrayTuple

if TYPE_CHECKING:
    from rlpyt.distributions.base import NoiseSpec

EVAL_TRAJ_CHECK = 20  # not used; polling interval of rlpyt (2019) in steps


class _TorchNoise(ActionNoise):
    """Noise source of agents that draw actions from torch's own generator."""

    def __init__(self) -> None:
        super().__init__(0, "action", ())

    def draw(self, T: int, spec: NoiseSpec | None) -> None:
        """Return no noise."""


class ActionServer:
    """Mixin that acts for the workers in the process of the sampler.

    The sampler must have these attributes: ``agent``; ``batch_spec``; ``sync`` with lists
    ``obs_ready`` and ``act_ready`` of one semaphore for each worker, and ``stop_eval``, whose
    ``value`` ends an evaluation; ``step_buffer_np`` (``build_step_buffer``), whose rows belong to
    the workers in order; ``samples_np``, to record bootstrap values in; for evaluation
    ``eval_step_buffer_np``, ``eval_max_T``, ``eval_max_trajectories`` and
    ``eval_traj_infos_queue``. If it has ``workers``, a list of processes, the death of one raises
    an error.

    A worker releases ``obs_ready`` once before its first step and once after every step, and
    acquires ``act_ready`` before every step.
    """

    samples_np: NamedArrayTuple | None = None
    _n_groups = 1
    _overlap = True

    def serve_actions(self, itr: int) -> None:
        """Act for every step of one batch, after the workers have been told to start it.

        In a subclass of one of rlpyt's own samplers, call that sampler's method instead.

        Raises:
            WorkerError: a worker has died.
        """
        if serve_actions := getattr(super(), "serve_actions", None):
            serve_actions(itr)
            return
        groups = self._groups(self.step_buffer_np, self.samples_np)  # type: ignore[attr-defined]
        with torch.inference_mode():
            T = self.batch_spec.T  # type: ignore[attr-defined]
            serve(groups, T, self._replied, self._overlap)

    def serve_actions_evaluation(self, itr: int) -> list[Any]:
        """Act for one evaluation, until enough episodes have ended or ``eval_max_T`` steps.

        Returns:
            The finished trajectories that were in the queue.

        Raises:
            WorkerError: a worker has died.
        """
        sampler: Any = self
        groups = self._groups(sampler.eval_step_buffer_np, None)
        finished: list[Any] = []
        enough = sampler.eval_max_trajectories or float("inf")
        T = sampler.eval_max_T
        with torch.inference_mode():
            for group in groups:
                group.begin(T)
            for t in range(T):
                for group in groups:
                    group.wait(t, T, self._replied)
                finished += _taken(sampler.eval_traj_infos_queue)
                stop = len(finished) >= enough
                sampler.sync.stop_eval.value = stop
                for group in groups:
                    if not stop:
                        group.answer(t)
                    group.release()
                if stop:
                    return finished
            for group in groups:
                group.wait(T, T, self._replied)
        return finished

    def _groups(self, step_np: NamedArrayTuple, samples_np: NamedArrayTuple | None) -> list[Group]:
        """Return the workers in groups of equal size, with their rows of the record."""
        sampler: Any = self
        channels = list(map(ServerChannel, sampler.sync.obs_ready, sampler.sync.act_ready))
        rows, each = len(step_np.reward) // self._n_groups, len(channels) // self._n_groups
        groups = []
        for i in range(self._n_groups):
            columns, workers = slice(i * rows, (i + 1) * rows), range(i * each, (i + 1) * each)
            record = StepRecord(env_info=None, **dict(step_np[columns].items()))
            samples = None if samples_np is None else samples_np[:, columns]
            policy = LocalPolicy(sampler.agent, record, _TorchNoise(), samples, i)
            group_channels = [channels[rank] for rank in workers]
            groups.append(Group(policy, record, 0, workers, group_channels))
        return groups

    def _replied(self, rank: int) -> bool:
        for worker in getattr(self, "workers", ()):
            if hasattr(worker, "is_alive") and not worker.is_alive():
                raise WorkerError(f"worker {worker.name} has died (exit code {worker.exitcode}).")
        return False


class AlternatingActionServer(ActionServer):
    """Action server for two groups of workers: one steps while the agent acts for the other."""

    _n_groups = 2


class NoOverlapAlternatingActionServer(AlternatingActionServer):
    """Action server for two groups of workers that never step at the same time."""

    _overlap = False


def _taken(infos: Any) -> list[Any]:
    """Remove and return the items of a queue, except the workers' sentinels ``None``."""
    taken, sentinels = [], 0
    while True:
        try:
            info = infos.get_nowait()
        except queue.Empty:
            break
        if info is None:
            sentinels += 1
        else:
            taken.append(info)
    for _ in range(sentinels):
        infos.put(None)
    return taken
