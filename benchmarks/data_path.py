"""Trace the way of the data: `python -m benchmarks.data_path`, or with `--list ppo`.

`--write` puts the way of PPO into docs/architecture.md.

A profiler records every Python function of the package that is entered in one iteration in
steady state, from its first environment step to its first optimizer step. Four environments x 32
steps and networks with two layers of 64 units; SAC and DQN: one step and one update an iteration.
With worker processes, a worker records its own iteration, and the main process begins where it
asks for the batch. Stable-Baselines3 is measured in the same way where it is installed.

    files, functions     distinct ones that were entered
    calls a step         calls from one environment step to the next
    calls an update      calls from one optimizer step to the next
    calls an iteration   calls from one iteration's first environment step to the next one's
    frames               functions of the package on the stack at `env.step`, `optimizer.step`
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import gymnasium
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

B, T = 4, 32
TRACED = 20  # iterations before the traced one; checks of the first ones are over
ENV_STEP, OPTIMIZER_STEP = "env.step", "optimizer.step"
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
BLOCK = re.compile(
    r"(?<=<!-- way of a batch -->\n\n```text\n).*?(?=```\n\n<!-- end of way)", re.DOTALL
)
OUT = "DATA_PATH_OUT"  # environment variable: where worker processes save their traces


@dataclasses.dataclass(frozen=True)
class Call:
    """Entry of a function, or a mark where ``file`` is empty."""

    depth: int  # functions of the package below it on the stack
    file: str  # relative to the package
    function: str


@dataclasses.dataclass
class Trace:
    """Calls of one process, in order, and the package's stack when recording began."""

    stack: list[Call]
    calls: list[Call] = dataclasses.field(default_factory=list)

    def marks(self, name: str) -> list[int]:
        """Return the positions of a mark in ``calls``."""
        return [i for i, call in enumerate(self.calls) if not call.file and call.function == name]

    def way(self) -> list[Call]:
        """Return the calls up to the first optimizer step, or all where there is none."""
        end = next(iter(self.marks(OPTIMIZER_STEP)), len(self.calls))
        return [call for call in self.calls[:end] if call.file]

    def between(self, name: str) -> float | None:
        """Return the mean number of calls from one mark to the next, None without two."""
        marks = self.marks(name)
        if len(marks) < 2:
            return None
        calls = sum(bool(call.file) for call in self.calls[marks[0] : marks[-1]])
        return calls / (len(marks) - 1)

    def frames(self, name: str) -> int:
        """Return the number of functions on the stack at the first such mark."""
        return self.calls[self.marks(name)[0]].depth


