"""Every example runs as a user would run it, with few steps."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_example_runs(name, tmp_path):
    arguments = ARGUMENTS[name]
    if name != "example_6.py":
        arguments = [*arguments, "--log-dir", str(tmp_path / "log")]
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    if name == "example_6.py":
        assert "equal bit for bit: True" in done.stdout
        return
    (progress,) = tmp_path.rglob("progress.csv")
    with open(progress) as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["Diagnostics/CumSteps"]) > 0
