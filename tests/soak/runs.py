"""Soak trials of asynchronous runs and of runs of several ranks, which must resume afterwards."""

import os
import random
import re
import time
from pathlib import Path
from typing import Any

import psutil

import rlpyt
from rlpyt.errors import NonFiniteError, RankError, RankTimeout, WorkerError, WorkerTimeout
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv
from tests.soak import trials
from tests.soak.trials import DEATHS, EXCEPTIONS, IGNORED, STANDSTILLS, TIMEOUT_S, Strike

SMALL_DQN = dict(batch_size=16, min_steps_learn=200, replay_size=4000, replay_ratio=2)
FOREVER = 10**6  # iterations
CHECKPOINT_STEPS = 2_000


class RunTrial(trials.Trial):
    """One run with a checkpoint and one fault."""

    learner: str
    T: int

    def runner(self, directory: Path, n_itr: int = FOREVER, **kwargs: Any) -> Any:
        """Construct the run; with ``n_itr``, without its fault."""
        raise NotImplementedError

    def due(self, runner: Any) -> range:
        """Return iterations one of which the checkpoint must be of; empty if none is due."""
        raise NotImplementedError

    def settings(self, directory: Path) -> dict[str, Any]:
        """Return settings of the runner."""
        agent = trials.small_agent()
        if self.learner == "dqn":
            agent = rlpyt.DqnMlpAgent(model_kwargs=dict(hidden_sizes=[16]))
        own = dict(rank_timeout_s=TIMEOUT_S, log_interval_steps=400)
        return dict(agent=agent, seed=1, checkpoint_dir=directory / "checkpoint", **own)

    def play(self, directory: Path, strike: Strike) -> None:
        strike.runner = self.runner(directory, hooks=[strike])
        with run_context(directory / "run", 0, "chaos"):
            strike.runner.train()

    def check(self, directory: Path, error: Any, strike: Strike) -> dict[str, str]:
        """Resume from the checkpoint, if one is due; rows up to it must be kept."""
        if error is None or not (due := self.due(strike.runner)):
            return {}
        try:
            saved = load_checkpoint(directory / "checkpoint").state
            if saved["itr"] not in due:
                return {"checkpoint": f"of iteration {saved['itr']}, not in {due}"}
            steps, _ = trials.logged_steps(directory)
            fed = saved["counters"].get("async", {}).get("feed", {}).get("next_itr", 0)
            n_itr = max(saved["itr"] + 1, fed) + 300 // self.T
            resumed = self.runner(directory, n_itr, resume_from=directory / "checkpoint")
            with run_context(directory / "run", 0, "chaos", resume=True):
                resumed.train()
        except Exception as caught:
            return {"checkpoint": f"{caught!r:.600}"}
        if resumed.itr != n_itr - 1:
            return {"checkpoint": f"the resumed run ended after iteration {resumed.itr}"}
        complaints = trials.wrong_files(directory)
        kept = [x for x in steps if x <= (saved["itr"] + 1) * resumed.cum_steps / n_itr]
        if trials.logged_steps(directory)[0][: len(kept)] != kept:
            complaints["rows"] = f"the resumed run has not kept the rows of steps {kept}"
        return complaints


FROM_OUTSIDE = ("SIGKILL", "SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP", *IGNORED)
WHO = {"worker": "worker", "host": "sampler process", "copier": "replay writer"}
WHO["rank"] = "optimizer rank"
LAYOUTS = {
    "async serial": AsyncSerialSampler,
    "async cpu": AsyncCpuSampler,
    "async gpu": AsyncGpuSampler,
    "async alternating": AsyncAlternatingSampler,
}


