"""Measure contenders in turn, and say how fast each was.

Absolute figures drift with the phase of the machine, so contenders take turns, A B C A B C, each
for a short window: what is compared was measured within the same minutes. Every contender lives
in a process of its own, started by spawn with its thread count in the environment; between its
windows it waits on a pipe and takes no processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import psutil

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PATIENCE_S = 300.0  # beyond a window's length; starting may include compilation
QUIET = 0.05  # share of the cores that others may use; beyond it no table is written
LIBRARIES = ("torch", "numpy", "gymnasium", "ale-py", "stable-baselines3")


class Progress(NamedTuple):
    """What one batch of a workload did."""

    steps: int  # agent steps; Atari frame skip not multiplied
    return_: float | None  # mean over the last 100 finished episodes, None before the first


Workload = Iterator[Progress]  # one `next` is one batch; `close` releases what it holds


@dataclasses.dataclass(frozen=True)
class Contender:
    """One row of a table: a name, and how to build the workload in the contender's process."""

    name: str
    build: Callable[..., Workload]  # a module-level function, so that it travels to spawn
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    threads: int = 1  # torch threads of the contender's main process
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Setting:
    """Contenders doing the same work; the first one is what the others are compared with."""

    name: str
    contenders: tuple[Contender, ...]
    target_return: float | None = None  # report the steps after which the mean return was this


