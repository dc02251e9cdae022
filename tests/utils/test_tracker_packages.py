"""Experiment trackers with their real packages, offline or with local databases."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.logging.tracker_process import WAIT_VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # they import slowly
ROW = {"ReturnAverage": 1.5, "CumTime (s)": 2.0}


@pytest.fixture(autouse=True)
def local(tmp_path, monkeypatch):
    """Let trackers store in the test's directory, whatever the environment says."""
    for name in os.environ:
        if name.startswith(("WANDB_", "MLFLOW_", "TRACKIO_", "HF_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(WAIT_VARIABLE, "300")  # the machine may be busy
    with logger.session():
        logger.set_console(False)
        yield


def log(run_dir, tracker, resume=False):
    """Log rows at 10 and 20 steps, or resume after the first and log two more, with files."""
    with run_context(run_dir, 3, "ppo", dict(algo=dict(lr=0.1)), "none", False, resume, tracker):
        if resume:
            logger.rewind("Diagnostics/CumSteps", 10)
        for steps in (20, 30) if resume else (10, 20):
            logger.set_iteration(steps)
            for name, value in {"Diagnostics/CumSteps": steps, **ROW, "None": None}.items():
                logger.record_tabular(name, value)
            logger.dump_tabular()
        (run_dir / "evaluation.json").write_text('{"return_mean": 7.5, "seed": 3}')
        logger.attach(run_dir / "evaluation.json")
        if resume:
            image = pytest.importorskip("PIL.Image")
            image.new("RGB", (4, 3)).save(run_dir / "learning_curve.png")
            logger.attach(run_dir / "learning_curve.png")
            (run_dir / "video.mp4").write_bytes(b"\0" * 100)
            logger.attach(run_dir / "video.mp4")


def in_process(code):
    """Return the JSON that a program prints, which imports a package that imports slowly."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_mlflow_has_rows_settings_and_files_in_one_run(tmp_path):
    pytest.importorskip("mlflow")
    log(tmp_path / "run_3", "mlflow")
    log(tmp_path / "run_3", "mlflow", resume=True)
    found = in_process(
        """
        import json
        from mlflow.tracking import MlflowClient

        client = MlflowClient("sqlite:///mlflow.db")
        [run] = client.search_runs([client.get_experiment_by_name("rlpyt").experiment_id])
        print(json.dumps(dict(
            metrics={
                key: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, key)]
                for key in run.data.metrics
            },
            params=run.data.params,
            name=run.info.run_name,
            status=run.info.status,
            files=[file.path for file in client.list_artifacts(run.info.run_id)],
        )))
        """
    )
    assert [path.name for path in tmp_path.glob("*mlflow*")] == ["mlflow.db"]
    steps = [[10, 10], [20, 20], [30, 30]]
    assert found["metrics"] == {
        "Diagnostics/CumSteps": steps,
        "ReturnAverage": [[step, 1.5] for step, _ in steps],
        "CumTime s": [[step, 2.0] for step, _ in steps],
        "evaluation/return_mean": [[20, 7.5], [30, 7.5]],
    }
    assert found["params"] == {"algo.lr": "0.1", "name": "ppo", "run_ID": "3"}
    assert found["name"] == f"{tmp_path.name}/run_3" and found["status"] == "FINISHED"
    assert found["files"] == ["evaluation.json", "learning_curve.png", "video.mp4"]


def test_trackio_has_rows_settings_and_files_in_one_run(tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    log(tmp_path / "run_3", "trackio")
    log(tmp_path / "run_3", "trackio", resume=True)
    found = in_process(
        """
        import json
        from trackio.sqlite_storage import SQLiteStorage

        [name] = SQLiteStorage.get_runs("rlpyt")
        rows = SQLiteStorage.get_logs("rlpyt", name)
        config = SQLiteStorage.get_run_config("rlpyt", name)
        print(json.dumps(dict(name=name, rows=rows, config=config), default=str))
        """
    )
    assert found["name"].startswith(f"{tmp_path.name}/run_3-")
    assert found["config"]["algo"] == {"lr": 0.1} and found["config"]["_Group"] == "ppo"
    rows = [row for row in found["rows"] if "ReturnAverage" in row]
    assert [row["step"] for row in rows] == [10, 20, 30]
    assert all(ROW.items() <= row.items() for row in rows)
    others = [row for row in found["rows"] if "ReturnAverage" not in row]
    assert {key for row in others for key in row} - {"step", "timestamp"} == {
        *("evaluation/return_mean", "learning_curve", "video")
    }


def records(path):
    """Yield the records of a .wandb file: LevelDB's log format after a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, position, record = path.read_bytes(), 7, b""
    while position + 7 <= len(content):
        left = 32768 - position % 32768
        if left < 7:  # no room for the header of a fragment
            position += left
            continue
        length = int.from_bytes(content[position + 4 : position + 6], "little")
        kind = content[position + 6]
        record += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # complete, or the last fragment
            found = Record()
            found.ParseFromString(record)
            yield found
            record = b""


def test_wandb_has_rows_settings_and_files_in_its_newest_offline_run(tmp_path):
    pytest.importorskip("wandb")
    log(tmp_path / "run_3", "wandb")
    log(tmp_path / "run_3", "wandb", resume=True)
    paths = sorted(tmp_path.glob("run_3/wandb/offline-run-*/*.wandb"), key=os.path.getmtime)
    assert len(paths) == 2 and paths[0].name == paths[1].name  # of one run
    rows, config, files = {}, {}, set()
    for record in records(paths[1]):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            items = {i.nested_key[0]: i.value_json for i in record.history.item}
            rows.setdefault(record.history.step.num, {}).update(items)
        elif kind == "run":
            config |= {i.key: i.value_json for i in record.run.config.update}
            name, resume = record.run.display_name, record.run.resume
        elif kind == "files":
            files |= {file.path for file in record.files.files}
    assert [*rows] == [10, 20, 30] and name == f"{tmp_path.name}/run_3"
    assert not resume  # uploaded, it replaces an earlier upload
    assert all(float(row["ReturnAverage"]) == 1.5 for row in rows.values())
    assert json.loads(config["algo"]) == {"lr": 0.1}
    assert {"learning_curve", "video"} < rows[30].keys()
    assert "evaluation.json" in files and any("video" in path for path in files)
