"""Scripts in the manner of rlpyt's users of 2019 run unchanged; slow: as a user starts them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import run_script

FOLDER = Path(__file__).parent / "research_scripts"
PARTS = {"common.py", "launched.py"}  # imported or started by other scripts
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name not in PARTS)
# Children of the fork server have a start method already: slow, see compat/test_start_methods.py.
OF_THEIR_OWN = ["fork_on_request.py"]
QUIETLY = {"RLPYT_DEBUG": ""}  # own samplers rely on zeros where it writes NaN and extremes


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name not in OF_THEIR_OWN])
def test_script_runs(script, tmp_path):
    done = run_script(FOLDER / script, directory=tmp_path, environ=QUIETLY)
    assert done.returncode == 0, done.stderr[-3000:]
    if script == "launch.py":
        assert len([*tmp_path.rglob("progress.csv")]) == 2, "the launcher wrote somewhere else"


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_script_runs_in_an_interpreter_of_its_own(script, tmp_path):
    command = [sys.executable, FOLDER / script]
    environ = os.environ | QUIETLY
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr[-3000:]