class AsyncTrial(RunTrial):
    """One asynchronous run and one fault."""

    KINDS = {
        "async signal": (12, FROM_OUTSIDE),
        "async rank": (3, FROM_OUTSIDE),
        "async environment": (6, (*EXCEPTIONS, *DEATHS, *STANDSTILLS)),
        "async start": (3, ("SIGKILL",)),
        "async killed program": (1, ("none",)),
        "async stopped training": (1, ("none",)),
    }
    ENDS_S = 6.0  # of several groups of processes, after a checkpoint

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__(kind, rng, 4.0 if kind == "async start" else 0.8)
        self.layout = rng.choice(list(LAYOUTS))
        self.learner = "dqn" if kind == "async rank" else rng.choice(["dqn", "vtrace"])
        whom = ["host"] + ["worker"] * (self.layout != "async serial")
        whom += ["copier"] * (self.learner == "dqn")
        self.whom = "rank" if kind == "async rank" else rng.choice(whom)
        self.n_hosts, self.T = rng.choice([1, 1, 2]), rng.randint(1, 20)
        self.method = rng.choices(["forkserver", "fork", "spawn"], [80, 10, 10])[0]
        self.at = rng.randint(1, 60)  # step in which an environment fails
        self.victim = rng.randrange(8)  # an environment, or a process

    @property
    def sampler_cls(self) -> Any:  # type: ignore[override]
        return LAYOUTS[self.layout].SamplerCls

    def runner(self, directory: Path, n_itr: int = FOREVER, **kwargs: Any) -> Any:
        env: dict[str, Any] = dict(fault="none")
        if self.kind == "async environment" and n_itr == FOREVER:
            own = dict(at=self.at, hang_s=1000.5, victim=1 + self.victim)
            env = dict(fault=self.fault, tally=str(directory / "tally"), **own)
        shape = dict(batch_T=self.T, batch_B=8)
        sampler = LAYOUTS[self.layout](FaultyEnv, env, **shape, **trials.SAMPLER)
        sampler.start_method = self.method
        affinity = dict(
            sampler=[dict(n_workers=2) for _ in range(self.n_hosts)],
            optimizer=[dict(torch_threads=1)] * (2 if self.whom == "rank" else 1),
        )
        algo = rlpyt.DQN(**SMALL_DQN) if self.learner == "dqn" else rlpyt.VTrace()
        own = dict(algo=algo, sampler=sampler, n_steps=n_itr * self.T * 8, affinity=affinity)
        return rlpyt.AsyncRl(**own, **self.settings(directory), **kwargs)

    def play(self, directory: Path, strike: Strike) -> None:
        def find() -> list[int]:
            pids = strike.new_processes()
            return [pids[self.victim % len(pids)]] if pids else []

        strike.extra_s = 10.0 if self.fault in IGNORED else 0.0
        if self.kind == "async start":  # strikes whatever is there after the delay
            strike.extra_s = trials.START_S[self.method]
            strike.arm(find, self.fault)
        super().play(directory, strike)

    def on_start(self, runner: Any, strike: Strike) -> None:
        if self.kind in ("async signal", "async rank"):
            strike.arm(lambda: self._find(runner, strike), self.fault)

    def _find(self, runner: Any, strike: Strike) -> list[int]:
        """Return the process to strike, and note its name."""
        number = {"copier": 0, "rank": 1}.get(self.whom, self.victim % self.n_hosts)
        strike.who = f"{WHO[self.whom]} {number}"
        if self.whom == "copier":
            return [process.pid for process in runner._replay_writer.processes]
        if self.whom == "rank":
            return [process.pid for process in runner.optimizers._children.processes]
        pid: int = runner.sampler.processes[number].pid
        if self.whom == "host":
            return [pid]
        strike.who = "worker"
        family = psutil.Process(pid).children(recursive=True)
        tracks = [p for p in family if any("resource_tracker" in x for x in p.cmdline())]
        workers = [p for p in family if not p.children() and p not in tracks]
        return [workers[self.victim % len(workers)].pid] if workers else []

    def on_iteration(self, runner: Any, itr: int, strike: Strike) -> None:
        """Stop a run that nothing else stops."""
        seconds = time.monotonic() - strike.began
        if (self.fault in IGNORED and seconds > 2) or (self.kind == "async start" and seconds > 10):
            runner.request_stop()

    @property
    def errors(self) -> tuple[type | None, ...]:
        if self.fault in IGNORED:
            return (None,)
        if self.kind == "async start":
            return (None, WorkerError, WorkerTimeout)
        return (WorkerTimeout if self.still else WorkerError,)

    def patterns(self, error: Any, strike: Strike) -> list[str]:
        if self.kind == "async start":
            return []
        expected = [rf"^{strike.who or '(sampler process|worker) [0-9]'}", r"\(pid [0-9]+ on "]
        if self.kind == "async environment":
            said = {**EXCEPTIONS, **DEATHS}.get(self.fault, "no progress for")
            expected += [re.escape(said), r"FaultyEnv\(fault=", rf"iteration {error.itr}\b"]
            expected += [r"while stepping environment [0-9]", r"seed [0-9]"]
            expected += ["Traceback"] * (self.fault in EXCEPTIONS)
        elif not self.still:
            expected.append(f"killed by {self.fault}")
        if self.whom == "worker" and self.kind == "async signal":
            expected.append(r"It is a worker of sampler process [01] \(pid")
        return expected

    def due(self, runner: Any) -> range:
        return range(max(runner.trained_itr, 0), runner.trained_itr + 1)


