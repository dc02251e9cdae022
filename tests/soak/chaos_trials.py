"""Trials of `tests.soak.chaos` with samplers: faults, and the errors expected of them."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from rlpyt.agents.pg.vector import agent_for
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from tests.faulty import FaultyEnv

LAYOUTS = {
    "cpu": CpuSampler,
    "gpu": GpuSampler,
    "alternating": AlternatingSampler,
    "no-overlap": NoOverlapAlternatingSampler,
}
EXCEPTIONS = {
    "raise": "FaultError",
    "unpicklable": "UnpicklableError",
    "unicode": "UnicodeDecodeError",
    "recursive": "RecursiveError",
    "mute": "MuteError",
    "huge": "FaultError",
    "chained": "FaultError: told to fail second",
    "eof": "EOFError",
    "broken pipe": "BrokenPipeError",
    "interrupt": "KeyboardInterrupt",
    "generator exit": "GeneratorExit",
    "exit": "SystemExit: 3",
}
DEATHS = {
    "kill": "killed by SIGKILL",
    "vanish": "exited with code 3",
    "segfault": "killed by SIGSEGV",
    "abort": "killed by SIGABRT",
    "bus error": "killed by SIGBUS",
}
STANDSTILLS = ("hang", "spin", "freeze", "stop")
LIES = {
    "observation shape": "observation",
    "observation none": "observation",
    "reward none": "reward is None",
    "reward array": "reward",
    "done array": "done",
    "info dict": "env_info",
    "three parts": "step returned 3 values",
}
IGNORED = ("SIGTERM", "SIGINT", "SIGUSR1")  # workers go on
FROM_OUTSIDE = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGSTOP", *IGNORED)
# Kinds of faults, and how often each is drawn.
KINDS = {
    "exception": 25,
    "death": 20,
    "standstill": 12,
    "wrong step": 8,
    "signal": 14,
    "two at once": 4,
    "agent": 5,
    "ctrl-c": 5,
    "no fault": 4,
    "killed program": 2,
    "stopped training": 1,
}
TIMEOUT_S = 2.0
START_S = {"forkserver": 10.0, "fork": 5.0, "spawn": 40.0}  # on a busy machine


@dataclass(frozen=True)
class Trial:
    """One sampler and one fault."""

    kind: str
    fault: str
    where: str
    at: int
    layout: str
    n_workers: int
    rows: int  # environments per worker
    T: int
    method: str
    evaluation: bool
    victim: int  # number among the environments, or worker
    delay_s: float

    @property
    def SamplerCls(self) -> Any:
        """Return the sampler class of the layout."""
        return LAYOUTS[self.layout]

    def run(self) -> "Found":
        """Run the sampler, inject the fault and return what was found."""
        return run_trial(self)

    def __str__(self) -> str:
        evaluation = " of evaluation" if self.evaluation else ""
        return (
            f"{self.kind}: {self.fault} in {self.where} {self.at}{evaluation}, {self.layout}, "
            f"{self.n_workers} x {self.rows} environments, T={self.T}, {self.method}"
        )


class Announce(Hook):
    """Prints "ready" once a run has started, for ``run_program``."""

    def on_start(self, runner: Any) -> None:
        """Print "ready"."""
        print("ready", flush=True)


class Found(NamedTuple):
    """Result of a trial: error, its delay and a complaint."""

    seconds: float = 0.0  # from the fault, or the beginning of the call in which it is, on
    error: str = ""
    complaint: str = ""  # about the error
    allowance_s: float = 0.0  # that the fault has to be waited for


def draw_trial(rng: random.Random, kind: str) -> Trial:
    """Draw a trial of a kind."""
    faults, wheres = {
        "exception": (list(EXCEPTIONS), ["init", "reset", "step", "step"]),
        "death": (list(DEATHS), ["init", "reset", "step", "step"]),
        "standstill": (list(STANDSTILLS), ["reset", "step", "step"]),
        "wrong step": (list(LIES), ["step"]),
        "signal": (list(FROM_OUTSIDE), ["outside"]),
        "two at once": (["kill"], ["outside"]),
        "agent": (["agent"], ["master"]),
        "ctrl-c": (["ctrl-c"], ["master"]),
        "no fault": (["thread", "program", "none"], ["init"]),
        "killed program": (["none", "freeze", "hang"], ["step"]),
        "stopped training": (["none"], ["step"]),
    }[kind]
    if kind == "no fault" and rng.random() < 0.5:
        faults, wheres = ["raise", "exit", "hang", "kill"], ["close"]
    layout = rng.choice(list(LAYOUTS))
    if kind == "agent":
        layout = rng.choice(["gpu", "alternating", "no-overlap"])
    n_workers = rng.randint(1, 4) if LAYOUTS[layout].layout.groups == 1 else rng.choice([2, 4])
    rows, where = rng.randint(1, 3), rng.choice(wheres)
    return Trial(
        kind=kind,
        fault=rng.choice(faults),
        where=where,
        at=rng.randint(1, {"step": 40, "reset": 3, "master": 20}.get(where, 1)),
        layout=layout,
        n_workers=n_workers,
        rows=rows,
        T=rng.randint(1, 20),
        method=rng.choices(["forkserver", "fork", "spawn"], [80, 14, 6])[0],
        evaluation=kind in ("exception", "death", "standstill") and rng.random() < 0.2,
        victim=rng.randrange(n_workers * rows),
        delay_s=rng.uniform(0, 0.6),
    )


def small_agent() -> Any:
    """Construct a small agent for `FaultyEnv`."""
    return agent_for(FaultyEnv("none").spaces)


def sampler_of(trial: Trial, directory: Path) -> Any:
    """Construct the sampler of a trial."""
    faulty = dict(fault=trial.fault, where=trial.where, at=trial.at, hang_s=1000.5)
    healthy = dict(fault="none")
    if trial.where not in ("init", "reset", "step", "close"):
        faulty = healthy
    if trial.evaluation:
        faulty.update(tally=str(directory / "tally"), victim=trial.victim % trial.n_workers)
    elif trial.kind not in ("wrong step", "no fault"):  # those are of all environments
        faulty.update(tally=str(directory / "tally"), victim=1 + trial.victim)
    if trial.kind == "wrong step":  # not of the first that is tried out
        faulty.update(at=trial.at + 1)
    sampler = trial.SamplerCls(
        FaultyEnv,
        healthy if trial.evaluation else faulty,
        batch_T=trial.T,
        batch_B=trial.n_workers * trial.rows,
        max_decorrelation_steps=0,
        eval_n_envs=trial.n_workers if trial.evaluation else 0,
        eval_max_steps=trial.n_workers * 100,
        eval_env_kwargs=faulty if trial.evaluation else None,
        env_timeout=TIMEOUT_S,
        reset_timeout=TIMEOUT_S,
    )
    sampler.start_method = trial.method
    return sampler


def run_trial(trial: Trial) -> Found:
    """Run the sampler, inject the fault and return what was found."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        if trial.kind in ("killed program", "stopped training"):
            code = PROGRAM.format(trial=trial, directory=directory)
            stop = trial.kind == "stopped training"
            return run_program(code, stop, trial.delay_s, allowance_s=10.0 * stop)
        return _run_here(trial, sampler_of(trial, Path(directory)))


