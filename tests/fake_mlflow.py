"""A package that stands for mlflow, with a server in a directory."""

import json

import pytest

from rlpyt.utils.logging import tracking

# Stands for the package "mlflow": a server in a directory, which does not answer while there is
# a file "down", and hangs while there is a file "hangs".
PACKAGE = """
import json, os, time, types
from pathlib import Path

SERVER = Path(os.environ["MLFLOW_TRACKING_URI"])

class Metric(types.SimpleNamespace):
    def __init__(self, key, value, timestamp, step):
        super().__init__(key=key, value=value, step=step)

def Param(key, value):
    return key, value

def record(*event):
    while (SERVER / "hangs").exists():
        time.sleep(0.01)
    if (SERVER / "down").exists():
        raise ConnectionError("no route to host")
    with open(SERVER / "events", "a") as file:
        file.write(json.dumps(event) + "\\n")

class MlflowClient:
    def get_experiment_by_name(self, name):
        record("experiment", name)
    def create_experiment(self, name):
        return "0"
    def create_run(self, experiment_id, run_name, tags):
        record("create", run_name, tags)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="id"))
    def update_run(self, run_id, status):
        record("resume", run_id, status)
    def log_batch(self, run_id, metrics=(), params=()):
        if params:
            record("params", dict(params))
        for step in sorted({m.step for m in metrics}):
            record("row", step, {m.key: m.value for m in metrics if m.step == step})
    def log_artifact(self, run_id, path):
        record("file", os.path.basename(path))
    def set_terminated(self, run_id, status):
        record("end", status)
"""


@pytest.fixture
def mlflow_server(tmp_path, monkeypatch):
    """Install a package that stands for mlflow; return the directory of its server."""
    for name in ("__init__", "entities", "tracking"):
        file = tmp_path / "packages" / "mlflow" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PACKAGE)
    (tmp_path / "server").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "server"))
    monkeypatch.setattr(tracking, "FLUSH_S", 100.0)  # the machine may be busy
    return tmp_path / "server"


def events(server):
    path = server / "events"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rows(server):
    return [
        (step, row["x"])
        for kind, *rest in events(server)
        if kind == "row"
        for step, row in [rest]
        if "x" in row
    ]
