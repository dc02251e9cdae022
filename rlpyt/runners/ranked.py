"""Base class of the runners of ranks: the differences from a run of one process."""

import dataclasses
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from rlpyt.errors import RankError
from rlpyt.runners.distributed import Ranks, common_backend
from rlpyt.runners.rank_watch import Failure, RankWatch
from rlpyt.runners.run_state import from_plain, to_plain
from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.utils import torchrun
from rlpyt.utils.checks import check_range
from rlpyt.utils.launching.machine import check_gpu
from rlpyt.utils.seed import make_seed
from rlpyt.version import VERSION

LEAVE_S = 10.0  # time for the other ranks to disconnect after the last iteration
SHARED = ("agent", "optimizer", "saved_ranks")  # entries of the state that all ranks share


class Ranked(MinibatchRlBase):
    """Training loop of one rank; all ranks run it in parallel.

    The agent's networks average the gradients (``BaseAgent.data_parallel``). This class does the
    rest: ranks compare their settings at the start. After each iteration they gather trajectories
    and agree whether to stop. They save one checkpoint, and end together.

    Args:
        rank_timeout_s: time limit in seconds for a working rank for which the others wait; after
            it the rank counts as hung. Evaluation and saving in rank 0 have no limit.
        start_timeout_s: seconds for all ranks to start and connect.
        port: port of rank 0 for ranks on this machine; ``None``: a free port.
        backend: "gloo" or "nccl"; ``None``: nccl if every rank has its own GPU.
        *args, **kwargs: see ``MinibatchRlBase``.

    Attributes:
        ranks: connection to the other ranks.

    Raises:
        ValueError, TypeError: an argument is out of range.
    """

    ranks = Ranks()
    _watch: RankWatch | None = None
    linger_s = 0.0  # seconds to keep this process's store after a failure, for the other ranks
    _save_requested = False  # by a hook; all ranks save after the iteration
    _saving = False  # all ranks have agreed to save
    _others_states: Sequence[dict[str, Any]] = ()
    _buffers: Sequence[torch.Tensor] = ()  # of networks, see ``BaseAgent.buffers_to_share``
    # settings sent to the other ranks
    _shared_changes: Mapping[str, Any] = MappingProxyType({"algo": {}, "agent": {}})

    def __init__(
        self,
        *args: Any,
        rank_timeout_s: float = 600.0,
        start_timeout_s: float = 300.0,
        port: int | None = None,
        backend: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_range("rank_timeout_s", rank_timeout_s, 0, open_low=True)
        check_range("start_timeout_s", start_timeout_s, 0, open_low=True)
        if backend not in (None, "gloo", "nccl"):
            raise ValueError(f"backend must be 'gloo', 'nccl' or None, got {backend!r}.")
        self.rank_timeout_s, self.start_timeout_s = rank_timeout_s, start_timeout_s
        self.port, self.backend = port, backend

    def train(self) -> None:
        """Train from start to end, together with the other ranks.

        Raises:
            SystemExit: as in a run of one process; all ranks stop after the same iteration.
            CheckpointError: in rank 0, as in a run of one process.
            RankError: another rank failed; the message names it and its cause.
        """
        try:
            super().train()
        except BaseException as error:
            cause = self._cause_of(error)
            self._disconnect(failed=not self._ended_by(error))
            if cause is None or cause is error:
                raise
            raise cause from error
        self._disconnect(failed=False)

    # Connecting and disconnecting.

    def startup(self) -> int:
        """Connect to the other ranks and compare settings, then start up as in one process."""
        self._connect()
        n_itr: int = super().startup()
        self._buffers = self.agent.buffers_to_share() if self.world_size > 1 else []
        return n_itr

    def open_store(self) -> Any:
        """Return the store of ``torch.distributed`` that connects the ranks."""
        raise NotImplementedError(f"{type(self).__name__} must implement open_store.")

    def _connect(self) -> None:
        self.ranks = Ranks(self.rank, self.world_size)
        if self.world_size > 1:
            self.ranks.store = self.open_store()
            self._watch = RankWatch(
                self.rank,
                self.world_size,
                self.ranks.store,
                self.rank_timeout_s,
                self.start_timeout_s,
                self._progress,
                lambda: self.ranks.n_collectives,
                **self.watch_arguments(),
            )
        if self.rank == 0 and self.seed is None:
            self.seed = make_seed()
        affinity = self.affinity
        hardware = affinity if isinstance(affinity, dict) else vars(affinity or object)
        cuda_idx = hardware.get("cuda_idx")
        here = torchrun.place()
        note = {
            "settings": self.settings(),
            "device": [socket.gethostname(), cuda_idx],
            "restarts": 0 if here is None else here.restarts,
        }
        notes = self.ranks.exchange_notes(note, self.start_timeout_s)
        check_same_settings([n["settings"] for n in notes])
        self.seed = notes[0]["settings"]["seed"]
        self._resume_after_restart(max(n["restarts"] for n in notes))
        backend = self.backend or common_backend([n["device"] for n in notes])
        if cuda_idx is not None:
            check_gpu(cuda_idx)
            torch.cuda.set_device(cuda_idx)
        self.ranks.connect(backend, self.start_timeout_s, on_one_machine=here is None)
        if self.ranks.all_gather(self.resume_from is not None)[0] and self.resume_from is None:
            self.resume_from = "rank 0"

    def _progress(self) -> tuple[int, ...]:
        """Return numbers that change while this rank trains; the first is the iteration."""
        return self.itr, self.state.itr, self.algo.update_counter

    def watch_arguments(self) -> dict[str, Any]:
        """Return further arguments of ``RankWatch``."""
        return {"on_failure": self.interrupt}

    def interrupt(self, cause: Failure) -> None:
        """End this rank's training because of a failure; called from the watch's thread."""
        self._signals.interrupt(cause.error(self.world_size))

    def _resume_after_restart(self, restarts: int) -> None:
        """Resume from the newest checkpoint if torchrun has restarted the job (in rank 0)."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that must be the same in all ranks, as JSON values."""
        T, B = self.sampler.batch_spec
        return {
            "runner": type(self).__name__.replace("SyncWorker", "SyncRl"),
            "n_steps": self.n_steps,
            "seed": self.seed,
            "log_interval_steps": self.log_interval_steps,
            "world_size": self.world_size,
            "batch_T": T,
            "batch_B": B,
            "algo": described(self.algo),
            "agent": described(self.agent),
            "sampler": type(self.sampler).__name__,
            "EnvCls": described(self.sampler.EnvCls),
            "env_kwargs": described(self.sampler.env_kwargs),
            "versions": f"rlpyt {VERSION}, torch {torch.__version__}",
        }

    def shutdown(self) -> None:
        """Release processes and environments; failures of other ranks no longer interrupt."""
        if self._watch is not None:
            self._watch.end()
        self._signals.disable_interrupt()
        super().shutdown()

    def _cause_of(self, error: BaseException) -> BaseException | None:
        """Return the error to raise instead, or ``None`` if this error is the cause."""
        watch = self._watch
        if watch is None or self._ended_by(error):
            return None
        if isinstance(error, RankError) and watch.failure is not None:
            return None
        watch.report(error)
        failure = watch.cause_of(error)
        if failure is None or failure.rank == self.rank:
            error.add_note(f"(in rank {self.rank} of {self.world_size})")
            return None
        return failure.error(self.world_size)

    def _ended_by(self, error: BaseException) -> bool:
        """Return True if this exception ends a run in which no rank has failed."""
        return error is self.checkpoint_error or (isinstance(error, SystemExit) and self.itr >= 0)

    def _disconnect(self, failed: bool) -> None:
        """Disconnect from the other ranks."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close(self.linger_s if failed else LEAVE_S)
        self.ranks.leave(self.agent, failed)

    # Steps of the training loop that involve all ranks.

    def run_iteration(self, itr: int) -> None:
        """Run an iteration; the other ranks then copy buffers of rank 0 that differ by the data."""
        super().run_iteration(itr)
        for buffer in self._buffers:
            torch.distributed.broadcast(buffer, 0)

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Store the results of an iteration, with the trajectories of all ranks."""
        gathered = self.ranks.all_gather(to_plain(traj_infos))
        by_rank = [from_plain(infos) for infos in gathered]
        by_rank[self.rank] = traj_infos
        super().store_diagnostics(itr, [info for infos in by_rank for info in infos], opt_info)

    def stop_requests(self, itr: int) -> tuple[int | None, bool]:
        """Return (signal, True to stop), the same in all ranks; save if a rank requested it."""
        received, requested = super().stop_requests(itr)
        has_directory = self.rank == 0 and self.checkpoint_directory() is not None
        flags = [received or 0, requested, self._save_requested, has_directory, self._has_changes]
        ms = 1e3 * self._signals.seconds_since()
        agreed = self.ranks.all_reduce_max([int(x) for x in (*flags, ms)])
        signal, stop, save, can_save, changed, ms = agreed
        self.share_settings(bool(changed))
        self._save_requested = False
        if signal:
            self._signals.take_over(signal, ms / 1e3)
        self._saving = bool(can_save and (save or stop or signal))
        if self._saving and not (stop or signal):
            self.save_checkpoint(itr)
        return signal or None, bool(stop)

    @property
    def _has_changes(self) -> bool:
        """Return True if hooks of rank 0 have changed settings since the last iteration."""
        return self.rank == 0 and self._changes() != self._shared_changes

    def _changes(self) -> dict[str, dict[str, Any]]:
        """Return the changed settings of algorithm and agent."""
        return {
            "algo": dict(self.algo.changes),
            "agent": dict(self.agent.arguments.changes(self.agent)),
        }

    def share_settings(self, changed: bool | None = None) -> None:
        """Change settings in all ranks as hooks have changed them in rank 0.

        Args:
            changed: False if there is no change; ``None``: ask rank 0.

        Raises:
            ValueError: a new value is a function, which is not sent to other ranks.
        """
        if changed is None:
            changed = bool(self.ranks.all_reduce_max([int(self._has_changes)])[0])
        if not changed:
            return
        changes = self._changes()
        for name, value in changes["algo"].items():
            if callable(value):
                raise ValueError(
                    f"{name} must not become a function during a run of several ranks, got "
                    f"{value!r:.80}. Assign (progress, value) pairs, or give the function to the "
                    "algorithm's constructor."
                )
        self._shared_changes = changes
        first = self.ranks.all_gather(changes if self.rank == 0 else {})[0]
        if self.rank:
            self.algo.change(first["algo"])
            self.agent.arguments.assign(self.agent, first["agent"])

    def save_checkpoint(self, itr: int) -> Any:
        """Save the states of all ranks in rank 0; return the path, or ``None``.

        Called by a hook in rank 0, return ``None``; all ranks then save after this iteration.
        """
        if not self._saving and self.world_size > 1:
            self._save_requested = True
            return None
        self._saving = False
        state = without_shared(self.whole_state(itr)) if self.rank else {}
        self._others_states = self.ranks.gather_states(state)
        if self.rank:
            self.saved_itr = itr
            return None
        with self._no_time_limit():
            return super().save_checkpoint(itr)

    def whole_state(self, itr: int) -> dict[str, Any]:
        """Return the content of a checkpoint; in rank 0 with the states of the other ranks."""
        state: dict[str, Any] = super().whole_state(itr)
        if self.rank == 0:
            state["ranks"], self._others_states = self._others_states, []
            here = torchrun.place()
            state["torchrun"] = "" if here is None else here.run_id
        return state

    def saved_state(self) -> tuple[dict[str, Any], Any]:
        """Return this rank's state in ``resume_from``, which rank 0 reads, and its path."""
        if self.rank:
            return self.ranks.scatter_states([]), "the checkpoint of rank 0"
        with self._no_time_limit():
            state, path = super().saved_state()
        parts = [with_shared(part, state) for part in state.pop("ranks", [])]
        n_more = self.world_size - 1
        parts += [of_new_rank(state)] * (n_more - len(parts))
        return self.ranks.scatter_states([state, *parts[:n_more]]), path

    def _call_hook(self, hook: object, event: str, *args: object) -> None:
        """Call a hook of rank 0; the other ranks wait without a time limit."""
        with self._no_time_limit():
            super()._call_hook(hook, event, *args)

    def _no_time_limit(self) -> AbstractContextManager[None]:
        """Let the other ranks wait for this one without a time limit inside the context."""
        return nullcontext() if self._watch is None else self._watch.unlimited()


def without_shared(state: dict[str, Any]) -> dict[str, Any]:
    """Return a rank's state without the parts that are equal in all ranks."""
    algo = {k: v for k, v in state["algo"].items() if k not in SHARED}
    return {**{k: v for k, v in state.items() if k not in SHARED}, "algo": algo}


def with_shared(part: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """Undo ``without_shared`` with the state of rank 0."""
    shared = {k: v for k, v in first.items() if k in SHARED}
    algo = {**{k: v for k, v in first["algo"].items() if k in SHARED}, **part["algo"]}
    return {**shared, **part, "algo": algo}


def of_new_rank(first: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a rank that the saved run did not have, from that of rank 0.

    It has its own random numbers, new episodes and an empty replay, and the running statistics of
    rank 0's vector environments.
    """
    algo = {**first["algo"], **({"replay": None} if "replay" in first["algo"] else {})}
    workers = first["sampler"].get("stations", [])
    known = [{"statistics": own["statistics"]} for own in workers if "statistics" in own]
    return {**first, "algo": algo, "sampler": {"stations": known, "kind": []}, "random": None}


def described(thing: object) -> Any:
    """Convert a setting to JSON values for comparison; classes become their names."""
    if isinstance(thing, np.generic):
        thing = thing.item()
    if isinstance(thing, str | bool | int | float | None):
        return thing
    if isinstance(thing, dict):
        return {str(k): described(v) for k, v in thing.items()}
    if isinstance(thing, list | tuple):
        return [described(part) for part in thing]
    if hasattr(thing, "__qualname__"):
        return thing.__qualname__
    fields = {}
    if dataclasses.is_dataclass(thing):
        fields = {
            f.name: described(getattr(thing, f.name, None)) for f in dataclasses.fields(thing)
        }
    elif not type(thing).__module__.startswith(("torch", "numpy")):
        fields = _plain_attributes(thing)
    return {"class": type(thing).__qualname__, **fields}


def _plain_attributes(thing: object) -> dict[str, Any]:
    """Return the numbers, strings and containers among an object's public attributes."""
    simple = (str, bool, int, float, dict, list, tuple)
    named = getattr(thing, "__dict__", {}).items()
    plain = {k: v for k, v in named if not k.startswith("_") and isinstance(v, simple)}
    return {name: described(value) for name, value in plain.items()}


def check_same_settings(settings: list[dict[str, Any]]) -> None:
    """Compare the settings of all ranks with those of the first.

    Raises:
        ValueError: settings differ; the message names the rank and the settings.
    """
    for rank, own in enumerate(settings[1:], 1):
        differences = _differences(own, settings[0])
        if differences:
            raise ValueError(
                f"rank {rank} must have the settings of rank 0, except affinity, got "
                f"{'; '.join(differences)}."
            )


def _differences(own: object, first: object, name: str = "") -> list[str]:
    if isinstance(own, dict) and isinstance(first, dict):
        keys = list(dict.fromkeys([*first, *own]))
        path = f"{name}." if name else ""
        return [x for k in keys for x in _differences(own.get(k), first.get(k), path + k)]
    if own == first or (name == "seed" and own is None):
        return []
    return [f"{name}={own!r} (rank 0: {first!r})"]
