"""Measure the speed of contenders in turn.

Absolute rates drift with the state of the machine, so contenders take turns, A B C A B C, each for
a short window; compared values are measured within the same minutes. Every contender runs in its
own process, started by spawn with its number of threads in the environment; between windows it
waits on a pipe and uses no CPU time.
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
PATIENCE_S = 300.0  # in addition to a window's length; startup may include compilation
MAX_DISTURBANCE = 0.05  # fraction of cores used by others above which no table is written
LIBRARIES = ("torch", "numpy", "gymnasium", "ale-py", "stable-baselines3", "sb3-contrib")


class Progress(NamedTuple):
    """Progress of a workload in one batch."""

    steps: int  # agent steps; Atari frame skip not multiplied
    return_: float | None  # mean over the last 100 finished episodes, None before the first


Workload = Iterator[Progress]  # `next` runs one batch; `close` releases resources


@dataclasses.dataclass(frozen=True)
class Contender:
    """Row of a table: a name, and the function that builds the workload in its process."""

    name: str
    build: Callable[..., Workload]  # defined at module level, to be picklable
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    threads: int = 1  # torch threads of the contender's main process
    note: str = ""
    path: str = ""  # folder that has the rlpyt to measure; "": the installed one


@dataclasses.dataclass(frozen=True)
class Setting:
    """Contenders with the same work; the first one is the reference."""

    name: str
    contenders: tuple[Contender, ...]
    target_return: float | None = None  # report the steps until the mean return reaches this


def turns(starts: int, iteration: int) -> Iterator[int]:
    """Yield the steps of each turn of a workload that learns after ``starts`` steps.

    The first turn, the warm-up, includes the first updates, so that their compilation is not
    measured.
    """
    yield (starts // iteration + 2) * iteration
    yield from itertools.repeat(iteration)


@dataclasses.dataclass
class Row:
    """Measurements of one contender in one setting."""

    setting: str
    contender: str
    threads: int
    note: str
    rates: list[float] = dataclasses.field(default_factory=list)  # agent steps per second
    busy_rates: list[float] = dataclasses.field(default_factory=list)  # beside busy processes
    start_s: float | None = None  # building the workload and its first batch, compilation included
    total_steps: int = 0
    return_: float | None = None
    target_return: float | None = None
    steps_to_target: int | None = None
    ratio: float | None = None  # of medians, to the first contender of the setting
    disturbance: float = 0.0  # fraction of all cores used by other processes
    problem: str = ""  # reason if nothing was measured

    @property
    def busy_ratio(self) -> float | None:
        """Return the median rate beside busy processes, relative to the quiet one."""
        if not self.busy_rates:
            return None
        return statistics.median(self.busy_rates) / statistics.median(self.rates)


class Measured(NamedTuple):
    """Answer of a contender's process to one command."""

    steps: int
    seconds: float
    total_steps: int
    return_: float | None
    steps_to_target: int | None


class ContenderFailed(RuntimeError):
    """A contender could not be built, raised an error, or its process died."""


