"""The runner of one of several ranks: everything that differs from a run of one process."""

import dataclasses
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rlpyt.errors import RankError
from rlpyt.runners.distributed import Ranks, common_backend
from rlpyt.runners.rank_failures import Failure
from rlpyt.runners.rank_watch import RankWatch
from rlpyt.runners.run_state import from_plain, to_plain
from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.utils import torchrun
from rlpyt.utils.launching.machine import check_gpu
from rlpyt.utils.seed import make_seed
from rlpyt.version import VERSION

PARTING_S = 10.0  # for the others to leave, once all is done
SHARED = ("agent", "optimizer")  # parts of the state that are the same in all ranks


class Ranked(MinibatchRlBase):
    """Mixin of runners: the same training loop, in step with those of other ranks.

    Gradients are averaged within the algorithm (``BaseAgent.data_parallel``). Here is the rest:
    ranks meet and compare their settings, say after each iteration which trajectories ended and
    whether one has to stop, put their states into one checkpoint, and end together.

    Attributes:
        ranks: this process's membership.
        rank_timeout_s, start_timeout_s: see ``SyncRlMixin``.
    """

    ranks = Ranks()
    rank_timeout_s: float
    start_timeout_s: float
    backend: str | None
    _watch: RankWatch | None = None
    linger_s = 0.0  # after a failure, for others to read of it in a store that this process keeps
    _save_wanted = False  # by a hook; all save when they have agreed to
    _together = False  # all ranks are about to save
    _others_states: Sequence[dict[str, Any]] = ()

    def train(self) -> None:
        """Run from start to end, together with the other ranks.

        Raises:
            SystemExit: as in a run of one process; all ranks stop after the same iteration.
            CheckpointError: in rank 0, as in a run of one process.
            RankError: another rank failed; the message names it and its cause.
        """
        try:
            super().train()
        except BaseException as error:
            cause = self._cause_of(error)
            self._part(failed=not self._ended_by(error))
            if cause is None or cause is error:
                raise
            raise cause from error
        self._part(failed=False)

    # Coming together and parting.

    def startup(self) -> int:
        """Meet the other ranks, compare settings, connect; then start up as usual."""
        self._meet()
        n_itr: int = super().startup()
        return n_itr

    def open_store(self) -> Any:
        """Return the store where the ranks meet."""
        raise NotImplementedError(f"{type(self).__name__} must implement open_store.")

    def _meet(self) -> None:
        self.ranks = Ranks(self.rank, self.world_size)
        if self.world_size > 1:
            self.ranks.store = self.open_store()
            self._watch = self._begin_watch()
        if self.rank == 0 and self.seed is None:
            self.seed = make_seed()
        own = self.affinity if isinstance(self.affinity, dict) else vars(self.affinity or object)
        cuda_idx = own.get("cuda_idx")
        here = torchrun.place()
        note = {
            "settings": self.settings(),
            "device": [socket.gethostname(), cuda_idx],
            "restarts": 0 if here is None else here.restarts,
        }
        notes = self.ranks.meet(note, self.start_timeout_s)
        check_alike([n["settings"] for n in notes])
        self.seed = notes[0]["settings"]["seed"]
        self._go_on_after_restart(max(n["restarts"] for n in notes))
        backend = self.backend or common_backend([n["device"] for n in notes])
        if cuda_idx is not None:
            check_gpu(cuda_idx)
            torch.cuda.set_device(cuda_idx)
        self.ranks.connect(backend, self.start_timeout_s, on_one_machine=here is None)
        if self.ranks.gather(self.resume_from is not None)[0] and self.resume_from is None:
            self.resume_from = "rank 0"

    def _begin_watch(self) -> RankWatch:
        return RankWatch(
            self.rank,
            self.world_size,
            self.ranks.store,
            self.rank_timeout_s,
            self.start_timeout_s,
            partial(training_progress, self),
            **self.how_to_watch(),
        )

    def how_to_watch(self) -> dict[str, Any]:
        """Return further arguments of ``RankWatch``."""
        return {"on_failure": self.interrupt}

    def interrupt(self, cause: Failure) -> None:
        """End this rank's training, since another failed; called from the watch's thread."""
        self._signals.interrupt(cause.error(self.world_size))

    def _go_on_after_restart(self, restarts: int) -> None:
        """Resume from the newest checkpoint if torchrun has restarted the job; in rank 0."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that must be the same in all ranks, as JSON can hold them."""
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
        """Release processes and environments; from here on nothing interrupts."""
        if self._watch is not None:
            self._watch.alone = True
        self._signals.interrupt_no_more()
        super().shutdown()

    def _cause_of(self, error: BaseException) -> BaseException | None:
        """Return the error to raise instead; None if the error itself is the cause."""
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
        return error is self.unsaved or (isinstance(error, SystemExit) and self.itr >= 0)

    def _part(self, failed: bool) -> None:
        """Leave the others."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
            watch.wait_for_others(self.linger_s if failed else PARTING_S)
            watch.forget()
        self.agent.end_data_parallel()
        self.ranks.leave(failed)

    # The loop's steps that concern all.

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Keep what an iteration gave, with the trajectories of all ranks."""
        told = self.ranks.gather(to_plain(traj_infos))
        everyones = [from_plain(infos) for infos in told]
        everyones[self.rank] = traj_infos
        together = [info for infos in everyones for info in infos]
        super().store_diagnostics(itr, together, opt_info)

    def agree(self, itr: int) -> tuple[int | None, bool]:
        """Agree after an iteration whether to stop, and to save; the same in all ranks."""
        received, asked = super().agree(itr)
        has_place = self.rank == 0 and self.checkpoint_place() is not None
        own = [received or 0, asked, self._save_wanted, has_place]
        signal, stop, save, place = self.ranks.largest([int(x) for x in own])
        self._save_wanted = False
        if signal:
            self._signals.received = signal
        self._together = bool(place and (save or stop or signal))
        if self._together and not (stop or signal):
            self.save_checkpoint(itr)
        return signal or None, bool(stop)

    def save_checkpoint(self, itr: int) -> Any:
        """Save the states of all ranks, in rank 0; returns where, or ``None``.

        Hooks may call it in rank 0: it is then done once all ranks have agreed to, and returns
        ``None``.
        """
        if not self._together:
            self._save_wanted = True
            return None
        self._together = False
        mine = own_part(self.whole_state(itr)) if self.rank else {}
        self._others_states = self.ranks.collect_states(mine)
        if self.rank:
            self.saved_itr = itr
            return None
        with self._alone():
            return super().save_checkpoint(itr)

    def whole_state(self, itr: int) -> dict[str, Any]:
        """Return all that a resumed run needs; in rank 0 with the parts of the others."""
        state: dict[str, Any] = super().whole_state(itr)
        if self.rank == 0:
            state["ranks"], self._others_states = self._others_states, []
            here = torchrun.place()
            state["torchrun"] = "" if here is None else here.run_id
        return state

    def saved_state(self) -> tuple[dict[str, Any], Any]:
        """Return this rank's part of the checkpoint ``resume_from``, which rank 0 reads for all."""
        if self.rank:
            return self.ranks.hand_out_states([]), "what rank 0 has read"
        with self._alone():
            state, path = super().saved_state()
        parts = state.pop("ranks")
        return self.ranks.hand_out_states([state, *(whole_of(p, state) for p in parts)]), path

    def _call(self, hook: Any, event: str, *args: Any) -> None:
        """Call a hook of rank 0 while the others wait, without a limit."""
        with self._alone():
            super()._call(hook, event, *args)

    def _alone(self) -> "_Alone":
        return _Alone(self._watch)


