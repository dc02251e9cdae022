"""Show which runs of a sweep are done, running, queued or failed: `rlpyt status DIR`.

DIR is the directory printed by `rlpyt sweep`. On a terminal the table is refreshed until the sweep
is over; Ctrl-C stops the display, not the sweep. For the directory of a run: its progress, and
whether each of its processes computes, waits or is stopped, and what it is doing. For any other
directory: the runs in it.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import psutil
import tyro

from rlpyt.cli.flags import UsageError, parse
from rlpyt.errors import RlpytError
from rlpyt.experiments import script_runs
from rlpyt.experiments.options import CONFIG, read_options
from rlpyt.processes.heartbeat import PATTERN
from rlpyt.samplers.fault_policy import HEALED
from rlpyt.sweeps.directory import ABOUT, QUEUE
from rlpyt.sweeps.report_data import read_directory
from rlpyt.sweeps.view import RunView, SweepView, read_sweep
from rlpyt.utils.files import read_regular
from rlpyt.utils.fork_server import TITLE
from rlpyt.utils.logging.console import printable, say
from rlpyt.utils.logging.context import FAILED
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.logging.progress_csv import last_row
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.text import counted, duration

STEPS, SPEED = "Diagnostics/CumSteps", "Diagnostics/StepsPerSecond"
ITERATIONS = ("Diagnostics/SamplerIteration", "Diagnostics/Iteration")  # the former: asynchronous
LOG_BYTES = 1_000_000  # of the log in which the last fault is looked for
HEARTBEAT_BYTES = 1_000_000
CPU_S = 0.5  # time over which the use of a core is measured

COLUMNS = ("run", "state", "steps", "steps/s", "return", "time", "left", "")
ALIGNMENTS = ("left", "left", *["right"] * 5, "left")
# Order in which runs are kept if not all of them fit on the terminal.
PRIORITY = {"running": 0, "failed": 1, "queued": 2, "pruned": 3, "done": 4}


@dataclasses.dataclass(frozen=True)
class Status:
    directory: tyro.conf.Positional[Path]  # directory of the sweep, run or runs
    once: bool = False  # show the table once, also on a terminal
    interval_s: float = 2.0  # seconds between refreshes
    json: Annotated[bool, tyro.conf.arg(name="json")] = False  # print everything as JSON


def main(args: Sequence[str]) -> int:
    """Run the command and return its exit code, 1 if a run has failed."""
    command = parse(Status, args)
    if not 0 < command.interval_s < float("inf"):
        raise UsageError(f"--interval-s must be positive and finite, got {command.interval_s:g}.")
    if (command.directory / CONFIG).exists() or script_runs.exists(command.directory):
        found = run_status(command.directory)
        say(json.dumps(found, indent=1) if command.json else "\n".join(_run_lines(found)))
        return 0
    if command.directory.is_dir() and not (command.directory / QUEUE / ABOUT).is_file():
        views = [entry.view for entry in read_directory(command.directory)]
        runs = [_as_dict(view) for view in views]
        say(json.dumps(runs, indent=1, default=str) if command.json else _rows(views))
        return 0
    sweep = read_sweep(command.directory)
    if command.json:
        print(json.dumps(as_dict(sweep), indent=1, default=str))
    elif command.once or not sys.stdout.isatty():
        say("\n".join(table(sweep)))
    else:
        _draw_until_over(command)
        sweep = read_sweep(command.directory)
    return 1 if sweep.counts().get("failed") else 0


def run_status(run_dir: Path) -> dict[str, Any]:
    """Return the status of a run on this machine: numbers of its newest row, and its processes.

    Each process has a name, ``pid``, ``state`` of the operating system, the share of a ``core``
    that it uses now, the resident ``memory`` in bytes, and the ``seconds`` since its start; if its
    parent tells, also what it is ``doing``, and ``for_seconds`` without progress.
    """
    table, lock = run_dir / "progress.csv", RunLock(run_dir)
    row, pid = last_row(table), lock.process()
    title, total = _described(run_dir)
    itr = next((row[name] for name in ITERATIONS if name in row), None)
    steps = row.get(STEPS)  # missing if the file was edited or damaged
    batch = 0 if itr is None or steps is None else steps / max(itr + 1, 1)
    return {
        "run": title,
        "owner": lock.owner(),
        "steps": steps,
        "total_steps": total,
        "complete": total - (steps or 0) < batch,  # a run has whole batches
        "steps_per_second": row.get(SPEED),
        "return": row.get("ReturnAverage"),
        "seconds_since_row": time.time() - table.stat().st_mtime if row else None,
        "env_restarts": row.get("Diagnostics/EnvRestarts"),
        "worker_restarts": row.get("Diagnostics/WorkerRestarts"),
        "dropped_envs": row.get("Diagnostics/DroppedEnvs"),
        "void_steps": row.get("Diagnostics/VoidSteps"),
        "last_fault": _last_fault(run_dir / "debug.log"),
        "processes": [] if pid is None else _family(pid, _heartbeat(run_dir)),
    }


def _described(run_dir: Path) -> tuple[str, int]:
    """Return the title of a run, and its number of steps."""
    if (run_dir / CONFIG).exists():
        options = read_options(run_dir, trust=True)  # which imports nothing
        return options.title, options.steps
    script = script_runs.ScriptRun(run_dir, trust=True)  # its parts are only read
    return script.name, script.n_steps


def _last_fault(log: Path) -> str | None:
    """Return the newest line of the log about a fault, healed or not, ``None`` without one."""
    if not log.is_file():
        return None
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return next(
        (line for line in reversed(lines) if HEALED in line or f" | {FAILED}" in line), None
    )


def _heartbeat(run_dir: Path) -> dict[str, tuple[str, float]]:
    """Return what the processes of a run have been doing a few seconds ago, by pid."""
    found: dict[str, tuple[str, float]] = {}
    for path in sorted(run_dir.glob(PATTERN)):
        # It may be gone by now, or damaged.
        with contextlib.suppress(OSError, RlpytError, ValueError, TypeError, AttributeError):
            written = json.loads(read_regular(path, HEARTBEAT_BYTES))
            found |= {pid: (f"{doing}", min(float(s), 1e9)) for pid, (doing, s) in written.items()}
    return found


def _family(pid: int, heartbeat: Mapping[str, tuple[str, float]]) -> list[dict[str, Any]]:
    """Describe a process and its descendants, without those that end meanwhile."""
    found, family = [], list[psutil.Process]()
    with contextlib.suppress(psutil.Error):
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.cpu_percent()
    time.sleep(CPU_S)
    for process in family:
        doing, seconds = heartbeat.get(str(process.pid), (None, None))
        with contextlib.suppress(psutil.Error):
            found.append(
                {
                    "name": "training" if process.pid == pid else _name_of(process),
                    "pid": process.pid,
                    "state": process.status(),
                    "core": process.cpu_percent() / 100,
                    "memory": process.memory_info().rss,
                    "seconds": time.time() - process.create_time(),
                    "doing": doing,
                    "for_seconds": seconds,
                }
            )
    return found


def _name_of(process: psutil.Process) -> str:
    """Return the name of a process that a run has started."""
    line = " ".join(process.cmdline())
    for helper in ("forkserver", "resource_tracker"):
        if f"multiprocessing.{helper}" in line and not process.name().startswith(TITLE):
            return helper.replace("_", " ")
    return process.name().removeprefix(TITLE)


def _run_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the status of a run as lines."""
    steps, total = found["steps"], found["total_steps"]
    unknown = steps is None and found["seconds_since_row"] is not None
    shown = "unknown number" if unknown else f"{steps or 0:,.0f}"
    parts = [f"{found['run']}: {shown} of {total:,} steps"]
    parts += [f"{found['steps_per_second']:,.0f} steps/s"] if found["steps_per_second"] else []
    if found["seconds_since_row"] is not None:
        parts.append(f"newest row {duration(found['seconds_since_row'])} ago")
    if found["worker_restarts"] or found["void_steps"]:
        parts += [
            counted(int(found[f"{x}_restarts"] or 0), f"{x} restart") for x in ("env", "worker")
        ]
        parts.append(f"{found['void_steps']:,.0f} void steps")
    if found["dropped_envs"]:
        parts.append(f"{found['dropped_envs']:.0f} environments dropped")
    parts.append(found["owner"] or ("complete" if found["complete"] else "not running"))
    columns = ["process", "pid", "state", "core", "memory", "age", "doing"]
    rows = [
        (p["name"], p["pid"], p["state"], f"{p['core']:.0%}", f"{p['memory'] / 2**20:,.0f} MB",
         duration(p["seconds"]), _doing(p))
        for p in found["processes"]
    ]  # fmt: skip
    table = tabulate(rows, columns, "plain").split("\n") if rows else []
    fault = [f"last fault: {found['last_fault']}"] * bool(found["last_fault"])
    return [" · ".join(parts), *fault, *[""] * bool(rows), *table]


