"""Trials of `tests.soak.chaos` with runs of several ranks and with Ray actors."""

import contextlib
import io
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.errors import NonFiniteError, RankError, RankTimeout, WorkerError, WorkerTimeout
from rlpyt.processes.call import run_in_child
from rlpyt.runners.hooks import Hook
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.ray_sampler import RaySampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv
from tests.soak.chaos_trials import TIMEOUT_S, Found, let_go, run_program, small_agent

# Kinds of faults, and how often each is drawn.
RANK_KINDS = {"ranks signal": 4, "ranks failure": 4, "ranks killed program": 1, "ray actor": 3}
SIGNALS = ("SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP")
FAILURES = {
    "raise": "ZeroDivisionError: told to fail",
    "nan": "NonFiniteError",
    "exit": "exited with code 3",
    "hang": "kept the others waiting",
}
CHECKPOINT_STEPS = 2_000
SETTLES_S = 8.0  # for signs of life to be missed, ranks to part and rank 0 to save


class Failing:
    """Mixin of algorithms: one rank fails in one iteration."""

    rank: int
    victim = -1
    fault = "none"
    at = 0

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: Any = None) -> Any:
        """Fail, or optimize as the algorithm does."""
        if itr == self.at and self.rank == self.victim:
            if self.fault == "raise":
                raise ZeroDivisionError("told to fail")
            if self.fault == "exit":
                os._exit(3)
            if self.fault == "hang":
                time.sleep(1000.5)
            if self.fault == "nan":
                samples.env.reward[:] = float("nan")
        return super().optimize_agent(itr, samples, sampler_itr)  # type: ignore[misc]


class FailingA2C(Failing, A2C):
    """A2C with a failing rank."""


class FailingDQN(Failing, DQN):
    """DQN with a failing rank."""


@dataclass(frozen=True)
class RankTrial:
    """One run of several ranks, or one sampler on Ray, and one fault."""

    kind: str
    fault: str
    n: int  # ranks, or actors
    victim: int
    at: int  # iteration
    learner: str  # a2c or dqn
    workers: bool  # whether ranks have workers
    T: int
    delay_s: float

    @property
    def SamplerCls(self) -> Any:
        """Return the sampler class of each rank."""
        return CpuSampler if self.workers else SerialSampler

    @property
    def still(self) -> bool:
        """Return True if a rank stands still, which is noticed only after a timeout."""
        return self.fault in ("hang", "SIGSTOP")

    def run(self) -> Found:
        """Run, inject the fault and return what was found."""
        with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
            if self.kind == "ranks killed program":
                code = PROGRAM.format(trial=self, directory=directory)
                return run_program(code, False, self.delay_s, SETTLES_S)
            if self.kind == "ray actor":
                return Found(*run_in_child(_run_on_ray, self, what="Ray"))
            with contextlib.redirect_stdout(io.StringIO()):
                return _run_ranks(self, Path(directory))

    def __str__(self) -> str:
        who = f"actor {self.victim} of {self.n}" if self.kind == "ray actor" else ""
        who = who or f"rank {self.victim} of {self.n}, {self.learner}, workers: {self.workers}"
        return f"{self.kind}: {self.fault}, {who}, iteration {self.at}, T={self.T}"


def draw_rank_trial(rng: random.Random, kind: str) -> RankTrial:
    """Draw a trial of a kind."""
    faults = {"ranks signal": SIGNALS, "ranks failure": tuple(FAILURES), "ray actor": SIGNALS}
    fault, n = rng.choice(faults.get(kind, ("none",))), rng.choice([2, 2, 3])
    from_outside = kind != "ranks failure" or fault == "exit"
    learner = "a2c" if fault == "nan" else rng.choice(["a2c", "dqn"])
    return RankTrial(
        kind=kind,
        fault=fault,
        n=n,
        victim=rng.randrange(int(from_outside and kind != "ray actor"), n),  # rank 0 is here
        at=rng.randint(1, 30),
        learner=learner,
        workers=rng.random() < 0.3,
        T=rng.randint(2, 20),
        delay_s=rng.uniform(0, 1.0),
    )


