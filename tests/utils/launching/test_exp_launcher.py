"""rlpyt's launch functions: one run, many runs, and the sweep among the examples."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.affinity import encode_affinity
from rlpyt.utils.launching.exp_launcher import launch_experiment, run_experiments
from rlpyt.utils.launching.variant import VariantLevel, load_variant, make_variants
from rlpyt.utils.logging import context
from rlpyt.utils.processes import available_cpus

EXAMPLE = Path(__file__).parents[3] / "examples" / "sweeps"
TELL = """
import json, os, sys
code, log_dir, run_ID, *args = sys.argv[1:]
told = dict(code=code, run_ID=run_ID, args=args, cores=sorted(os.sched_getaffinity(0)),
            egl=os.environ.get("EGL_DEVICE_ID"),
            variant=json.load(open(f"{log_dir}/variant_config.json")))
os.makedirs(f"{log_dir}/run_{run_ID}")
json.dump(told, open(f"{log_dir}/run_{run_ID}/told.json", "w"))
"""


@pytest.fixture
def script(tmp_path):
    """A script that writes down what it was told."""
    path = tmp_path / "tell.py"
    path.write_text(TELL)
    return path


def told(log_dir, run_ID=0):
    return json.loads((log_dir / f"run_{run_ID}" / "told.json").read_text())


def test_one_run_gets_its_arguments_cores_variant_and_gpu(tmp_path, script):
    if 0 not in available_cpus():
        pytest.skip("core 0 may not be used here")
    core, code = 0, "1cpu_1cpr_0hto"
    log_dir, variant = tmp_path / "logs", {"algo": {"learning_rate": np.float32(0.5)}}
    process = launch_experiment(script, core, code, log_dir, variant, 7, ["ppo", 3])
    assert process.wait(30) == 0
    found = told(log_dir, 7)
    assert found["code"] == f"{core}slt_{code}"
    assert (found["run_ID"], found["args"], found["egl"]) == ("7", ["ppo", "3"], None)
    assert found["variant"] == load_variant(log_dir) == {"algo": {"learning_rate": 0.5}}
    assert found["cores"] == [core]


def test_the_index_of_its_gpu_is_there_for_egl(tmp_path, script, monkeypatch):
    monkeypatch.setattr("rlpyt.sweeps.slots.n_gpus", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    code = "4cpu_4gpu_0saf"
    process = launch_experiment(script, 2, code, tmp_path / "logs", {}, 0, set_egl_device=True)
    assert process.wait(30) == 0
    assert told(tmp_path / "logs")["egl"] == "2"


def test_invalid_launches_are_refused_before_writing_files(tmp_path, script):
    logs = tmp_path / "logs"
    with pytest.raises(ValueError, match="run_slot=2: '2cpu_1cpr_0saf'"):
        launch_experiment(script, 2, "2cpu_1cpr_0saf", logs, {}, 0)
    with pytest.raises(ValueError, match="nonsense"):
        launch_experiment(script, 0, "nonsense", logs, {}, 0)
    with pytest.raises(FileNotFoundError, match="'nowhere.py'"):
        launch_experiment("nowhere.py", 0, "2cpu_1cpr_0saf", logs, {}, 0)
    assert not (logs / "run_0").exists()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return the root directory of experiments."""
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_an_experiment_has_its_variants_files_and_order(tmp_path, script, data, capsys):
    rates = np.array([1, 2])  # of a type that JSON does not know
    level = VariantLevel([("algo", "rate")], [[rate] for rate in rates], ["rate_1", "rate_2"])
    variants, log_dirs = make_variants(level)
    code = encode_affinity(n_cpu_core=2, set_affinity=False)
    given = dict(common_args=("all",), runs_args=[("one",), ("two",)])
    assert run_experiments(script, code, "told", 2, variants, log_dirs, **given) == 0
    [directory] = data.glob("local/*/*/told")
    for rate, word in zip((1, 2), ("one", "two")):
        for run_ID in (0, 1):
            found = told(directory / f"rate_{rate}", run_ID)
            assert (found["run_ID"], found["args"]) == (str(run_ID), ["all", word])
            assert found["variant"] == {"algo": {"rate": rate}}
    tree = (directory / "experiments_tree.txt").read_text()
    assert "2 settings x 2 runs = 4" in tree and tree.endswith("\nrate_1\nrate_2\n")
    assert (directory / "num_launched.txt").read_text() == "4 of 4 launched\n"
    view = read_sweep(directory)
    names = ["rate_1/run_0", "rate_2/run_0", "rate_1/run_1", "rate_2/run_1"]
    assert [run.name for run in view.runs] == names
    assert view.runs[3].settings == {"algo.rate": 2, "run_ID": 1}
    assert f"From another terminal: rlpyt status {directory}" in capsys.readouterr().out


