"""``--logger`` of `rlpyt train`, and ``rlpyt upload``."""

import pytest

from rlpyt.cli.train import read_flags
from tests.cli.test_commands import TINY, rlpyt_command
from tests.fake_mlflow import events, mlflow_server  # noqa: F401 - a fixture

SMALL = [*TINY, "--log-interval-steps", "1"]


@pytest.mark.parametrize(
    "flags", [["--logger", "csv,wandb"], ["--logger=wandb,csv"], ["--logger", "csv", "wandb"]]
)
def test_loggers_are_separated_by_commas_or_spaces(flags):
    options, _ = read_flags("ppo", "CartPole-v1", flags)
    assert set(options.logger) == {"csv", "wandb"}


def test_a_run_and_its_resumption_are_one_run_of_the_tracker(mlflow_server, tmp_path):  # noqa: F811
    run_dir, common = str(tmp_path / "run"), ["--run-dir", str(tmp_path / "run")]
    train = ["train", "ppo", "CartPole-v1", "--logger", "mlflow,tensorboard", *SMALL, *common]
    assert rlpyt_command(*train, "--steps", "64") == 0
    assert rlpyt_command("resume", run_dir, "--steps", "128") == 0
    found = events(mlflow_server)
    steps = [event[1] for event in found if event[0] == "row" and "ReturnAverage" in event[2]]
    files = ["evaluation.json", "learning_curve.png"]
    assert steps == sorted(set(steps)) and steps[-1] == 128
    assert [event[1] for event in found if event[0] == "file"] == 2 * files
    assert [event[1] for event in found if event[0] == "end"] == 2 * ["FINISHED"]
    [params] = [event[1] for event in found if event[0] == "params"]
    assert params["algo_name"] == "ppo" and params["sampler.kind"] == "serial"
    assert [*(tmp_path / "run").glob("events.out.tfevents.*")]


def test_a_run_without_tracker_is_uploaded_on_request(mlflow_server, tmp_path, capsys):  # noqa: F811
    run_dir = str(tmp_path / "run")
    common = ["--run-dir", run_dir, "--steps", "64"]
    assert rlpyt_command("train", "ppo", "CartPole-v1", *SMALL, *common) == 0
    assert rlpyt_command("upload", run_dir) == 2
    assert "without an experiment tracker. Give one of wandb, mlflow" in capsys.readouterr().err
    assert rlpyt_command("upload", run_dir, "--logger", "mlflow") == 0
    assert [event[1] for event in events(mlflow_server) if event[0] == "file"] == [
        "evaluation.json",
        "learning_curve.png",
    ]
    (mlflow_server / "down").touch()
    (tmp_path / "run" / "logger_mlflow.json").unlink()
    with pytest.warns(RuntimeWarning, match="mlflow .*4 rows, 2 files"):
        assert rlpyt_command("upload", run_dir, "--logger", "mlflow") == 1
