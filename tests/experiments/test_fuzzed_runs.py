"""Mutated files of run directories end in a named error, or in a run that can be used."""

import json
import random
import shutil
import warnings
from copy import deepcopy
from pathlib import Path

import pytest

import rlpyt
from rlpyt.errors import RlpytError
from rlpyt.experiments.script_runs import ScriptRun
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.progress_csv import last_row, read_progress
from rlpyt.utils.logging.sinks import CsvSink
from rlpyt.utils.logging.snapshots import read_snapshot
from rlpyt.utils.seed import undisturbed
from tests.experiments.test_trust import make_runs

VALUES = (
    *(None, True, 0, -1, 3, 10**9, 10**399, 1.5, -1e300, float("nan"), float("inf"), "", "x"),
    *("x:y", "../x", "\x00", "é" * 300, [], {}, [[]], {"$call": 3}, {"$name": None}, {"$tuple": 1}),
    *({"$call": "rlpyt:PPO", "kwargs": []}, {"$partial": 1}, {"$missing": []}, {"kind": "lstm"}),
)
BYTES = (b"\x00", b"\xff\xfe", b"\n", b'"', b"{" * 3000, b"[" * 200_000, b",,,", b"9" * 400, b"]}")


def places(document):
    """Return (container, key) of everything in a document."""
    found, to_visit = [], [document]
    while to_visit:  # without recursion, because documents may be nested deeper than calls can be
        value = to_visit.pop()
        if isinstance(value, dict | list):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            found.extend((value, key) for key in keys)
            to_visit.extend(value[key] for key in reversed(keys))
    return found


def mutated_json(text, rng):
    """Change one to three parts of a JSON document: remove, replace, repeat, wrap or nest them."""
    document = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        found = places(document)
        if not found:
            break
        container, key = rng.choice(found)
        kind = rng.choice(
            ("remove", "replace", "replace", "swap", "wrap", "nest", "rename", "long")
        )
        if kind == "remove":
            del container[key]
        elif kind == "replace":
            container[key] = deepcopy(rng.choice(VALUES))
        elif kind == "swap":
            other, at = rng.choice(found)
            container[key] = json.loads(json.dumps(other[at]))
        elif kind == "wrap":
            container[key] = rng.choice(([container[key]], {"x": container[key]}))
        elif kind == "nest":
            for _ in range(rng.choice((3, 100, 300))):
                container[key] = [container[key]]
        elif kind == "rename" and isinstance(container, dict):
            container[rng.choice(("x", "$call", "$name", "kwargs", "env"))] = container.pop(key)
        elif kind == "long":
            nested = isinstance(container[key], dict | list)
            container[key] = [container[key]] * (2 if nested else rng.choice((2, 100, 1000)))
    return json.dumps(document).encode()


def mutated_bytes(content, rng):
    """Change bytes: flip, cut, insert, repeat or delete."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        kind = rng.choice(("flip", "cut", "insert", "repeat", "delete"))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = rng.choice(BYTES)
        elif kind == "repeat":
            lines = bytes(data).split(b"\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            data[:] = b"\n".join(lines)
        else:
            del data[at : at + rng.randint(1, 40)]
    return bytes(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the directory of two runs."""
    return make_runs(tmp_path_factory.mktemp("runs"))


def read_and_resume(run_dir):
    """Append to the table and read it again, as a resumed run does."""
    sink = CsvSink(run_dir / "progress.csv", append=True)
    sink.rewind("Diagnostics/Iteration", 1.0, {"columns": ["a"], "rows": 1, "last": ["1"]})
    sink.write({"Diagnostics/Iteration": 1.0, "new": 2.0})
    read_progress(run_dir)
    last_row(run_dir / "progress.csv")


READERS = {
    "config/config.json": rlpyt.load,
    "parts/parts.json": rlpyt.load,
    "config/progress.csv": read_and_resume,
    "config/params.pkl": lambda run_dir: read_snapshot(run_dir / "params.pkl"),
    "config/checkpoint": lambda run_dir: load_checkpoint(run_dir / "checkpoint"),
    "parts/params.json": lambda run_dir: ScriptRun(run_dir).named(),
}


def fuzz(runs, tmp_path, n_cases, seed):
    """Read mutated files; return a line for each error that is not a named one."""
    copy, rng, bad = Path(shutil.copytree(runs, tmp_path / "runs")), random.Random(seed), []
    for case in range(n_cases):
        name = rng.choice([*READERS])
        run_dir, file = copy / name.split("/")[0], copy / name
        if file.is_dir():  # a file of the newest checkpoint
            file = rng.choice(sorted(file.glob("checkpoint-*/*")))
        content = file.read_bytes()
        as_json = file.suffix == ".json" and rng.random() < 0.7
        file.write_bytes(mutated_json(content, rng) if as_json else mutated_bytes(content, rng))
        try:
            with undisturbed(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                READERS[name](run_dir)
        except (RlpytError, FileNotFoundError) as error:
            if not str(error):
                bad.append(f"case {case} of {name}: no message")
        except Exception as error:
            bad.append(f"case {case} of {name}: {type(error).__name__}: {error!s:.200}")
        file.write_bytes(content)
        for extra in copy.rglob("*.tmp-*"):
            extra.unlink()
    return bad


def test_some_mutated_files_end_in_named_errors(runs, tmp_path):
    assert fuzz(runs, tmp_path, 200, seed=0) == []


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(10))
def test_mutated_files_end_in_named_errors(part, runs, tmp_path):
    assert fuzz(runs, tmp_path, 1000, seed=1 + part) == []
