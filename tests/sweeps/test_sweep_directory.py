"""Sweep directories: atomic creation, one sweep each, jobs in order."""

import json
import os

import pytest

from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.start import resume
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.resources import Resources
from tests.sweeps.launching import job, python, sweep_of


def test_jobs_are_ordered_by_number(tmp_path):
    sweep = sweep_of(tmp_path, [job(99_999), job(100_000), job(7)])
    assert [one.job.number for one in sweep.jobs()] == [7, 99_999, 100_000]


def test_partial_sweeps_of_killed_processes_do_not_block_new_ones(tmp_path):
    (tmp_path / f".queue.{os.getpid()}" / "00007").mkdir(parents=True)
    sweep = sweep_of(tmp_path, [job(0)])
    (sweep.queue / f".00001.{os.getpid()}").mkdir()
    sweep.add(job(1))
    assert [one.job.number for one in sweep.jobs()] == [0, 1]


def test_a_cluster_sweep_has_a_slot_for_each_parallel_run(tmp_path):
    resources = Resources(n_cpu_core=8, cpu_per_run=2)
    about = About("test", resources, where="slurm")
    sweep = sweep_of(tmp_path, [job(0)], about)
    sweep.jobs()[0].prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0))
    assert read_sweep(tmp_path).utilization() == 0.25


def test_a_sweep_is_created_atomically(tmp_path):
    def jobs():
        yield job(0)
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        SweepDirectory.create(tmp_path, sweep_of(tmp_path / "other", []).about, jobs())
    assert os.listdir(tmp_path) == ["other"]
    with pytest.raises(FileNotFoundError, match="holds no sweep"):
        SweepDirectory(tmp_path)


def test_a_directory_contains_at_most_one_sweep(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    with pytest.raises(FileExistsError, match="rlpyt sweep"):
        SweepDirectory.create(tmp_path, sweep.about, [])


def test_the_slower_of_two_simultaneous_creations_is_refused(tmp_path):
    def jobs():
        yield job(0)
        os.rename(tmp_path / "other" / "queue", tmp_path / "queue")  # the faster one's

    about = sweep_of(tmp_path / "other", [job(1)]).about
    with pytest.raises(FileExistsError, match="holds a sweep"):
        SweepDirectory.create(tmp_path, about, jobs())
    assert [one.job.number for one in SweepDirectory(tmp_path).jobs()] == [1]


@pytest.mark.parametrize("version", [1, 99])
def test_a_sweep_of_another_format_is_refused(tmp_path, version):
    about = sweep_of(tmp_path, []).queue / "sweep.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "format": version}))
    with pytest.raises(ValueError, match=f"format {version},"):
        SweepDirectory(tmp_path)


WRONG = {
    "sweep.json": {
        "title": 1,
        "search": "x",
        "place": [],
        "made": 1e308,
        "together": "2",
        "file_name": None,
    },
    "00000/job.json": {
        "number": 1e308,
        "retries": "x",
        "command": "ls",
        "run_dir": 3,
        "env": {"A": 1},
        "settings": [],
        "total_steps": "x",
    },
    "00000/attempt_1.json": {
        "number": None,
        "begun": float("nan"),
        "ended": 1e308,
        "exit_code": "0",
        "cpus": ["a"],
        "slot": 0.5,
    },
}


@pytest.mark.parametrize("file", WRONG)
def test_values_of_other_types_in_files_of_a_queue_are_named(tmp_path, file):
    sweep = sweep_of(tmp_path, [job(0), job(1)])
    for one in sweep.jobs():
        one.prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0))
    path = sweep.queue / file
    right = json.loads(path.read_text())
    for key, value in WRONG[file].items():
        path.write_text(json.dumps({**right, key: value}))
        if file == "sweep.json":
            with pytest.raises(ValueError, match=f"sweep.json is not .*{key}"):
                read_sweep(tmp_path)
        else:
            damaged, whole = read_sweep(tmp_path).runs
            assert f"{path} is damaged" in damaged.damage and key in damaged.damage
            assert whole.state == "done" and not whole.damage


@pytest.mark.parametrize("outside", ["/tmp/run", "../run", "a/../../run"])
def test_runs_outside_of_the_directory_of_a_sweep_are_not_shown(tmp_path, outside):
    sweep = sweep_of(tmp_path / "sweep", [job(0), job(1)])
    path = sweep.queue / "00000" / "job.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "run_dir": outside}))
    damaged, whole = read_sweep(tmp_path / "sweep").runs
    assert "run_dir must be below the sweep's directory" in damaged.damage and not whole.damage


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(tmp_path):
    sweep = sweep_of(tmp_path, [job(0)])
    for one in sweep.jobs():
        one.prepare(Attempt(1, python(""), begun=1.0, ended=2.0, exit_code=0))
    os.mkfifo(sweep.queue / "00000" / "lock")
    assert read_sweep(tmp_path).runs[0].state == "done"


def test_a_job_without_its_file_is_named_beside_the_others(tmp_path):
    sweep = sweep_of(tmp_path, [job(0), job(1)])
    (sweep.queue / "00000" / "job.json").unlink()
    (sweep.queue / "00007").touch()
    (sweep.queue / "0 (copy)").mkdir()
    missing, whole, no_directory = read_sweep(tmp_path).runs
    for damaged in (missing, no_directory):
        assert damaged.state == "failed" and "job.json is damaged" in damaged.damage
    assert whole.state == "queued"


def test_other_names_beside_attempts_are_no_attempts(tmp_path):
    (one,) = sweep_of(tmp_path, [job(0)]).jobs()
    (one.path / "attempt_1 (copy).json").write_text("{}")
    assert one.attempts() == [] and one.state() == "queued"


def test_a_sweep_for_a_larger_machine_is_refused_with_a_remedy(tmp_path):
    sweep_of(tmp_path, [job(0)], About("test", Resources(n_cpu_core=4096, cpu_per_run=1)))
    words = "4096 cores, .*rlpyt sweep .* --slots CODE"
    with pytest.raises(ValueError, match=words) as refused:
        resume(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "resources",
    [{"n_cpu_core": 2, "cpu_per_run": 3}, {"cores": 2}, {"n_cpu_core": "2"}, None, "missing"],
)
def test_a_sweep_with_invalid_resources_is_refused(tmp_path, resources):
    path = sweep_of(tmp_path, []).queue / "sweep.json"
    content = json.loads(path.read_text())
    content["resources"] = resources
    if resources == "missing":
        del content["resources"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="sweep.json"):
        SweepDirectory(tmp_path)


def test_many_jobs_are_synced_to_disk_once(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(os, "sync", lambda: synced.append("all"))
    sweep_of(tmp_path, [job(i, config={"steps": 1}) for i in range(20)])
    assert synced.count("all") == 1 and len(synced) < 10