def _run_here(trial: Trial, sampler: Any) -> Found:
    agent = small_agent()
    if trial.kind == "agent":
        _let_fail(agent, trial.at)
    error: BaseException | None = None
    began = time.monotonic()
    allowance = START_S[trial.method]
    try:
        sampler.initialize(agent, affinity=dict(n_workers=trial.n_workers), seed=1)
        allowance = TIMEOUT_S if trial.kind == "standstill" or trial.fault == "SIGSTOP" else 0.0
        with _from_outside(trial, sampler):
            for itr in range(100 if trial.where in ("outside", "master") else 60):
                began = time.monotonic()
                sampler.obtain_samples(itr)
                if trial.evaluation:
                    sampler.evaluate_agent(itr)
                if trial.where == "outside" or trial.kind == "ctrl-c":
                    time.sleep(0.01)
                if trial.kind == "no fault" and itr > 3:
                    break
    except (Exception, KeyboardInterrupt) as caught:
        error = caught
    took = time.monotonic() - began
    sampler.shutdown()
    sampler.shutdown()
    found = Found(took, str(error or ""), _complaint(trial, error), allowance)
    let_go(error)
    return found


def let_go(error: BaseException | None) -> None:
    """Drop references from an error's frames, so that they do not look like leaks."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _let_fail(agent: Any, at: int) -> None:
    calls = iter(range(at - 1))
    step = agent.step

    def fail(*inputs: Any) -> Any:
        next(calls)
        return step(*inputs)

    def fail_in_time(*inputs: Any) -> Any:
        try:
            return fail(*inputs)
        except StopIteration:
            raise ZeroDivisionError("the agent is lost") from None

    agent.step, agent.fast_policy = fail_in_time, lambda: None


@contextlib.contextmanager
def _from_outside(trial: Trial, sampler: Any) -> Iterator[None]:
    """Send a signal to workers, or to this process, after a delay."""
    pids = [worker.pid for worker in sampler.workers]
    chosen = trial.victim % len(pids)
    number = signal.Signals[trial.fault] if trial.kind == "signal" else signal.SIGKILL
    targets = pids[chosen : chosen + 1]
    if trial.kind == "two at once":
        targets = pids[:2]
    if trial.kind == "ctrl-c":
        targets, number = [os.getpid()], signal.SIGINT
    if trial.where != "outside" and trial.kind != "ctrl-c":
        targets = []

    def strike() -> None:
        for pid in targets:
            os.kill(pid, number)

    timer = threading.Timer(trial.delay_s, strike)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def _complaint(trial: Trial, error: BaseException | None) -> str:
    """Return what is wrong with the error, or an empty text."""
    healthy = trial.kind == "no fault" or trial.fault in IGNORED
    if error is None or healthy:
        return "" if (error is None) == healthy else f"unexpected: {error!r:.300}"
    if trial.kind == "agent":
        return "" if isinstance(error, ZeroDivisionError) else f"{error!r:.300}"
    if trial.kind == "ctrl-c":
        return "" if type(error) is KeyboardInterrupt else f"{error!r:.300}"
    still = trial.kind == "standstill" or trial.fault == "SIGSTOP"
    if type(error) is not (WorkerTimeout if still else WorkerError):
        return f"{error!r:.300}"
    said = {**EXCEPTIONS, **DEATHS, **LIES}.get(trial.fault, "no progress for 2 s")
    if trial.kind in ("signal", "two at once") and not still:
        said = f"killed by {'SIGKILL' if trial.kind == 'two at once' else trial.fault}"
    expected = [
        rf"^worker {error.worker} \(pid {error.pid} on {re.escape(socket.gethostname())}\)",
        re.escape(said),
        r"FaultyEnv\(fault=",
        rf"iteration {error.itr}\b|before the first iteration",
    ]
    if trial.where in ("init", "reset", "step"):
        doing = {"init": "building", "reset": "resetting", "step": "stepping"}[trial.where]
        kind = "evaluation environment" if trial.evaluation else "environment"
        expected += [rf"while {doing} {kind} {error.env_index}\b", rf"seed {error.seed}\b"]
    if trial.where == "step" and not trial.evaluation:
        expected += [rf"step {error.step} of the batch; last action \d"]
    if trial.kind == "exception":
        expected += ["In the worker:\nTraceback"]
    if trial.fault in ("segfault", "abort", "bus error", "hang", "spin", "freeze"):
        expected += ["Python stacks of the worker:", r"faulty\.py"]
    missing = [pattern for pattern in expected if not re.search(pattern, str(error))]
    return f"missing {missing} in: {error!s:.600}" if missing else ""


PROGRAM = """
import sys, tempfile
from tests.soak.chaos_trials import *
from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.utils.logging.context import run_context

