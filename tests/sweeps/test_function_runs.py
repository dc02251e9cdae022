"""lagom's run_experiment: directories, results, failures, resuming."""

import copy
import json
import os

import numpy as np
import pytest

from rlpyt.experiments.config import Config, Grid
from rlpyt.experiments.experiment import ExperimentError, run_experiment
from rlpyt.sweeps.view import read_sweep


def config():
    return Config({"lr": Grid([0.1, 0.2]), "make": lambda x: 2 * x})


def quiet(line):
    pass


@pytest.mark.parametrize("max_workers", [None, 2])
def test_every_configuration_is_called_with_every_seed(tmp_path, max_workers):
    offset = 1000  # a closure

    def run(config, seed, device, logdir):
        with open(f"{logdir}/lr.json", "w") as file:
            json.dump([config["lr"], str(device)], file)
        return offset + config["make"](config["ID"]) + seed

    seeds = [7, 8] if max_workers is None else [7]
    results = run_experiment(run, config(), seeds, tmp_path, max_workers, say=quiet)
    assert results == [1000 + 2 * ID + seed for ID in (0, 1) for seed in seeds]
    for ID, lr in enumerate([0.1, 0.2]):
        for seed in seeds:
            assert json.loads((tmp_path / str(ID) / str(seed) / "lr.json").read_text()) == [
                lr,
                "cpu",
            ]
    if max_workers is not None:  # the directory is this experiment's alone
        with pytest.raises(FileExistsError, match="another experiment"):
            run_experiment(run, config(), [9], tmp_path, max_workers, say=quiet)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"net": {"size": 1}}, {"net": {"size": 2}}),
        ({"k": np.int64(5)}, {"k": np.int64(7)}),
        ({"x": np.zeros(3)}, {"x": np.ones(3)}),
        ({"x": np.nan, "k": 2**70}, {"x": np.nan, "k": 2**70 + 1}),
    ],
    ids=["dictionary", "number", "array", "neither finite nor small"],
)
def test_other_values_are_another_experiment(one, other, tmp_path):
    def run(config, seed, device, logdir):
        return seed

    assert run_experiment(run, Config(one), [0], tmp_path, 1, say=quiet) == [0]
    assert run_experiment(run, Config(copy.deepcopy(one)), [0], tmp_path, 1, say=quiet) == [0]
    with pytest.raises(FileExistsError, match="another experiment"):
        run_experiment(run, Config(other), [0], tmp_path, 1, say=quiet)


def test_a_resumed_experiment_repeats_no_call(tmp_path):
    mended = tmp_path / "mended"
    logs = tmp_path / "logs"

    def run(config, seed, device, logdir):
        with open(f"{logdir}/called", "a") as file:
            file.write("x")
        if config["ID"] == 1 and not mended.exists():
            raise OSError("the disk was unplugged")
        return seed

    with pytest.raises(ExperimentError, match=r"(?s)1 of 2 calls.*1/5.*unplugged") as caught:
        run_experiment(run, config(), [5], logs, 2, say=quiet)
    assert "Traceback" in str(caught.value) and "1/5 (exit code 1)" in str(caught.value)
    assert caught.value.exit_codes == {"1/5": 1}
    assert read_sweep(logs).counts() == {"done": 1, "failed": 1}
    mended.touch()

    def mended_run(config, seed, device, logdir):
        return 10 * run(config, seed, device, logdir)

    assert run_experiment(mended_run, config(), [5], logs, 1, say=quiet) == [5, 50]
    assert (logs / "0" / "5" / "called").read_text() == "x"
    assert read_sweep(logs).about.resources.n_cpu_core == 1, "workers of the second call"


def test_calls_see_the_gpus_that_their_device_indices_refer_to(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")

    def run(config, seed, device, logdir):
        return str(device), os.environ["CUDA_VISIBLE_DEVICES"]

    seen = run_experiment(run, config(), [5], tmp_path, 1, use_gpu=True, say=quiet)
    assert seen == [("cuda:0", "3,5"), ("cuda:1", "3,5")]


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1]])
def test_seeds_must_be_nonempty_and_distinct(tmp_path, seeds):
    with pytest.raises(ValueError, match="seed"):
        run_experiment(lambda *_: 0, config(), seeds, tmp_path, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"run": "run"}, TypeError, "run='run'"),
        ({"config": {"lr": 0.1}}, TypeError, "config .*got {'lr': 0.1}"),
        ({"log_dir": "a_file"}, NotADirectoryError, "a_file is a file"),
        ({"log_dir": "a_file/below"}, NotADirectoryError, "a_file is a file"),
        ({"seeds": range(501)}, ValueError, "1,002 runs.* max_runs "),
    ],
)
@pytest.mark.parametrize("max_workers", [None, 1])
def test_invalid_arguments_are_refused_before_any_call(tmp_path, change, error, words, max_workers):
    (tmp_path / "a_file").touch()
    given = {"run": print, "config": config(), "seeds": [0], "log_dir": "new", **change}
    given["log_dir"] = tmp_path / given["log_dir"]
    with pytest.raises(error, match=words):
        run_experiment(**given, max_workers=max_workers)
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


def test_a_missing_gpu_is_refused(tmp_path):
    import torch

    gpu = torch.cuda.device_count()
    with pytest.raises(ValueError, match="GPU"):
        run_experiment(lambda *_: 0, config(), [0], tmp_path, 1, use_gpu=True, gpu_ids=[gpu])
