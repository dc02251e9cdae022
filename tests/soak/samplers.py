"""Soak trials of samplers: workers of every layout, and Ray's actors, which are restarted."""

import itertools
import os
import random
import re
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np

import rlpyt
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.parallel.gpu.alternating_sampler import NoOverlapAlternatingSampler
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv
from tests.soak import trials
from tests.soak.trials import DEATHS, EXCEPTIONS, IGNORED, LIES, STANDSTILLS, TIMEOUT_S, Strike

LAYOUTS = {
    "cpu": rlpyt.CpuSampler,
    "gpu": rlpyt.GpuSampler,
    "alternating": rlpyt.AlternatingSampler,
    "no-overlap": NoOverlapAlternatingSampler,
}
DOING = {"init": "building", "reset": "resetting", "step": "stepping"}
WHERE = {  # other kinds: outside, in `step`, or in this process
    "exception": ["init", "reset", "step", "step"],
    "death": ["init", "reset", "step", "step"],
    "standstill": ["reset", "step", "step"],
    "signal": ["outside"],
    "two at once": ["outside"],
    "agent": ["master"],
    "ctrl-c": ["master"],
    "harmless": ["init"],
    "close": ["close"],
}


class SamplerTrial(trials.Trial):
    """One sampler and one fault."""

    KINDS = {
        "exception": (25, tuple(EXCEPTIONS)),
        "death": (20, tuple(DEATHS)),
        "standstill": (12, STANDSTILLS),
        "wrong step": (8, tuple(LIES)),
        "signal": (14, ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGSTOP", *IGNORED)),
        "two at once": (4, ("SIGKILL",)),
        "agent": (5, ("agent",)),
        "ctrl-c": (5, ("SIGINT",)),
        "harmless": (2, ("thread", "program", "none")),
        "close": (2, ("raise", "exit", "hang", "kill")),  # which no error reports
        "killed program": (2, ("none", "freeze", "hang")),
        "stopped training": (1, ("none",)),
    }
    STILL_S = TIMEOUT_S

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__(kind, rng, 0.6)
        self.where = rng.choice(WHERE.get(kind, ["step"]))
        self.at = rng.randint(1, {"step": 40, "reset": 3, "master": 20}.get(self.where, 1))
        self.layout = rng.choice([x for x in LAYOUTS if kind != "agent" or x != "cpu"])
        one_group = self.sampler_cls.layout.groups == 1
        self.n_workers = rng.randint(1, 4) if one_group else rng.choice([2, 4])
        self.rows, self.T = rng.randint(1, 3), rng.randint(1, 20)  # rows: environments per worker
        self.method = rng.choices(["forkserver", "fork", "spawn"], [80, 14, 6])[0]
        self.evaluation = kind in ("exception", "death", "standstill") and rng.random() < 0.2
        self.victim = rng.randrange(self.n_workers * self.rows)  # an environment, or a worker

    @property
    def sampler_cls(self) -> Any:  # type: ignore[override]
        return LAYOUTS[self.layout]

    @property
    def control(self) -> bool:
        return self.kind in ("harmless", "ctrl-c") or super().control

    @property
    def still(self) -> bool:
        return super().still and self.where != "close"

    def sampler(self, directory: Path) -> Any:
        """Construct the sampler."""
        healthy: dict[str, Any] = dict(fault="none")
        faulty = healthy
        if self.where in (*DOING, "close"):
            faulty = dict(fault=self.fault, where=self.where, at=self.at, hang_s=1000.5)
        if self.evaluation:
            victim = self.victim % self.n_workers
            faulty = dict(faulty, tally=str(directory / "tally"), victim=victim)
        elif self.kind == "wrong step":  # of all environments, later than the first is tried out
            faulty = dict(faulty, at=self.at + 1)
        elif self.kind not in ("harmless", "close"):  # those are of all environments, too
            faulty = dict(faulty, tally=str(directory / "tally"), victim=1 + self.victim)
        sampler = self.sampler_cls(
            FaultyEnv,
            healthy if self.evaluation else faulty,
            batch_T=self.T,
            batch_B=self.n_workers * self.rows,
            eval_n_envs=self.n_workers if self.evaluation else 0,
            eval_max_steps=self.n_workers * 100,
            eval_env_kwargs=faulty if self.evaluation else None,
            **trials.SAMPLER,
        )
        sampler.start_method = self.method
        if self.kind == "killed program":
            sampler.env_timeout = 1000.0
        return sampler

    def play(self, directory: Path, strike: Strike) -> None:
        agent, sampler = trials.small_agent(), self.sampler(directory)
        affinity = dict(n_workers=self.n_workers)
        if self.kind == "stopped training":
            parts = dict(algo=rlpyt.PPO(minibatches=1), agent=agent, sampler=sampler)
            settings = dict(n_steps=10**9, seed=1, affinity=affinity, hooks=[strike])
            with run_context(directory / "run", 0, "chaos"):
                rlpyt.MinibatchRl(**parts, **settings).train()
        if self.kind == "agent":
            _let_fail(agent, self.at)
        strike.cleanup.callback(sampler.shutdown)
        strike.cleanup.callback(sampler.shutdown)  # again, without effect
        strike.extra_s = trials.START_S[self.method]
        sampler.initialize(agent, affinity=affinity, seed=1)
        strike.extra_s = 0.0
        print("ready", flush=True)  # to the program that kills this one
        pids = [worker.pid for worker in sampler.workers]
        one = self.victim % len(pids)
        targets = {"signal": pids[one : one + 1], "two at once": pids[:2], "ctrl-c": [os.getpid()]}
        if self.kind in targets:
            strike.arm(lambda: targets[self.kind], self.fault)
        n_itr = 100 if self.where in ("outside", "master") else 60
        for itr in range(
            {"harmless": 5, "close": 5, "killed program": 10**9}.get(self.kind, n_itr)
        ):
            strike.restart_clock()
            sampler.obtain_samples(itr)
            if self.evaluation:
                sampler.evaluate_agent(itr)
            if self.kind in targets:
                time.sleep(0.01)

    @property
    def errors(self) -> tuple[type | None, ...]:
        own = {"agent": ZeroDivisionError, "ctrl-c": KeyboardInterrupt}
        if self.kind in own:
            return (own[self.kind],)
        if self.kind in ("harmless", "close") or self.fault in IGNORED:
            return (None,)
        return (WorkerTimeout if self.still else WorkerError,)

    def patterns(self, error: Any, strike: Strike) -> list[str]:
        if self.kind in ("agent", "ctrl-c"):
            return []
        said = {**EXCEPTIONS, **DEATHS, **LIES}.get(self.fault, f"killed by {self.fault}")
        expected = [
            rf"^worker {error.worker} \(pid {error.pid} on {re.escape(socket.gethostname())}\)",
            "no progress for 2 s" if self.still else re.escape(said),
            r"FaultyEnv\(fault=",
            rf"iteration {error.itr}\b|before the first iteration",
        ]
        if self.where in DOING:
            kind = "evaluation environment" if self.evaluation else "environment"
            expected.append(rf"while {DOING[self.where]} {kind} {error.env_index}\b")
            expected.append(rf"seed {error.seed}\b")
        if self.where == "step" and not self.evaluation:
            expected.append(rf"step {error.step} of the batch; last action \d")
        if self.kind == "exception":
            expected.append("In the worker:\nTraceback")
        if self.fault in ("segfault", "abort", "bus error", "hang", "spin", "freeze"):
            expected += ["Python stacks of the worker:", r"faulty\.py"]
        return expected


def _let_fail(agent: Any, at: int) -> None:
    """Let an agent raise in its call number ``at``."""
    step, calls = agent.step, iter(range(at - 1))

    def step_or_fail(*inputs: Any) -> Any:
        if next(calls, None) is None:
            raise ZeroDivisionError("the agent is lost")
        return step(*inputs)

    agent.step, agent.fast_policy = step_or_fail, lambda: None


class ActorTrial(trials.Trial):
    """One sampler on Ray, and a signal to an actor: it is restarted, or named in the error."""

    KINDS = {"ray actor": (3, ("SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP"))}
    ENDS_S = 15.0
    LENGTH = 7  # of an episode
    in_child = True  # Ray keeps processes and files until the program ends

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__(kind, rng)
        self.n, self.T = rng.choice([2, 2, 3]), rng.randint(2, 20)
        self.victim = rng.randrange(self.n)

    def play(self, directory: Path, strike: Strike) -> None:
        sampler = rlpyt.RaySampler(
            FaultyEnv,
            dict(fault="none", length=self.LENGTH, fixed=True),
            batch_T=self.T,
            batch_B=2 * self.n,
            n_actors=self.n,
            ray_init_kwargs=dict(num_cpus=self.n),
            **trials.SAMPLER,
        )
        strike.cleanup.callback(sampler.shutdown)
        sampler.initialize(trials.small_agent(), affinity=dict(n_workers=1), seed=1)
        pid = sampler.workers[self.victim].pid
        strike.arm(lambda: [pid], self.fault)
        for itr in itertools.count():
            strike.restart_clock()
            samples, infos = sampler.obtain_samples(itr)
            steps = samples.env.observation[..., 2].numpy()  # of the episode
            follows = np.where(samples.env.done[:-1].numpy(), 0, steps[:-1] + 1)
            assert (steps[1:] == follows).all(), f"rows do not follow each other: {steps.T}"
            assert all(x.Length == self.LENGTH for x in infos), "a dropped episode is reported"
            if sampler.statistics()["ActorRestarts"]:
                break
        assert sampler.statistics()["DroppedEpisodes"] <= 2, sampler.statistics()

    @property
    def errors(self) -> tuple[type | None, ...]:
        return (WorkerTimeout if self.still else None,)

    def patterns(self, error: Any, strike: Strike) -> list[str]:
        return [f"worker {self.victim} "]
