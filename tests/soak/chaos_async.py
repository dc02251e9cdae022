"""Trials of `tests.soak.chaos` with asynchronous runs."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv
from tests.soak.chaos_trials import (
    DEATHS,
    EXCEPTIONS,
    IGNORED,
    STANDSTILLS,
    START_S,
    TIMEOUT_S,
    Found,
    let_go,
    run_program,
    small_agent,
)

LAYOUTS = {
    "async serial": AsyncSerialSampler,
    "async cpu": AsyncCpuSampler,
    "async gpu": AsyncGpuSampler,
    "async alternating": AsyncAlternatingSampler,
}
# Kinds of faults, and how often each is drawn.
ASYNC_KINDS = {
    "async signal": 12,
    "async rank": 3,
    "async environment": 6,
    "async start": 3,
    "async killed program": 1,
    "async stopped training": 1,
}
FROM_OUTSIDE = ("SIGKILL", "SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP", *IGNORED)
WHO = {
    "host": "sampler process",
    "worker": "worker",
    "copier": "replay writer",
    "rank": "optimizer rank",
}
ENDS_S = 6.0  # that several groups of processes take to end in turn, after a checkpoint


@dataclass(frozen=True)
class AsyncTrial:
    """One run and one fault."""

    kind: str
    fault: str
    whom: str  # of WHO, where a signal comes from outside
    at: int  # step, where an environment fails
    layout: str
    n_hosts: int
    T: int
    learner: str  # dqn or vtrace
    method: str
    victim: int  # number of an environment, or of a process
    delay_s: float

    @property
    def SamplerCls(self) -> Any:
        """Return the synchronous sampler class of the layout."""
        return LAYOUTS[self.layout].SamplerCls

    @property
    def still(self) -> bool:
        """Return True if a process stands still, which is noticed only after a timeout."""
        return self.fault in (*STANDSTILLS, "SIGSTOP")

    def run(self) -> Found:
        """Run, inject the fault and return what was found."""
        with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
            if "program" in self.kind or "stopped" in self.kind:
                code = PROGRAM.format(trial=self, directory=directory)
                stop = "stopped" in self.kind
                return run_program(code, stop, self.delay_s, 10.0 * stop + ENDS_S)
            with contextlib.redirect_stdout(io.StringIO()):
                return _run_here(self, Path(directory))

    def __str__(self) -> str:
        where = {"async signal": f"to {self.whom}", "async environment": f"in step {self.at}"}
        return (
            f"{self.kind}: {self.fault} {where.get(self.kind, '')}, {self.layout}, "
            f"{self.n_hosts} sampler processes, T={self.T}, {self.learner}, {self.method}"
        )


def draw_async_trial(rng: random.Random, kind: str) -> AsyncTrial:
    """Draw a trial of a kind."""
    faults = {
        "async signal": FROM_OUTSIDE,
        "async rank": FROM_OUTSIDE,
        "async environment": (*EXCEPTIONS, *DEATHS, *STANDSTILLS),
        "async start": ("SIGKILL",),
    }.get(kind, ("none",))
    layout = rng.choice(list(LAYOUTS))
    ranks = kind == "async rank"
    learner = "dqn" if ranks else rng.choice(["dqn", "vtrace"])
    whom = ["rank"] if ranks else ["host", "worker", "copier"]
    if layout == "async serial" and not ranks:
        whom.remove("worker")
    if learner == "vtrace":
        whom.remove("copier")
    return AsyncTrial(
        kind=kind,
        fault=rng.choice(faults),
        whom=rng.choice(whom),
        at=rng.randint(1, 60),
        layout=layout,
        n_hosts=rng.choice([1, 1, 2]),
        T=rng.randint(1, 20),
        learner=learner,
        method=rng.choices(["forkserver", "fork", "spawn"], [80, 10, 10])[0],
        victim=rng.randrange(8),
        delay_s=rng.uniform(0, 4.0 if kind == "async start" else 0.8),
    )


def runner_of(trial: AsyncTrial, directory: Path, n_itr: int = 10**6, **kwargs: Any) -> AsyncRl:
    """Construct the run of a trial; with ``n_itr``, without its fault."""
    env: dict[str, Any] = dict(fault="none")
    if trial.kind == "async environment" and n_itr == 10**6:
        own = dict(at=trial.at, hang_s=1000.5, victim=1 + trial.victim % 8)
        env = dict(fault=trial.fault, tally=str(directory / "tally"), **own)
    sampler = LAYOUTS[trial.layout](
        FaultyEnv,
        env,
        batch_T=trial.T,
        batch_B=8,
        max_decorrelation_steps=0,
        env_timeout=TIMEOUT_S,
        reset_timeout=TIMEOUT_S,
    )
    sampler.start_method = trial.method
    algo: Any = VTrace()
    agent = small_agent()
    if trial.learner == "dqn":
        algo = DQN(batch_size=16, min_steps_learn=200, replay_size=4000, replay_ratio=2)
        agent = DqnMlpAgent(model_kwargs=dict(hidden_sizes=[16]))
    return AsyncRl(
        algo,
        agent,
        sampler,
        n_steps=n_itr * trial.T * 8,
        affinity=dict(
            sampler=[dict(n_workers=2) for _ in range(trial.n_hosts)],
            optimizer=[dict(torch_threads=1)] * (2 if trial.whom == "rank" else 1),
        ),
        seed=1,
        rank_timeout_s=TIMEOUT_S,
        log_interval_steps=10**9,
        checkpoint_dir=directory / "checkpoint",
        **kwargs,
    )


@dataclass
class Strike(Hook):
    """Hook that sends a signal to a process of the run after a delay, and later ends the run."""

    trial: AsyncTrial
    owns_terminal = True
    began: float = 0.0
    family: list[Any] = field(default_factory=list)
    name: str = ""  # of whom it has struck

    def on_start(self, runner: Any) -> None:
        """Start the timer."""
        self.began, self.family = time.monotonic(), list(_family())
        if self.trial.kind in ("async signal", "async rank"):
            threading.Timer(self.trial.delay_s, self._strike, (runner,)).start()

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Stop a run that nothing else stops."""
        if self.trial.fault in IGNORED and time.monotonic() > self.began + 2.0:
            runner.request_stop()
        if self.trial.kind == "async start" and time.monotonic() > self.began + 10.0:
            runner.request_stop()

    def _strike(self, runner: Any) -> None:
        self.began = time.monotonic()
        victim = self.trial.victim
        if self.trial.whom == "copier":
            (target,) = runner._replay_writer.processes
        elif self.trial.whom == "rank":
            (target,) = runner.optimizers._children.processes
        else:
            target = runner.sampler.processes[victim % self.trial.n_hosts]
        pid = target.pid
        self.name = f"{WHO[self.trial.whom]} {victim % self.trial.n_hosts}"
        if self.trial.whom == "copier":
            self.name = f"{WHO['copier']} 0"
        if self.trial.whom == "rank":
            self.name = f"{WHO['rank']} 1"
        if self.trial.whom == "worker":
            self.name = "worker"
            family = psutil.Process(pid).children(recursive=True)
            tracks = [p for p in family if any("resource_tracker" in x for x in p.cmdline())]
            workers = [p for p in family if not p.children() and p not in tracks]
            pid = workers[victim % len(workers)].pid
        os.kill(pid, signal.Signals[self.trial.fault])