def test_a_failed_run_is_told_by_the_exit_code(tmp_path, data):
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit(1)")
    code = encode_affinity(n_cpu_core=1, set_affinity=False)
    assert run_experiments(script, code, "fails", 1, [{}], ["only"], retries=0) == 1


@pytest.mark.parametrize(
    "change, complaint",
    [
        (dict(log_dirs=["a"]), "2 variants, 1 log_dirs, 2 runs_args"),
        (dict(runs_args=[()]), "2 variants, 2 log_dirs, 1 runs_args"),
        (dict(common_args="ppo"), r"'ppo' .*\('ppo',\)"),
        (dict(runs_args=["1", "2"]), "'1' .*sequence"),
        (dict(log_dirs=["a", "a/"]), r"twice: \['a'\]"),
        (dict(log_dirs=["a", "../b"]), r"'../b' "),
        (dict(log_dirs=["/a", "b"]), r"'/a' "),
        (dict(log_dirs=["a", "queue/b"]), "'queue'"),
        (dict(runs_per_setting=0), "2 variants, runs_per_setting=0"),
        (dict(variants=[], log_dirs=[]), "0 variants"),
        (dict(affinity_code="nonsense"), "nonsense"),
        (dict(affinity_code="4096cpu_1cpr"), "4096"),
        (dict(affinity_code="64cpu_64gpu"), "64 GPUs"),
        (dict(script="nowhere.py"), "'nowhere.py'"),
        (dict(variants=[{}, {"f": print}]), "variant .*JSON"),
        (dict(runs_per_setting=501), "1,002 runs.* max_runs "),
    ],
)
def test_invalid_experiments_are_refused_up_front(script, data, change, complaint):
    given = dict(
        script=script, affinity_code="2cpu_1cpr_0saf", experiment_title="x", runs_per_setting=1,
        variants=[{}, {"a": 1}], log_dirs=["a", "b"],
    )  # fmt: skip
    with pytest.raises((ValueError, FileNotFoundError, TypeError), match=complaint):
        run_experiments(**{**given, **change})
    assert not list(data.rglob("queue*")) and not list(data.rglob("run_*"))
    if "affinity_code" in change:
        assert not list(data.rglob("experiments_tree.txt"))


def rows(run_dir):
    with open(run_dir / "progress.csv") as file:
        return list(csv.DictReader(file))


def test_a_run_of_the_example_learns_what_its_variant_says(tmp_path):
    runner = {"n_steps": 1024, "log_interval_steps": 512}
    variant = {"runner": runner, "env": {"id": "Acrobot-v1"}}
    code = encode_affinity(n_cpu_core=1, cpu_per_run=1, set_affinity=False)
    process = launch_experiment(EXAMPLE / "train.py", 0, code, tmp_path, variant, 1, ["ppo"])
    assert process.wait(60) == 0
    assert [row["Diagnostics/CumSteps"] for row in rows(tmp_path / "run_1")] == ["512", "1024"]
    params = json.loads((tmp_path / "run_1" / "params.json").read_text())
    assert params["env"] == {"id": "Acrobot-v1"} and params["algo"]["learning_rate"] == 1e-3


@pytest.mark.slow
def test_the_example_sweep_runs_all_its_runs(tmp_path):
    command = [
        sys.executable,
        "-m",
        "rlpyt",
        "sweep",
        str(EXAMPLE / "launch.py"),
        "--steps",
        "4096",
    ]
    before = set(Path(context.LOG_DIR).glob("local/*/*/ppo_sweep"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    [directory] = set(Path(context.LOG_DIR).glob("local/*/*/ppo_sweep")) - before
    settings = [(r, e) for r in (0.001, 0.0003) for e in ("CartPole-v1", "Acrobot-v1")]
    for rate, env in settings:
        log_dir = directory / f"lr_{rate}" / env
        assert load_variant(log_dir) == {
            "algo": {"learning_rate": rate}, "env": {"id": env}, "runner": {"n_steps": 4096}
        }  # fmt: skip
        for run_ID in (0, 1):
            assert rows(log_dir / f"run_{run_ID}")[-1]["Diagnostics/CumSteps"] == "4096"
    assert "4 settings x 2 runs = 8" in (directory / "experiments_tree.txt").read_text()
    assert (directory / "num_launched.txt").read_text() == "8 of 8 launched\n"
    view = read_sweep(directory)
    assert view.counts() == {"done": 8} and view.n_slots == 2
    assert all(len(run.attempts) == 1 and run.total_steps == 4096 for run in view.runs)
    shutil.rmtree(directory.parent)