class ContenderProcess:
    """Process of a contender, measured one window at a time."""

    def __init__(self, contender: Contender, target_return: float | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        # Not a daemon, since a contender may start worker processes.
        self._process = context.Process(target=_serve, args=(child, contender, target_return))
        variables = {name: str(contender.threads) for name in THREAD_VARIABLES}
        if contender.path:
            paths = (contender.path, os.environ.get("PYTHONPATH", ""))
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with _environment(variables):
            self._process.start()
        child.close()

    def measure(self, seconds: float) -> Measured:
        """Run complete batches for at least ``seconds``; 0 means one batch, the warm-up.

        Raises:
            ContenderFailed: the contender failed; with its message.
        """
        with contextlib.suppress(BrokenPipeError):  # the process died; its message is read below
            self._connection.send(seconds)
        if not wait([self._connection, self._process.sentinel], seconds + PATIENCE_S):
            self._process.kill()
            raise ContenderFailed(f"no response within {seconds + PATIENCE_S:g} s")
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
        """Stop the contender; kill it if it does not end in time."""
        self._connection.close()
        self._process.join(grace_s)
        if self._process.is_alive():
            print("contender did not stop in time; killed", file=sys.stderr)
            self._process.kill()
            self._process.join()


class OtherLoad:
    """Fraction of all cores used by other processes or virtual machines since construction."""

    def __init__(self) -> None:
        self._start = self._read()

    def share(self) -> float:
        """Return the fraction in [0, 1], excluding this process and its descendants."""
        elapsed, others = (now - then for now, then in zip(self._read(), self._start, strict=True))
        return max(0.0, others / (elapsed * (os.cpu_count() or 1)))

    @staticmethod
    def _read() -> tuple[float, float]:
        """Return wall time and the CPU time of other processes, in seconds."""
        total = psutil.cpu_times()
        busy = sum(total) - total.idle - getattr(total, "iowait", 0.0)
        busy -= getattr(total, "guest", 0.0) + getattr(total, "guest_nice", 0.0)  # included in user
        own = 0.0
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                own += sum(process.cpu_times()[:4])  # user, system, and both of reaped children
        return time.perf_counter(), busy - own


@contextlib.contextmanager
def busy_neighbours(n: int) -> Iterator[None]:
    """Run ``n`` processes inside the context that each use as much of a core as they get."""
    spin = f"import os\nwhile os.getppid() == {os.getpid()}: sum(range(10**5))"
    processes = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure_setting(setting: Setting, windows: int, seconds: float, n_busy: int = 0) -> list[Row]:
    """Measure every contender of a setting, in turn, ``windows`` times for ``seconds`` each.

    With ``n_busy``, each window is followed by one beside that many busy processes.
    """
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
        for _ in range(windows):
            for row, process in running:
                if row.problem:
                    continue
                _measure_window(row, process, seconds, row.rates)
                if n_busy and not row.problem:
                    with busy_neighbours(n_busy):
                        _measure_window(row, process, seconds, row.busy_rates)
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
    """Return a Markdown table, followed by the reasons for missing measurements."""
    with_returns = any(row.target_return is not None for row in rows)
    head = ["setting", "contender", "threads", "median steps/s", "min", "max", "ratio", "start s"]
    with_busy = any(row.busy_rates for row in rows)
    head += ["busy ratio"] if with_busy else []
    head += ["steps in all", "return", "target", "reached after"] if with_returns else []
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)]]
    for row in rows:
        if not row.rates:
            continue
        line = [row.setting, row.contender, str(row.threads)]
        line += [_number(f(row.rates)) for f in (statistics.median, min, max)]
        line.append("-" if row.ratio is None else f"{row.ratio:.2f}")
        line.append("-" if row.start_s is None else f"{row.start_s:.1f}")
        if with_busy:
            line.append("-" if row.busy_ratio is None else f"{row.busy_ratio:.2f}")
        if with_returns:
            line += [_number(row.total_steps), _number(row.return_)]
            line += [_number(row.target_return), _number(row.steps_to_target)]
        lines.append(line)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = dict.fromkeys(f"{row.contender}: {row.note}" for row in rows if row.note)
    absent = [f"{r.setting}, {r.contender}: not measured, {r.problem}" for r in rows if r.problem]
    return "\n".join([table, "", *(f"- {line}" for line in (*notes, *absent))])


def git(*arguments: str, check: bool = True) -> str:
    """Return what git prints in this repository, without line end; "" if it fails unchecked."""
    command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=check)
    return done.stdout.strip() if done.returncode == 0 else ""


def describe_machine() -> dict[str, Any]:
    """Return commit, processor, cores, load, versions and date, saved with each result.

    ``modified`` is True if files have changed since the commit.
    """
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            versions[library] = "absent"
    commit = git("rev-parse", "HEAD", check=False)
    return {
        "commit": commit or "unknown",
        "modified": not commit or bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.date.today().isoformat(),
        "processor": _processor_name(),
        "gpu": _gpu_name(),
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
    optional: Mapping[str, Sequence[Setting]] | None = None,
) -> list[Row]:
    """Run the command line of a table: measure, print, write JSON and Markdown.

    Args:
        title: name of the table, and of its files.
        settings: environment name -> settings, in the order measured.
        seconds: default length of a window.
        optional: further settings, measured only if they are named.
    """
    named = {**settings, **(optional or {})}
    args = _parse(title, named, seconds, argv)
    machine = describe_machine()
    rows: list[Row] = []
    for env in settings if args.env == "all" else [args.env]:
        for setting in named[env]:
            chosen = _only(setting, args.only)
            rows += measure_setting(chosen, args.windows, args.seconds, args.busy)
    busy = (
        f" Each was followed by a window beside {args.busy} busy processes; busy ratio: to the "
        "quiet median."
    )
    publish(
        Path(args.output),
        machine,
        rows,
        f"{args.windows} windows of {args.seconds:g} s each, in turn; ratio of medians to the "
        f"first row of the setting.{busy * bool(args.busy)}\n\n{markdown_table(rows)}",
        title=title,
        busy=args.busy,
        command=[f"benchmarks.{title}", *sys.argv[1:]],
        windows=args.windows,
        seconds=args.seconds,
    )
    return rows