def _doing(process: Mapping[str, Any]) -> str:
    """Return what a process is doing, and for how long if that is more than a moment."""
    text, seconds = process["doing"] or "", process["for_seconds"] or 0.0
    text = printable(text if len(text) <= 60 else f"{text[:57]}...")
    return f"{text} (for {duration(seconds)})" if seconds >= 1 else text


def table(sweep: SweepView, width: int = 0, height: int = 0) -> list[str]:
    """Return the table of a sweep as lines, limited to ``width`` and ``height`` if nonzero."""
    runs = list(sweep.runs)
    n_rows = height - 5 if height else len(runs)
    hidden = max(0, len(runs) - max(3, n_rows))
    if hidden:
        first = sorted(runs, key=lambda run: (PRIORITY[run.state], run.number))
        runs = sorted(first[: len(runs) - hidden], key=lambda run: run.number)
    lines = [_title(sweep), "", *_rows(runs).split("\n")]
    lines += [f"... and {hidden} more"] * bool(hidden)
    return [line[:width] if width else line for line in lines]


def as_dict(sweep: SweepView) -> dict[str, Any]:
    """Return all data of the sweep as plain values."""
    found = asdict(sweep)
    found |= {**found.pop("about"), "counts": sweep.counts(), "utilisation": sweep.utilization()}
    found["slots"] = sweep.about.resources.to_code()
    found["runs"] = [_as_dict(run) for run in sweep.runs]
    return found