def _family(pid: int | None = None) -> Iterator[Any]:
    """Return all descendants of a process, without its idle helpers."""
    pid = os.getpid() if pid is None else pid
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            helps = any("multiprocessing" in part for part in child.cmdline())
            if not (helps and child.ppid() == pid):
                yield child


def _kill_some_descendant(trial: AsyncTrial, strike: Strike, over: threading.Event) -> None:
    """Send the signal while the run starts."""
    over.wait(trial.delay_s)
    while not over.is_set():
        family = list(_family())
        if family:
            strike.family += family
            strike.began = time.monotonic()
            with contextlib.suppress(psutil.Error):
                family[trial.victim % len(family)].kill()
            return
        time.sleep(0.001)


def _run_here(trial: AsyncTrial, directory: Path) -> Found:
    strike, over = Strike(trial), threading.Event()
    strike.began = time.monotonic()
    runner: Any = runner_of(trial, directory, hooks=[strike])
    error: BaseException | None = None
    if trial.kind == "async start":
        killer = (trial, strike, over)
        threading.Thread(target=_kill_some_descendant, args=killer, daemon=True).start()
    try:
        with run_context(directory / "run", 0, "chaos"):
            runner.train()
    except Exception as caught:
        error = caught
    took = time.monotonic() - strike.began
    over.set()
    complaint = _complaint(trial, error, strike.name) + _left(strike.family)
    trained = runner.trained_itr
    if not complaint and error is not None:
        complaint = _resume(trial, directory, trained)
    said = str(error or "")
    let_go(error)
    allowance = ENDS_S + (1.5 * TIMEOUT_S if trial.still else 0.0)
    if trial.kind == "async start":
        allowance += START_S[trial.method]
    if trial.fault in IGNORED:
        allowance += 10.0
    return Found(took, said, complaint, allowance)


