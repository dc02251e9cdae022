"""Asynchronous samplers: ordinary samplers in child processes, in parallel with the optimizer."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.errors import WorkerError
from rlpyt.processes.child import ChildSpec
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.heartbeat import heartbeat_path, remove_heartbeat
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import allocate_progress
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.fault_policy import FAULT_COUNTS
from rlpyt.samplers.layout import Affinity, Hardware, SamplerLayout
from rlpyt.samplers.sampler_process import (
    SamplerProcess,
    SamplerProcessPayload,
    sampler_process_status,
)
from rlpyt.samplers.tiles import warn_if_untiled
from rlpyt.utils import serialize
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.shared import Arena
from rlpyt.utils.synchronize import forget_names, remove_semaphores

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent

# One affinity, or one for each sampler process.
Affinities = Affinity | list[Affinity] | list[Hardware] | tuple[Affinity, ...]


class AsyncSamplerMixin(BaseSampler):
    """A sampler that fills batches in shared memory in parallel with its caller.

    Sampler processes, one for each affinity, run ordinary samplers of class ``SamplerCls``, and
    divide the environments (columns of the batches) among them. They act with copies of the agent,
    and load the newest parameters (``agent.send_shared_memory``) before each batch.

    Call ``async_initialize``, ``initialize``, then ``obtain_samples`` and ``evaluate_agent``, from
    one thread at a time.

    Attributes:
        slots, slots_pyt: the batches [T, B], as numpy and torch trees over the same memory.
    """

    n_slots = 2
    _sampler_processes: ChildGroup | None = None
    _statistics: dict[str, float] | None = None  # latest ones, of all sampler processes
    _lasting: Sequence[dict[str, Any]] = ()  # ``lasting_state`` of each, after its latest batch

    @property
    def layout(self) -> SamplerLayout:
        """Return the layout of the samplers in the sampler processes."""
        layout: SamplerLayout = self.SamplerCls.layout
        return layout

    def async_initialize(
        self,
        agent: BaseAgent,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        seed: int | None = None,
        final_observation: bool = False,
    ) -> tuple[Sequence[Any], Any]:
        """Initialize the agent of this process and allocate the batches; start no processes.

        Args:
            agent, bootstrap_value, traj_info_kwargs, seed, final_observation: see
                ``Sampler.initialize``.

        Returns:
            (batches as numpy trees in shared memory, examples of one step).
        """
        self._start_run(agent, seed)
        if self.deterministic_acting:
            warn_if_untiled(self.agent)
        self._settings = dict(
            seed=self.seed,
            bootstrap_value=bootstrap_value,
            traj_info_kwargs=traj_info_kwargs,
            final_observation=final_observation,
        )
        self._serialized_agent = serialize.dumps(self.agent)
        self.examples = self._try_environment(in_child=True)
        self._initialize_agent(share_memory=False)
        arena = Arena(onward=True)  # sampler processes pass columns on to their workers
        self.slots = [
            self._allocate_batch(arena, bootstrap_value, final_observation)
            for _ in range(self.n_slots)
        ]
        self.slots_pyt = [torchify_buffer(slot) for slot in self.slots]
        self._stop = arena.allocate((1,), np.uint8)
        self._mailbox = self.agent.open_mailbox()
        return self.slots, self.examples

    def sampler_hardware(self, affinity: Affinities = None) -> list[Hardware]:
        """Return the hardware of each sampler process.

        Args:
            affinity: see ``initialize``.

        Raises:
            ValueError: ``batch_B`` is not divisible by the number of sampler processes.
        """
        affinities = affinity if isinstance(affinity, list | tuple) else [affinity]
        B, n = self.batch_spec.B, len(affinities)
        if not n or B % n:
            raise ValueError(
                f"batch_B={B} must be divisible among {n} sampler processes, one for each entry of "
                "affinity['sampler']. Use a multiple of their number."
            )
        return [Hardware.of(one, B // n, self.layout.groups) for one in affinities]

    def initialize(self, affinity: Affinities = None) -> None:
        """Start the sampler processes, which start their workers.

        Args:
            affinity: affinity of the only sampler process, see ``Hardware.of``, or a list with one
                for each sampler process.

        Raises:
            WorkerError: a process or environment failed to start.
            ValueError: ``batch_B`` is not divisible by the number of sampler processes.
        """
        hardware = self.sampler_hardware(affinity)
        n, each = len(hardware), self.batch_spec.B // len(hardware)
        progress, run_dir = allocate_progress(n), logger.get_snapshot_dir()
        payloads = [
            SamplerProcessPayload(
                world_size=n,
                sampler=self._sampler_of(i, each),
                agent=serialize.loads(self._serialized_agent),
                settings=self._settings,
                examples=self.examples,
                slots=[slot[:, i * each : (i + 1) * each] for slot in self.slots],
                mailbox=self._mailbox,
                stop=self._stop,
                semaphores=f"/mp{secrets.token_hex(4)}",
                hardware=process_hardware,
                text_outputs=logger.get_text_outputs(),
                heartbeat=heartbeat_path(run_dir, f"sampler_{i}") if run_dir else None,
            )
            for i, process_hardware in enumerate(hardware)
        ]
        specs = [
            ChildSpec(
                rank=i,
                build=SamplerProcess,
                payload=serialize.ByValue(payload),
                progress=progress[i],
                cpus=payload.hardware.master_cpus,
                torch_threads=payload.hardware.master_torch_threads or 1,
            )
            for i, payload in enumerate(payloads)
        ]
        limits = Limits(self.env_timeout, self.reset_timeout, self.start_timeout_s)
        if self.layout.processes:  # sampler processes report failures of their workers first
            limits = Limits(limits.step_s * 1.5, limits.reset_s * 1.5, limits.start_s * 1.5)

        def cleanup() -> None:  # of a process that was killed
            for payload in payloads:
                remove_semaphores(payload.semaphores)
                if payload.heartbeat:
                    remove_heartbeat(payload.heartbeat)

        self._sampler_processes = ChildGroup(
            "sampler process",
            specs,
            sampler_process_status,
            limits,
            Pipes(self.start_method),
            poll=lambda: self.interrupt(),  # noqa: PLW0108 - replaced later
            cleanup=cleanup,
        )
        forget_names([self._mailbox.lock])
        self._note_statistics(self._call("statistics"))
        self._fixed = frozenset({*self.arguments(), "batch_spec"})

    def _sampler_of(self, rank: int, batch_B: int) -> Any:
        """Construct the sampler of a sampler process."""
        kwargs = self._kwargs_by_env()
        sampler = self.SamplerCls(
            **self.arguments()
            | dict(
                env_kwargs=kwargs[rank * batch_B : (rank + 1) * batch_B],
                batch_B=batch_B,
                eval_n_envs=0 if rank else self.eval_n_envs,
                eval_env_kwargs=None
                if rank
                else self._eval_kwargs_by_env(self.eval_n_envs) or None,
            )
        )
        sampler.start_timeout_s = self.start_timeout_s
        return sampler

    @staticmethod
    def interrupt() -> None:
        """Raise to stop waiting for sampler processes; called meanwhile. Runners replace it."""

    def _running(self) -> ChildGroup:
        if self._sampler_processes is None:
            raise WorkerError("the sampler must be initialized. Call initialize first.")
        return self._sampler_processes

    def _call(self, method: str, *args: object) -> list[Any]:
        return self._running().call(method, *args)

    def obtain_samples(self, itr: int, db_idx: int = 0) -> list[Any]:
        """Fill a batch with the newest policy.

        Args:
            itr: iteration of the sampler.
            db_idx: index of the batch in ``slots``.

        Returns:
            The ``TrajInfo`` of trajectories that ended. The attribute ``policy_updates`` is set to
            the number of updates of the policy, the minimum over sampler processes.

        Raises:
            WorkerError: a sampler process or worker failed; no process is left running.
        """
        replies = self._call("collect", itr, db_idx)
        found, updates, statistics, lasting = zip(*replies)
        self.policy_updates = min(updates)
        self._note_statistics(statistics)
        self._lasting = lasting
        return [info for infos in found for info in infos]

    def statistics(self) -> dict[str, float]:
        """Return the columns of progress.csv of all sampler processes: sums of counts, or means."""
        return self._statistics or {}

    def _note_statistics(self, by_process: Sequence[dict[str, float]]) -> None:
        n = len(by_process)
        sums = {name: sum(one[name] for one in by_process) for name in by_process[0]}
        # A single assignment, since another thread reads it.
        self._statistics = {k: x if k in FAULT_COUNTS else x / n for k, x in sums.items()}

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run the evaluation episodes with the newest policy; return their ``TrajInfo``.

        Raises:
            ValueError: the sampler has no evaluation environments.
            WorkerError: a sampler process or worker failed.
        """
        self._check_evaluates()
        self._stop[0] = False
        return [info for infos in self._call("evaluate", itr) for info in infos]

    def stop_evaluation(self) -> None:
        """End an evaluation early; it returns the episodes that have ended."""
        self._stop[0] = True

    def lasting_state(self) -> dict[str, Any]:
        """Return the part of the state that is known without the sampler processes."""
        return {"hosts": [{"stations": [], "kind": [], **own} for own in self._lasting]}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every sampler process."""
        return {"hosts": self._call("state_dict")}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a state from ``state_dict``; return True if the run resumes exactly.

        With another number of sampler processes it does not: each then loads the running statistics
        and the curriculum of a saved one, and the first one the counts of faults of all.
        """
        group, hosts = self._running(), state.get("hosts", [])
        if not hosts:
            return False
        n = len(group.processes)
        if len(hosts) == n:
            return all(group.call_each("load_state_dict", [(one,) for one in hosts]))
        faults = [one["faults"] for one in hosts if "faults" in one]
        total = {"faults": np.sum(faults, 0).tolist()} if faults else {}
        none = {name: [0] * len(counts) for name, counts in total.items()}
        given = [
            ({**hosts[i % len(hosts)], "kind": [], **(none if i else total)},) for i in range(n)
        ]
        group.call_each("load_state_dict", given)
        return False

    def start_anew(self, itr: int) -> None:
        """Start new episodes; see `BaseSampler.start_anew`."""
        self._call("start_anew", itr)

    @property
    def processes(self) -> list[Any]:
        """Return the sampler processes."""
        return [] if self._sampler_processes is None else self._sampler_processes.processes

    def shutdown(self) -> None:
        """Stop the sampler processes and all processes that they started."""
        self._fixed = frozenset()
        vars(self).pop("interrupt", None)  # of the runner that has ended
        if self._sampler_processes is not None:
            self._sampler_processes.shutdown()
            self._sampler_processes = None


class AsyncParallelSamplerMixin(AsyncSamplerMixin):
    """An asynchronous sampler whose sampler processes start workers."""