def turns(starts: int, iteration: int) -> Iterator[int]:
    """Steps of each turn of a workload that learns after ``starts`` steps.

    The first turn, the warm-up, takes in the first updates, so what these have to compile does not
    fall into a window.
    """
    yield (starts // iteration + 2) * iteration
    yield from itertools.repeat(iteration)


@dataclasses.dataclass
class Row:
    """What was measured of one contender in one setting."""

    setting: str
    contender: str
    threads: int
    note: str
    rates: list[float] = dataclasses.field(default_factory=list)  # agent steps per second
    start_s: float | None = None  # building the workload and its first batch, compilation included
    total_steps: int = 0
    return_: float | None = None
    target_return: float | None = None
    steps_to_target: int | None = None
    ratio: float | None = None  # of medians, to the first contender of the setting
    disturbance: float = 0.0  # share of all cores used by processes that are not contenders
    problem: str = ""  # why nothing was measured


class Measured(NamedTuple):
    """Answer of a contender's process to one command."""

    steps: int
    seconds: float
    total_steps: int
    return_: float | None
    steps_to_target: int | None


class ContenderFailed(RuntimeError):
    """A contender could not be built, raised in a window, or its process died."""


class ContenderProcess:
    """A contender in a process of its own, measured one window at a time."""

    def __init__(self, contender: Contender, target_return: float | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        # Not a daemon: a contender may have worker processes of its own.
        self._process = context.Process(target=_serve, args=(theirs, contender, target_return))
        with _environment({name: str(contender.threads) for name in THREAD_VARIABLES}):
            self._process.start()
        theirs.close()

    def measure(self, seconds: float) -> Measured:
        """Run whole batches for at least ``seconds``; 0 means one batch, the warm-up.

        Raises:
            ContenderFailed: with the contender's own message.
        """
        with contextlib.suppress(BrokenPipeError):  # it died waiting; its last words are read below
            self._connection.send(seconds)
        if not wait([self._connection, self._process.sentinel], seconds + PATIENCE_S):
            self._process.kill()
            raise ContenderFailed(f"no answer within {seconds + PATIENCE_S:g} s")
        try:
            answer: Measured | str = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            failed = f"process ended with exit code {self._process.exitcode}"
            raise ContenderFailed(failed) from None
        if isinstance(answer, str):
            raise ContenderFailed(answer)
        return answer

    def close(self, grace_s: float = 20.0) -> None:
        """Ask the contender to release everything and end; kill it if it does not."""
        self._connection.close()
        self._process.join(grace_s)
        if self._process.is_alive():
            print("a contender did not end by itself; killed", file=sys.stderr)
            self._process.kill()
            self._process.join()


class OtherLoad:
    """Share of all cores that other processes, or other virtual machines, use from now on."""

    def __init__(self) -> None:
        self._start = self._read()

    def share(self) -> float:
        """Return the share between 0 and 1; this process and its descendants do not count."""
        elapsed, others = (now - then for now, then in zip(self._read(), self._start, strict=True))
        return max(0.0, others / (elapsed * (os.cpu_count() or 1)))

    @staticmethod
    def _read() -> tuple[float, float]:
        """Return wall time and the processor time that others have used, in seconds."""
        total = psutil.cpu_times()
        busy = sum(total) - total.idle - getattr(total, "iowait", 0.0)
        busy -= getattr(total, "guest", 0.0) + getattr(total, "guest_nice", 0.0)  # within user
        own = 0.0
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                own += sum(process.cpu_times()[:4])  # user, system, and those of reaped children
        return time.perf_counter(), busy - own


def measure_setting(setting: Setting, windows: int, seconds: float) -> list[Row]:
    """Measure every contender of a setting, in turn, ``windows`` times for ``seconds`` each."""
    rows = [
        Row(setting.name, c.name, c.threads, c.note, target_return=setting.target_return)
        for c in setting.contenders
    ]
    running: list[tuple[Row, ContenderProcess]] = []
    try:
        for row, contender in zip(rows, setting.contenders, strict=True):
            process = ContenderProcess(contender, setting.target_return)
            running.append((row, process))
            warm_up = _measure_into(row, process, 0)
            row.start_s = warm_up.seconds if warm_up else None
        load = OtherLoad()
        for window in range(windows):
            for row, process in running:
                if row.problem:
                    continue
                measured = _measure_into(row, process, seconds)
                if measured:
                    row.rates.append(measured.steps / measured.seconds)
                    _say(f"{setting.name} | window {window + 1}/{windows} | {row.contender}: "
                         f"{row.rates[-1]:,.0f} steps/s")  # fmt: skip
        for row in rows:
            row.disturbance = load.share()
    finally:
        for _, process in running:
            process.close()
    if rows[0].rates:
        for row in rows:
            if row.rates:
                row.ratio = statistics.median(row.rates) / statistics.median(rows[0].rates)
    return rows


def markdown_table(rows: Sequence[Row]) -> str:
    """One line per row; a contender without a measurement says why under the table."""
    with_returns = any(row.target_return is not None for row in rows)
    head = ["setting", "contender", "threads", "median steps/s", "min", "max", "ratio", "start s"]
    head += ["steps in all", "return", "target", "reached after"] if with_returns else []
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)]]
    for row in rows:
        if not row.rates:
            continue
        line = [row.setting, row.contender, str(row.threads)]
        line += [_number(f(row.rates)) for f in (statistics.median, min, max)]
        line.append("-" if row.ratio is None else f"{row.ratio:.2f}")
        line.append("-" if row.start_s is None else f"{row.start_s:.1f}")
        if with_returns:
            line += [_number(row.total_steps), _number(row.return_)]
            line += [_number(row.target_return), _number(row.steps_to_target)]
        lines.append(line)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = dict.fromkeys(f"{row.contender}: {row.note}" for row in rows if row.note)
    absent = [f"{r.setting}, {r.contender}: not measured, {r.problem}" for r in rows if r.problem]
    return "\n".join([table, "", *(f"- {line}" for line in (*notes, *absent))])


