"""Sampling and optimizing at the same time, in different processes."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.errors import WorkerError
from rlpyt.runners.batch_pipeline import Batch, BatchPipeline
from rlpyt.runners.hooks import EvalHook, Hook, LogHook
from rlpyt.runners.optimizers import Optimizers
from rlpyt.runners.progress import TerminalProgress
from rlpyt.runners.replaced import (  # noqa: F401  (rlpyt had them here)
    AsyncOptWorker,
    memory_copier,
    placeholder,
    run_async_sampler,
    run_async_sampler_eval,
)
from rlpyt.runners.replay_writer import start_replay_writer
from rlpyt.runners.run_state import add_opt_info
from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.layout import Hardware, split_affinity
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import env_seed
from rlpyt.utils.serialize import ByValue

STARVED = 0.8  # fraction of the due updates below which a warning is logged
MIN_CALLS = 100  # due calls of ``optimize_agent`` below which the fraction is too noisy
THROTTLE_WAIT = 0.05  # seconds between rlpyt's checks for new samples; not used here


class AsyncRlBase(MinibatchRlBase):
    """Training loop with an asynchronous sampler, which collects while the optimizer learns.

    Each iteration receives a batch of the sampler and makes the updates that are then due. With a
    replay, their number follows from the algorithm's ``replay_ratio``, and parameters are sent to
    the sampler after every ``updates_per_sync`` updates. If the optimizer does not keep up, the
    ratio is not reached, unless the sampler has to wait (``max_lead``). Algorithms without a
    replay (``VTrace``) learn once from every batch, in its slot; the sampler then leads by as many
    batches as it has slots.

    Args:
        algo, agent: algorithm and agent, not initialized.
        sampler: asynchronous sampler, not initialized.
        n_steps: environment steps to run, rounded down to whole batches.
        affinity: ``dict(sampler=..., optimizer=...)`` with the hardware of each, see
            ``Hardware.of``, or a code with ``async_sample``. A list as ``sampler`` has one entry
            per sampler process; a list as ``optimizer`` has one entry per optimizer process. The
            latter average their gradients, and each draws its own ``batch_size`` samples.
        max_lead: number of batches that the sampler may be ahead of the due updates; 0: it waits
            for all of them, as in one process. ``None``: it never waits.
        rank_timeout_s: time limit in seconds for one call of ``optimize_agent`` with several
            optimizer processes; the one for which the others wait longer counts as hung.
        **kwargs: see ``MinibatchRlBase``.

    Raises:
        TypeError: the sampler is not asynchronous.
        ValueError: the algorithm cannot learn asynchronously, or see ``MinibatchRlBase``.
    """

    _iteration_column = "Diagnostics/SamplerIteration"
    ranks_may_change = False
    algo: Any  # an ``RlAlgorithm``; with a replay, a ``ReplayAlgo``
    sampler: AsyncSamplerMixin

    def __init__(
        self,
        algo: RlAlgorithm,
        agent: BaseAgent,
        sampler: AsyncSamplerMixin,
        n_steps: int,
        affinity: Any = None,
        seed: int | None = None,
        log_interval_steps: int | None = None,
        *,
        max_lead: int | None = None,
        rank_timeout_s: float = 600.0,
        **kwargs: Any,
    ) -> None:
        if not isinstance(sampler, AsyncSamplerMixin):
            raise TypeError(
                f"{type(self).__name__} needs an asynchronous sampler such as AsyncSerialSampler "
                f"or AsyncCpuSampler, got {type(sampler).__name__}."
            )
        super().__init__(
            algo, agent, sampler, n_steps, seed, affinity, log_interval_steps, **kwargs
        )
        if type(self.algo).async_initialize is RlAlgorithm.async_initialize:
            raise ValueError(
                f"{type(algo).__name__} cannot learn asynchronously. Use an algorithm with a "
                "replay, or VTrace (vtrace, impala) in place of A2C or PPO."
            )
        check_range("rank_timeout_s", rank_timeout_s, 0, open_low=True)
        self.rank_timeout_s = rank_timeout_s
        self.max_lead = None if max_lead is None else whole_number("max_lead", max_lead, 0)

    def reset_progress(self) -> None:
        """Forget the progress of an earlier ``train``."""
        super().reset_progress()
        self.pipeline: Any = None  # a ``BatchPipeline`` after startup
        self._replay_writer: Any = None  # a ``ChildGroup``, if there is a replay
        self.optimizers: Any = None  # ``Optimizers`` after startup
        self.opt_itr = 0  # calls of ``optimize_agent``
        self._calls_due = 0  # by the replay ratio
        self._calls_at_row = 0, 0  # that were due and made until the last row
        self._warned_of_starvation = False
        self._n_to_skip = 0  # batches to receive without updates, to catch up with the sampler
        self._lags: list[int] = []  # number of updates that each batch's policy lacked
        self._evaluation: tuple[list[Any], float] | None = None  # of the next row

    # Set-up.

    def startup(self) -> int:
        """Start the sampler and the replay writer, and build the optimizer.

        Returns:
            Number of iterations.
        """
        self.reset_progress()
        affinity = split_affinity(self.affinity)
        hardware = [Hardware.of(entry) for entry in affinity["optimizer"]]
        self._sampler_hardware = self.sampler.sampler_hardware(affinity["sampler"])
        self.check_parts()
        # From here on this process may use only its own cores.
        self.apply_hardware_and_seed(hardware[0])
        self.world_size = len(hardware)
        self.optimizers = Optimizers(self.algo, self.agent, hardware)
        slots, examples = self.sampler.async_initialize(
            self.agent,
            bootstrap_value=self.algo.bootstrap_value,
            traj_info_kwargs=self.get_traj_info_kwargs(),
            seed=env_seed(self.seed or 0, self.rank, "sampler"),
            final_observation=self.algo.final_observation,
        )
        self.itr_batch_size = self.sampler.batch_size
        n_itr = self.algo.n_itr = self.get_n_itr()
        self.algo.update_counter = 0
        self._async_arguments = dict(
            sampler_n_itr=n_itr,
            batch_spec=self.sampler.batch_spec,
            mid_batch_reset=self.sampler.mid_batch_reset,
            examples=examples,
            world_size=self.world_size,
        )
        self.replay = self.algo.async_initialize(agent=self.agent, **self._async_arguments)
        self.launch_workers(n_itr, slots, self.replay)
        self.agent.to_device(hardware[0].cuda_idx)
        self.optim_startup()
        self.initialize_logging()
        self.pipeline = self.build_ctrl(self.world_size)
        if self.resume_from is not None:
            self.resume()
        self._send_parameters()
        self.pipeline.start()
        return n_itr

    def launch_workers(self, n_itr: int, double_buffer: Any, replay_buffer: object) -> None:
        """Start all other processes.

        Args:
            n_itr: number of the sampler's iterations.
            double_buffer: the sampler's batches.
            replay_buffer: replay in shared memory, or ``None``.
        """
        self.launch_sampler(n_itr)
        self.launch_memcpy(double_buffer, replay_buffer)
        self.launch_optimizer_workers(n_itr)

    def launch_sampler(self, n_itr: int) -> None:
        """Start the sampler's processes, which ``BatchPipeline`` commands."""
        self.sampler.initialize(self._sampler_hardware)
        assert self.agent.mailbox is not None
        self.agent.mailbox.while_waiting = self._check_other_processes

    def launch_memcpy(self, sample_buffers: Any, replay_buffer: object) -> None:
        """Start the process that stores batches in the replay, if there is a replay."""
        if replay_buffer is None:
            return
        self._replay_writer = start_replay_writer(
            self.algo,
            sample_buffers,
            self.sampler.env_timeout,
            self.sampler.start_method,
            self._raise_if_stopped,
        )

    def launch_optimizer_workers(self, n_itr: int) -> None:
        """Start the other optimizer ranks, if there are any.

        Args:
            n_itr: number of the sampler's iterations.

        Raises:
            ValueError: there are several ranks, but the algorithm has no replay.
        """
        if self.world_size > 1 and self.replay is None:
            raise ValueError(
                f"affinity['optimizer'] must have one entry for {type(self.algo).__name__}, which "
                f"learns without a replay in one process, got {self.world_size} entries."
            )
        if self.world_size > 1 and self.optimizers is not None:
            timeout_s, method = self.rank_timeout_s, self.sampler.start_method
            arguments = {**self._async_arguments, "sampler_n_itr": n_itr}
            self.optimizers.start(self.replay, arguments, self.seed or 0, timeout_s, method)
        if self.replay is not None:  # all processes have opened its memory
            self.replay.forget_names()
            self.replay.while_waiting = self._check_other_processes

    def optim_startup(self) -> None:
        """Connect the optimizer ranks, build the optimizer, and schedule its updates."""
        if self.world_size > 1 and self.optimizers is not None:
            self.optimizers.connect()
        self.algo.optim_initialize(self.rank)
        self.min_itr_learn = self.algo.min_itr_learn
        self._learn = self._learn_from_slot
        if self.replay is not None:
            self._learn = self._learn_from_replay
            self._learns_from = self.algo.min_itr_learn  # first batch whose steps count
            calls_per_update = 1 / (self.algo.updates_per_optimize * self.world_size)
            self._calls_per_step = self.algo.updates_due(1) * calls_per_update
        why = "since the updates of an asynchronous run are scheduled at its start"
        self.algo.fix(why, "replay_ratio", "batch_size", "batch_B")

    def build_ctrl(self, world_size: int) -> BatchPipeline:
        """Return the pipeline of batches, which commands the sampler and the replay writer."""
        store = None if self._replay_writer is None else self._store
        # The optimizer reads every batch.
        keep_slots = self.agent.has_obs_rms or self.algo.normalize_reward
        return BatchPipeline(self.sampler, 0, self.n_itr, store, keep_slots, self.max_lead)

    def _store(self, batch: Batch) -> None:
        changes = ByValue(dict(self.algo.changes))
        arguments = batch.slot, batch.itr, self.algo.new_priority, changes
        (batch.n_void,) = self._replay_writer.call("store", *arguments)

    def _check_other_processes(self) -> None:
        for others in (self.pipeline, self.optimizers):
            if others is not None:
                others.check()

    def _raise_if_stopped(self) -> None:
        if self.pipeline is not None:
            self.pipeline.raise_if_stopped()

    def _send_parameters(self) -> None:
        assert self.agent.mailbox is not None
        self.agent.mailbox.updates = self.algo.update_counter
        self.agent.send_shared_memory()

    # The run.

    def run_iteration(self, itr: int) -> None:
        """Receive a batch and make the updates that are due."""
        self.pipeline.allow(itr)
        clock = self.state.clock
        clock.switch("waiting")
        batch = self.pipeline.next()
        clock.switch("optimizing")
        clock.seconds["sampling"] += batch.seconds  # in parallel
        self.agent.train_mode(itr)
        self.algo.apply_schedule(itr)
        columns: dict[str, list[Any]] = {name: [] for name in self.algo.opt_info_fields}
        self.updating, failure = True, None
        try:
            for opt_info in self._learn(batch):
                add_opt_info(columns, opt_info)
        except WorkerError as error:  # the batch was used already, so count the iteration
            failure = error
        self.store_diagnostics(self.opt_itr, itr, batch.traj_infos, AttrDict(columns))
        self.state.itr = itr
        if failure is not None:
            raise failure
        self.updating = False

    def _learn_from_slot(self, batch: Batch) -> Iterator[Any]:
        """Learn once from the batch, in its slot."""
        self._record_lag(batch)
        assert batch.slot is not None
        samples = self.sampler.slots_pyt[batch.slot]
        yield self.algo.optimize_agent(batch.itr, samples, batch.itr)
        self.pipeline.release(batch)
        self.opt_itr += 1
        self._send_parameters()

    def _learn_from_replay(self, batch: Batch) -> Iterator[Any]:
        """Make the due updates; without ``max_lead``, once for all batches that are ready."""
        self.algo.batches_in_replay += 1
        if batch.itr >= self._learns_from:
            n_steps = self.itr_batch_size - batch.n_void
            self._calls_due += self.algo.schedule.due(n_steps, self._calls_per_step)
        self._record_lag(batch)
        if batch.slot is not None:
            observe = partial(self.algo.update_obs_rms, self.sampler.slots_pyt[batch.slot])
            self.optimizers.run_together(observe, "observe")
            self._send_parameters()
        self.pipeline.release(batch)
        last = batch.itr + 1 == self.n_itr
        if self._n_to_skip and not last:  # another batch is ready
            self._n_to_skip -= 1
            return
        while self.opt_itr < self._calls_due:
            optimize = partial(self.algo.optimize_agent, self.opt_itr, sampler_itr=batch.itr)
            arguments = self.opt_itr, batch.itr, ByValue(dict(self.algo.changes))
            yield self.optimizers.run_together(optimize, "optimize", *arguments)
            self.opt_itr += 1
            self._send_parameters()
            if self.max_lead is None:
                self._n_to_skip = max(0, (n_ready := self.pipeline.n_ready) - 1)
                if n_ready or last:
                    break

    def _record_lag(self, batch: Batch) -> None:
        self._lags.append(self.algo.update_counter - batch.policy_updates)

    def shutdown(self) -> None:
        """Stop the threads, then release processes and environments."""
        with contextlib.ExitStack() as stack:  # all of them, also after another signal
            if self.optimizers is not None:
                stack.callback(self.optimizers.shutdown)
            if self._replay_writer is not None:
                stack.callback(self._replay_writer.shutdown)
                self._replay_writer = None
            stack.callback(super().shutdown)
            if self.pipeline is not None:
                stack.callback(self.pipeline.stop)

    # Snapshots and checkpoints.

    def get_itr_snapshot(self, itr: int, sampler_itr: int) -> dict[str, Any]:  # type: ignore[override]
        """Return the content of ``params.pkl``, with the iterations of optimizer and sampler.

        Args:
            itr: number of calls of ``optimize_agent``.
            sampler_itr: iteration of the sampler.
        """
        counters = {"itr": itr, "sampler_itr": sampler_itr, "cum_updates": self.algo.update_counter}
        return {**super().get_itr_snapshot(sampler_itr), **counters}

    def save_itr_snapshot(self, itr: int, sample_itr: int) -> None:  # type: ignore[override]
        """Pass a snapshot to the logger, which saves it if its snapshot mode says so.

        Args:
            itr: number of calls of ``optimize_agent``.
            sample_itr: iteration of the sampler, which names the file.
        """
        if logger.get_snapshot_mode() != "none":
            logger.save_itr_params(sample_itr, self.get_itr_snapshot(itr, sample_itr))

    def save_snapshot(self, itr: int) -> None:
        """Save the snapshot of an iteration of the sampler."""
        self.save_itr_snapshot(self.opt_itr, itr)

    def save_checkpoint(self, itr: int) -> Any:
        """Save a checkpoint while sampler and replay writer are paused.

        The replay is omitted if a process died while writing to it.
        """
        if self.pipeline is None:
            return None
        with self.paused():
            if self.replay is not None and (self.pipeline.failed or self._ranks_gone):
                self._recover_replay()
            return super().save_checkpoint(itr)

    @property
    def _ranks_gone(self) -> bool:
        return self.optimizers is not None and self.optimizers.has_failed

    @contextlib.contextmanager
    def paused(self, after_failure: bool = False) -> Iterator[None]:
        """Pause sampler and replay writer, see ``BatchPipeline.paused``."""
        ranks_gone = self._ranks_gone
        if ranks_gone and self.replay is not None:
            self.replay.abort_waiters()  # the replay writer may wait for a lock that they held
        with self.pipeline.paused(after_failure or ranks_gone):
            yield

    def whole_state(self, itr: int) -> dict[str, Any]:
        """Return the content of a checkpoint, with the number of evaluations without a row."""
        owed = int(self.state.evaluation_pending) + self.pipeline.evaluation_pending
        return {**super().whole_state(itr), "owes_evaluation": owed}

    def _recover_replay(self) -> None:
        """Release the lock of the replay if the process that held it died.

        If that process was writing, save the checkpoint without the replay.
        """
        if self.replay.recover_after_crash():
            self.algo.save_replay = False
            logger.log(
                "A process died while writing to the replay: the checkpoint is saved without the "
                "replay. A resumed run fills a new one before it continues to learn."
            )

    def counters(self) -> dict[str, Any]:
        """Return counters and statistics, and the batches between sampler and optimizer."""
        state = {
            "opt_itr": self.opt_itr,
            "lags": list(self._lags),
            "feed": self.pipeline.state_dict(),
        }
        if self.replay is not None:
            state["calls_due"], state["learns_from"] = self._calls_due, self._learns_from
        if self.optimizers is not None:
            state["streams"] = self.optimizers.streams()
        return {**super().counters(), "async": state}

    def load_counters(self, saved: dict[str, Any]) -> None:
        """Load a state from ``counters``."""
        super().load_counters(saved)
        state = saved["async"]
        self.opt_itr, self._lags = state["opt_itr"], list(state["lags"])
        self.pipeline.load_state_dict(state["feed"])
        if self.replay is not None:
            self._load_schedule(state)
        if self.optimizers is not None:
            self.optimizers.load(state.get("streams", []))

    def _load_schedule(self, state: dict[str, Any]) -> None:
        n_batches = state["feed"]["next_itr"]
        if not self.algo.batches_in_replay:  # a new one is filled first
            self._calls_due, self._learns_from = self.opt_itr, n_batches + self.algo.min_itr_learn
        elif "calls_due" in state:
            self._calls_due, self._learns_from = state["calls_due"], state["learns_from"]
        else:  # a checkpoint that has the number of void rows instead
            n_steps = max(0, n_batches - self._learns_from) * self.itr_batch_size
            n_steps -= state.get("void", 0)
            self._calls_due = self.algo.schedule.due(n_steps, self._calls_per_step)
        self._calls_at_row = self._calls_due, self.opt_itr

    # Diagnostics.

    def initialize_logging(self) -> None:
        """Reset the counters and start the clock."""
        super().initialize_logging()
        self._lags, self._waited_at_row = [], (0.0, 0.0)

    def store_diagnostics(  # type: ignore[override]
        self, itr: int, sampler_itr: int, traj_infos: list[Any], opt_info: Any
    ) -> None:
        """Store the results of a sampler iteration for the next row of progress.csv.

        Args:
            itr: number of calls of ``optimize_agent``.
            sampler_itr: iteration of the sampler.
            traj_infos: trajectories completed in its batch.
            opt_info: lists with a value for each update made after the batch.
        """
        super().store_diagnostics(sampler_itr, traj_infos, opt_info)

    def log_diagnostics(  # type: ignore[override]
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Write a row of progress.csv and a snapshot.

        Args:
            itr: number of calls of ``optimize_agent``.
            sampler_itr: iteration of the sampler, also 0 before the first, as in rlpyt.
            throttle_time: seconds that the optimizer has waited for batches since the last row.
            prefix: prefix of the diagnostics' column names.
        """
        self._throttle_time = throttle_time
        traj_infos, eval_time = self._evaluation or (None, 0.0)
        super().log_diagnostics(sampler_itr, traj_infos, eval_time, prefix)

    def _log_row(self, itr: int, evaluation: tuple[list[Any], float] | None) -> None:
        self._evaluation = evaluation
        waited = self.pipeline.learner_waited_s - self._waited_at_row[0]
        self.log_diagnostics(self.opt_itr, itr, waited)

    def log_iteration(self, itr: int) -> None:
        """Record the iterations of optimizer and sampler, and how long each waited."""
        elapsed = max(time.monotonic() - self.state.last_time, 1e-9)
        sampler_waited = self.pipeline.sampler_waited_s - self._waited_at_row[1]
        self._waited_at_row = self.pipeline.learner_waited_s, self.pipeline.sampler_waited_s
        logger.record_tabular("Iteration", self.opt_itr)
        logger.record_tabular("SamplerIteration", max(itr, 0))
        logger.record_tabular("OptThrottle", min(1.0, self._throttle_time / elapsed))
        logger.record_tabular("SamplerThrottle", min(1.0, sampler_waited / elapsed))
        if self.replay is not None:
            self._warn_if_starved()

    def _warn_if_starved(self) -> None:
        """Log, once, if far fewer updates were made since the last row than the ratio requires."""
        (due, made), self._calls_at_row = self._calls_at_row, (self._calls_due, self.opt_itr)
        expected, done = self._calls_due - due, self.opt_itr - made
        if self._warned_of_starvation or expected < MIN_CALLS or done >= STARVED * expected:
            return
        self._warned_of_starvation = True
        logger.log(
            f"WARNING: since the last row only {done / expected:.0%} of the updates required by "
            f"replay_ratio={self.algo.replay_ratio:g} were made: the optimizer does not keep up "
            "with the sampler. To make all updates, let the sampler wait (max_lead=0). Otherwise "
            "give the optimizer more threads (affinity), send parameters less often "
            "(updates_per_sync), or lower replay_ratio. This warning is logged once; see the "
            "columns ReplayRatio, OptThrottle and SamplerThrottle."
        )

    def _log_infos(self, traj_infos: Sequence[Mapping[str, Any]] | None = None) -> None:
        logger.record_tabular_misc_stat("PolicyLag", self._lags)
        self._lags = []
        super()._log_infos(traj_infos)


class AsyncRl(AsyncRlBase):
    """Asynchronous training with statistics of the trajectories collected for training.

    Args:
        log_traj_window: number of latest trajectories summarized in a row.
        **kwargs: see ``AsyncRlBase``.
    """

    def __init__(self, *args: Any, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window, 1)


class AsyncRlEval(AsyncRlBase):
    """Asynchronous training with statistics of separate evaluation episodes.

    The sampler evaluates between two batches, with the newest parameters. Meanwhile, optimization
    continues if it has samples. A row is written when the evaluation has ended. It counts the steps
    and updates until then; its evaluation time is only the time that training waited.
    """

    _eval = True
    log_traj_window = 100

    def own_hooks(self) -> list[Hook]:
        """Return the hooks that evaluate, log and show progress."""
        return [TerminalProgress(), AsyncEvalHook()]

    def write_evaluation(self, wait: bool = False) -> None:
        """Write the row of an evaluation that has ended, if there is one.

        Args:
            wait: True to wait for a requested evaluation.
        """
        started, phase = time.monotonic(), self.state.clock.switch("evaluating")
        traj_infos = self.pipeline.take_evaluation(wait)
        waited = time.monotonic() - started
        self.state.clock.switch(phase)
        self.state.evaluation_pending = self._signals.has_come() and (
            traj_infos is not None or self.pipeline.evaluating
        )
        if traj_infos is None or self.state.evaluation_pending:
            return
        self._training_since += waited
        self.warn_if_unfinished(len(traj_infos))
        self.write_row(self.state.itr, (traj_infos, waited))


class AsyncEvalHook(EvalHook):
    """Make the sampler evaluate at every evaluation interval; write the row afterwards."""

    has_written = LogHook.has_written  # the sampler evaluates later agents

    def on_start(self, runner: Any) -> None:
        """Evaluate the initial policy, or repeat all evaluations that signals interrupted."""
        owed, runner.state.evaluation_pending = int(runner.state.evaluation_pending), 0
        for _ in range(max(owed, runner.start_itr == 0)):
            self.evaluate(runner, runner.itr)

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Request an evaluation if one is due; write the row of one that has ended."""
        evaluates = runner.evaluates_after(itr)
        if evaluates:
            self.write(runner, itr)
        runner.write_evaluation()
        if not evaluates and runner.logs_after(itr) and runner.state.last_logged_itr < itr:
            runner.write_row(itr)

    def write(self, runner: Any, itr: int) -> None:
        """Evaluate; at the end of a run that a hook stops, wait for the row."""
        runner.write_evaluation(wait=True)
        if not (runner.stopping and runner.state.last_logged_itr == itr):
            self.evaluate(runner, itr)
        if runner.stopping:
            runner.write_evaluation(wait=True)

    def evaluate(self, runner: Any, itr: int) -> None:
        """Wait for the last evaluation to end, then request another one."""
        runner.has_started = True
        runner.write_evaluation(wait=True)
        if itr >= runner.min_itr_learn - 1 or itr <= 0:
            runner.pipeline.request_evaluation(itr)
            runner.write_evaluation(wait=itr < 0 or itr + 1 == runner.n_itr or runner.max_lead == 0)
        else:
            runner.write_row(itr, ([], 0.0))
