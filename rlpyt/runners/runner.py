"""The training loop: sample, optimize, keep statistics, log. The only one there is."""

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.runners import failures
from rlpyt.runners import state as run_state
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.diagnostics import begin_row, record_progress
from rlpyt.runners.hooks import CheckpointHook, Hook, StopSignals
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.layout import Hardware, decoded
from rlpyt.utils import checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.completion import completed, takes
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say
from rlpyt.utils.processes import pin
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.seed import check_seed, env_seed, make_seed, set_seed

NEW_EPISODES = (
    "The resumed run starts new episodes: the checkpoint has no state of its environments, or that "
    "of another sampler."
)


class MinibatchRlBase(BaseRunner):
    """Trains an agent by alternating between sampling and optimizing.

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
        resume_from: a checkpoint directory to go on from; a launcher may ask for it, too.
        hooks: called beside training, see ``runners.hooks``.

    Raises:
        ValueError, TypeError: an argument is not a number of its kind.
    """

    _eval = False
    _iteration_column = "Diagnostics/Iteration"
    _cpus_before: list[int] | None = None  # that this process might use, if it was pinned

    def __init__(
        self,
        algo: Any,
        agent: Any,
        sampler: Any,
        n_steps: int,
        seed: int | None = None,
        affinity: Any = None,
        log_interval_steps: int = int(1e5),
        checkpoint_dir: Any = None,
        checkpoint_interval_steps: int | None = None,
        resume_from: Any = None,
        hooks: Sequence[Any] = (),
    ) -> None:
        self.algo = completed(algo, RlAlgorithm)
        self.agent = completed(agent, BaseAgent, BaseAgent())
        self.sampler = completed(sampler, BaseSampler)
        self.n_steps = whole_number("n_steps", n_steps, 1)
        self.seed = None if seed is None else check_seed(seed)
        self.affinity = affinity
        self.log_interval_steps = whole_number("log_interval_steps", log_interval_steps, 0)
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_interval_steps = checkpoint_interval_steps
        self.resume_from = resume_from
        self.hooks = [CheckpointHook(checkpoint_interval_steps), *hooks]
        self.rank, self.world_size = 0, 1
        self.min_itr_learn = getattr(algo, "min_itr_learn", 0)
        self.itr = -1
        self.trained_itr = -1  # the last whole iteration
        self.start_itr = 0
        self.begun = False  # all is set up, the first iteration (or evaluation) is under way
        self.updating = False  # in an iteration, agent and algorithm being of no whole one
        self.saved_itr = -1  # of the newest checkpoint
        self.unsaved: checkpoint.CheckpointError | None = None  # of the last checkpoint
        self.owes_evaluation = False  # a signal cut the last one short; it is made up for on resume
        self.before_evaluation: dict[str, Any] | None = None  # what it has changed since
        self._stop_requested = False
        self._signals = StopSignals()

    # Set-up.

    def startup(self) -> int:
        """Acquire everything: sampler (which initializes the agent), device, optimizer, logs.

        Returns:
            the number of iterations.
        """
        groups = getattr(getattr(self.sampler, "layout", None), "groups", 1)
        hardware = Hardware.of(self.affinity, self.sampler.batch_spec.B, groups)
        seed = self.settle(hardware)  # from here on this process may use only its own cores
        final_observation = getattr(self.algo, "final_observation", False)
        accepted = takes(self.sampler.initialize, "final_observation")
        examples = self.sampler.initialize(
            agent=self.agent,
            affinity=hardware if hasattr(self.sampler, "layout") else decoded(self.affinity),
            seed=env_seed(seed, 0, "sampler"),  # environments differ by their global ranks
            bootstrap_value=getattr(self.algo, "bootstrap_value", False),
            **({"final_observation": True} if final_observation and accepted else {}),
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
        self.min_itr_learn = getattr(self.algo, "min_itr_learn", 0)
        self.initialize_logging()
        if self.resume_from is not None:
            self.resume()
        return n_itr

    def settle(self, hardware: Hardware) -> int:
        """Take this process's share of the machine, and seed it; returns the seed."""
        self._cpus_before = hardware.settle()
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        logger.log(f"Runner {type(self).__name__}: seed {self.seed}, {hardware}")
        return self.seed

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Settings of ``TrajInfo`` that come from elsewhere."""
        return dict(discount=getattr(self.algo, "discount", 1))

    def get_n_itr(self) -> int:
        """Return the iterations of the run: the whole batches in ``n_steps``, at least one."""
        if self.n_steps < self.itr_batch_size and self.rank == 0:
            warnings.warn(
                f"n_steps={self.n_steps:,} is less than one batch of {self.itr_batch_size:,} steps "
                "(batch_T * batch_B, of all ranks): one iteration is run."
            )
        self.log_interval_itrs = max(self.log_interval_steps // self.itr_batch_size, 1)
        self.n_itr: int = max(self.n_steps // self.itr_batch_size, 1)
        return self.n_itr

    def initialize_logging(self) -> None:
        """Zero the counters and start the clock."""
        self._opt_infos: dict[str, list[Any]] = {k: [] for k in self.algo.opt_info_fields}
        self._traj_infos: Any = []
        self._start_time = self._last_time = time.monotonic()
        self._cum_time = 0.0
        self._cum_completed_trajs = 0
        self._new_completed_trajs = 0
        self._last_update_counter = 0
        self._last_logged_itr = -1
        self._cum_eval_time = 0.0
        self.recent_return = float("nan")
        own = any(getattr(hook, "owns_terminal", False) for hook in self.hooks)
        self.pbar = None if own else ProgBarCounter(self.log_interval_itrs)

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
        stopped = ""  # by a signal; one that comes after the last iteration stops nothing
        with self._signals as signals:
            try:
                self.sampler.should_stop = signals.has_come
                self.resume_from = self.resume_from or run_state.to_resume(self)
                n_itr = self.startup()
                self._tell("on_start")
                self.begun = True
                if self._eval and (self.start_itr == 0 or self.owes_evaluation):
                    self._evaluate_and_log(self.itr)
                signals.at_once = False
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
                failures.attend_to(error, self)
                raise
            else:
                if not stopped:
                    logger.log("Training complete.")
            finally:
                self._tell("on_end")
                self.shutdown()
        if stopped and self.rank == 0:
            say(f"Stopped by signal after iteration {self.itr}: {stopped}.")
        if self.unsaved is not None:
            last = f"that of iteration {self.saved_itr}" if self.saved_itr >= 0 else "none"
            self.unsaved.add_note(
                f"The run ended after iteration {self.trained_itr} without this checkpoint. The "
                f"newest one in its directory: {last}."
            )
            raise self.unsaved
        if stopped:
            raise SystemExit(signals.exit_code)

    def run_iteration(self, itr: int) -> None:
        """Sample, optimize, keep statistics; log when it is time."""
        self.agent.sample_mode(itr)
        samples, traj_infos = self.sampler.obtain_samples(itr)
        if getattr(self.sampler, "interrupted", False) and hasattr(self.algo, "interrupt"):
            self.algo.interrupt()
        self.agent.train_mode(itr)
        self.updating = True
        opt_info = self.algo.optimize_agent(itr, samples)
        self.store_diagnostics(itr, traj_infos, opt_info)
        self.trained_itr, self.updating = itr, False
        if (itr + 1) % self.log_interval_itrs == 0 or itr + 1 == self.n_itr:
            self._evaluate_and_log(itr)

    def _evaluate_and_log(self, itr: int) -> None:
        """Write a row; runners with evaluation evaluate first. ``itr`` -1: before training."""
        self.log_diagnostics(itr)
        self._tell("on_log", dict(self._last_row))

    @property
    def cum_steps(self) -> int:
        """Environment steps so far, of whole iterations."""
        steps: int = (self.trained_itr + 1) * self.itr_batch_size
        return steps

    @property
    def steps_per_second(self) -> float:
        """Environment steps per second of training since this process started."""
        elapsed = time.monotonic() - self._start_time - self._eval_time_here
        steps = (self.trained_itr + 1 - self.start_itr) * self.itr_batch_size
        return steps / elapsed if elapsed > 0 else float("nan")

    _eval_time_here = 0.0

    def request_stop(self) -> None:
        """End training after this iteration, with a checkpoint."""
        self._stop_requested = True

    def agree(self, itr: int) -> tuple[int | None, bool]:
        """After an iteration: the signal that came, if any, and whether a hook asked to stop."""
        return self._signals.received, self._stop_requested

    def _tell(self, event: str, *args: Any) -> None:
        for hook in self.hooks:
            getattr(hook, event, getattr(Hook(), event))(self, *args)

    def shutdown(self) -> None:
        """Release processes and environments; can be called again."""
        if getattr(self, "pbar", None) is not None:
            self.pbar.stop()  # type: ignore[union-attr]
            self.pbar = None
        self.sampler.shutdown()
        if self._cpus_before is not None:  # another run may follow, with another share
            pin(self._cpus_before)

    # Snapshots and checkpoints.

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
        """What ``params.pkl`` holds: plain tensors and numbers, readable with ``torch.load``."""
        return dict(
            itr=itr,
            cum_steps=(itr + 1) * self.itr_batch_size,
            agent_state_dict=self.agent.state_dict(),
            optimizer_state_dict=self.algo.optim_state_dict(),
        )

    def save_itr_snapshot(self, itr: int) -> None:
        """Hand a snapshot to the logger, which saves it or not, by its snapshot mode."""
        if logger.get_snapshot_mode() != "none":
            logger.save_itr_params(itr, self.get_itr_snapshot(itr))

    def save_snapshot(self, itr: int) -> None:
        """Save the snapshot of an iteration."""
        self.save_itr_snapshot(itr)

    def save_checkpoint(self, itr: int) -> Any:
        """Save all that a resumed run needs; returns where, or ``None`` if it was not saved.

        Without a directory nothing is saved. If the file system refuses, the error is printed and
        the next checkpoint is tried as scheduled; if the last one fails, too, ``train`` raises its
        error at the end.
        """
        directory = self.checkpoint_place()
        if directory is None:
            return None
        try:
            meta = run_state.describe(self)
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
        """All that a resumed run needs."""
        return run_state.gather(self, itr)

    def checkpoint_place(self) -> Any:
        """Where checkpoints go; ``None``: nowhere."""
        run_dir = logger.get_snapshot_dir()
        return self.checkpoint_dir or (os.path.join(run_dir, "checkpoint") if run_dir else None)

    def resume(self) -> None:
        """Go on from ``resume_from``.

        Raises:
            CheckpointError: there is no valid checkpoint.
            ValueError: it is of another algorithm, agent or batch size.
        """
        state, path = self.saved_state()
        exact = run_state.restore(self, state)
        self.itr = self.trained_itr = self.saved_itr = state["itr"]
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

    def saved_state(self) -> tuple[dict[str, Any], Any]:
        """What ``resume_from`` holds, and where in it that is; raises as ``resume`` does."""
        return run_state.read(self)

    def counters(self) -> dict[str, Any]:
        """Statistics in progress, for a checkpoint."""
        return run_state.counters(self)

    def load_counters(self, saved: dict[str, Any]) -> None:
        """Go on counting from a checkpoint."""
        run_state.load_counters(self, saved)

    # Diagnostics.

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Keep what an iteration gave until the next row."""
        self._cum_completed_trajs += len(traj_infos)
        self._new_completed_trajs += len(traj_infos)
        for name, values in self._opt_infos.items():
            new = getattr(opt_info, name, [])
            values.extend(new if isinstance(new, list) else [new])
        if self.pbar is not None:
            self.pbar.update((itr + 1) % self.log_interval_itrs)

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
        now = time.monotonic()
        self._cum_time = now - self._start_time
        with logger.tabular_prefix(prefix):
            if self._eval:
                logger.record_tabular("CumTrainTime", self._cum_time - self._cum_eval_time)
            self.log_iteration(itr)
            record_progress(self, itr, eval_time, now)
        self._log_infos(traj_infos)
        logger.set_iteration(max(itr, 0))
        self._last_row: dict[str, Any] = logger.dump_tabular(with_prefix=False)
        begin_row(self, itr)

    def log_iteration(self, itr: int) -> None:
        """The columns that say where the run is."""
        logger.record_tabular("Iteration", max(itr, 0))

    def _log_infos(self, traj_infos: Any = None) -> None:
        """Write statistics of trajectories and of optimization, then forget the latter."""
        if traj_infos is None:
            traj_infos = self._traj_infos
        example = traj_infos[0] if len(traj_infos) else self.sampler.TrajInfoCls()
        for key in [k for k in example if not k.startswith("_")]:
            logger.record_tabular_misc_stat(key, [info[key] for info in traj_infos])
        for name, values in self._opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self._opt_infos = {name: [] for name in self._opt_infos}
        returns = [info["Return"] for info in traj_infos if "Return" in info]
        if returns:
            self.recent_return = sum(returns) / len(returns)
