"""Synchronous training in several processes ("ranks"), on one machine or, by torchrun, on several.

Each rank has its own sampler, replay and copy of the agent; gradients are averaged, so that all
copies stay equal. Batch sizes are those of one rank; ``n_steps`` counts the steps of all ranks.
"""

import copy
import warnings
from typing import Any

import torch

from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup
from rlpyt.processes.heartbeat import heartbeat_path, remove_heartbeat
from rlpyt.processes.pipe import Pipes
from rlpyt.runners.distributed import join_store, serve_store, torchrun_store
from rlpyt.runners.heartbeat import HeartbeatHook
from rlpyt.runners.rank_watch import Failure
from rlpyt.runners.ranked import Ranked
from rlpyt.runners.run_state import to_plain
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.layout import check_n_processes, decoded
from rlpyt.utils import torchrun
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.machine import n_granted_cpus
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import make_seed
from rlpyt.utils.serialize import ByValue

LINGER_S = 3.0  # time to keep this process's store after a failure, for the other ranks
PATIENCE_S = 10.0  # time for the other ranks to exit after the last iteration


# Attributes of a sampler after its first run.
MADE_BY_A_RUN = (
    *("slots", "samples_np", "samples_pyt", "examples", "agent", "_surroundings"),
    *("_served_batch", "_note_interruption", "_publish", "_env_statistics", "_worker_faults"),
    "_task_flow",
)


class SyncRlMixin(Ranked):
    """Runner of rank 0, which starts the other ranks; under torchrun, of any rank.

    Args:
        affinity: list with the hardware of each rank, a dictionary, or a code for such a list. A
            number: that many ranks, which share this machine's cores and have one GPU each if there
            are enough. ``None`` or "auto": one rank per GPU. Torchrun sets the number of ranks:
            there, one dictionary applies to all ranks (``cuda_idx`` is that of local rank 0, and
            increases by one with each local rank), and ``None`` means an equal share of the
            machine.
        *args, **kwargs: see ``Ranked``. Hooks are called in rank 0.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``affinity`` is invalid.
    """

    WorkerCls: Any  # class of the other ranks' runners

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.affinities = ranks_affinities(self.affinity, self.sampler)
        self.world_size = len(self.affinities)
        if torchrun.place() is None:
            check_n_processes("ranks", self.world_size, "ranks")
        self._processes: ChildGroup | None = None
        self._store: Any = None  # served by this process for the ranks that it starts

    def train(self) -> None:
        """Train from start to end, together with the other ranks.

        Raises:
            SystemExit, CheckpointError: as in a run of one process.
            RankError: another rank failed and all were stopped; the message names it and its error.
            WorkerError, ...: rank 0 itself failed, as in a run of one process.
        """
        here = torchrun.place()
        if here is not None and here.rank > 0:
            self.worker(here.rank).train()
            return
        self.affinity = self.affinities[0]
        self.linger_s = 0.0 if here is None else LINGER_S
        try:
            super().train()
        finally:
            processes, self._processes = self._processes, None
            if processes is not None:
                processes.kill()
                processes.shutdown()
            self._store = None

    def startup(self) -> int:
        """Start the other ranks, then start up together with them."""
        if self.seed is None:
            self.seed = make_seed()
        if torchrun.place() is None and self.world_size > 1:
            self.launch_workers()
        return super().startup()

    def launch_workers(self) -> None:
        """Start the other ranks on this machine."""
        self._store = serve_store(self.port, self.world_size, self.start_timeout_s)
        runners = [self.worker(rank, self._store.port) for rank in range(1, self.world_size)]
        run_dir = logger.get_snapshot_dir()
        for runner in runners:
            runner.hooks = [HeartbeatHook(run_dir)]

        def cleanup() -> None:  # of ranks that were killed
            if run_dir:
                for runner in runners:
                    remove_heartbeat(heartbeat_path(run_dir, f"rank_{runner.rank}"))

        self._processes = ChildGroup(
            "rank",
            [
                ChildSpec(rank, RankProcess, ByValue(runner), torch_threads=None)
                for rank, runner in enumerate(runners, 1)
            ],
            transport=Pipes(),
            n_in_other_groups=1,  # rank 0 is this process
            wait=False,  # ranks connect when they are ready
            cleanup=cleanup,
        )
        self._processes.begin("train")

    def build_par_objs(self, world_size: int) -> None:
        """Do nothing; not used. Exists for compatibility with rlpyt."""

    def worker(self, rank: int, port: int | None = None) -> Any:
        """Return the runner of another rank, with this one's settings.

        Args:
            rank: rank of the runner.
            port: port of this process's store; ``None`` under torchrun.
        """
        sampler = copy.copy(self.sampler)
        for name in MADE_BY_A_RUN:
            vars(sampler).pop(name, None)
        sampler.eval_n_envs, sampler.eval_max_trajectories = 0, None  # rank 0 evaluates
        return self.WorkerCls(
            rank=rank,
            world_size=self.world_size,
            port=port,
            backend=self.backend,
            rank_timeout_s=self.rank_timeout_s,
            start_timeout_s=self.start_timeout_s,
            algo=self.algo,
            agent=self.agent,
            sampler=sampler,
            n_steps=self.n_steps,
            seed=self.seed,
            affinity=self.affinities[rank],
            log_interval_steps=self.log_interval_steps,
        )

    def open_store(self) -> Any:
        """Return the store that this process serves, or torchrun's."""
        if self._processes is not None:
            return self._store
        return torchrun_store(self.rank, self.world_size, self.start_timeout_s)

    def watch_arguments(self) -> dict[str, Any]:
        """Return further arguments of ``RankWatch``: ranks on this machine are children."""
        children = self._processes
        if children is None:
            return super().watch_arguments()
        return {
            "on_failure": self.interrupt,
            "died": children.ended,
            "stacks_of": children.stacks_of,
        }

    def interrupt(self, cause: Failure) -> None:
        """Kill the children and end this rank's training; called from the watch's thread."""
        if self._processes is not None:
            self._processes.kill()
        super().interrupt(cause)

    def _disconnect(self, failed: bool) -> None:
        super()._disconnect(failed)
        if self._processes is not None and not failed:
            self._processes.shutdown(PATIENCE_S)

    def _resume_after_restart(self, restarts: int) -> None:
        """Resume from the newest checkpoint of the same job if torchrun has restarted it."""
        here, directory = torchrun.place(), self.checkpoint_directory()
        if here is None or directory is None or self.resume_from is not None:
            return
        try:
            saved = load_checkpoint(directory).state.get("torchrun")
        except CheckpointError:
            if restarts or here.run_id:
                logger.rewind("Diagnostics/Iteration", -1, step=-1)  # drop rows of earlier attempts
            return
        if restarts or (here.run_id and saved == here.run_id):
            self.resume_from = directory


