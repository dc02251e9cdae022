"""A package that stands for mlflow, with a server in a directory."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from rlpyt.utils.logging.tracker_process import WAIT_VARIABLE

# Stands for the package "mlflow": a server in a directory, which does not answer while there is
# a file "down", and hangs while there is a file "hangs"; or one with an address.
PACKAGE = """
import json, os, time, types, urllib.request
from pathlib import Path

SERVER = Path(os.environ["MLFLOW_TRACKING_URI"])

class Metric(types.SimpleNamespace):
    def __init__(self, key, value, timestamp, step):
        super().__init__(key=key, value=value, step=step)

def Param(key, value):
    return key, value

def record(*event):
    if os.environ["MLFLOW_TRACKING_URI"].startswith("http"):
        content = json.dumps(event).encode()
        urllib.request.urlopen(os.environ["MLFLOW_TRACKING_URI"], content).read()
        return
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
    monkeypatch.setenv(WAIT_VARIABLE, "100")  # the machine may be busy
    return tmp_path / "server"


@pytest.fixture
def silent_server(mlflow_server, monkeypatch):
    """Start a server that accepts connections and never answers, until ``answers`` is set."""
    received, answers, ended = [], threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if not answers.is_set():
                ended.wait()
                return
            received.append(json.loads(content))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield SimpleNamespace(answers=answers, received=received)
        ended.set()
        server.shutdown()
        thread.join()


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