def runner_of(trial: RankTrial, directory: Path, n_itr: int = 10**6, **kwargs: Any) -> SyncRl:
    """Construct the run of a trial; with ``n_itr``, without its fault."""
    algo: Any = FailingA2C() if trial.learner == "a2c" else FailingDQN(**SMALL_DQN)
    if trial.kind == "ranks failure" and n_itr == 10**6:
        algo.fault, algo.victim, algo.at = trial.fault, trial.victim, trial.at
    agent = small_agent()
    if trial.learner == "dqn":
        agent = DqnMlpAgent(model_kwargs=dict(hidden_sizes=[16]))
    return SyncRl(
        algo=algo,
        agent=agent,
        sampler=trial.SamplerCls(FaultyEnv, dict(fault="none"), batch_T=trial.T, batch_B=4),
        n_steps=n_itr * trial.T * 4 * trial.n,
        affinity=[dict(n_workers=1, master_torch_threads=1)] * trial.n,
        seed=1,
        log_interval_steps=10**9,
        rank_timeout_s=TIMEOUT_S,
        start_timeout_s=60.0,
        checkpoint_dir=directory / "checkpoint",
        checkpoint_interval_steps=CHECKPOINT_STEPS,
        **kwargs,
    )


SMALL_DQN = dict(batch_size=16, min_steps_learn=200, replay_size=4000, replay_ratio=2)


