"""Comparison of new runs with the first part of a published row of results, column by column.

The score of a run is the mean of a column over its rows in the second half of this part. If the new
scores are drawn from the distribution of the row's, a normal one of unknown mean and variance,

    t = (mean_new - mean_row) / (s_row sqrt(1/n_new + 1/n_row))

has Student's distribution with n_row - 1 degrees of freedom. The smallest probability of m columns
is multiplied by m (Bonferroni).
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlpyt.utils.logging.progress_csv import FloatArray, read_progress

ROWS = Path(__file__).with_name("rows.json")
PART = 0.3  # of a row's steps, at most, for which data are kept
ALARM = 0.05
STEPS, RETURN = "Diagnostics/CumSteps", "ReturnAverage"
Table = Mapping[str, FloatArray]  # column of progress.csv -> [rows]


@dataclass(frozen=True)
class Row:
    """Row of docs/results: a command, and the first part of its runs.

    Attributes:
        command: arguments of ``rlpyt``, without seed and directory.
        steps: environment steps of a whole run.
        tables: of one run per seed; all have the column of steps and that of returns.
        together: True if the seeds were trained as one, as new ones are then.
    """

    command: str
    steps: int
    tables: list[Table]
    together: bool

    def rows_until(self, part: float) -> int:
        """Return the number of rows in this part of a run, at least 1."""
        steps = self.tables[0][STEPS]
        return max(1, int(np.searchsorted(steps, self.steps * part * 1.001, side="right")))


def read_rows() -> dict[str, Row]:
    """Return the rows whose data come with rlpyt, by name."""
    return {
        name: Row(**row | {"tables": [_arrays(table) for table in row["tables"]]})
        for name, row in json.loads(ROWS.read_text(encoding="utf-8")).items()
    }


def _arrays(table: Mapping[str, list[float]]) -> Table:
    return {name: np.array(values) for name, values in table.items()}


def read_table(directory: Path) -> Table:
    """Return the rows of a run that have a return; none if nothing has been logged."""
    nothing = np.zeros(0)
    rows = read_progress(directory) if (directory / "progress.csv").exists() else {}
    known = np.isfinite(rows.get(RETURN, nothing))
    return {STEPS: nothing, RETURN: nothing} | {
        name: values[known] for name, values in rows.items() if len(values) == len(known)
    }


def score(table: Table, column: str, steps: tuple[float, float]) -> float:
    """Return the mean of a column over rows at these steps, (excluded, included)."""
    after, last = steps
    here = (table[STEPS] > after) & (table[STEPS] <= last)
    return float(np.mean(table[column][here])) if here.any() else math.nan


def probability(new: Sequence[float], row: Sequence[float]) -> float:
    """Return the probability of so large a difference between the means of new and old scores.

    Args:
        new: at least one score.
        row: at least two scores.
    """
    spread = np.std(row, ddof=1) * math.sqrt(1 / len(new) + 1 / len(row))
    difference = abs(np.mean(new) - np.mean(row))
    if spread == 0:
        return float(difference == 0)
    n = len(row) - 1  # with t = sqrt(n) tan(angle), Student's density is that of cos(angle)^(n-1)
    angle = math.atan(difference / spread / math.sqrt(n))
    inside, outside = (
        np.trapezoid(np.cos(angles) ** (n - 1), angles)
        for angles in np.linspace([0, angle], [angle, math.pi / 2], 10_001).T
    )
    return float(outside / (inside + outside))


def compare_tables(
    new: Sequence[Table], row: Sequence[Table], n_rows: int
) -> dict[str, tuple[float, float, float]]:
    """Return (mean of the row, mean of the new runs, probability) of each column that all have.

    Args:
        new: tables of new runs, whose rows may be at other steps.
        row: tables of the row's.
        n_rows: number of rows in the part; those in its second half count.
    """
    found, at = {}, row[0][STEPS]
    steps = (float(at[n_rows // 2 - 1]) if n_rows > 1 else -math.inf, float(at[n_rows - 1]))
    for name in compared_columns(row[0]):
        if all(name in table for table in (*new, *row)):
            ours, theirs = ([score(x, name, steps) for x in tables] for tables in (new, row))
            if np.isfinite([*ours, *theirs]).all():
                means = float(np.mean(theirs)), float(np.mean(ours))
                found[name] = (*means, probability(ours, theirs))
    return found


def of_all(found: Mapping[str, tuple[float, float, float]]) -> float:
    """Return the probability of the most different column, times the number of columns."""
    return min(1.0, len(found) * min(p for *_, p in found.values()))


def compared_columns(table: Table) -> Iterator[str]:
    """Yield the columns to compare: returns, lengths, and means of what updates record."""
    for name in table:
        derived = name.startswith(("Diagnostics/", "Training/", "Nonzero", "Discounted"))
        if name.endswith("Average") and not derived:
            yield name
