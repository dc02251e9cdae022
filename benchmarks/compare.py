"""Print what got slower between two versions: `python -m benchmarks.compare OLD NEW`.

    python -m benchmarks.compare main HEAD                  # two commits
    python -m benchmarks.compare HEAD~3 HEAD --tables training/sac replay/uniform
    python -m benchmarks.compare old.json new.json          # results of benchmarks.training, ...

Of commits, the rlpyt of each is measured by the benchmarks of this working tree, in turn, so that
the state of the machine does not matter. Results are compared if they are of one machine and of
commits; numbers of different days differ by a quarter on many machines, so their rows are only a
first reading. Rows that look slower are measured again, in turn; what is slower then too is
reported, and the exit code is 1. Exit code 2: the versions cannot be compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import harness, recurrent, replay, sampling, training
from benchmarks.harness import Contender, Row, Setting

TABLES: dict[str, Any] = {  # those of GPUs are measured if they are named
    "training": {**training.SETTINGS, **training.ON_GPU},
    "sampling": sampling.SETTINGS,
    "recurrent": recurrent.SETTINGS,
    "replay": replay.settings(),
}
DEFAULT = ("training/cartpole", "training/dqn-cartpole", "training/sac", "sampling/cartpole",
           "replay/uniform", "replay/prioritized")  # fmt: skip
OURS = "rlpyt"  # how the names of our contenders begin

Rates = tuple[list[float], list[float]]  # of OLD and NEW


class NotComparable(ValueError):
    """Two versions whose numbers cannot be compared."""


def rows_of(table: str) -> Iterator[tuple[str, Contender]]:
    """Yield name and contender of the rows of rlpyt in a table, "training/sac" or "training".

    Raises:
        NotComparable: there is no such table.
    """
    title, _, name = table.partition("/")
    tables = TABLES.get(title, {})
    if not tables or (name and name not in tables):
        known = sorted(f"{title}/{name}" for title, names in TABLES.items() for name in names)
        raise NotComparable(f"table must be one of {', '.join(known)}, got {table}.")
    for settings in (tables[name],) if name else tables.values():
        for setting in settings:
            for contender in setting.contenders:
                if contender.name.startswith(OURS) and contender.build is not replay.resident:
                    yield row_name(title, setting.name, contender.name), contender


def row_name(title: str, setting: str, contender: str) -> str:
    """Return the name of a row of a table."""
    return f"{title}: {setting} | {contender}"


def check_comparable(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Compare the machines of two results.

    Raises:
        NotComparable: processor, number of cores, GPU or version of torch differ, or a result is of
            files with uncommitted changes.
    """
    for name in ("processor", "cores", "gpu"):
        if old[name] != new[name]:
            raise NotComparable(
                f"{name} must be equal, got {old[name]} (OLD) and {new[name]} (NEW). Measure both "
                "commits here: python -m benchmarks.compare OLD_COMMIT NEW_COMMIT"
            )
    versions = old["versions"]["torch"], new["versions"]["torch"]
    if versions[0] != versions[1]:
        raise NotComparable(
            f"torch must have one version, got {versions[0]} (OLD) and {versions[1]} (NEW). "
            "Measure both with the same version."
        )
    for which, machine in (("OLD", old), ("NEW", new)):
        if machine.get("modified", True):
            raise NotComparable(
                f"{which} must be measured at a commit, got {machine['commit'][:10]} with "
                "uncommitted or unknown changes. Commit them and measure again."
            )


def rates_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Rates]:
    """Return the rates of all rows of rlpyt that two results have in common.

    Raises:
        NotComparable: there are none, or a row has another number of threads.
    """
    rows: dict[str, list[Any]] = {}
    for result in (old, new):
        for row in result["rows"]:
            if row["contender"].startswith(OURS) and row["rates"]:
                # Rows of one name differ by threads.
                key = row_name(result["title"], row["setting"], row["contender"])
                rows.setdefault(key, []).append((result is new, row["threads"], row["rates"]))
    found = {}
    for name, given in rows.items():
        by_version = [
            {n: rates for is_new, n, rates in given if is_new is v} for v in (False, True)
        ]
        if not all(by_version):
            continue
        if set(by_version[0]) != set(by_version[1]):
            threads = " and ".join(str(sorted(counts)) for counts in by_version)
            raise NotComparable(
                f"threads must be equal, got {threads} of {name}. Measure both with the same."
            )
        for n in by_version[0]:
            found[threaded(name, n)] = by_version[0][n], by_version[1][n]
    if not found:
        raise NotComparable(
            "OLD and NEW must be results of the same tables, and have no common row."
        )
    return found


def threaded(name: str, threads: int) -> str:
    """Return the name of a row with its number of threads."""
    return f"{name}, {threads} thread{'s' * (threads > 1)}"


def ratio(rates: Rates) -> float:
    """Return the speed of NEW relative to OLD."""
    return statistics.median(rates[1]) / statistics.median(rates[0])


