"""`rlpyt verify`: rows that are listed, runs that are stopped, and what is refused."""

import json

import numpy as np
import pytest

from rlpyt.cli import verify
from rlpyt.cli.flags import UsageError
from rlpyt.cli.main import run
from rlpyt.utils.names import UnknownName
from rlpyt.vis import verification

COMMAND = "train dqn toy/memory --steps 500000 --sampler.kind serial"
SETTINGS = ["--", "--log-interval-steps", "500"]


@pytest.fixture
def row(tmp_path, monkeypatch):
    """Return the name of a row of two seeds, whose returns are between -1 and 1 as any are."""

    def table(shift):
        return {verification.STEPS: [500, 1000], verification.RETURN: [0.1 + shift, shift]}

    rows = {
        "toy": {
            "command": COMMAND,
            "steps": 10_000,
            "tables": [table(-0.9), table(0.9)],
            "together": False,
        }
    }
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    monkeypatch.setattr(verification, "ROWS", path)
    return "toy"


def test_without_a_name_the_rows_are_listed(capsys):
    assert run(["verify"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in verification.read_rows())


def test_a_run_is_stopped_when_it_has_the_rows_steps(row, capsys):
    assert run(["verify", row, "--seeds", "1", *SETTINGS]) == 0
    printed = capsys.readouterr().out
    assert f"$ rlpyt {COMMAND}" in printed and "--seed 1000" in printed
    assert "first 1,000 steps" in printed and "no difference" in printed


def test_another_distribution_is_exit_code_1(row, monkeypatch, capsys):
    new = {verification.STEPS: np.array([500, 1000]), verification.RETURN: np.array([50.0, 60.0])}
    monkeypatch.setattr(verify, "first_part", lambda words, seeds, *_, **__: [new] * len(seeds))
    assert run(["verify", row]) == 1
    assert "another distribution" in capsys.readouterr().out


def test_a_run_that_fails_is_reported(row):
    with pytest.raises(verify.UnfinishedRun, match="exit code 2"):
        run(["verify", row, "--seeds", "1", "--", "--env-args", '{"no_such_argument": 1}'])


@pytest.mark.parametrize(
    ("args", "error", "says"),
    [
        (["toi"], UnknownName, "toy"),
        (["toy", "--seeds", "0"], UsageError, "--seeds"),
        (["toy", "--steps", "50%"], UsageError, "30%"),
        (["toy", "--steps", "1000"], UsageError, "10%"),
        (["toy", "--steps", "x%"], UsageError, "10%"),
    ],
)
def test_what_is_refused(row, args, error, says):
    with pytest.raises(error, match=says):
        run(["verify", *args])