def _as_dict(run: RunView) -> dict[str, Any]:
    found = asdict(run)
    return found | {"return": found.pop("return_")}


def _title(sweep: SweepView) -> str:
    counts = ", ".join(f"{number} {state}" for state, number in sweep.counts().items())
    runs = counted(len(sweep.runs), "run")
    title = sweep.about.title
    parts = [f"{title}: {runs}, {counts}" if counts else title]
    used = sweep.utilization()
    if used is not None:
        parts.append(f"slots {used:.0%} in use")
    shown = quote(str(sweep.directory))
    over = not {"queued", "running"} & set(sweep.counts())
    if sweep.paused:
        parts.append("paused")
    elif sweep.waits and not over:
        parts.append(sweep.waits)
    if sweep.launcher:
        parts.append(f"launched by {sweep.launcher}")
    elif not over:
        parts.append(f"no launcher running; resume with: rlpyt sweep {shown}")
    elif sweep.counts().get("failed"):
        parts.append(f"retry failed runs with: rlpyt sweep retry {shown}")
    return " · ".join(parts)


def _rows(runs: Sequence[RunView]) -> str:
    return tabulate(map(_row, runs), COLUMNS, "plain", colalign=ALIGNMENTS)


def _row(run: RunView) -> tuple[str, ...]:
    steps = "" if run.steps is None else f"{run.steps:,}"
    if run.steps is not None and run.total_steps:
        steps += f" ({run.steps / run.total_steps:4.0%})"
    attempt = run.attempts[-1].number if run.attempts else 0
    notes = [f"attempt {attempt}"] * (attempt > 1)
    if run.state in ("failed", "queued") and run.outcome:
        notes.append(run.outcome)
    return (
        run.name,
        run.state,
        steps,
        _rounded(run.steps_per_second, ",.0f"),
        _rounded(run.return_, ".1f"),
        duration(run.seconds) if run.seconds else "",
        "" if run.seconds_left is None else duration(run.seconds_left),
        ", ".join(notes),
    )


def _rounded(value: float | None, spec: str) -> str:
    return "" if value is None else format(value, spec)


def _draw_until_over(command: Status) -> None:
    """Redraw the table in place until the sweep is over."""
    drawn = 0
    while True:
        sweep = read_sweep(command.directory)
        size = shutil.get_terminal_size()
        lines = table(sweep, size.columns - 1, size.lines - 1)
        up = f"\x1b[{drawn}F" if drawn else ""
        print(
            up + "".join(f"\x1b[2K{printable(line)}\n" for line in lines) + "\x1b[J",
            end="",
            flush=True,
        )
        drawn = len(lines)
        if not {"queued", "running"} & set(sweep.counts()):
            return
        time.sleep(command.interval_s)