def slower(rates: Mapping[str, Rates], tolerance: float) -> list[str]:
    """Return the rows in which NEW is slower than OLD by more than ``tolerance``."""
    return [name for name, both in rates.items() if ratio(both) < 1 - tolerance]


def checkout(commit: str, folder: Path) -> Path:
    """Write the rlpyt of a commit into a new folder, and return the folder.

    Raises:
        NotComparable: there is no such commit.
    """
    full = harness.git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", check=False)
    if not full:
        raise NotComparable(f"OLD and NEW must be commits or JSON files of results, got {commit}.")
    root = Path(__file__).parents[1]
    archive = ["git", "-C", str(root), "archive", full, "rlpyt"]
    content = subprocess.run(archive, capture_output=True, check=True).stdout
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        files.extractall(folder, filter="data")
    return folder


def measure(
    contenders: Mapping[str, Contender], paths: tuple[Path, Path], windows: int, seconds: float
) -> tuple[dict[str, Rates], list[Row]]:
    """Measure rows with the rlpyt of two folders, in turn; return rates, and rows that failed."""
    rates: dict[str, Rates] = {}
    failed: list[Row] = []
    for name, contender in contenders.items():
        pair = (
            dataclasses.replace(contender, name=version, path=str(path))
            for version, path in zip(("OLD", "NEW"), paths, strict=True)
        )
        old, new = harness.measure_setting(Setting(name, tuple(pair)), windows, seconds)
        failed += [row for row in (old, new) if row.problem]
        if old.rates and new.rates:
            rates[name] = old.rates, new.rates
    return rates, failed


def report(first: Mapping[str, Rates], again: Mapping[str, Rates], tolerance: float) -> str:
    """Return the table of all rows, those that got slower first, and what that means."""
    got_slower = slower(again, tolerance)
    lines = ["| row | speed of NEW / OLD | again |", "| --- | ---: | ---: |"]
    for name in sorted(first, key=lambda name: (name not in got_slower, ratio(first[name]))):
        second = f"{ratio(again[name]):.2f}" if name in again else ""
        lines.append(f"| {name} | {ratio(first[name]):.2f} | {second} |")
    verdict = [f"slower: {name}, {ratio(again[name]):.2f} times" for name in got_slower]
    return "\n".join([*lines, "", *(verdict or ["Nothing got slower."])])


def main(argv: list[str] | None = None) -> int:
    """Compare two versions; return the exit code."""
    args = _parse(argv)
    machine = harness.describe_machine()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _compare(args, machine, Path(folder))
    except NotComparable as error:
        print(f"Not compared: {error}", file=sys.stderr)
        return 2


def _compare(args: argparse.Namespace, machine: dict[str, Any], folder: Path) -> int:
    tables = args.tables or DEFAULT
    first: dict[str, Rates] = {}
    failed: list[Row] = []
    names = [args.old, args.new]
    if all(name.endswith(".json") for name in names):
        old, new = (json.loads(Path(name).read_text(encoding="utf-8")) for name in names)
        check_comparable(old["machine"], new["machine"])
        check_comparable(old["machine"], {**machine, "modified": False})
        first, tables = rates_of(old, new), (new["title"],)
        names = [result["machine"]["commit"] for result in (old, new)]
    elif machine["modified"]:
        raise NotComparable(
            "the working tree must be clean, got uncommitted changes, which are in neither commit. "
            "Commit or stash them."
        )
    contenders = {
        threaded(name, contender.threads): contender
        for table in tables
        for name, contender in rows_of(table)
        if args.only.lower() in name.lower()
    }
    first = {name: both for name, both in first.items() if name in contenders}
    old_path, new_path = checkout(names[0], folder / "old"), checkout(names[1], folder / "new")
    paths = old_path, new_path
    load = harness.OtherLoad()
    if not first:
        first, failed = measure(contenders, paths, args.windows, args.seconds)
    chosen = {name: contenders[name] for name in slower(first, args.tolerance)}
    again, failed_again = measure(chosen, paths, 2 * args.windows, args.seconds)
    print(
        f"{machine['date']}, {names[0][:10]} and {names[1][:10]}, {machine['processor']}, "
        f"{machine['cores']} cores, torch {machine['versions']['torch']}, others used "
        f"{load.share():.0%} of the cores\n\n{report(first, again, args.tolerance)}"
    )
    for row in (*failed, *failed_again):
        print(f"{row.setting}: not measured in {row.contender}, {row.problem}")
    return int(bool(slower(again, args.tolerance)))


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help="commit, or JSON file of a benchmark")
    parser.add_argument("new", metavar="NEW", help="commit, or JSON file of the same benchmark")
    parser.add_argument(
        "--tables", nargs="+", metavar="TABLE", help=f"default: {' '.join(DEFAULT)}"
    )
    parser.add_argument("--only", default="", help="measure rows whose name contains this")
    parser.add_argument("--windows", type=int, default=3, help="windows per version")
    parser.add_argument("--seconds", type=float, default=2.0, help="minimum length of a window")
    parser.add_argument(
        "--tolerance", type=float, default=0.05, help="loss of speed that is not reported"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