trial, directory = {trial!r}, Path({directory!r})
sampler = sampler_of(trial, directory)
if trial.kind == "killed program":
    sampler.env_timeout = 1000.0
    sampler.initialize(small_agent(), affinity=dict(n_workers=trial.n_workers), seed=1)
    print("ready", flush=True)
    for itr in range(10**9):
        sampler.obtain_samples(itr)

with run_context(directory / "run", 0, "chaos"):
    MinibatchRl(
        algo=PPO(minibatches=1), agent=small_agent(), sampler=sampler, n_steps=10**9, seed=1,
        affinity=dict(n_workers=trial.n_workers), hooks=[Announce()],
    ).train()
"""


def run_program(code: str, stop: bool, delay_s: float, allowance_s: float) -> Found:
    """Run a program, kill it or stop it by Ctrl-C, and check that its processes end.

    Args:
        code: of the program; it prints "ready".
        stop: whether it is stopped.
        delay_s: until then, from when it is ready.
        allowance_s: that it may take to end, beside the bound of all trials.
    """
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for line in program.stdout:  # type: ignore[union-attr]
            if line == "ready\n":
                break
        time.sleep(delay_s)
        family = psutil.Process(program.pid).children(recursive=True)
        os.killpg(program.pid, signal.SIGINT) if stop else program.kill()
        began = time.monotonic()
        out, err = program.communicate(timeout=60)
        psutil.wait_procs(family, timeout=10)
        took = time.monotonic() - began
        left = [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        complaint = f"still there: {left}" if left else ""
        if stop and (program.returncode != 130 or out.count("Stopped by signal") != 1):
            complaint += f"exit code {program.returncode}, said {out[-300:]!r}"
        if "Traceback" in err or "leaked" in err:
            complaint += f"said {err[-500:]!r}"
        return Found(took, "", complaint, allowance_s)
    finally:
        program.kill()
        program.communicate()