class _Alone:
    """While it is open, others wait for this rank without a limit."""

    def __init__(self, watch: RankWatch | None) -> None:
        self.watch = watch

    def __enter__(self) -> None:
        if self.watch is not None:
            self.before, self.watch.alone = self.watch.alone, True

    def __exit__(self, *exception: object) -> None:
        if self.watch is not None:
            self.watch.alone = self.before


def training_progress(runner: Any) -> tuple[int, ...]:
    """Return numbers that change as a run goes on; the first is the iteration."""
    return runner.itr, runner.trained_itr, getattr(runner.algo, "update_counter", 0)


def own_part(state: dict[str, Any]) -> dict[str, Any]:
    """Return a rank's state without the parts that are the same in all ranks."""
    algo = {k: v for k, v in state["algo"].items() if k not in SHARED}
    return {**{k: v for k, v in state.items() if k not in SHARED}, "algo": algo}


def whole_of(part: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """Undo ``own_part``, with rank 0's state."""
    shared = {k: v for k, v in first.items() if k in SHARED}
    algo = {**{k: v for k, v in first["algo"].items() if k in SHARED}, **part["algo"]}
    return {**shared, **part, "algo": algo}


def described(thing: Any) -> Any:
    """Return what can be compared of a setting, as JSON can hold it; classes by name."""
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
    own = {}
    if dataclasses.is_dataclass(thing):
        own = {f.name: described(getattr(thing, f.name, None)) for f in dataclasses.fields(thing)}
    elif not type(thing).__module__.startswith(("torch", "numpy")):
        own = _plain_attributes(thing)
    return {"class": type(thing).__qualname__, **own}


def _plain_attributes(thing: Any) -> dict[str, Any]:
    """Return the numbers, texts and dictionaries among an object's public attributes."""
    simple = (str, bool, int, float, dict, list, tuple)
    named = getattr(thing, "__dict__", {}).items()
    plain = {k: v for k, v in named if not k.startswith("_") and isinstance(v, simple)}
    return {name: described(value) for name, value in plain.items()}


def check_alike(settings: list[dict[str, Any]]) -> None:
    """Compare the settings of all ranks with those of the first.

    Raises:
        ValueError: they differ; the message says in which rank and in what.
    """
    for rank, own in enumerate(settings[1:], 1):
        odd = _differences(own, settings[0])
        if odd:
            raise ValueError(
                f"rank {rank} was set up differently from rank 0: {'; '.join(odd)}. All ranks must "
                "be constructed with the same settings (affinity aside)."
            )


def _differences(own: Any, first: Any, name: str = "") -> list[str]:
    if isinstance(own, dict) and isinstance(first, dict):
        keys = list(dict.fromkeys([*first, *own]))
        path = f"{name}." if name else ""
        return [x for k in keys for x in _differences(own.get(k), first.get(k), path + k)]
    if own == first or (name == "seed" and own is None):
        return []
    return [f"{name}={own!r}, in rank 0 {first!r}"]
