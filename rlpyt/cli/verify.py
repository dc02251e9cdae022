"""Repeat the first part of a published result and compare: `rlpyt verify dqn-CartPole`.

Without a name the rows are listed whose data come with rlpyt. Each new run has the row's own
command, in a temporary directory, and is stopped after that part, so schedules are those of the
whole run. What is printed is the probability of so large a difference if the new runs are of the
row's distribution: of the return, and of losses, gradients and the like where they were recorded.
Below 5 % the exit code is 1. Settings after `--` are for `rlpyt train`:
`rlpyt verify dqn-CartPole -- --algo.learning-rate 3e-3`.
"""

import dataclasses
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import UsageError, parse
from rlpyt.errors import RlpytError
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.names import UnknownName
from rlpyt.vis.verification import (
    ALARM,
    PART,
    STEPS,
    Row,
    Table,
    compare_tables,
    compared_columns,
    of_all,
    read_rows,
    read_table,
)

FIRST_SEED = 1000  # of new runs
POLL_S = 0.5


class UnfinishedRun(RlpytError):
    """A run ended before the step up to which it is compared."""


@dataclasses.dataclass(frozen=True)
class Verify:
    row: tyro.conf.Positional[str] = ""  # name of a row, as in docs/results
    seeds: int = 2  # number of new runs
    steps: str = "10%"  # part of the row's steps, at most 30%


def main(args: Sequence[str]) -> int:
    words = list(args)
    here = words.index("--") if "--" in words else len(words)
    command, settings = parse(Verify, words[:here]), words[here + 1 :]
    rows = read_rows()
    if not command.row:
        cells = [(name, *_about(row)) for name, row in rows.items()]
        say(tabulate(cells, ("Row", "Algorithm", "Task", "Steps", "Seeds", "Columns")))
        return 0
    if command.row not in rows:
        raise UnknownName("row", command.row, rows)
    if command.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, got {command.seeds}.")
    result = check(rows[command.row], settings, _part(command.steps), command.seeds)
    verdict = "below 5 %: another distribution" if result < ALARM else "no difference is found"
    say(f"Probability of such differences: {result:.4f} ({verdict})")
    return int(result < ALARM)


def _about(row: Row) -> tuple[object, ...]:
    _, algo, env, *_ = shlex.split(row.command)
    return algo, env, row.steps, len(row.tables), len([*compared_columns(row.tables[0])])


def check(row: Row, settings: Sequence[str], part: float, n_seeds: int) -> float:
    """Compare new runs with the row's and print both; return the probability.

    Args:
        row: what is repeated.
        settings: words to add to its command.
        part: share of the row's steps.
        n_seeds: number of new runs.

    Raises:
        UnfinishedRun: a run failed, ended before, or has no return.
    """
    n_rows = row.rows_until(part)
    steps = row.tables[0][STEPS][n_rows - 1]
    words = [*shlex.split(row.command), *settings]
    seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
    new = first_part(words, [*seeds], steps, together=row.together)
    found = compare_tables(new, row.tables, n_rows)
    if not found:
        raise UnfinishedRun(
            f"the new runs have no return in the second half of {steps:,.0f} steps."
        )
    cells = [
        (name, f"{theirs:.5g}", f"{ours:.5g}", f"{p:.4f}")
        for name, (theirs, ours, p) in sorted(found.items(), key=lambda item: item[1][2])
    ]
    say(f"Second half of the first {steps:,.0f} steps:")
    say(
        tabulate(
            cells, ("Mean of", "Row", "New runs", "Probability"), colalign=("left", *["right"] * 3)
        )
    )
    return of_all(found)


def first_part(
    words: Sequence[str], seeds: Sequence[int], steps: float, *, together: bool
) -> list[Table]:
    """Return the tables of runs that are stopped when they have a row at this step.

    Args:
        words: arguments of ``rlpyt``.
        seeds: of one run each.
        steps: environment steps.
        together: train them as one, which gives the numbers of single runs.
    """
    if len(seeds) > 1 and not together:
        return [x for seed in seeds for x in first_part(words, [seed], steps, together=False)]
    several = len(seeds) > 1
    end = ["--seeds", ",".join(map(str, seeds))] if several else ["--seed", str(seeds[0])]
    end += ["--torch-threads", "1"] if several and "--torch-threads" not in words else []
    say(f"$ rlpyt {shlex.join([*words, *end])}  # until step {steps:,.0f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        runs = [path / f"seed_{seed}" for seed in seeds] if several else [path]

        def all_have() -> bool:
            return all((read_table(run)[STEPS] >= steps).any() for run in runs)

        program = [sys.executable, "-m", "rlpyt", *words, *end, "--run-dir", str(path)]
        process = subprocess.Popen([*program, "--no-video"], stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None and not all_have():
                time.sleep(POLL_S)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait()
        if not all_have():
            raise UnfinishedRun(f"The run ended before step {steps:,.0f} with exit code {code}.")
        return [read_table(run) for run in runs]


def _part(text: str) -> float:
    """Return a part such as "10%" as a number.

    Raises:
        UsageError: it is no such text, or is out of range.
    """
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = 0.0
    if not (text.endswith("%") and 0 < part <= PART):
        raise UsageError(f"--steps must be a part of at most {PART:.0%}, as 10%; got {text!r}.")
    return part
