"""Every example runs with few steps; slow: as a user starts it."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import run_script

EXAMPLES = Path(__file__).parents[1] / "examples"
ARGUMENTS = {
    "example_1.py": ["--steps", "2048"],
    "example_2.py": ["--steps", "2048"],
    "example_3.py": ["--steps", "4096"],
    "example_4.py": ["--steps", "2048"],
    "example_5.py": ["--steps", "1280"],
    "example_6.py": ["--steps", "4096"],
    "example_7.py": ["--steps", "1024", "--recurrent"],
    "example_8.py": ["--sampler", "alternating", "--steps", "2048"],
    "example_9.py": ["--steps", "4096", "--normalize", "--n-workers", "2"],
    "example_10.py": ["--steps", "1024", "--kind", "qrdqn", "--noisy"],
    "example_11.py": ["--steps", "1000", "--n-critics", "3"],
    "example_async.py": ["--steps", "4000", "--kind", "vtrace"],
    "example_curriculum.py": ["--steps", "4096"],
    "example_es.py": ["--strategy", "cem", "--steps", "32000"],
    "example_ray.py": ["--steps", "4096"],
    "example_sync.py": ["--steps", "4096", "--ranks", "2"],
}


def test_every_example_is_listed():
    assert sorted(p.name for p in EXAMPLES.glob("*.py")) == sorted(ARGUMENTS)


def arguments_of(name, tmp_path):
    own = ARGUMENTS[name]
    return own if name == "example_6.py" else [*own, "--log-dir", str(tmp_path / "log")]


def check(name, done, tmp_path):
    assert done.returncode == 0, done.stderr
    if name == "example_6.py":
        assert "equal bit for bit: True" in done.stdout
        return
    (progress,) = tmp_path.rglob("progress.csv")
    with open(progress) as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["Diagnostics/CumSteps"]) > 0


SLOW = {"example_7.py", "example_ray.py"}  # a recurrent network on Atari; a cluster


@pytest.mark.parametrize(
    "name",
    [
        *sorted({*ARGUMENTS} - SLOW),
        *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(SLOW)),
    ],
)
def test_example_runs(name, tmp_path):
    done = run_script(EXAMPLES / name, *arguments_of(name, tmp_path))
    check(name, done, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_example_runs_in_an_interpreter_of_its_own(name, tmp_path):
    command = [sys.executable, EXAMPLES / name, *arguments_of(name, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    check(name, done, tmp_path)
