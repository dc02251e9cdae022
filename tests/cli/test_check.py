"""``rlpyt check``: from a name to a report and an exit code."""

import shutil
from pathlib import Path

import pytest

from rlpyt.cli.main import main

WALKS = Path(__file__).parents[1] / "testing" / "walks.py"


def check(*argv):
    with pytest.raises(SystemExit) as stop:
        main(["check", *argv])
    return stop.value.code


def test_a_good_environment_is_reported_and_exits_with_0(capsys):
    assert check("toy/memory", "--env-args", '{"delay": 2}', "--skip", "time-limit") == 0
    said = capsys.readouterr().out
    assert "check_env(MemoryEnv(delay=2)): 0 errors" in said and "ok   seeding" in said
    assert "Algorithms with an agent for these spaces: ppo, a2c, vtrace, impala, dqn," in said


def test_an_environment_in_a_file_is_found_and_its_faults_exit_with_1(
    tmp_path, monkeypatch, capsys
):
    shutil.copy(WALKS, tmp_path / "walks_in_a_file.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # and taken away again
    assert check("walks_in_a_file:IgnoresSeed") == 1
    assert "FAIL [seeding] reset does not honor the seed" in capsys.readouterr().out
    assert check("walks_in_a_file:Nothing") == 2
    assert "walks_in_a_file has no 'Nothing'" in capsys.readouterr().err


def test_a_wrong_name_exits_with_2(capsys):
    assert check("CartPole-v9") == 2
    assert "nearest" in capsys.readouterr().err