@dataclass
class Strike(Hook):
    """Hook that sends a signal to a rank after a delay."""

    trial: RankTrial
    owns_terminal = True
    began: float = 0.0

    def on_start(self, runner: Any) -> None:
        """Start the timer."""
        self.began = time.monotonic()
        if self.trial.kind == "ranks signal" and not self.trial.still:
            self._start_timer(runner)

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Start the clock of failures that need no signal, and the timer of those that stop."""
        if self.trial.kind == "ranks failure":
            self.began = time.monotonic()
        elif self.trial.still and itr == 1:  # start_timeout_s applies until the first one's end
            self._start_timer(runner)

    def _start_timer(self, runner: Any) -> None:
        pid = runner._processes.processes[self.trial.victim - 1].pid
        number = signal.Signals[self.trial.fault]
        threading.Timer(self.trial.delay_s, self._strike, (pid, number)).start()

    def _strike(self, pid: int, number: int) -> None:
        self.began = time.monotonic()
        os.kill(pid, number)


def _run_ranks(trial: RankTrial, directory: Path) -> Found:
    strike = Strike(trial)
    strike.began = time.monotonic()
    runner = runner_of(trial, directory, hooks=[strike])
    error: BaseException | None = None
    try:
        with run_context(directory / "run", 0, "chaos"):
            runner.train()
    except Exception as caught:
        error = caught
    took = time.monotonic() - strike.began
    complaint = _complaint(trial, error) or _resume(trial, directory, runner.itr)
    said = str(error or "")
    let_go(error)
    return Found(took, said, complaint, SETTLES_S + (1.5 * TIMEOUT_S if trial.still else 0.0))


def _complaint(trial: RankTrial, error: BaseException | None) -> str:
    """Return what is wrong with the error, or an empty text."""
    own = trial.victim == 0  # this process's rank failed, with an error of its own
    if own and trial.fault in ("raise", "nan"):
        kind = ZeroDivisionError if trial.fault == "raise" else NonFiniteError
        notes = getattr(error, "__notes__", [])
        fine = type(error) is kind and f"(in rank 0 of {trial.n})" in notes
        return "" if fine else f"{error!r:.400} {notes}"
    if type(error) is not (RankTimeout if trial.still else RankError):
        return f"{error!r:.400}"
    expected = [rf"^rank {trial.victim} of {trial.n} \(pid \d+ on "]
    expected.append(FAILURES.get(trial.fault, f"killed by {trial.fault}"))
    if trial.fault == "SIGSTOP":
        expected[1] = FAILURES["hang"]
    missing = [pattern for pattern in expected if not re.search(pattern, str(error))]
    return f"missing {missing} in: {error!s:.600}" if missing else ""


def _resume(trial: RankTrial, directory: Path, itr: int) -> str:
    """Resume from the newest checkpoint if there must be one; return what is wrong."""
    batch = trial.T * 4 * trial.n
    if (itr - 1) * batch < CHECKPOINT_STEPS:
        return ""
    saved = load_checkpoint(directory / "checkpoint").state
    if (itr - saved["itr"] - 2) * batch > CHECKPOINT_STEPS:
        return f"checkpoint after iteration {saved['itr']}, the run came to {itr}"
    n_itr = saved["itr"] + 6
    runner = runner_of(trial, directory, n_itr, resume_from=directory / "checkpoint")
    with run_context(directory / "run", 0, "chaos", resume=True):
        runner.train()
    return "" if runner.itr == n_itr - 1 else f"the resumed run ended after iteration {runner.itr}"


def _run_on_ray(trial: RankTrial) -> Found:
    """Send a signal to an actor; it must be restarted or named in the error."""
    sampler = RaySampler(
        FaultyEnv,
        dict(fault="none", length=7, fixed=True),
        batch_T=trial.T,
        batch_B=2 * trial.n,
        max_decorrelation_steps=0,
        n_actors=trial.n,
        env_timeout=TIMEOUT_S,
        reset_timeout=TIMEOUT_S,
        ray_init_kwargs=dict(num_cpus=trial.n),
    )
    error: BaseException | None = None
    complaint, began = "", time.monotonic()
    try:
        sampler.initialize(small_agent(), affinity=dict(n_workers=1), seed=1)
        with _struck_after(trial, sampler.workers[trial.victim].pid):
            began = time.monotonic()
            for itr in range(1_000):
                samples, infos = sampler.obtain_samples(itr)
                complaint = complaint or _broken_rows(samples)
                if any(info.Length != 7 for info in infos):
                    complaint = "an episode that was dropped is reported"
                if sampler.statistics()["ActorRestarts"] or complaint:
                    break
                began = time.monotonic()
    except WorkerError as caught:
        error = caught
    took = time.monotonic() - began
    sampler.shutdown()
    if trial.still:
        fine = isinstance(error, WorkerTimeout) and f"worker {trial.victim} " in str(error)
        complaint = "" if fine else f"{error!r:.400}"
    elif error is not None or sampler.statistics()["DroppedEpisodes"] > 2:
        complaint = f"{error!r:.400}, {sampler.statistics()}"
    said = str(error or "")
    let_go(error)
    return Found(took, said, complaint, 15.0 + (1.5 * TIMEOUT_S if trial.still else 0.0))


def _broken_rows(samples: Any) -> str:
    """Return what is wrong with a batch, whose observations count the steps of each episode."""
    steps = samples.env.observation[..., 2].numpy()
    follows = np.where(samples.env.done[:-1].numpy(), 0, steps[:-1] + 1)
    return "" if (steps[1:] == follows).all() else f"rows do not follow each other: {steps.T}"


@contextlib.contextmanager
def _struck_after(trial: RankTrial, pid: int) -> Iterator[None]:
    timer = threading.Timer(trial.delay_s, os.kill, (pid, signal.Signals[trial.fault]))
    timer.start()
    try:
        yield
    finally:
        timer.join()


def warm_up() -> None:
    """Run two healthy ranks once, because gloo keeps its files open until the process ends."""
    trial = RankTrial("ranks signal", "none", 2, 1, -1, "a2c", False, 5, 0.0)
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
        runner_of(trial, Path(directory), n_itr=1).train()


PROGRAM = """
from tests.soak.chaos_ranks import *
from tests.soak.chaos_trials import Announce

with run_context(Path({directory!r}) / "run", 0, "chaos"):
    runner_of({trial!r}, Path({directory!r}), hooks=[Announce()]).train()
"""
