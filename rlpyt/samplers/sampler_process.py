"""Samplers in child processes, each of which fills its columns of the batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.agents.weights import WeightMailbox
from rlpyt.processes import status
from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.heartbeat import Heartbeat
from rlpyt.samplers.env_worker import recorded_action
from rlpyt.samplers.layout import Hardware
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import env_seed, set_seed
from rlpyt.utils.synchronize import name_semaphores

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
    from rlpyt.samplers.sampler import Sampler
    from rlpyt.utils.collections import AttrDict


@dataclass(frozen=True)
class SamplerProcessPayload:
    """Input of ``SamplerProcess``."""

    world_size: int  # number of sampler processes
    sampler: Sampler  # not initialized
    agent: BaseAgent  # not initialized
    settings: dict[str, Any]  # arguments of ``initialize``
    examples: AttrDict  # examples of one step
    slots: Sequence[Any]  # columns of the process in the batches
    mailbox: WeightMailbox  # source of new parameters
    stop: np.ndarray[Any, Any]  # [1] uint8, shared: set by the parent to end an evaluation early
    semaphores: str  # prefix of the names of the process's semaphores
    hardware: Hardware
    text_outputs: Sequence[str]  # files of the log
    heartbeat: Path | None  # file with what the workers do


class SamplerProcess(Child):
    """A sampler in a child process.

    Args:
        spec: specification of the process, with a ``SamplerProcessPayload``.
    """

    heartbeat: Heartbeat | None = None

    def __init__(self, spec: ChildSpec) -> None:
        super().__init__(spec)
        self.payload: SamplerProcessPayload = spec.payload.value
        name_semaphores(self.payload.semaphores)
        self.sampler: Sampler = self.payload.sampler
        self.agent: BaseAgent = self.payload.agent
        self.sampler.progress = spec.progress.data
        self.sampler.should_stop = self._should_stop
        for path in self.payload.text_outputs:
            logger.add_text_output(path)
        logger.set_console(not self.payload.text_outputs)

    def _should_stop(self) -> bool:
        return bool(self.payload.stop[0])

    def start(self) -> None:
        """Initialize the sampler; must be called before ``collect``."""
        payload = self.payload
        set_seed(env_seed(payload.settings["seed"], self.spec.rank, "host"))
        self.sampler.initialize(
            self.agent,
            payload.hardware,
            rank=self.spec.rank,
            world_size=payload.world_size,
            examples=payload.examples,
            slots=payload.slots,
            **payload.settings,
        )
        self.agent.to_device(payload.hardware.cuda_idx)
        self.agent.async_cpu()
        self.agent.mailbox = payload.mailbox
        if payload.heartbeat is not None:
            self.heartbeat = Heartbeat(payload.heartbeat)
        self._note(status.IDLE)

    def _note(self, activity: int) -> None:
        if self.sampler.layout.processes:  # else the environment worker notes it
            self.spec.progress[status.ACTIVITY] = activity

    def collect(
        self, itr: int, slot: int
    ) -> tuple[list[Any], int, dict[str, float], dict[str, Any]]:
        """Fill a slot.

        Returns:
            (finished trajectories, number of updates of the policy, ``statistics``, and
            ``lasting_state`` of the sampler).
        """
        self._note(status.COLLECTING)
        self.spec.progress[status.ITR] = itr
        self.agent.recv_shared_memory()
        finished = self.sampler.fill(itr, slot)
        self._note(status.IDLE)
        lasting = self.sampler.lasting_state()
        return finished, self.agent.policy_updates, self.statistics(), lasting

    def statistics(self) -> dict[str, float]:
        """Return the sampler's columns of progress.csv."""
        return self.sampler.statistics()

    def evaluate(self, itr: int) -> list[Any]:
        """Evaluate the newest policy; only the first process does."""
        if self.spec.rank:
            return []
        self._note(status.COLLECTING)
        self.agent.recv_shared_memory()
        finished = self.sampler.evaluate_agent(itr)
        self._note(status.IDLE)
        return finished

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the sampler."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a state from ``state_dict``; return True if the run resumes exactly."""
        return self.sampler.load_state_dict(state)

    def start_anew(self, itr: int) -> None:
        """Start new episodes; see `BaseSampler.start_anew`."""
        set_seed(env_seed(self.sampler.seed, itr, f"host {self.spec.rank}"))
        self.sampler.start_anew(itr)

    def where(self) -> status.WorkerStatus | None:
        """Return the activity of the process if it steps environments itself, else None."""
        env_worker = self.sampler._env_worker
        return None if env_worker is None else env_worker.where()

    def close(self) -> None:
        """Release the sampler."""
        if self.heartbeat is not None:
            self.heartbeat.end()
        self.sampler.shutdown()


def sampler_process_status(spec: ChildSpec) -> status.WorkerStatus:
    """Return the status of a sampler process; called by its parent."""
    payload: SamplerProcessPayload = spec.payload.value
    action = recorded_action(spec.progress, payload.slots)
    sampler: Any = payload.sampler
    B, n_eval = sampler.batch_spec.B, sampler.eval_n_envs
    envs = status.ChildEnvs(
        EnvCls=sampler.EnvCls,
        env_kwargs=sampler.env_kwargs,
        env_ranks=list(range(spec.rank * B, (spec.rank + 1) * B)),
        eval_env_kwargs=sampler.eval_env_kwargs or [],
        eval_env_ranks=list(range(n_eval)),
        seed=payload.settings["seed"],
    )
    return status.environment_status(spec.progress, envs, action)
