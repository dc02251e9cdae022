"""The training loop: sample, optimize, and call hooks that log, evaluate and save."""

import contextlib
import json
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.runners.checkpointing import CheckpointedRunner
from rlpyt.runners.heartbeat import HeartbeatHook
from rlpyt.runners.hooks import CheckpointHook, EvalHook, Hook, LogHook, StopSignals, check_hooks
from rlpyt.runners.progress import TerminalProgress
from rlpyt.runners.run_state import add_opt_info
from rlpyt.runners.usage import PhaseClock, ResourceUse, rate
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.layout import Hardware, decoded
from rlpyt.utils.checks import whole_number
from rlpyt.utils.completion import completed, takes
from rlpyt.utils.files import write_text
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.lock import TRAINING
from rlpyt.utils.old_names import OldName
from rlpyt.utils.processes import ended_after_error, pin, start_fork_server, summary_of
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.recorded import describe
from rlpyt.utils.seed import check_seed, env_seed, make_seed, set_seed, undisturbed
from rlpyt.utils.signed import signed

SMALL_NETWORK = 2**18  # numbers in the agent's state
MIN_ROWS, MAX_LOG_STEPS = 10, 100_000  # of the default logging interval
TRAINING_PREFIX = "Training/"  # prefix of columns of training trajectories in runs with evaluation
PARTS_FILE = "parts.json"  # constructor arguments of the parts of a script's run
NAN = float("nan")
FIXED = frozenset({  # attributes of the runner that are read when training begins
    *("algo", "agent", "sampler", "n_steps", "n_itr", "seed", "affinity"),
    *("log_interval_steps", "eval_interval_steps", "checkpoint_interval_steps"),
})  # fmt: skip