class Tracer:
    """Record calls of functions in the files of a package."""

    def __init__(self, package: str) -> None:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        self.root = str(Path(spec.origin).parent) + os.sep
        self.trace: Trace | None = None
        self._depth = 0

    def start(self) -> None:
        """Begin to record."""
        stack: list[Call] = []
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if self._of_package(frame.f_code):
                stack.append(self._call(frame.f_code))
            frame = frame.f_back
        stack = [dataclasses.replace(call, depth=i) for i, call in enumerate(reversed(stack))]
        self._depth = len(stack)
        self.trace = Trace(stack)
        sys.setprofile(self._on_event)

    def mark(self, name: str) -> None:
        """Record a mark, if recording."""
        if self.trace is not None:
            self.trace.calls.append(Call(self._depth, "", name))

    def stop(self) -> Trace:
        """End recording and return the trace."""
        sys.setprofile(None)
        assert self.trace is not None
        trace, self.trace = self.trace, None
        return trace

    def _on_event(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and self._of_package(frame.f_code):
            self.trace.calls.append(self._call(frame.f_code))  # type: ignore[union-attr]
            self._depth += 1
        elif event == "return" and self._of_package(frame.f_code):
            self._depth -= 1

    def _of_package(self, code: CodeType) -> bool:
        return code.co_filename.startswith(self.root)

    def _call(self, code: CodeType) -> Call:
        name = code.co_qualname.replace("<locals>.", "")
        return Call(self._depth, code.co_filename.removeprefix(self.root), name)


class Clock:
    """Decide when an iteration is traced, in the process of the environments.

    Args:
        tracer: records the iteration.
        batch_T: steps of every environment in an iteration.
        save: receives the trace at the first step of the following iteration.
    """

    def __init__(self, tracer: Tracer, batch_T: int, save: Callable[[Trace], None]) -> None:
        self.tracer, self.batch_T, self.save = tracer, batch_T, save
        self._n_steps: dict[int, int] = {}  # by environment

    def on_env_step(self, env: int) -> None:
        """Count an environment step; start and stop recording."""
        counts = self._n_steps
        # An environment may have made one step more, as an example.
        all_made = min((n for n in counts.values() if n > 1), default=0)
        if self.tracer.trace is None and all_made == TRACED * self.batch_T:
            self.tracer.start()
        elif self.tracer.trace is not None and all_made == (TRACED + 1) * self.batch_T:
            self.save(self.tracer.stop())
        self.tracer.mark(ENV_STEP)
        counts[env] = counts.get(env, 0) + 1


CLOCKS: list[Clock] = []  # that of this process, if it steps environments


class Marked(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Tell the tracer of each step."""

    def step(self, action: Any) -> Any:
        """Step the environment."""
        CLOCKS[0].on_env_step(id(self))
        return self.env.step(action)


def marked(env: str) -> gymnasium.Env[Any, Any]:
    """Make an environment; in a worker process with a tracer of its own."""
    if not CLOCKS:
        out = Path(os.environ[OUT]) / f"{os.getpid()}.json"
        CLOCKS.append(Clock(Tracer("rlpyt"), T, functools.partial(_save, out)))
    return Marked(gymnasium.make(env).unwrapped)


def _save(path: Path, trace: Trace) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(dataclasses.asdict(trace)))
    temporary.rename(path)


def _load(path: Path) -> Trace:
    saved = json.loads(path.read_text())
    return Trace(*([Call(**call) for call in saved[key]] for key in ("stack", "calls")))


def rlpyt(algo: str, n_workers: int = 0, served: bool = False) -> list[Trace]:
    """Trace an algorithm: the main process, then a worker if there are any."""
    from rlpyt.agents.dqn.vector import DqnMlpAgent
    from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent
    from rlpyt.agents.qpg.sac_agent import SacAgent
    from rlpyt.algos.dqn.dqn import DQN
    from rlpyt.algos.pg.ppo import PPO
    from rlpyt.algos.qpg.sac import SAC
    from rlpyt.runners.minibatch_rl import MinibatchRl
    from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
    from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
    from rlpyt.samplers.serial.sampler import SerialSampler

    sizes = [64, 64]
    on_policy = algo in ("ppo", "lstm")
    batch_T, batch_B = (T, B) if on_policy else (1, 1)
    one: dict[str, Any] = dict(batch_size=32, replay_ratio=32, min_steps_learn=4, replay_size=1000)
    algorithms: dict[str, Callable[[], Any]] = {
        "ppo": lambda: PPO(minibatches=4, epochs=4),
        "lstm": lambda: PPO(minibatches=4, epochs=4),
        "sac": lambda: SAC(**one),
        "dqn": lambda: DQN(**one),
    }
    agents: dict[str, Callable[[], Any]] = {
        "ppo": lambda: CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=sizes)),
        "lstm": lambda: CategoricalLstmAgent(model_kwargs=dict(hidden_sizes=sizes)),
        "sac": lambda: SacAgent(
            model_kwargs=dict(hidden_sizes=sizes), q_model_kwargs=dict(hidden_sizes=sizes)
        ),
        "dqn": lambda: DqnMlpAgent(model_kwargs=dict(hidden_sizes=sizes)),
    }
    env = "Pendulum-v1" if algo == "sac" else "CartPole-v1"
    sampler = (GpuSampler if served else CpuSampler if n_workers else SerialSampler)(
        EnvCls=marked,
        env_kwargs=dict(env=env),
        batch_T=batch_T,
        batch_B=batch_B,
        max_decorrelation_steps=0,
    )
    traces: list[Trace] = []
    tracer = Tracer("rlpyt")
    runner = MinibatchRl(
        algo=algorithms[algo](),
        agent=agents[algo](),
        sampler=sampler,
        n_steps=(TRACED + 4) * batch_T * batch_B,
        seed=0,
        affinity=dict(workers_cpus=[0] * n_workers, set_affinity=False),
        log_interval_steps=10**6,
    )
    if n_workers:
        obtain_samples = sampler.obtain_samples

        def from_here(itr: int) -> Any:
            if itr == TRACED:
                tracer.start()
            elif itr == TRACED + 1:
                traces.append(tracer.stop())
            return obtain_samples(itr)

        sampler.obtain_samples = from_here  # type: ignore[method-assign]
    else:
        CLOCKS[:] = [Clock(tracer, batch_T, traces.append)]
    with _marking(tracer), tempfile.TemporaryDirectory() as out:
        os.environ[OUT] = out
        runner.train()
        traces.extend(_load(path) for path in sorted(Path(out).glob("*.json"))[:1])
    return traces


def stable_baselines3(algo: str) -> list[Trace]:
    """Trace Stable-Baselines3's PPO or SAC."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env

    env = "Pendulum-v1" if algo == "sac" else "CartPole-v1"
    n_envs, n_steps = (1, 1) if algo == "sac" else (B, T)
    traces: list[Trace] = []
    tracer = Tracer("stable_baselines3")
    CLOCKS[:] = [Clock(tracer, n_steps, traces.append)]
    envs = make_vec_env(lambda: marked(env), n_envs=n_envs)
    kwargs = dict(policy="MlpPolicy", env=envs, policy_kwargs=dict(net_arch=[64, 64]), device="cpu")
    model: Any = (
        stable_baselines3.PPO(n_steps=n_steps, batch_size=32, n_epochs=4, **kwargs)
        if algo == "ppo"
        else stable_baselines3.SAC(learning_starts=2, batch_size=32, **kwargs)
    )
    with _marking(tracer):
        model.learn((TRACED + 4) * n_envs * n_steps)
    return traces


@contextlib.contextmanager
def _marking(tracer: Tracer) -> Any:
    """Mark the steps of all optimizers."""
    hook = register_optimizer_step_pre_hook(lambda *args: tracer.mark(OPTIMIZER_STEP))
    try:
        yield
    finally:
        hook.remove()


CASES: dict[str, tuple[str, Callable[[], list[Trace]]]] = {
    "ppo": ("PPO, serial", functools.partial(rlpyt, "ppo")),
    "lstm": ("PPO with an LSTM, serial", functools.partial(rlpyt, "lstm")),
    "served": ("PPO, GpuSampler", functools.partial(rlpyt, "ppo", n_workers=2, served=True)),
    "workers": ("PPO, CpuSampler", functools.partial(rlpyt, "ppo", n_workers=2)),
    "sac": ("SAC, serial", functools.partial(rlpyt, "sac")),
    "dqn": ("DQN, serial", functools.partial(rlpyt, "dqn")),
    "sb3-ppo": ("Stable-Baselines3 PPO", functools.partial(stable_baselines3, "ppo")),
    "sb3-sac": ("Stable-Baselines3 SAC", functools.partial(stable_baselines3, "sac")),
}
COLUMNS = ("files", "functions", "calls a step", "calls an update", "calls an iteration", "frames")


def trace(case: str) -> list[Trace]:
    """Return the traces of a case, measured in this process."""
    torch.set_num_threads(1)
    return CASES[case][1]()


def row(traces: list[Trace]) -> dict[str, str]:
    """Return the figures of a case by column."""
    ways = [call for trace in traces for call in trace.way()]
    main, stepping = traces[0], traces[-1]
    values: tuple[Any, ...] = (
        len({call.file for call in ways}),
        len({(call.file, call.function) for call in ways}),
        stepping.between(ENV_STEP),
        main.between(OPTIMIZER_STEP),
        sum(bool(call.file) for trace in traces for call in trace.calls),
        f"{stepping.frames(ENV_STEP)} + {main.frames(OPTIMIZER_STEP)}",
    )
    return {
        name: "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
        for name, value in zip(COLUMNS, values, strict=True)
    }


def listing(traces: list[Trace]) -> str:
    """Return the way of a case: each function where it is entered first, indented by depth.

    Comprehensions and lambdas are left out.
    """
    lines: list[str] = []
    for trace in traces:
        seen: set[tuple[str, str]] = set()
        end = next(iter(trace.marks(OPTIMIZER_STEP)), len(trace.calls) - 1)
        for call in [*trace.stack, *trace.calls[: end + 1]]:
            if (call.file, call.function) not in seen and not call.function.endswith(">"):
                seen.add((call.file, call.function))
                where = f"  {call.file}" if call.file else ""
                lines.append(f"{'  ' * call.depth}{call.function}{where}")
        lines.append("")
    return "\n".join(lines).rstrip()


def main() -> None:
    """Print the table, or the way of one case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--list", choices=CASES, help="print the way of this case")
    parser.add_argument("--write", action="store_true", help="write that of PPO into the docs")
    args = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as pool:
        if args.list or args.write:
            way = listing(pool.submit(trace, args.list or "ppo").result())
            print(way)
            if args.write:
                text = PAGE.read_text(encoding="utf-8")
                PAGE.write_text(BLOCK.sub(lambda _: way + "\n", text), encoding="utf-8")
            return
        print(f"| | {' | '.join(COLUMNS)} |\n|---|{'--:|' * len(COLUMNS)}")
        for case in args.only:
            if case.startswith("sb3") and importlib.util.find_spec("stable_baselines3") is None:
                continue
            figures = row(pool.submit(trace, case).result())
            print(f"| {CASES[case][0]} | {' | '.join(figures.values())} |", flush=True)


if __name__ == "__main__":
    # By its name, under which worker processes find the functions of this file.
    importlib.import_module("benchmarks.data_path").main()