def publish(
    output: Path, machine: dict[str, Any], rows: Sequence[Row], table: str, **about: Any
) -> None:
    """Print a table with commit and machine; write it and its numbers.

    Args:
        output: JSON file; the Markdown file is written next to it.
        about: further fields of the JSON, such as title and command.

    Raises:
        SystemExit: other processes used more than 5 % of the cores; nothing is written.
    """
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    disturbance = max(row.disturbance for row in rows)
    report = (
        f"{machine['date']}, commit {machine['commit'][:10]}"
        f"{' and changes since' * machine['modified']}, {machine['processor']}, "
        f"{machine['cores']} cores, {machine['gpu']}, load before "
        f"{machine['load_before']:.1f}, others used {disturbance:.0%} of the cores; {versions}.\n"
        f"{table}\n"
    )
    print(f"\n{report}")
    if disturbance > MAX_DISTURBANCE:
        sys.exit(
            f"Nothing written: other processes must use at most {MAX_DISTURBANCE:.0%} of the "
            f"cores, got {disturbance:.0%}. Stop them and measure again."
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
    parser.add_argument("--seconds", type=float, default=seconds, help="minimum length of a window")
    parser.add_argument("--quick", action="store_true", help="two windows of one second")
    parser.add_argument(
        "--busy",
        type=int,
        default=0,
        metavar="N",
        help="measure each contender also beside N busy processes",
    )
    parser.add_argument(
        "--only", default="", help="measure contenders whose name contains this, and the first"
    )
    parser.add_argument(
        "--output",
        default=f"data/benchmarks/{title}.json",
        help="JSON file; the table is written next to it",
    )
    args = parser.parse_args(argv)
    if args.quick:
        args.windows, args.seconds = 2, 1.0
    if args.windows < 1 or args.seconds <= 0 or args.busy < 0:
        parser.error(
            "--windows must be >= 1, --seconds > 0 and --busy >= 0, got "
            f"{args.windows}, {args.seconds} and {args.busy}"
        )
    return args


def _only(setting: Setting, text: str) -> Setting:
    first, *others = setting.contenders
    kept = tuple(c for c in others if text.lower() in c.name.lower())
    return dataclasses.replace(setting, contenders=(first, *kept))


def _serve(connection: Connection, contender: Contender, target_return: float | None) -> None:
    """Run a contender's process: build the workload, then run windows until the pipe closes."""
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
                if contender.path:
                    sys.path.insert(0, contender.path)
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
        connection.send(f"a package is not installed: {error}")
    except Exception as error:
        traceback.print_exc()
        connection.send(f"{type(error).__name__}: {error}")
    finally:
        if workload is not None:
            workload.close()


def _measure_window(
    row: Row, process: ContenderProcess, seconds: float, rates: list[float]
) -> None:
    measured = _measure_into(row, process, seconds)
    if measured:
        rates.append(measured.steps / measured.seconds)
        _log(f"{row.setting} | {row.contender}: {rates[-1]:,.0f} steps/s")


def _measure_into(row: Row, process: ContenderProcess, seconds: float) -> Measured | None:
    try:
        measured = process.measure(seconds)
    except ContenderFailed as failure:
        row.problem = str(failure).splitlines()[0]
        _log(f"{row.setting} | {row.contender}: {row.problem}")
        return None
    row.total_steps, row.return_ = measured.total_steps, measured.return_
    row.steps_to_target = measured.steps_to_target
    return measured


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables inside the context."""
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


def _gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"


def _number(value: float | None) -> str:
    return (
        "-"
        if value is None
        else f"{value:,.0f}"
        if isinstance(value, int) or abs(value) >= 100
        else f"{value:,.1f}"
    )


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