class _WallTime:
    """A time of the run's state under its name in rlpyt (2019), as ``time.time`` counts."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, runner: Any, cls: type | None = None) -> Any:
        if runner is None:
            return self
        return time.time() - time.monotonic() + getattr(runner.state, self._name)

    def __set__(self, runner: Any, value: float) -> None:
        setattr(runner.state, self._name, value - time.time() + time.monotonic())


class MinibatchRlBase(CheckpointedRunner):
    """Training loop that alternates between sampling and optimizing.

    Args:
        algo, agent, sampler: parts of the run, not initialized.
        n_steps: environment steps to run, rounded down to whole batches, at least one.
        seed: seed of the run; drawn if ``None``, and logged.
        affinity: hardware of the run, see ``samplers.layout.Hardware.of``.
        log_interval_steps: environment steps between rows of progress.csv, at least one batch; the
            last iteration always writes one. ``None``: a tenth of the run, at most 100,000.
        checkpoint_dir, resume_from: see `CheckpointedRunner`.
        checkpoint_interval_steps: environment steps between checkpoints; ``None`` or 0: only at the
            end, after a signal and after a worker failure.
        hooks: additional hooks, called after the runner's own, see ``runners.hooks``.
        eval_interval_steps: environment steps between evaluations, in runners that evaluate; each
            writes a row. ``None``: ``log_interval_steps``.

    Attributes:
        hooks: the runner's own hooks, then the additional ones.
        state, itr, ...: see `CheckpointedRunner`.

    Raises:
        ValueError, TypeError: an argument is out of range or has the wrong type.
    """

    log_traj_window = 0  # number of training trajectories summarized in a row
    _eval = False
    eval_interval_itrs: int | None = None  # set by ``get_n_itr``; None: those of rows
    _cpus_before: list[int] | None = None  # the process's CPUs before it was pinned
    _threads_before: int | None = None  # torch's threads before they were limited
    _n_threads_given = False
    _warned_of_unfinished = False
    says_how_to_resume = True  # False if what calls the runner says it
    _before_first = False  # True while a row before the first iteration is written

    # Attributes of rlpyt's runners, which subclasses read and set.
    _opt_infos = OldName("state.opt_infos")
    _traj_infos = OldName("state.traj_infos")
    _start_time, _last_time = _WallTime("start_time"), _WallTime("last_time")
    _cum_eval_time = OldName("state.cum_eval_time")
    _cum_completed_trajs = OldName("state.cum_completed_trajs")
    _new_completed_trajs = OldName("state.new_completed_trajs")
    _last_update_counter = OldName("state.last_update_counter")
    trained_itr = OldName("state.itr")
    recent_return = OldName("state.recent_return")

    def __init__(
        self,
        algo: RlAlgorithm,
        agent: BaseAgent,
        sampler: BaseSampler,
        n_steps: int,
        seed: int | None = None,
        affinity: Any = None,
        log_interval_steps: int | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_interval_steps: int | None = None,
        resume_from: str | os.PathLike[str] | None = None,
        hooks: Sequence[Any] = (),
        eval_interval_steps: int | None = None,
    ) -> None:
        self.algo: RlAlgorithm = completed(algo, RlAlgorithm)
        self.agent: BaseAgent = completed(agent, BaseAgent, BaseAgent())
        self.sampler: BaseSampler = completed(sampler, BaseSampler)
        self.n_steps = whole_number("n_steps", n_steps, 1)
        self.seed = None if seed is None else check_seed(seed)
        self.affinity = {} if affinity is None else affinity
        if log_interval_steps is None:
            log_interval_steps = min(self.n_steps // MIN_ROWS, MAX_LOG_STEPS)
        self.log_interval_steps = whole_number("log_interval_steps", log_interval_steps, 0)
        self.eval_interval_steps = eval_interval_steps
        if eval_interval_steps is not None:
            self.eval_interval_steps = whole_number("eval_interval_steps", eval_interval_steps, 0)
        if checkpoint_interval_steps is not None:
            checkpoint_interval_steps = whole_number(
                "checkpoint_interval_steps", checkpoint_interval_steps, 0
            )
        self.checkpoint_interval_steps = checkpoint_interval_steps
        super().__init__(checkpoint_dir, resume_from)
        check_hooks(hooks)
        own_hooks = [*self.own_hooks(), CheckpointHook(checkpoint_interval_steps)]
        self.hooks = [*own_hooks, *hooks, HeartbeatHook()]
        self._n_own_hooks = len(own_hooks)
        self.rank, self.world_size = 0, 1
        self.min_itr_learn = self.algo.min_itr_learn
        self._signals = StopSignals()

    def reset_progress(self) -> None:
        """Forget the progress of an earlier ``train``, and its requests to stop."""
        super().reset_progress()
        self.stopping = False  # a hook has requested to stop after this iteration
        self._warned_of_unfinished = False

    def own_hooks(self) -> list[Hook]:
        """Return the hooks that log and show progress."""
        return [TerminalProgress(), EvalHook() if self._eval else LogHook()]

    # Set-up.

    def startup(self) -> int:
        """Initialize sampler (which initializes the agent), device, algorithm and logging.

        Returns:
            Number of iterations.
        """
        self.reset_progress()
        layout = self.sampler.layout
        groups = 1 if layout is None else layout.groups
        hardware = Hardware.of(self.affinity, self.sampler.batch_spec.B, groups)
        self.check_parts()
        # From here on this process may use only its own cores.
        seed = self.apply_hardware_and_seed(hardware)
        if layout is not None and layout.processes:
            start_fork_server(self.sampler.start_method)
        accepted = takes(self.sampler.initialize, "final_observation")
        with ended_after_error(self.sampler.shutdown):
            examples = self.sampler.initialize(
                agent=self.agent,
                affinity=decoded(self.affinity) if layout is None else hardware,
                seed=env_seed(seed, 0, "sampler"),  # each environment adds its global rank
                bootstrap_value=self.algo.bootstrap_value,
                **({"final_observation": True} if self.algo.final_observation and accepted else {}),
                traj_info_kwargs=self.get_traj_info_kwargs(),
                rank=self.rank,
                world_size=self.world_size,
            )
        self.itr_batch_size: int = self.sampler.batch_size * self.world_size
        n_itr: int = self.get_n_itr()
        self.algo.n_itr, self.algo.update_counter = n_itr, 0
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
        if self.rank:  # all built the same model; from here on each draws its own random numbers
            set_seed(env_seed(seed, self.rank, "rank"))
        self.min_itr_learn = self.algo.min_itr_learn
        self.initialize_logging()
        if self.resume_from is not None:
            self.resume()
        return n_itr

    def check_parts(self) -> None:
        """Check, before anything is started, that the parts fit together.

        Raises:
            ValueError: they do not.
        """
        self.algo.check_batch(self.agent, self.sampler.batch_spec)
        self.algo.void_rows = self.sampler.on_fault is not None
        if self.algo.void_rows and not self.algo.heeds_void:
            raise ValueError(
                f"on_fault must be None with {type(self.algo).__name__}, which would train on what "
                "broken episodes recorded, got "
                f"{self.sampler.on_fault}. If it leaves out the rows that valid_steps does, set "
                "heeds_void = True in its class."
            )
        curriculum: Any = self.sampler.curriculum
        score: Any = getattr(curriculum, "score", None)
        if not hasattr(score, "for_values"):  # it does not compare rewards with values
            return
        if self.algo.normalize_reward:
            raise ValueError(
                "normalize_reward must be False with prioritized level replay, whose score "
                f"{type(score).__name__} compares rewards with values, got True. Use one of them."
            )
        gae_lambda = getattr(self.algo, "gae_lambda", 0.95)
        curriculum.values = self.algo.discount, gae_lambda

    def _limit_torch_threads(self) -> None:
        """Train a small network with one torch thread, unless the number of threads was given.

        The operations of a small network are too short to share: with two threads on a busy
        machine they wait for each other.
        """
        sizes = [x.numel() for x in tree_leaves(self.agent.state_dict()) if torch.is_tensor(x)]
        given = self._n_threads_given or "OMP_NUM_THREADS" in os.environ
        if given or self.agent.device.type != "cpu" or sum(sizes) > SMALL_NETWORK:
            return
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        logger.log(
            f"One torch thread, since the network is small ({sum(sizes):,} numbers). The affinity "
            "master_torch_threads sets another number."
        )

    def _write_parts(self) -> None:
        """Write how the runner and its parts were constructed, unless config.json says so."""
        run_dir = Path(logger.get_snapshot_dir() or "")
        written = any((run_dir / name).exists() for name in (PARTS_FILE, "config.json"))
        if logger.get_snapshot_dir() is None or self.rank or written:
            return
        logging = {
            "snapshot_mode": logger.get_snapshot_mode(),
            "use_summary_writer": logger.get_tf_summary_writer() is not None,
            "loggers": logger.get_trackers(),
        }
        parts = {"format": 1, "logging": logging, "runner": describe(self)}
        write_text(run_dir / PARTS_FILE, json.dumps(signed(parts), indent=2) + "\n")

    def apply_hardware_and_seed(self, hardware: Hardware) -> int:
        """Apply CPU affinity and thread limits, and seed this process; return the seed."""
        self._n_threads_given = hardware.master_torch_threads is not None
        if self._n_threads_given:
            self._threads_before = torch.get_num_threads()
        self._cpus_before = hardware.apply()
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        logger.log(f"Runner {type(self).__name__}: seed {self.seed}, {hardware}")
        return self.seed

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Return the arguments of ``TrajInfo`` that the algorithm determines."""
        return dict(discount=self.algo.discount)

    def get_n_itr(self) -> int:
        """Return the number of iterations: the whole batches in ``n_steps``, at least one."""
        resumes = self.resume_from is not None  # then at least one iteration is complete
        if self.n_steps < self.itr_batch_size and self.rank == 0 and not resumes:
            warnings.warn(
                f"n_steps={self.n_steps:,} is less than one batch of {self.itr_batch_size:,} steps "
                "(batch_T * batch_B, of all ranks): one iteration is run."
            )
        self.log_interval_itrs = max(self.log_interval_steps // self.itr_batch_size, 1)
        if self.eval_interval_steps is not None:
            self.eval_interval_itrs = max(self.eval_interval_steps // self.itr_batch_size, 1)
        self.n_itr: int = max(self.n_steps // self.itr_batch_size, 1)
        return self.n_itr

    def initialize_logging(self) -> None:
        """Reset the counters and start the clock."""
        self.state.opt_infos = {name: [] for name in self.algo.opt_info_fields}
        self.state.traj_infos = deque(maxlen=self.log_traj_window)
        self.state.start_time = self.state.last_time = time.monotonic()
        self.state.clock = PhaseClock()
        self._resources = ResourceUse(self.agent.device)
        # In this process, shifted by the time of evaluations.
        self._training_since = time.monotonic()

    # The run.

    def train(self) -> None:
        """Train from start to end; release all resources on any exit.

        Raises:
            SystemExit: Ctrl-C (code 130), SIGTERM (143), SIGUSR1 (138) or SIGHUP (129) stopped the
                run; a checkpoint was saved first.
            KeyboardInterrupt: a second signal stopped the run at once; a note says what is saved.
            CheckpointError: the last checkpoint of a finished or stopped run could not be saved.
            ConcurrentRunError: another thread of this process is training.
            RunDirectoryError: the run directory has been deleted or moved.
            WorkerError: a worker died or hung. A checkpoint of the last complete iteration is saved
                first, as for other errors raised while sampling.
        """
        # A signal after the last iteration has no effect. A caller may try again after an error.
        stopped, saved, handled = "", None, sys.exception()
        # Gradients are needed, also inside the caller's torch.no_grad() or inference_mode().
        gradients = torch.inference_mode(False)
        stops = self.noting_what_is_saved()
        with (
            TRAINING.hold() as is_nested,  # in a hook of another training
            undisturbed() if is_nested else contextlib.nullcontext(),
            logger.training(),
            gradients,
            stops,
            self._signals as signals,
        ):
            try:
                self.sampler.should_stop = signals.has_come  # type: ignore[method-assign]
                self.resume_from = self.resume_from or self._checkpoint_of_launcher()
                n_itr = self.startup()
                self._limit_torch_threads()
                self._write_parts()
                n = self._n_own_hooks  # rlpyt's own hooks start last, since `EvalHook` may evaluate
                for hook in [*self.hooks[n:], *self.hooks[:n]]:
                    self._call_hook(hook, "on_start")
                self.share_settings()
                self.has_started, signals.at_once = True, False
                self._fixed = FIXED
                for itr in range(self.start_itr, n_itr):
                    self.itr = itr
                    with logger.prefix(f"itr #{itr} "):
                        self.run_iteration(itr)
                        self.state.clock.switch("logging")
                        self._call_hooks("on_iteration", itr)
                    received, stop_requested = self.stop_requests(itr)
                    if received is not None:
                        saved = self.save_checkpoint(itr)
                        stopped = "no checkpoint saved, since no checkpoint directory is set"
                        stopped = f"checkpoint saved in {saved}" if saved else stopped
                        stopped = "checkpoint not saved" if self.checkpoint_error else stopped
                        break
                    if stop_requested:
                        self.save_checkpoint(itr)
                        self._write_last_row(itr)
                        break
            except Exception as error:
                self._handle_failure(error)
                raise
            else:
                if not stopped:
                    logger.log("Training complete.")
            finally:
                self._fixed = frozenset()
                self._end(handled)
        if stopped and self.rank == 0:
            self._say_that_it_stopped(stopped, saved)
        self.raise_checkpoint_error()
        if stopped:
            signals.call_earlier()
            raise SystemExit(signals.exit_code)

    def _say_that_it_stopped(self, what: str, saved: Any) -> None:
        """Say that a signal stopped the run, after what time, and what of it is saved."""
        time = f", {seconds:.1f} s later" if (seconds := self._signals.seconds_since()) else ""
        say(f"Stopped by signal after iteration {self.itr}{time}: {what}.")
        if saved and self.says_how_to_resume:
            directory = str(self.checkpoint_directory())
            say(f"Resume with {type(self).__name__}(..., resume_from={directory!r}).")

    def run_iteration(self, itr: int) -> None:
        """Sample, optimize, and keep statistics."""
        self.state.clock.switch("sampling")
        self.agent.sample_mode(itr)
        self.in_iteration = True
        samples, traj_infos = self.sampler.obtain_samples(itr)
        if self.sampler.interrupted:
            self.algo.interrupt()
        self.state.clock.switch("optimizing")
        self.agent.train_mode(itr)
        self.updating = True
        self.algo.apply_schedule(itr)
        opt_info = self.algo.optimize_agent(itr, samples)
        self.store_diagnostics(itr, traj_infos, opt_info)
        self.state.itr, self.updating, self.in_iteration = itr, False, False

    def share_settings(self) -> None:
        """Send settings that hooks have changed to the other ranks, if there are any."""

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
        self.stopping = True

    def _write_last_row(self, itr: int) -> None:
        """Write the row of an iteration that stops the run, with an evaluation if the run has them.

        The checkpoint does not count it: a resumed run deletes it and continues like a run that was
        not stopped.
        """
        for hook in self.hooks:
            if isinstance(hook, LogHook) and not hook.has_written(self, itr):
                hook.write(self, itr)

    def stop_requests(self, itr: int) -> tuple[int | None, bool]:
        """Return (received signal or ``None``, True if a hook requested to stop)."""
        return self._signals.received, self.stopping

    def _call_hooks(self, event: str, *args: object) -> None:
        for hook in self.hooks:
            self._call_hook(hook, event, *args)

    def _call_hook(self, hook: object, event: str, *args: object) -> None:
        """Call a method of a hook, if it has this method; a hook may be any object."""
        method = getattr(hook, event, None)
        if method is not None:
            method(self, *args)

    def _end(self, handled: BaseException | None) -> None:
        """Call ``on_end`` of every hook, and shut down even if one of them raises.

        What raises here becomes a note of the error that ends the run, if there is one. An error
        that the caller has already handled is none.
        """
        cause = sys.exception()
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self.shutdown)
                for hook in reversed(self.hooks):
                    stack.callback(self._call_hook, hook, "on_end")
        except Exception as error:
            if cause is None or cause is handled:
                raise
            cause.add_note(f"While the run ended: {summary_of(error)}")

    def shutdown(self) -> None:
        """Release processes and environments; can be called again."""
        self.sampler.shutdown()
        vars(self.sampler).pop("should_stop", None)
        if self._cpus_before is not None:  # another run may follow, with other CPUs
            pin(self._cpus_before)
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
        self._cpus_before = self._threads_before = None

    @cached_property
    def pbar(self) -> ProgBarCounter:
        """Hidden progress bar, for subclasses written for rlpyt (2019) that update it."""
        bar = ProgBarCounter(1)
        bar.stop()
        return bar

    # Evaluation.

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate the agent; return (trajectories, seconds of the evaluation)."""
        started = time.monotonic()
        traj_infos: list[Any] = []
        if itr >= self.min_itr_learn - 1 or itr <= 0:
            self.agent.eval_mode(max(itr, 0))
            traj_infos = self.sampler.evaluate_agent(max(itr, 0))
            self.warn_if_unfinished(len(traj_infos))
        return traj_infos, time.monotonic() - started

    def warn_if_unfinished(self, n_ended: int) -> None:
        """Warn, once, if ``eval_max_steps`` ended an evaluation before its episodes."""
        expected = self.sampler.eval_max_trajectories
        if self._warned_of_unfinished or n_ended >= (expected or 1) or self._signals.has_come():
            return
        self._warned_of_unfinished = True
        ended = f"{n_ended} of {expected} evaluation episodes" if expected else "no episode"
        warnings.warn(
            f"{ended} ended within an evaluation of eval_max_steps={self.sampler.eval_max_steps} "
            "steps; unfinished ones are not counted. Raise eval_max_steps (--eval-max-steps), or "
            "give the environment a time limit."
        )

    def begin_evaluation(self) -> None:
        """Save the state that an evaluation changes, for a checkpoint written during it."""
        self.has_started = True
        if self.checkpoint_directory() is not None:
            self.before_evaluation = self._changed_by_evaluation()

    def end_evaluation(self, eval_time: float) -> bool:
        """Exclude evaluation time from the training speed.

        Returns:
            True if no signal interrupted the evaluation.
        """
        self._training_since += eval_time
        self.state.evaluation_pending = self._signals.has_come()
        if self.state.evaluation_pending:
            self.state.last_time += eval_time
            return False
        self.before_evaluation = None
        return True

    # Diagnostics.

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Store the results of an iteration for the next row of progress.csv."""
        state = self.state
        state.cum_completed_trajs += len(traj_infos)
        state.new_completed_trajs += len(traj_infos)
        state.traj_infos.extend(traj_infos)
        if traj_infos and state.traj_infos and not self._eval:
            state.recent_return = mean_return(state.traj_infos)
        add_opt_info(state.opt_infos, opt_info)

    def logs_after(self, itr: int) -> bool:
        """Return True if a row of progress.csv is written after this iteration."""
        due = (itr + 1) % self.log_interval_itrs == 0 or itr + 1 == self.n_itr
        return due or self.evaluates_after(itr)

    def evaluates_after(self, itr: int) -> bool:
        """Return True if the agent is evaluated after this iteration."""
        due = (itr + 1) % (self.eval_interval_itrs or self.log_interval_itrs) == 0
        return self._eval and (due or itr + 1 == self.n_itr)

    def write_row(self, itr: int, evaluation: tuple[list[Any], float] | None = None) -> None:
        """Write a row of progress.csv and pass it to the hooks.

        Args:
            itr: last iteration, -1 before the first.
            evaluation: (trajectories, seconds) of an evaluation; in a runner that evaluates,
                ``None`` for a row without one.
        """
        self._before_first, logger.current().last_row = itr < 0, {}
        self._log_row(max(itr, 0), evaluation)
        self._before_first = False
        self._call_hooks("on_log", dict(logger.current().last_row))

    def _log_row(self, itr: int, evaluation: tuple[list[Any], float] | None) -> None:
        """Call ``log_diagnostics``."""
        self.log_diagnostics(itr, *(evaluation or ()))

    def log_diagnostics(
        self,
        itr: int,
        traj_infos: Sequence[Mapping[str, Any]] | None = None,
        eval_time: float = 0,
        prefix: str = "Diagnostics/",
        eval_traj_infos: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Write a row of progress.csv and a snapshot.

        Args:
            itr: last iteration, also 0 before the first, as in rlpyt.
            traj_infos: trajectories to summarize, of an evaluation if the runner evaluates;
                ``None``: those collected for training, or no evaluation.
            eval_time: seconds of the evaluation.
            prefix: prefix of the diagnostics' column names.
            eval_traj_infos: other name of ``traj_infos``, that of rlpyt (2019) in evaluations.
        """
        traj_infos = eval_traj_infos if traj_infos is None else traj_infos
        itr = -1 if self._before_first else itr
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
        logger.set_iteration((itr + 1) * self.itr_batch_size)
        logger.dump_tabular(with_prefix=False)
        state.begin_row(itr, self.algo.update_counter)

    def log_iteration(self, itr: int) -> None:
        """Record the column of the iteration."""
        logger.record_tabular("Iteration", max(itr, 0))

    def _log_progress(self, itr: int, eval_time: float) -> None:
        """Record time, steps, updates, rates since the last row, and the use of resources."""
        state, updates = self.state, self.algo.update_counter
        phases = state.clock.lap()
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
            "SamplingTime (s)": phases["sampling"],
            "OptimizingTime (s)": phases["optimizing"],
            **({"EvalTime (s)": phases["evaluating"]} if self._eval else {}),
            "LoggingTime (s)": phases["logging"],
            "SamplerStepsPerSecond": rate(steps, phases["sampling"]),
            "OptimizerUpdatesPerSecond": rate(new_updates, phases["optimizing"]),
            **self._resources.read(),
            **self.sampler.statistics(),
            **self.algo.statistics(),
            **self.agent.statistics(self.algo._itr),
        }.items():
            logger.record_tabular(name, value)

    def _log_infos(self, traj_infos: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Record statistics of trajectories and optimization, then clear the latter."""
        if traj_infos is None:
            traj_infos = [] if self._eval else self.state.traj_infos
        self._log_trajectories(traj_infos)
        for name, values in self.state.opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self.state.opt_infos = {name: [] for name in self.state.opt_infos}
        if self._eval:
            with logger.tabular_prefix(TRAINING_PREFIX):
                self._log_trajectories(self.state.traj_infos)
        if any("Return" in info for info in traj_infos):
            self.state.recent_return = mean_return(traj_infos)

    def _log_trajectories(self, traj_infos: Sequence[Mapping[str, Any]]) -> None:
        """Record statistics of each entry of these trajectories."""
        example = traj_infos[0] if len(traj_infos) else self.sampler.TrajInfoCls()
        for key in [k for k in example if not k.startswith("_")]:
            logger.record_tabular_misc_stat(key, [info[key] for info in traj_infos])


def mean_return(traj_infos: Iterable[Mapping[str, Any]]) -> float:
    """Return the mean return of the trajectories that have one."""
    returns = [info["Return"] for info in traj_infos if "Return" in info]
    return sum(returns) / len(returns) if returns else NAN
