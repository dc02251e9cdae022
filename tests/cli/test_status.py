"""The status of runs that `rlpyt status` shows."""

import json
import time

import pytest

import rlpyt
from rlpyt.cli import resume, status
from rlpyt.envs.toy import CountEnv
from rlpyt.experiments.options import read_options


@pytest.mark.parametrize(
    ("algo", "asynchronous", "ranks", "expected"),
    [
        ("vtrace", True, 1, ["sampler p", "training", "worker 0", "worker 1"]),
        ("a2c", False, 2, ["rank 1", "training", *2 * ["worker 0"], *2 * ["worker 1"]]),
    ],
)
def test_status_tells_what_every_process_is_doing(algo, asynchronous, ranks, expected, tmp_path):
    seen = []

    class Look(rlpyt.Hook):
        def on_iteration(self, runner, itr):
            while itr == 2 and len(seen) < len(expected):  # ranks and processes of samplers write
                time.sleep(0.02)
                found = status.run_status(tmp_path / "run")["processes"]
                seen[:] = [x["name"] for x in found if x["doing"] not in (None, "starting")]

    kind = dict(kind="cpu", n_workers=2, batch_T=16, batch_B=4, asynchronous=asynchronous)
    rlpyt.train(
        algo, CountEnv, steps=512, sampler=kind, ranks=ranks, run_dir=tmp_path / "run",
        hooks=[Look()], eval_episodes=0, video=False,
    )  # fmt: skip
    assert sorted(seen) == expected
    assert not [*(tmp_path / "run").glob("heartbeat*")]


def test_the_status_of_somebody_elses_run_imports_nothing(tmp_path, capsys):
    rlpyt.train("a2c", CountEnv, steps=64, run_dir=tmp_path / "run", sampler=dict(kind="serial"))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "env": "no_module:Env"}))
    assert status.main([str(tmp_path / "run")]) == 0
    assert "a2c on no_module:Env" in capsys.readouterr().out


@pytest.mark.parametrize("row", ["0,,3", "-1,5,3", "nan,nan,nan", "0,1e400,3", "0,six,3"])
def test_a_row_without_its_steps_is_shown(row, tmp_path, capsys):
    rlpyt.train("a2c", CountEnv, steps=64, run_dir=tmp_path / "run", sampler=dict(kind="serial"))
    names = ["Iteration", "CumSteps", "StepsPerSecond"]
    header = ",".join(f"Diagnostics/{name}" for name in names)
    (tmp_path / "run" / "progress.csv").write_text(f"{header}\n{row}\n")
    assert status.main([str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert f"{5 if '5' in row else 'unknown number'} of 64 steps" in shown or "nan" in row


def test_a_table_without_the_column_of_steps_is_shown_and_resumed(tmp_path, capsys):
    settings = dict(sampler=dict(kind="serial"), eval_episodes=0, video=False)
    rlpyt.train("a2c", CountEnv, steps=64, run_dir=tmp_path / "run", **settings)
    (tmp_path / "run" / "progress.csv").write_text("Diagnostics/Iteration\n0\n")
    assert status.main([str(tmp_path / "run")]) == 0
    assert "unknown number of 64 steps · newest row" in capsys.readouterr().out
    assert not resume._is_complete(tmp_path / "run", read_options(tmp_path / "run"))


def test_runs_in_a_directory_are_shown_as_a_table(tmp_path, capsys):
    settings = dict(sampler=dict(kind="serial"), eval_episodes=0, video=False)
    for seed in (0, 1):
        path = tmp_path / "runs" / f"seed_{seed}"
        rlpyt.train("a2c", CountEnv, steps=64, seed=seed, run_dir=path, **settings)
    assert status.main([str(tmp_path / "runs")]) == 0
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()[-2:]]
    assert rows == [["seed_0", "done", "64"], ["seed_1", "done", "64"]]
    assert status.main([str(tmp_path / "runs"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [[run["name"], run["state"], f"{run['steps']}"] for run in found] == rows
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no runs found in"):
        status.main([str(tmp_path / "empty")])
