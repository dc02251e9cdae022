"""Scripts in the manner of rlpyt's users of 2019 run unchanged, each in a program of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "research_scripts"
PARTS = {"common.py", "launched.py"}  # imported or started by other scripts
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name not in PARTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, FOLDER / script],
        cwd=tmp_path,
        # Own samplers rely on zeros where RLPYT_DEBUG writes NaN and extremes.
        env={name: value for name, value in os.environ.items() if name != "RLPYT_DEBUG"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