class Failing:
    """Mixin of algorithms: one rank fails in one iteration."""

    rank: int
    trial: "RankTrial | None" = None

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: Any = None) -> Any:
        """Fail, or optimize as the algorithm does."""
        trial = self.trial
        if trial is not None and (itr, self.rank) == (trial.at, trial.victim):
            if trial.fault == "raise":
                raise ZeroDivisionError("told to fail")
            if trial.fault == "exit":
                os._exit(3)
            if trial.fault == "hang":
                time.sleep(1000.5)
            if trial.fault == "nan":
                samples.env.reward[:] = float("nan")
        return super().optimize_agent(itr, samples, sampler_itr)  # type: ignore[misc]


class FailingA2C(Failing, rlpyt.A2C):  # type: ignore[misc]
    """A2C with a failing rank."""


class FailingDQN(Failing, rlpyt.DQN):  # type: ignore[misc]
    """DQN with a failing rank."""


class RankTrial(RunTrial):
    """One run of several ranks and one fault."""

    KINDS = {
        "ranks signal": (4, ("SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP")),
        "ranks failure": (4, ("raise", "nan", "exit", "hang")),
        "ranks killed program": (1, ("none",)),
    }
    ENDS_S = 8.0  # for signs of life to be missed, ranks to part and rank 0 to save

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__(kind, rng)
        self.n, self.T = rng.choice([2, 2, 3]), rng.randint(2, 20)  # n: ranks
        self.learner = "a2c" if self.fault == "nan" else rng.choice(["a2c", "dqn"])
        from_outside = kind != "ranks failure" or self.fault == "exit"
        self.victim = rng.randrange(int(from_outside), self.n)  # rank 0 is this process
        self.at = rng.randint(1, 30)  # iteration
        self.workers = rng.random() < 0.3  # whether ranks have workers

    @property
    def sampler_cls(self) -> Any:  # type: ignore[override]
        return rlpyt.CpuSampler if self.workers else rlpyt.SerialSampler

    def runner(self, directory: Path, n_itr: int = FOREVER, **kwargs: Any) -> Any:
        algo = FailingA2C() if self.learner == "a2c" else FailingDQN(**SMALL_DQN)
        if self.kind == "ranks failure" and n_itr == FOREVER:
            algo.trial = self
        return rlpyt.SyncRl(
            algo=algo,
            sampler=self.sampler_cls(FaultyEnv, dict(fault="none"), batch_T=self.T, batch_B=4),
            n_steps=n_itr * self.T * 4 * self.n,
            affinity=[dict(n_workers=1, master_torch_threads=1)] * self.n,
            start_timeout_s=60.0,
            checkpoint_interval_steps=CHECKPOINT_STEPS,
            **self.settings(directory),
            **kwargs,
        )

    def on_start(self, runner: Any, strike: Strike) -> None:
        if self.kind == "ranks signal" and not self.still:
            self._arm(runner, strike)

    def on_iteration(self, runner: Any, itr: int, strike: Strike) -> None:
        if self.kind == "ranks failure":  # needs no signal
            strike.restart_clock()
        elif self.still and itr == 1:  # start_timeout_s applies until the first one's end
            self._arm(runner, strike)

    def _arm(self, runner: Any, strike: Strike) -> None:
        pid = runner._processes.processes[self.victim - 1].pid
        strike.arm(lambda: [pid], self.fault)

    @property
    def errors(self) -> tuple[type | None, ...]:
        own = {"raise": ZeroDivisionError, "nan": NonFiniteError}
        if self.victim == 0 and self.fault in own:  # of this process's rank
            return (own[self.fault],)
        return (RankTimeout if self.still else RankError,)

    def patterns(self, error: Any, strike: Strike) -> list[str]:
        if not isinstance(error, RankError):
            return [rf"(?m)^\(in rank 0 of {self.n}\)$"]
        said = {
            "raise": "ZeroDivisionError: told to fail",
            "nan": "NonFiniteError",
            "exit": "exited with code 3",
            "hang": "kept the others waiting",
            "SIGSTOP": "kept the others waiting",
        }.get(self.fault, f"killed by {self.fault}")
        return [rf"^rank {self.victim} of {self.n} \(pid \d+ on ", said]

    def due(self, runner: Any) -> range:
        interval = CHECKPOINT_STEPS / (self.T * 4 * self.n)  # iterations
        is_due = runner.itr - 1 >= interval
        return range(max(0, int(runner.itr - 2 - interval)), runner.itr + 1) if is_due else range(0)