def describe_machine() -> dict[str, Any]:
    """Return commit, processor, cores, load, versions and date, which each result is kept with."""
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            versions[library] = "absent"
    root = Path(__file__).parents[1]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip() or "unknown",
        "date": datetime.date.today().isoformat(),
        "processor": _processor_name(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": platform.platform(),
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def main(
    title: str,
    settings: Mapping[str, Sequence[Setting]],
    seconds: float,
    argv: Sequence[str] | None = None,
) -> list[Row]:
    """Command line shared by the tables: choose, measure, print, write JSON and Markdown.

    Args:
        title: name of the table, and of its files.
        settings: environment name -> settings, in the order measured.
        seconds: length of a window unless told otherwise.
    """
    args = _parse(title, settings, seconds, argv)
    machine = describe_machine()
    rows: list[Row] = []
    for env in settings if args.env == "all" else [args.env]:
        for setting in settings[env]:
            rows += measure_setting(_only(setting, args.only), args.windows, args.seconds)
    publish(
        Path(args.output),
        machine,
        rows,
        f"{args.windows} windows of {args.seconds:g} s each, in turn; ratio of medians to the "
        f"first row of the setting.\n\n{markdown_table(rows)}",
        title=title,
        command=[f"benchmarks.{title}", *sys.argv[1:]],
        windows=args.windows,
        seconds=args.seconds,
    )
    return rows


def publish(
    output: Path, machine: dict[str, Any], rows: Sequence[Row], table: str, **about: Any
) -> None:
    """Print a table under a line on commit and machine; write it and its numbers.

    Args:
        output: the JSON file; the Markdown lies beside it.
        about: further fields of the JSON, such as title and command.

    Raises:
        SystemExit: others used more than 5 % of the cores; nothing is written.
    """
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    disturbance = max(row.disturbance for row in rows)
    report = (
        f"{machine['date']}, commit {machine['commit'][:10]}, {machine['processor']}, "
        f"{machine['cores']} cores, load before {machine['load_before']:.1f}, others used "
        f"{disturbance:.0%} of the cores; {versions}.\n{table}\n"
    )
    print(f"\n{report}")
    if disturbance > QUIET:
        sys.exit(
            f"Nothing written: other processes must use at most {QUIET:.0%} of the cores, "
            f"got {disturbance:.0%}. Stop them and measure again."
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    results = about | {"machine": machine, "rows": [dataclasses.asdict(row) for row in rows]}
    output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    output.with_suffix(".md").write_text(report, encoding="utf-8")
    print(f"written: {output} and {output.with_suffix('.md')}")


def _parse(
    title: str,
    settings: Mapping[str, Sequence[Setting]],
    seconds: float,
    argv: Sequence[str] | None,
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{title}", description=__doc__)
    parser.add_argument("--env", choices=[*settings, "all"], default="all")
    parser.add_argument("--windows", type=int, default=5, help="windows per contender")
    parser.add_argument("--seconds", type=float, default=seconds, help="least length of a window")
    parser.add_argument("--quick", action="store_true", help="two windows of one second")
    parser.add_argument(
        "--only", default="", help="contenders whose name contains this, and the first"
    )
    parser.add_argument(
        "--output", default=f"data/benchmarks/{title}.json", help="the table goes beside it"
    )
    args = parser.parse_args(argv)
    if args.quick:
        args.windows, args.seconds = 2, 1.0
    if args.windows < 1 or args.seconds <= 0:
        parser.error(f"needs --windows >= 1 and --seconds > 0, got {args.windows}, {args.seconds}")
    return args


def _only(setting: Setting, text: str) -> Setting:
    first, *others = setting.contenders
    kept = tuple(c for c in others if text.lower() in c.name.lower())
    return dataclasses.replace(setting, contenders=(first, *kept))


def _serve(connection: Connection, contender: Contender, target_return: float | None) -> None:
    """Main of a contender's process: build, then answer windows until the pipe closes."""
    workload: Any = None
    total_steps = 0
    steps_to_target = None
    try:
        while True:
            seconds = connection.recv()
            start = time.perf_counter()
            if workload is None:
                import torch

                torch.set_num_threads(contender.threads)
                workload = contender.build(**contender.kwargs)
            steps = 0
            while True:
                progress = next(workload)
                steps += progress.steps
                if (
                    target_return is not None
                    and steps_to_target is None
                    and progress.return_ is not None
                    and progress.return_ >= target_return
                ):
                    steps_to_target = total_steps + steps
                elapsed = time.perf_counter() - start
                if elapsed >= seconds:
                    break
            total_steps += steps
            connection.send(
                Measured(steps, elapsed, total_steps, progress.return_, steps_to_target)
            )
    except (EOFError, KeyboardInterrupt):
        pass
    except ImportError as error:
        connection.send(f"needs something not installed: {error}")
    except Exception as error:
        traceback.print_exc()
        connection.send(f"{type(error).__name__}: {error}")
    finally:
        if workload is not None:
            workload.close()


def _measure_into(row: Row, process: ContenderProcess, seconds: float) -> Measured | None:
    try:
        measured = process.measure(seconds)
    except ContenderFailed as failure:
        row.problem = str(failure).splitlines()[0]
        _say(f"{row.setting} | {row.contender}: {row.problem}")
        return None
    row.total_steps, row.return_ = measured.total_steps, measured.return_
    row.steps_to_target = measured.steps_to_target
    return measured


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables for what is started inside, put back after."""
    old = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def _number(value: float | None) -> str:
    return (
        "-"
        if value is None
        else f"{value:,.0f}"
        if isinstance(value, int) or abs(value) >= 100
        else f"{value:,.1f}"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