def _complaint(trial: AsyncTrial, error: BaseException | None, who: str) -> str:
    """Return what is wrong with the error, or an empty text."""
    if trial.fault in IGNORED or trial.kind == "async start":
        fine = error is None or (trial.kind == "async start" and isinstance(error, WorkerError))
        return "" if fine else f"unexpected: {error!r:.300}"
    if type(error) is not (WorkerTimeout if trial.still else WorkerError):
        return f"{error!r:.400}"
    notes = "\n".join(getattr(error, "__notes__", []))
    expected = [rf"^{who or '(sampler process|worker) [0-9]'}", r"\(pid [0-9]+ on "]
    if trial.whom == "worker" and trial.kind == "async signal":
        expected.append(r"It is a worker of sampler process [01] \(pid")
    if trial.kind == "async environment":
        said = {**EXCEPTIONS, **DEATHS}.get(trial.fault, "no progress for")
        expected += [re.escape(said), r"FaultyEnv\(fault=", rf"iteration {error.itr}\b"]
        expected += [r"while stepping environment [0-9]", r"seed [0-9]"]
        if trial.fault in EXCEPTIONS:
            expected.append("Traceback")
    elif not trial.still:
        expected.append(f"killed by {trial.fault}")
    found = f"{error}\n{notes}"
    missing = [pattern for pattern in expected if not re.search(pattern, found)]
    return f"missing {missing} in: {found:.600}" if missing else ""


def _left(family: list[Any]) -> str:
    _, alive = psutil.wait_procs(family, timeout=10)
    left = [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    return f" still there: {left}" if left else ""


def _resume(trial: AsyncTrial, directory: Path, trained: int) -> str:
    """Resume from the checkpoint if there must be one; return what is wrong, or an empty text."""
    if trained < 0:
        return ""
    saved = load_checkpoint(directory / "checkpoint").state
    if saved["itr"] != trained:
        return f"checkpoint after iteration {saved['itr']}, not {trained}"
    n_itr = max(trained + 1, saved["counters"]["async"]["feed"]["next_itr"]) + 300 // trial.T
    runner = runner_of(trial, directory, n_itr, resume_from=directory / "checkpoint")
    with run_context(directory / "run", 0, "chaos", resume=True):
        runner.train()
    return "" if runner.itr == n_itr - 1 else f"the resumed run ended after iteration {runner.itr}"


PROGRAM = """
from tests.soak.chaos_async import *
from tests.soak.chaos_trials import Announce

with run_context(Path({directory!r}) / "run", 0, "chaos"):
    runner_of({trial!r}, Path({directory!r}), hooks=[Announce()]).train()
"""
