"""Toys are solved with the abilities they need, and not without, as in docs/results/memory.md."""

import json
import shlex

import pytest

from benchmarks.learning import TABLES
from tests.cli.test_commands import rlpyt_command

BEST, SOLVED = 5.0, 4.75  # 95 % of the best return


@pytest.mark.slow
@pytest.mark.parametrize("experiment", TABLES["toys"], ids=lambda e: e.name)
def test_toys_need_their_ability(experiment, tmp_path):
    words = [*shlex.split(experiment.command), "--seed", "0", "--no-video"]
    assert rlpyt_command(*words, "--eval-episodes", "50", "--run-dir", str(tmp_path / "run")) == 0
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())["return_mean"]
    assert SOLVED <= found <= BEST if experiment.target.startswith(">=") else found < SOLVED