class RankProcess(Child):
    """Child process of rank 0 that runs another rank on this machine.

    It reports failures in the store. It shows no warnings, because rank 0 shows the same ones.

    Args:
        spec: spec of the process; the payload is the runner, not started.
    """

    def __init__(self, spec: ChildSpec) -> None:
        super().__init__(spec)
        warnings.simplefilter("ignore", UserWarning)
        self.runner = spec.payload.value

    def train(self) -> None:
        """Train from start to end, together with the other ranks."""
        self.runner.train()


class SyncWorkerMixin(Ranked):
    """Runner of rank 1, 2, ...: it trains like rank 0, but writes nothing.

    It is constructed by rank 0, or under torchrun by ``SyncRlMixin`` in the same process.

    Args:
        rank: rank of this process.
        world_size: number of ranks.
        par: not used; exists for compatibility with rlpyt.
        *args, **kwargs: see ``Ranked``. ``port`` is the port of rank 0's store, or ``None`` under
            torchrun.
    """

    def __init__(
        self,
        *args: Any,
        rank: int,
        world_size: int,
        par: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.rank, self.world_size = rank, world_size
        self.hooks = []

    def train(self) -> None:
        """Train from start to end, together with the other ranks."""
        with logger.session():
            logger.disable()
            super().train()

    def open_store(self) -> Any:
        """Return the store of rank 0, or torchrun's."""
        if self.port is None:
            return torchrun_store(self.rank, self.world_size, self.start_timeout_s)
        return join_store(self.port, self.world_size, self.start_timeout_s)

    def watch_arguments(self) -> dict[str, Any]:
        """Return further arguments of ``RankWatch``: on one machine, rank 0 watches all ranks."""
        return super().watch_arguments() if self.port is None else {}

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Send the completed trajectories to the other ranks."""
        self.ranks.all_gather(to_plain(traj_infos))

    def log_diagnostics(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; rank 0 logs."""

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Return no trajectories; rank 0 evaluates."""
        return [], 0.0


class SyncWorker(SyncWorkerMixin):
    """Runner of rank 1, 2, ... of ``SyncRl``."""


class SyncWorkerEval(SyncWorkerMixin):
    """Runner of rank 1, 2, ... of ``SyncRlEval``."""


class SyncRl(SyncRlMixin):
    """Training in several ranks, with statistics of the trajectories of all ranks.

        ranks = [dict(cuda_idx=0), dict(cuda_idx=1)]
        SyncRl(algo=algo, agent=agent, sampler=sampler, n_steps=1e6, affinity=ranks)

    Args:
        log_traj_window: number of latest trajectories summarized in a row.
        **kwargs: see ``SyncRlMixin`` and ``MinibatchRlBase``.
    """

    WorkerCls = SyncWorker

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window, 1)


class SyncRlEval(SyncRlMixin):
    """Training in several ranks, with evaluation in rank 0 while the others wait."""

    WorkerCls = SyncWorkerEval
    _eval = True
    log_traj_window = 100


def ranks_affinities(affinity: Any, sampler: BaseSampler) -> list[Any]:
    """Return the hardware of every rank.

    Args:
        affinity: see ``SyncRlMixin``.
        sampler: sampler, not initialized; the number of workers must divide its ``batch_B``.

    Raises:
        TypeError: ``affinity`` is not ``None``, a number, a dictionary or a list of dictionaries.
        ValueError: ``affinity`` is an invalid code, or torchrun has started a different number of
            ranks.
    """
    here, affinity = torchrun.place(), decoded(affinity)
    affinity = None if affinity == {} else affinity  # of a runner without one
    if isinstance(affinity, list | tuple):
        several = [decoded(entry) for entry in affinity]
        if here is None and several:
            return several
        if here is not None and len(several) == here.world_size:
            return several
        if here is not None and len(affinity) == here.local_world_size:
            return [several[here.local_rank]] * here.world_size
        expected = "" if here is None else f" ({here.world_size}, started by torchrun)"
        raise ValueError(
            f"affinity must have one entry for each rank{expected}, got {len(affinity)} entries."
        )
    if here is not None:
        if isinstance(affinity, int) and affinity != here.world_size:
            raise ValueError(
                f"affinity must be the number of ranks started by torchrun, {here.world_size}, "
                f"got {affinity}."
            )
        own = rank_affinity(sampler, here.local_world_size, here.local_rank)
        if isinstance(affinity, dict):
            own = dict(affinity)
            if own.get("cuda_idx") is not None:
                own["cuda_idx"] += here.local_rank
        return [own] * here.world_size
    if affinity is None:
        affinity = max(1, torch.cuda.device_count())
    if isinstance(affinity, dict):
        return [affinity]
    if isinstance(affinity, bool) or not isinstance(affinity, int) or affinity < 1:
        raise TypeError(
            "affinity must be a list with a dictionary for each rank, such as [dict(cuda_idx=0), "
            "dict(cuda_idx=1)], a number of ranks, or a code such as '0slt_4cpu_2gpu_2gpr', got "
            f"{affinity!r}."
        )
    return [rank_affinity(sampler, affinity, rank) for rank in range(affinity)]


def rank_affinity(sampler: BaseSampler, n_ranks: int, rank: int) -> dict[str, Any]:
    """Return one rank's share of this machine: cores, and a GPU if every rank can have one."""
    cores = max(1, n_granted_cpus() // n_ranks)
    groups = 1 if sampler.layout is None else sampler.layout.groups
    B = sampler.batch_spec.B
    fitting = [n for n in range(1, cores + 1) if B % (n * groups) == 0]
    enough = torch.cuda.device_count() >= n_ranks
    return {
        "n_workers": groups * max(fitting, default=1),
        "master_torch_threads": cores,
        "cuda_idx": rank if enough else None,
    }
