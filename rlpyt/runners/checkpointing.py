"""Snapshots and checkpoints of a run, resuming, and what is saved after a failure."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.errors import NonFiniteError, RlpytError, WorkerError, itr_of
from rlpyt.runners import failure
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.run_state import RunState
from rlpyt.samplers.base import BaseSampler
from rlpyt.spaces.record import check_spaces, record_of
from rlpyt.utils import checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say
from rlpyt.utils.processes import summary_of
from rlpyt.utils.resumption import asked_to_resume
from rlpyt.utils.seed import random_state, set_random_state

RETURNS = ("training", "evaluations")  # whose returns are in the rows
NEW_EPISODES = (
    "The resumed run starts new episodes, because the checkpoint has no environment states that "
    "this sampler can restore. For an exact resume, environments need get_state and set_state; "
    "`rlpyt check` tests them."
)


class CheckpointedRunner(BaseRunner):
    """Base of runners that save checkpoints and resume from them.

    Args:
        checkpoint_dir: directory of checkpoints; by default ``checkpoint`` in the logger's.
        resume_from: checkpoint directory to resume from; a launcher may set it, too.

    Attributes:
        state: counters and statistics that a checkpoint holds.
        itr, start_itr: current iteration, and the first one of this process.
        saved_itr: iteration of the newest checkpoint, -1 before the first.
        has_started: True from the first evaluation or iteration on.
        in_iteration: False if the sampler is known to be between two complete iterations.
        updating: True while training on a batch, when agent and algorithm may be half updated.
        checkpoint_error: error of the last checkpoint, or ``None``.
        before_evaluation: state to save during an evaluation, or ``None``.
    """

    _iteration_column = "Diagnostics/Iteration"
    ranks_may_change = True  # between a checkpoint and the run that resumes from it

    algo: RlAlgorithm
    agent: BaseAgent
    sampler: BaseSampler
    seed: int | None
    hooks: Sequence[Any]
    world_size: int
    itr_batch_size: int
    n_itr: int
    _eval: bool  # True if rows have the returns of evaluations

    def __init__(self, checkpoint_dir: Any = None, resume_from: Any = None) -> None:
        # Absolute, since environments may change the working directory.
        self.checkpoint_dir = None if checkpoint_dir is None else os.path.abspath(checkpoint_dir)
        self.resume_from = None if resume_from is None else os.path.abspath(resume_from)
        self.reset_progress()

    def reset_progress(self) -> None:
        """Forget the progress of an earlier ``train``."""
        self.state = RunState()
        self.itr, self.start_itr, self.saved_itr = -1, 0, -1
        self.has_started = self.updating = False
        self.in_iteration = True
        self.checkpoint_error: checkpoint.CheckpointError | None = None
        self.before_evaluation: dict[str, Any] | None = None

    # Snapshots and checkpoints.

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
        """Return the content of ``params.pkl``: tensors and numbers that ``torch.load`` reads."""
        return dict(
            itr=itr,
            cum_steps=(itr + 1) * self.itr_batch_size,
            agent_state_dict=self.agent.state_dict(),
            spaces=record_of(self.agent.env_spaces),
            optimizer_state_dict=self.algo.optim_state_dict(),
        )

    def save_itr_snapshot(self, itr: int) -> None:
        """Pass a snapshot to the logger, which saves it if its snapshot mode says so."""
        if logger.get_snapshot_mode() != "none":
            logger.save_itr_params(itr, self.get_itr_snapshot(itr))

    def save_snapshot(self, itr: int) -> None:
        """Save the snapshot of an iteration."""
        self.save_itr_snapshot(itr)

    def save_checkpoint(self, itr: int) -> Any:
        """Save a checkpoint; return its path, or ``None`` if it was not saved.

        Without a directory nothing is saved. If writing fails, print the error, save the agent in
        ``params.pkl`` and continue. ``train`` raises the error if the last checkpoint of the run
        fails.

        Raises:
            RunDirectoryError: the run directory has been deleted or moved.
        """
        directory = self.checkpoint_directory()
        if directory is None:
            return None
        logger.check_run_dir(directory)
        try:
            meta = self.identity()
            saved = checkpoint.save_checkpoint(directory, self.whole_state(itr), meta=meta)
        except checkpoint.CheckpointError as error:
            logger.log(f"checkpoint not saved: {error}")
            say(f"rlpyt: error: no checkpoint after iteration {itr}: {error}", sys.stderr)
            error.itr = itr  # type: ignore[attr-defined]  # see `errors.itr_of`
            self.checkpoint_error = error
            self._save_agent_alone(itr)
            with contextlib.suppress(OSError):
                os.rmdir(directory)  # an empty one would look like something to resume
            return None
        self.saved_itr, self.checkpoint_error = itr, None
        if logger.lacks_snapshot():  # or an older agent would be loaded than that of the checkpoint
            self.save_snapshot(itr)
        return saved

    def _save_agent_alone(self, itr: int) -> None:
        """Save a snapshot in ``params.pkl`` in place of a checkpoint, in any snapshot mode."""
        mode = logger.get_snapshot_mode()
        logger.set_snapshot_mode("last")
        try:
            self.save_snapshot(itr)
        except (TypeError, ValueError) as error:  # the agent has what torch.load would not read
            logger.log(f"params.pkl not saved: {error}")
        finally:
            logger.set_snapshot_mode(mode)

    def raise_checkpoint_error(self) -> None:
        """Raise the error of the last checkpoint, if it could not be saved."""
        if self.checkpoint_error is None:
            return
        self.checkpoint_error.add_note(self.what_is_saved())
        raise self.checkpoint_error

    def what_is_saved(self) -> str:
        """Return a sentence on the last complete iteration and the newest checkpoint."""
        ended, saved = self.state.itr, self.saved_itr
        last = f"after iteration {ended}" if ended >= 0 else "in its first iteration"
        newest = f"that of iteration {saved}" if saved >= 0 else "none"
        return f"The run ended {last}. The newest checkpoint: {newest}."

    @contextlib.contextmanager
    def noting_what_is_saved(self) -> Iterator[None]:
        """Add ``what_is_saved`` to the interrupt that stops a run at once."""
        try:
            yield
        except KeyboardInterrupt as error:
            error.add_note(self.what_is_saved())
            raise

    def paused(self, after_failure: bool = False) -> contextlib.AbstractContextManager[None]:
        """Pause what runs in parallel, for ``whole_state``; nothing does here."""
        return contextlib.nullcontext()

    def whole_state(self, itr: int) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        return {
            "itr": itr,
            "seed": self.seed,
            "agent": self.agent.state_dict(),
            "spaces": record_of(self.agent.env_spaces),
            "algo": self.algo.state_dict(),
            "counters": self.counters(),
            "owes_evaluation": self.state.evaluation_pending,
            "hooks": self._custom_hooks(),
            "evaluates": self._eval,
            "tables": logger.table_marks(),
            "row": logger.begun_row(),  # columns of hooks
            **(self.before_evaluation or self._changed_by_evaluation()),
        }

    def _changed_by_evaluation(self) -> dict[str, Any]:
        """Return the part of the state that an evaluation changes."""
        return {"sampler": self.sampler.state_dict(), "random": random_state()}

    def _custom_hooks(self) -> list[str]:
        """Return the names of the classes of hooks that are not rlpyt's."""
        classes = [type(hook) for hook in self.hooks]
        return [cls.__qualname__ for cls in classes if cls.__module__.split(".")[0] != "rlpyt"]

    def identity(self) -> dict[str, Any]:
        """Return the settings that must match between a checkpoint and the resumed run."""
        T, B = self.sampler.batch_spec
        return {
            "algo": type(self.algo).__name__,
            "agent": type(self.agent).__name__,
            "batch_T": T,
            "batch_B": B,
            "world_size": self.world_size,
        }

    def checkpoint_directory(self) -> Any:
        """Return the directory of the checkpoints, or ``None`` if there is none."""
        run_dir = logger.get_snapshot_dir()
        return self.checkpoint_dir or (os.path.join(run_dir, "checkpoint") if run_dir else None)

    # Resuming.

    @property
    def has_something_left(self) -> bool:
        """Return True if a resumed run has an iteration or an evaluation to make."""
        return self.start_itr < self.n_itr or self.state.evaluation_pending > 0

    def resume(self) -> None:
        """Resume from ``resume_from``.

        Raises:
            CheckpointError: there is no valid checkpoint.
            ValueError: its algorithm, agent or batch size is different.
        """
        state, path = self.saved_state()
        check_spaces(state.get("spaces", {}), self.agent.env_spaces, "the checkpoint's agent")
        exact = self._restore(state)
        self.itr = self.saved_itr = self.state.itr
        self.start_itr = self.itr + 1
        marks = state.get("tables", {})
        changed = logger.changed_tables(marks)
        steps = self.start_itr * self.itr_batch_size
        if self.has_something_left:
            logger.rewind(self._iteration_column, state["itr"], marks, steps)
        for name in changed:
            warnings.warn(
                f"{name} was changed after the checkpoint: its first rows differ. New rows are "
                f"appended; rows before iteration {self.itr} may come from another run."
            )
        if state.get("evaluates", self._eval) != self._eval:
            warnings.warn(
                f"rows of progress.csv up to iteration {self.itr} have returns of "
                f"{RETURNS[not self._eval]}, and from now on of {RETURNS[self._eval]}, so do not "
                "compare them. The best agent (KeepBest) is chosen from the new ones."
            )
        missing = [name for name in state.get("hooks", []) if name not in self._custom_hooks()]
        if missing:
            warnings.warn(
                f"the run was trained with hooks that this one lacks: {', '.join(missing)}. What "
                "they did, such as changing settings, does not happen any more. To keep them, "
                "resume in Python: rlpyt.train(..., resume=True, hooks=[...]), or a runner with "
                "resume_from and hooks."
            )
        if (ranks := state["saved_ranks"]) != self.world_size:
            text = (
                f"the checkpoint is of {ranks} ranks, this run has {self.world_size}: an iteration "
                f"now has {self.itr_batch_size:,} steps, and each gradient is the mean over "
                f"{self.world_size} batches. Further ranks begin with an empty replay; what ranks "
                "that are missing had collected is lost."
            )
            logger.log(text)
            warnings.warn(text)
        logger.log(f"Resumed from {path}, after iteration {self.itr}.")
        if not exact:
            logger.log(NEW_EPISODES)
            warnings.warn(NEW_EPISODES)

    def _checkpoint_of_launcher(self) -> Any:
        """Return the directory that a launcher wants the run to resume from, or ``None``."""
        directory = self.checkpoint_directory()
        found = asked_to_resume(directory) and any(Path(directory).glob("checkpoint-*"))
        return directory if found else None

    def saved_state(self) -> tuple[dict[str, Any], Any]:
        """Return the state in ``resume_from`` and its path; raises as ``resume`` does."""
        assert self.resume_from is not None
        loaded = checkpoint.load_checkpoint(self.resume_from)
        saved, own = loaded.meta, self.identity()
        ranks = saved.get("world_size", self.world_size)
        if ranks != self.world_size and not self.ranks_may_change:
            raise ValueError(
                f"world_size must be {ranks} as in the checkpoint, got {self.world_size}. Resume "
                f"with {ranks} ranks."
            )
        del own["world_size"]
        differing = [
            f"{k} is {saved[k]!r} in the checkpoint and {v!r} in this run"
            for k, v in own.items()
            if saved.get(k, v) != v
        ]
        if differing:
            raise ValueError(
                "the checkpoint was saved by a different run: " + "; ".join(differing) + "."
            )
        loaded.state["saved_ranks"] = ranks
        return loaded.state, loaded.path

    def _restore(self, state: dict[str, Any]) -> bool:
        """Load a saved state after startup. Return True if the run continues exactly.

        The run continues exactly if every environment can save and restore its state. Otherwise
        start new episodes and call the algorithm's ``interrupt``.

        Raises:
            CheckpointError: parts of the state are missing or do not match this run.
        """
        try:
            itr = whole_number("the checkpoint's iteration", state["itr"], 0)
            ranks = state["saved_ranks"]
            if ranks != self.world_size:  # an iteration has another number of steps
                itr = max((itr + 1) * ranks // self.world_size, 1) - 1
            self.state.itr = self.saved_itr = itr  # not saved again if the rest cannot be loaded
            self.agent.load_state_dict(state["agent"])
            self.algo.load_state_dict(state["algo"])
            self.algo.apply_schedule(self.state.itr)
            exact = bool(self.sampler.load_state_dict(state["sampler"]))
            if not exact:
                self.sampler.start_anew(self.state.itr + 1)
                self.algo.interrupt()
            self.load_counters(state["counters"])
            for name, value in state.get("row", []):
                logger.record_tabular(name, value)
            if ranks != self.world_size:
                self.state.last_logged_itr = itr
            self.state.evaluation_pending = state["owes_evaluation"]
            if state["random"] is not None:  # of a rank that the saved run did not have
                set_random_state(state["random"])
            logger.changed_tables(state.get("tables", {}))  # whether the marks can be read
        except (
            *(ArithmeticError, AssertionError, AttributeError),
            *(LookupError, RuntimeError, TypeError),
        ) as error:
            if isinstance(error, RlpytError):
                raise
            summary = " ".join(summary_of(error, 200).split())
            raise checkpoint.CheckpointError(
                f"the checkpoint does not match this run's settings ({summary}). Resume with the "
                "settings of the run that saved it."
            ) from error
        return exact

    def counters(self) -> dict[str, Any]:
        """Return counters and statistics of the current row, for a checkpoint."""
        return self.state.to_dict()

    def load_counters(self, saved: dict[str, Any]) -> None:
        """Load a state from ``counters``."""
        self.state.load(saved)

    # Failures.

    def _handle_failure(self, error: Exception) -> None:
        """Annotate an error with its iteration, and save a checkpoint if possible.

        Set ``error.itr`` (see `errors.itr_of`), unless training has not started. After a failure in
        sampling or evaluation the agent and algorithm are unchanged since the last complete
        iteration, so save a checkpoint.
        """
        if self.updating and isinstance(error, NonFiniteError):
            where = f"iteration {self.itr}, update {self.algo.update_counter}"
            error.args = (f"{type(self.algo).__name__}, {where}: {error}",)
        if kept := failure.save(self, error):
            run_dir = quote(str(kept.parents[1]))
            error.add_note(f"{kept} has what was not finite. To look at it: rlpyt replay {run_dir}")
        if self.has_started and itr_of(error) < 0:
            with contextlib.suppress(AttributeError):  # a class with slots
                error.itr = max(self.itr, 0)  # type: ignore[attr-defined]
        if self.updating and not isinstance(error, WorkerError):
            return
        saved = self._save_after_failure()
        if saved:
            error.add_note(f"Checkpoint after iteration {self.state.itr} in {saved}.")

    def _state_after_failure(self) -> dict[str, Any]:
        """Return the state of sampler and random generators; without lost environments."""
        if not self.in_iteration:  # for example, a hook has failed
            with contextlib.suppress(Exception):
                return self._changed_by_evaluation()
        lost = {"stations": [], "kind": [], **self.sampler.lasting_state()}
        return {"sampler": lost, "random": random_state()}

    def _agent_is_finite(self) -> bool:
        """Return False if a parameter of the agent is NaN or infinite."""
        tensors = (x for x in tree_leaves(self.agent.state_dict()) if torch.is_tensor(x))
        return all(bool(torch.isfinite(x).all()) for x in tensors)

    def _save_after_failure(self) -> Any:
        """Save a checkpoint; return its path, or ``None``.

        After a failure in an iteration, the environments are lost, and a resumed run starts new
        episodes. After one in an evaluation, their state before the evaluation is saved instead and
        the resumed run repeats the evaluation.
        """
        if self.state.itr <= self.saved_itr or not self._agent_is_finite():
            return None
        if self.before_evaluation is not None:
            self.state.evaluation_pending = True
        else:
            self.before_evaluation = self._state_after_failure()
        try:
            return self.save_checkpoint(self.state.itr)
        except Exception as error:  # the first failure is the one to raise
            logger.log(f"checkpoint not saved: {error!r}")
            return None
