"""The training loop: sample, optimize, and call hooks that log, evaluate and save."""

import contextlib
import importlib
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.errors import NonFiniteError, RlpytError, WorkerError, itr_of
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.hooks import (
    CheckpointHook,
    EvalHook,
    Hook,
    LogHook,
    ProgressBar,
    StopSignals,
    terminal_is_owned,
)
from rlpyt.runners.run_state import RunState, add_opt_info, random_state, set_random_state
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.layout import Hardware, decoded
from rlpyt.utils import checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.completion import completed, takes
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say
from rlpyt.utils.processes import pin, start_fork_server, summary_of
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.resumption import asked_to_resume
from rlpyt.utils.seed import check_seed, env_seed, make_seed, set_seed

NEW_EPISODES = (
    "The resumed run starts new episodes: the checkpoint has no state of its environments, or that "
    "of another sampler."
)
NAN = float("nan")


def _of_state(name: str) -> property:
    """Return a property for a field of ``RunState`` that rlpyt's runners have as an attribute."""
    return property(
        lambda runner: getattr(runner.state, name),
        lambda runner, value: setattr(runner.state, name, value),
    )


class MinibatchRlBase(BaseRunner):
    """Training loop that alternates between sampling and optimizing.

    Args:
        algo, agent, sampler: as constructed.
        n_steps: environment steps to run, rounded down to whole batches; at least one is run.
        seed: of everything random in the run; drawn if ``None``, and logged.
        affinity: hardware of the run, see ``samplers.layout.Hardware.of``.
        log_interval_steps: environment steps between rows of progress.csv, at least one batch; the
            last iteration always writes one.
        checkpoint_dir: where checkpoints go; by default ``checkpoint`` in the logger's directory.
        checkpoint_interval_steps: environment steps between checkpoints; ``None``: at the end and
            when stopped, by a signal or the death of a worker.
        resume_from: a checkpoint directory to resume from; a launcher may ask for it, too.
        hooks: called after the runner's own, see ``runners.hooks``.

    Attributes:
        state: counters and statistics that a checkpoint holds.
        hooks: the runner's own, then those given.

    Raises:
        ValueError, TypeError: an argument is not a number of its kind.
    """

    log_traj_window = 0  # trajectories that a row describes
    _eval = False
    _iteration_column = "Diagnostics/Iteration"
    _cpus_before: list[int] | None = None  # the process's CPUs before it was pinned

    # Attributes of rlpyt's runners, which subclasses read and set.
    _opt_infos = _of_state("opt_infos")
    _traj_infos = _of_state("traj_infos")
    _start_time, _last_time = _of_state("start_time"), _of_state("last_time")
    _cum_eval_time = _of_state("cum_eval_time")
    _cum_completed_trajs = _of_state("cum_completed_trajs")
    _new_completed_trajs = _of_state("new_completed_trajs")
    _last_update_counter = _of_state("last_update_counter")
    trained_itr = _of_state("itr")
    recent_return = _of_state("recent_return")

    def __init__(
        self,
        algo: RlAlgorithm,
        agent: BaseAgent,
        sampler: BaseSampler,
        n_steps: int,
        seed: int | None = None,
        affinity: Any = None,
        log_interval_steps: int = int(1e5),
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_interval_steps: int | None = None,
        resume_from: str | os.PathLike[str] | None = None,
        hooks: Sequence[Any] = (),
    ) -> None:
        self.algo: RlAlgorithm = completed(algo, RlAlgorithm)
        self.agent: BaseAgent = completed(agent, BaseAgent, BaseAgent())
        self.sampler: BaseSampler = completed(sampler, BaseSampler)
        self.n_steps = whole_number("n_steps", n_steps, 1)
        self.seed = None if seed is None else check_seed(seed)
        self.affinity = affinity
        self.log_interval_steps = whole_number("log_interval_steps", log_interval_steps, 0)
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_interval_steps = checkpoint_interval_steps
        self.resume_from = resume_from
        own_hooks = [*self.own_hooks(), CheckpointHook(checkpoint_interval_steps)]
        self.hooks = [*own_hooks, *hooks]
        self._n_own_hooks = len(own_hooks)
        self.rank, self.world_size = 0, 1
        self.min_itr_learn = self.algo.min_itr_learn
        self.state = RunState()
        self.itr = -1
        self.start_itr = 0
        self.saved_itr = -1  # of the newest checkpoint
        self.begun = False  # the first evaluation or iteration has started
        self.updating = False  # agent and algorithm are between two iterations
        self.unsaved: checkpoint.CheckpointError | None = None  # why the last checkpoint is missing
        self.before_evaluation: dict[str, Any] | None = None  # state that the evaluation changes
        self.pbar: ProgBarCounter | None = None
        self._stop_requested = False
        self._signals = StopSignals()

    def own_hooks(self) -> list[Hook]:
        """Return the hooks that log and show progress."""
        return [ProgressBar(), EvalHook() if self._eval else LogHook()]

    # Set-up.

    def startup(self) -> int:
        """Acquire everything: sampler (which initializes the agent), device, optimizer, logs.

        Returns:
            the number of iterations.
        """
        layout = self.sampler.layout
        groups = 1 if layout is None else layout.groups
        hardware = Hardware.of(self.affinity, self.sampler.batch_spec.B, groups)
        seed = self.settle(hardware)  # from here on this process may use only its own cores
        if layout is not None and layout.processes and start_fork_server(self.sampler.start_method):
            importlib.import_module("torch._dynamo")  # for optimizers; takes as long as the server
        accepted = takes(self.sampler.initialize, "final_observation")
        examples = self.sampler.initialize(
            agent=self.agent,
            affinity=decoded(self.affinity) if layout is None else hardware,
            seed=env_seed(seed, 0, "sampler"),  # environments differ by their global ranks
            bootstrap_value=self.algo.bootstrap_value,
            **({"final_observation": True} if self.algo.final_observation and accepted else {}),
            traj_info_kwargs=self.get_traj_info_kwargs(),
            rank=self.rank,
            world_size=self.world_size,
        )
        self.itr_batch_size: int = self.sampler.batch_size * self.world_size
        n_itr: int = self.get_n_itr()
        self.agent.to_device(hardware.cuda_idx)
        if self.world_size > 1:
            self.agent.data_parallel()
        self.algo.initialize(
            agent=self.agent,
            n_itr=n_itr,
            batch_spec=self.sampler.batch_spec,
            mid_batch_reset=self.sampler.mid_batch_reset,
            examples=examples,
            world_size=self.world_size,
            rank=self.rank,
        )
        if self.rank:  # models are alike in all ranks; what is drawn from now on is not
            set_seed(env_seed(seed, self.rank, "rank"))
        self.min_itr_learn = self.algo.min_itr_learn
        self.initialize_logging()
        if self.resume_from is not None:
            self.resume()
        return n_itr

    def settle(self, hardware: Hardware) -> int:
        """Take this process's share of the machine, and seed it; returns the seed."""
        self._cpus_before = hardware.apply()
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        logger.log(f"Runner {type(self).__name__}: seed {self.seed}, {hardware}")
        return self.seed

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Return the settings of ``TrajInfo`` that the algorithm determines."""
        return dict(discount=self.algo.discount)

    def get_n_itr(self) -> int:
        """Return the iterations of the run: the whole batches in ``n_steps``, at least one."""
        resumes = self.resume_from is not None  # it has one iteration already
        if self.n_steps < self.itr_batch_size and self.rank == 0 and not resumes:
            warnings.warn(
                f"n_steps={self.n_steps:,} is less than one batch of {self.itr_batch_size:,} steps "
                "(batch_T * batch_B, of all ranks): one iteration is run."
            )
        self.log_interval_itrs = max(self.log_interval_steps // self.itr_batch_size, 1)
        self.n_itr: int = max(self.n_steps // self.itr_batch_size, 1)
        return self.n_itr

    def initialize_logging(self) -> None:
        """Reset the counters and start the clock."""
        self.state.opt_infos = {name: [] for name in self.algo.opt_info_fields}
        self.state.traj_infos = deque(maxlen=self.log_traj_window)
        self.state.start_time = self.state.last_time = time.monotonic()
        self._training_since = time.monotonic()  # in this process, moved on by evaluations

    # The run.

    def train(self) -> None:
        """Run from start to end, releasing everything on any exit.

        Raises:
            SystemExit: Ctrl-C (code 130), SIGTERM (143) or SIGHUP (129) stopped the run, after a
                checkpoint.
            CheckpointError: the run has ended, or was stopped, and its last checkpoint could not
                be saved.
            WorkerError: a worker died or hung; after a checkpoint of the last whole iteration, as
                after whatever else environments raise in this process.
        """
        stopped, saved = "", None  # by a signal; one after the last iteration stops nothing
        with self._signals as signals:
            try:
                self.sampler.should_stop = signals.has_come
                self.resume_from = self.resume_from or self._checkpoint_of_launcher()
                n_itr = self.startup()
                n = self._n_own_hooks  # they come last: one may evaluate
                for hook in [*self.hooks[n:], *self.hooks[:n]]:
                    self._call(hook, "on_start")
                self.begun, signals.at_once = True, False
                for itr in range(self.start_itr, n_itr):
                    self.itr = itr
                    with logger.prefix(f"itr #{itr} "):
                        self.run_iteration(itr)
                        self._tell("on_iteration", itr)
                    received, asked_to_stop = self.agree(itr)
                    if received is not None:
                        saved = self.save_checkpoint(itr)
                        stopped = f"checkpoint saved in {saved}" if saved else "nowhere to save to"
                        stopped = "checkpoint not saved" if self.unsaved else stopped
                        break
                    if asked_to_stop:
                        self.save_checkpoint(itr)
                        break
            except Exception as error:
                self._handle_failure(error)
                raise
            else:
                if not stopped:
                    logger.log("Training complete.")
            finally:
                self._tell("on_end")
                self.shutdown()
        if stopped and self.rank == 0:
            say(f"Stopped by signal after iteration {self.itr}: {stopped}.")
            if saved and not terminal_is_owned(self.hooks):
                # In a script; programs that own the terminal have a command for it.
                place = str(self.checkpoint_place())
                say(f"Resume with {type(self).__name__}(..., resume_from={place!r}).")
        if self.unsaved is not None:
            last = f"that of iteration {self.saved_itr}" if self.saved_itr >= 0 else "none"
            self.unsaved.add_note(
                f"The run ended after iteration {self.state.itr} without this checkpoint. The "
                f"newest one in its directory: {last}."
            )
            raise self.unsaved
        if stopped:
            raise SystemExit(signals.exit_code)

    def run_iteration(self, itr: int) -> None:
        """Sample, optimize, and keep statistics."""
        self.agent.sample_mode(itr)
        samples, traj_infos = self.sampler.obtain_samples(itr)
        if self.sampler.interrupted:
            self.algo.interrupt()
        self.agent.train_mode(itr)
        self.updating = True
        opt_info = self._optimize_agent(itr, samples)
        self.store_diagnostics(itr, traj_infos, opt_info)
        self.state.itr, self.updating = itr, False

    def _optimize_agent(self, itr: int, *args: Any, **kwargs: Any) -> Any:
        """Call the algorithm, and add the iteration to the message of a `NonFiniteError`."""
        try:
            return self.algo.optimize_agent(itr, *args, **kwargs)
        except NonFiniteError as error:
            where = f"iteration {itr}, update {self.algo.update_counter}"
            error.args = (f"{type(self.algo).__name__}, {where}: {error}",)
            raise

    @property
    def cum_steps(self) -> int:
        """Return the number of environment steps in complete iterations."""
        steps: int = (self.state.itr + 1) * self.itr_batch_size
        return steps

    @property
    def steps_per_second(self) -> float:
        """Return environment steps per second of training since this process started."""
        elapsed = time.monotonic() - self._training_since
        steps = (self.state.itr + 1 - self.start_itr) * self.itr_batch_size
        return steps / elapsed if elapsed > 0 else NAN

    def request_stop(self) -> None:
        """End training after this iteration, with a checkpoint."""
        self._stop_requested = True

    def agree(self, itr: int) -> tuple[int | None, bool]:
        """Return the signal that has come, if any, and whether a hook asked to stop."""
        return self._signals.received, self._stop_requested

    def _tell(self, event: str, *args: Any) -> None:
        for hook in self.hooks:
            self._call(hook, event, *args)

    def _call(self, hook: Any, event: str, *args: Any) -> None:
        """Call a method of a hook, which may be any object with some of them."""
        method = getattr(hook, event, None)
        if method is not None:
            method(self, *args)

    def _handle_failure(self, error: Exception) -> None:
        """Annotate an error with its iteration, and save what is intact.

        Errors before training starts are left as they are. Of others ``itr`` is set, see
        `errors.itr_of`. If they came from sampling or evaluation, agent and algorithm are those of
        the last complete iteration, and a checkpoint is saved.
        """
        if self.begun and itr_of(error) < 0:
            with contextlib.suppress(AttributeError):  # of a class with slots
                error.itr = max(self.itr, 0)  # type: ignore[attr-defined]
        intact = not (self.updating or isinstance(error, NonFiniteError))
        if not (intact or isinstance(error, WorkerError)):
            return
        saved = self._save_after_failure()
        if saved:
            error.add_note(f"Checkpoint after iteration {self.state.itr} in {saved}.")

    def _save_after_failure(self) -> Any:
        """Save a checkpoint without the environments; return its path, or ``None``.

        The environments are lost and start new episodes, unless they failed in an evaluation: the
        state before it is known, and the resumed run repeats the evaluation.
        """
        if self.state.itr <= self.saved_itr:
            return None
        if self.before_evaluation is not None:
            self.state.owes_evaluation = True
        else:
            lost = {"stations": [], "kind": [], **self.sampler.lasting_state()}
            self.before_evaluation = {"sampler": lost, "random": random_state()}
        try:
            return self.save_checkpoint(self.state.itr)
        except Exception as error:  # the failure before it matters more
            logger.log(f"checkpoint not saved: {error!r}")
            return None

    def shutdown(self) -> None:
        """Release processes and environments; can be called again."""
        self.sampler.shutdown()
        if self._cpus_before is not None:  # another run may follow, with another share
            pin(self._cpus_before)

    # Evaluation.

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate; return (trajectories, seconds it took)."""
        if self.pbar is not None:
            self.pbar.stop()
            self.pbar = ProgBarCounter(self.log_interval_itrs)
        started = time.monotonic()
        traj_infos: list[Any] = []
        if itr >= self.min_itr_learn - 1 or itr <= 0:
            self.agent.eval_mode(max(itr, 0))
            traj_infos = self.sampler.evaluate_agent(max(itr, 0))
            if not traj_infos and not self._signals.has_come():
                logger.log("WARNING: no evaluation episode ended; raise eval_max_steps.")
        return traj_infos, time.monotonic() - started

    def begin_evaluation(self) -> None:
        """Keep the state that the evaluation changes, for a checkpoint in the middle of it."""
        self.begun = True
        if self.checkpoint_place() is not None:
            self.before_evaluation = self._changed_by_evaluation()

    def end_evaluation(self, eval_time: float) -> bool:
        """Leave an evaluation's seconds out of the speed of training.

        Returns:
            whether the evaluation is complete: no signal has interrupted it.
        """
        self._training_since += eval_time
        self.state.owes_evaluation = self._signals.has_come()
        if self.state.owes_evaluation:
            self.state.last_time += eval_time
            return False
        self.before_evaluation = None
        return True

    # Snapshots and checkpoints.

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
        """Return the content of ``params.pkl``: tensors and numbers that ``torch.load`` reads."""
        return dict(
            itr=itr,
            cum_steps=(itr + 1) * self.itr_batch_size,
            agent_state_dict=self.agent.state_dict(),
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
        """Save all that a resumed run needs; return the path, or ``None`` if it was not saved.

        Without a directory nothing is saved. If the file system refuses, the error is printed and
        the next checkpoint is tried as scheduled; if the last one fails, too, ``train`` raises its
        error at the end.
        """
        directory = self.checkpoint_place()
        if directory is None:
            return None
        try:
            meta = self._identity()
            saved = checkpoint.save_checkpoint(directory, self.whole_state(itr), meta=meta)
        except checkpoint.CheckpointError as error:
            logger.log(f"checkpoint not saved: {error}")
            say(f"rlpyt: error: no checkpoint after iteration {itr}: {error}", sys.stderr)
            error.itr = itr  # type: ignore[attr-defined]  # see `errors.itr_of`
            self.unsaved = error
            with contextlib.suppress(OSError):
                os.rmdir(directory)  # an empty one would look like something to resume
            return None
        self.saved_itr, self.unsaved = itr, None
        return saved

    def whole_state(self, itr: int) -> dict[str, Any]:
        """Return all that a resumed run needs."""
        return {
            "itr": itr,
            "seed": self.seed,
            "agent": self.agent.state_dict(),
            "algo": self.algo.state_dict(),
            "counters": self.counters(),
            "owes_evaluation": self.state.owes_evaluation,
            "tables": logger.table_marks(),
            **(self.before_evaluation or self._changed_by_evaluation()),
        }

    def _changed_by_evaluation(self) -> dict[str, Any]:
        """Return that part of the state which an evaluation changes."""
        return {"sampler": self.sampler.state_dict(), "random": random_state()}

    def _identity(self) -> dict[str, Any]:
        """Return what must agree between a checkpoint and the run that resumes from it."""
        T, B = self.sampler.batch_spec
        return {
            "algo": type(self.algo).__name__,
            "agent": type(self.agent).__name__,
            "batch_T": T,
            "batch_B": B,
            "world_size": self.world_size,
        }

    def checkpoint_place(self) -> Any:
        """Return the directory of the checkpoints, or ``None`` if there is none."""
        run_dir = logger.get_snapshot_dir()
        return self.checkpoint_dir or (os.path.join(run_dir, "checkpoint") if run_dir else None)

    def resume(self) -> None:
        """Resume from ``resume_from``.

        Raises:
            CheckpointError: there is no valid checkpoint.
            ValueError: it is of another algorithm, agent or batch size.
        """
        state, path = self.saved_state()
        exact = self._restore(state)
        self.itr = self.saved_itr = self.state.itr
        self.start_itr = self.itr + 1
        changed = logger.changed_tables(state.get("tables", {}))
        logger.rewind(self._iteration_column, self.itr)
        for name in changed:
            warnings.warn(
                f"{name} must begin with the rows that it had at the checkpoint, and does not: it "
                "was replaced or edited. New rows are appended to it as it is; statistics before "
                f"iteration {self.itr} may be those of another run."
            )
        logger.log(f"Resumed from {path}, after iteration {self.itr}.")
        if not exact:
            logger.log(NEW_EPISODES)
            warnings.warn(NEW_EPISODES)

    def _checkpoint_of_launcher(self) -> Any:
        """Return the directory that a launcher wants the run to resume from, or ``None``."""
        directory = self.checkpoint_place()
        found = asked_to_resume(directory) and any(Path(directory).glob("checkpoint-*"))
        return directory if found else None

    def saved_state(self) -> tuple[dict[str, Any], Any]:
        """Return the state in ``resume_from`` and its path; raises as ``resume`` does."""
        assert self.resume_from is not None
        loaded = checkpoint.load_checkpoint(self.resume_from)
        saved, own = loaded.meta, self._identity()
        ranks = saved.get("world_size", self.world_size)
        if ranks != self.world_size:
            raise ValueError(
                f"the checkpoint is of a run with {ranks} ranks (world_size), this one has "
                f"{self.world_size}: resume with as many as it started with."
            )
        odd = [f"{k}: {saved[k]!r}, this run {v!r}" for k, v in own.items() if saved.get(k, v) != v]
        if odd:
            raise ValueError("the checkpoint is of another run: " + "; ".join(odd) + ".")
        return loaded.state, loaded.path

    def _restore(self, state: dict[str, Any]) -> bool:
        """Load a saved state after startup. Return True if the run continues exactly.

        It does where every environment can give and take its state; otherwise environments start
        new episodes, and the algorithm's ``interrupt`` is called.

        Raises:
            CheckpointError: parts of the state are missing, or are those of another run.
        """
        try:
            self.state.itr = whole_number("the checkpoint's iteration", state["itr"], 0)
            self.agent.load_state_dict(state["agent"])
            self.algo.load_state_dict(state["algo"])
            exact = bool(self.sampler.load_state_dict(state["sampler"]))
            if not exact:
                self.algo.interrupt()
            self.load_counters(state["counters"])
            self.state.owes_evaluation = state["owes_evaluation"]
            set_random_state(state["random"])
        except (KeyError, IndexError, AttributeError, TypeError, RuntimeError) as error:
            if isinstance(error, RlpytError):
                raise
            summary = " ".join(summary_of(error, 200).split())
            raise checkpoint.CheckpointError(
                "the checkpoint must be one of this run, got a state that does not fit it "
                f"({summary}). Resume with the settings that it was made with."
            ) from error
        return exact

    def counters(self) -> dict[str, Any]:
        """Return statistics in progress, for a checkpoint."""
        return self.state.to_dict()

    def load_counters(self, saved: dict[str, Any]) -> None:
        """Load statistics in progress from a checkpoint."""
        self.state.load(saved)

    # Diagnostics.

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Store the results of an iteration for the next row."""
        state = self.state
        state.cum_completed_trajs += len(traj_infos)
        state.new_completed_trajs += len(traj_infos)
        state.traj_infos.extend(traj_infos)
        if traj_infos and state.traj_infos:
            state.recent_return = mean_return(state.traj_infos)
        add_opt_info(state.opt_infos, opt_info)

    def row_is_due(self, itr: int) -> bool:
        """Return True if a row of progress.csv is to be written after this iteration."""
        return (itr + 1) % self.log_interval_itrs == 0 or itr + 1 == self.n_itr

    def write_row(self, itr: int, evaluation: tuple[list[Any], float] | None = None) -> None:
        """Write a row of progress.csv and show it to the hooks.

        Args:
            itr: the last iteration, -1 before the first.
            evaluation: its trajectories, and the seconds it took.
        """
        self.log_diagnostics(itr, *(evaluation or ()))
        self._tell("on_log", dict(self._last_row))

    def log_diagnostics(
        self,
        itr: int,
        traj_infos: Any = None,
        eval_time: float = 0,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Write a row of progress.csv and a snapshot.

        Args:
            itr: the iteration just run; -1 before the first.
            traj_infos: trajectories to describe.
            eval_time: seconds that evaluation took.
            prefix: of the diagnostics' column names.
        """
        if itr >= self.min_itr_learn - 1:
            self.save_snapshot(max(itr, 0))
        state = self.state
        with logger.tabular_prefix(prefix):
            if self._eval:
                infos = traj_infos or []
                state.cum_eval_time += eval_time
                logger.record_tabular("StepsInEval", sum(info["Length"] for info in infos))
                logger.record_tabular("TrajsInEval", len(infos))
                logger.record_tabular("CumEvalTime", state.cum_eval_time)
                logger.record_tabular("CumTrainTime", state.cum_time - state.cum_eval_time)
            elif self.log_traj_window:
                steps = sum(info["Length"] for info in state.traj_infos)
                logger.record_tabular("NewCompletedTrajs", state.new_completed_trajs)
                logger.record_tabular("StepsInTrajWindow", steps)
            self.log_iteration(itr)
            self._log_progress(itr, eval_time)
        self._log_infos(traj_infos)
        logger.set_iteration(max(itr, 0))
        self._last_row: dict[str, Any] = logger.dump_tabular(with_prefix=False)
        state.begin_row(itr, self.algo.update_counter)

    def log_iteration(self, itr: int) -> None:
        """Record the columns that say where the run is."""
        logger.record_tabular("Iteration", max(itr, 0))

    def _log_progress(self, itr: int, eval_time: float) -> None:
        """Record time, steps and updates, and their rates since the last row without evaluation."""
        state, updates = self.state, self.algo.update_counter
        elapsed = max(time.monotonic() - state.last_time - eval_time, 1e-9)
        steps = self.itr_batch_size * (itr - state.last_logged_itr)
        new_updates = updates - state.last_update_counter
        samples_used = self.algo._batch_size * self.world_size
        total = (itr + 1) * self.itr_batch_size
        for name, value in {
            "CumTime (s)": state.cum_time,
            "CumSteps": total,
            "CumCompletedTrajs": state.cum_completed_trajs,
            "CumUpdates": updates,
            "StepsPerSecond": steps / elapsed if steps else NAN,
            "UpdatesPerSecond": new_updates / elapsed if steps else NAN,
            "ReplayRatio": new_updates * samples_used / steps if steps else NAN,
            "CumReplayRatio": updates * samples_used / total if total else NAN,
        }.items():
            logger.record_tabular(name, value)
        for name, value in {**self.sampler.statistics(), **self.algo.statistics()}.items():
            logger.record_tabular(name, value)

    def _log_infos(self, traj_infos: Any = None) -> None:
        """Record statistics of trajectories and of optimization, then forget the latter."""
        if traj_infos is None:
            traj_infos = self.state.traj_infos
        example = traj_infos[0] if len(traj_infos) else self.sampler.TrajInfoCls()
        for key in [k for k in example if not k.startswith("_")]:
            logger.record_tabular_misc_stat(key, [info[key] for info in traj_infos])
        for name, values in self.state.opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self.state.opt_infos = {name: [] for name in self.state.opt_infos}
        if any("Return" in info for info in traj_infos):
            self.state.recent_return = mean_return(traj_infos)


def mean_return(traj_infos: Any) -> float:
    """Return the mean return of the trajectories that have one."""
    returns = [info["Return"] for info in traj_infos if "Return" in info]
    return sum(returns) / len(returns) if returns else NAN
