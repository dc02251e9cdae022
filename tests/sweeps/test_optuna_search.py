"""Searches by Optuna: proposals, scores and pruning."""

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from typing import get_args, get_type_hints

import numpy as np
import pytest

optuna = pytest.importorskip("optuna")

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.launcher import SourceError
from rlpyt.sweeps.optuna_search import choice_texts, open_study
from rlpyt.sweeps.search import Search
from rlpyt.sweeps.start import resume
from rlpyt.utils.launching.resources import Resources
from tests.sweeps.searching import (
    SCRIPT,
    carry_out,
    cores,
    launch,
    score_of,
    source,
    sweep_at,
    write_file,
    write_rows,
)

COMPLETE, FAIL, PRUNED = (
    getattr(optuna.trial.TrialState, s) for s in ("COMPLETE", "FAIL", "PRUNED")
)


def trials(sweep):
    return optuna.load_study(
        study_name="sweep", storage=f"sqlite:///{sweep.queue}/optuna.db"
    ).get_trials()


def states(sweep):
    return [trial.state for trial in trials(sweep)]


def finish(sweep, study, until=None):
    """Carry out whatever is proposed."""
    while (job := study.next(sweep)) is not None and (until is None or len(sweep.jobs()) <= until):
        carry_out(sweep, job, score_of(job))
        study.ended(job, "done")


def test_a_trial_scores_the_mean_over_all_its_seeds(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, seeds="[4, 7]"))
    said = launch(sweep, cores(2))
    jobs = sweep.jobs()
    assert [job.job.name for job in jobs] == [
        f"trial_{i}/run_{s}" for i in range(4) for s in (4, 7)
    ]
    assert len({job.job.settings["x"] for job in jobs}) == 4
    for trial in trials(sweep):
        assert trial.state == COMPLETE
        assert trial.value == pytest.approx(-((trial.params["x"] - 3) ** 2) + 5.5)
    assert not any("fail" in line for line in said)


def test_the_optimum_of_a_known_function_is_found(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, search="{trials: 30}"))
    finish(sweep, source(sweep))
    best = max(trials(sweep), key=lambda trial: trial.value)
    drawn = np.random.default_rng(0).uniform(0, 5, 30)
    assert abs(best.params["x"] - 3) < 0.1
    late = [abs(trial.params["x"] - 3) for trial in trials(sweep)[15:]]
    assert np.median(late) < 0.5 * np.median(abs(drawn - 3))


def test_a_column_can_be_minimized(tmp_path):
    search = "{trials: 20, metric: Loss, direction: minimize, pruner: none}"
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, search=search))
    study = source(sweep)
    while (job := study.next(sweep)) is not None:
        carry_out(sweep, job, score=99.0)
        text = f"Diagnostics/CumSteps,Loss\n100,7\n200,{-score_of(job)}\n"
        (sweep.path / job.job.run_dir / "progress.csv").write_text(text)
        study.ended(job, "done")
    assert all(t.value == pytest.approx((t.params["x"] - 3) ** 2) for t in trials(sweep))
    assert abs(study.study.best_params["x"] - 3) < 0.3


def test_a_trial_without_a_score_fails_with_a_reason(tmp_path):
    search = "{trials: 1, metric: ReturnAverage}"
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, search=search))
    study = source(sweep)
    job = study.next(sweep)
    carry_out(sweep, job, 1.0, rows=[(100, float("nan"))])
    with pytest.warns(UserWarning, match="column ReturnAverage"):
        study.ended(job, "done")
    assert states(sweep) == [FAIL]


def test_a_missing_metric_stops_the_search_until_it_is_corrected(tmp_path):
    path = write_file(tmp_path, "{trials: 3, metric: Lose, direction: minimize}")
    sweep = sweep_at(tmp_path / "sweep", path)
    said = []
    assert resume(sweep.path, say=said.append) == 1
    assert len(sweep.jobs()) == 1
    assert "trial_0/run_0 has finished without a column 'Lose' in" in said[-1]
    assert "did you mean 'Loss'? Columns: Diagnostics/CumSteps, ReturnAverage, Loss." in said[-1]
    copy = sweep.queue / path.name
    assert f"Correct metric in {copy}, then resume with `rlpyt sweep {sweep.path}`" in said[-1]
    copy.write_text(copy.read_text().replace("Lose", "Loss"))
    assert resume(sweep.path, say=said.append) == 0
    assert states(sweep) == [COMPLETE] * 3


def test_a_search_that_stops_ends_its_runs_first(tmp_path):
    script = SCRIPT.replace("score =", "__import__('time').sleep(60 * int(seed))\nscore =", 1)
    path = write_file(tmp_path, "{trials: 1, metric: Lose}", script=script, seeds=2)
    sweep = sweep_at(tmp_path / "sweep", path)
    with pytest.raises(SourceError, match="Lose"):
        launch(sweep, Resources(n_cpu_core=2, set_affinity=False))
    first, second = (job.attempts() for job in sweep.jobs())
    assert first[-1].exit_code == 0 and second[-1].told == "stopped"


def test_a_failed_run_fails_its_trial_and_the_search_continues(tmp_path):
    script = SCRIPT.replace("score =", "sys.exit(3) if log_dir.endswith('trial_1') else 0\nscore =")
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, script=script, retries=0))
    launch(sweep)
    assert states(sweep) == [COMPLETE, FAIL, COMPLETE, COMPLETE]


def test_trials_with_invalid_settings_are_not_counted(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(
        "train: ppo\nenv: CartPole-v1\noptions: {steps: 1000, sampler.batch_T: 16}\n"
        "sample: {algo.minibatches: {choice: [1, 2, 1000]}}\nsearch: {trials: 6}\n"
    )
    sweep = sweep_at(tmp_path / "sweep", path)
    study = source(sweep)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jobs = []
        while (job := study.next(sweep)) is not None:
            jobs.append(job)
    n_lost = sum("cannot be" in str(one.message) for one in caught)
    assert len(jobs) == 6 or n_lost == 6
    assert {job.job.settings["algo.minibatches"] for job in jobs} <= {1, 2, 1000}
    assert states(sweep).count(FAIL) == n_lost


def test_the_first_values_need_not_be_valid(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(
        "train: ppo\nenv: CartPole-v1\noptions: {steps: 1000}\n"
        "sample: {algo.learning_rate: {uniform: [0, 0.01]}}\nsearch: {trials: 1}\n"
    )
    study = source(sweep_at(tmp_path / "sweep", path))
    assert 0 < study.next(study.sweep).job.settings["algo.learning_rate"] < 0.01


def test_median_pruning_ends_all_seeds_of_a_trial(tmp_path):
    search = "{trials: 4, startup_trials: 3, warmup_steps: 200}"
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, search=search, seeds=3))
    study = source(sweep)
    for _ in range(3):
        for value in (8.0, 9.0, 10.0):
            job = study.next(sweep)
            rows = [(at, value) for at in (100, 200, 300)]
            write_rows(sweep, job, rows)
            look(study, job)
            carry_out(sweep, job, value, rows)
            study.ended(job, "done")
    going, waiting, last = (study.next(sweep) for _ in range(3))
    going.prepare(Attempt(1, begun=time.time()))
    with held(going):
        write_rows(sweep, going, [(100, 0.0)])
        look(study, going)
        assert going.attempts()[0].told == ""  # the warm-up is not over
        write_rows(sweep, going, [(100, 0.0), (200, 0.0)])
        look(study, going)
        assert going.attempts()[0].told == "pruned"
    assert [waiting.state(), last.state(), going.state()] == ["pruned"] * 3
    for job in (going, waiting, last):
        study.ended(job, "pruned")
    assert states(sweep) == [COMPLETE] * 3 + [PRUNED]
    assert trials(sweep)[3].intermediate_values == {100: 0.0, 200: 0.0}
    assert study.next(sweep) is None and study.is_over()


HOPELESS = """
import json, os, sys, time
log_dir, seed = sys.argv[2:4]
run = f"{log_dir}/run_{seed}"
os.makedirs(run, exist_ok=True)
bad = log_dir.endswith("trial_3")
with open(f"{run}/progress.csv", "w") as file:
    file.write("Diagnostics/CumSteps,ReturnAverage\\n")
    for steps in (100, 200):
        file.write(f"{steps},{-999 if bad else 1}\\n")
time.sleep(40 if bad else 0)
json.dump({"return_mean": 1.0}, open(f"{run}/evaluation.json", "w"))
"""


def test_a_running_trial_is_pruned(tmp_path):
    path = write_file(tmp_path, "{trials: 5, startup_trials: 3}", script=HOPELESS, seeds=2)
    sweep, begun = sweep_at(tmp_path / "sweep", path), time.monotonic()
    launch(sweep)
    assert states(sweep) == [COMPLETE] * 3 + [PRUNED, COMPLETE]
    running, waiting = sweep.jobs()[6:8]
    assert running.attempts()[0].told == "pruned" and not waiting.attempts()
    assert running.state() == waiting.state() == "pruned"
    assert time.monotonic() - begun < 30


def look(study, *jobs):
    study._next_report_s = 0.0  # tests do not wait
    study.watch(jobs)


def held(job):
    """The job's lock, as its supervisor would hold it."""
    import contextlib
    import fcntl

    @contextlib.contextmanager
    def hold():
        with open(job.path / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    return hold()


def test_rows_of_other_batch_sizes_are_compared_at_the_nearest_interval(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(
        "train: ppo\nenv: CartPole-v1\noptions: {steps: 9000, log_interval_steps: 1000}\n"
        "sample: {sampler.batch_B: {choice: [2, 4]}}\nsearch: {trials: 2}\n"
    )
    sweep = sweep_at(tmp_path / "sweep", path)
    study = source(sweep)
    for at in ((768, 1536, 3072), (512, 1024)):
        job = study.next(sweep)
        write_rows(sweep, job, [(steps, 1.0) for steps in at])
        look(study, job)
    assert [[*t.intermediate_values] for t in trials(sweep)] == [[1000, 2000, 3000], [1000]]


def test_rows_of_seeds_are_paired_by_their_steps(tmp_path):
    """Evaluations before training are left out, and so are steps that only one seed has."""
    path = tmp_path / "search.yaml"
    path.write_text(
        "train: ppo\nenv: CartPole-v1\nseeds: 2\noptions: {steps: 9000, log_interval_steps: 1000}\n"
        "sample: {algo.learning_rate: {choice: [0.1]}}\nsearch: {trials: 1}\n"
    )
    sweep = sweep_at(tmp_path / "sweep", path)
    study = source(sweep)
    jobs = [study.next(sweep) for _ in range(2)]
    write_rows(sweep, jobs[0], [(steps, steps) for steps in range(0, 6000, 1000)])
    write_rows(sweep, jobs[1], [(0, -1.0), *((steps, 3 * steps) for steps in (3000, 4000))])
    look(study, *jobs)
    (trial,) = trials(sweep)
    assert trial.intermediate_values == {3000: 6000, 4000: 8000}


def test_trials_of_an_interrupted_launcher_are_continued(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, seeds=2))
    study = source(sweep)
    add, calls = study.add, []

    def dies(*args, **kwargs):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(args)
        return add(*args, **kwargs)

    study.add = dies
    done, waiting = study.next(sweep), study.next(sweep)
    with pytest.raises(KeyboardInterrupt):  # after the proposal, before its runs
        study.next(sweep)
    proposed = trials(sweep)[1].params
    carry_out(sweep, done, 1.0)
    carry_out(sweep, waiting, 2.0)  # nobody hears of it
    study = source(sweep)
    assert trials(sweep)[0].value == 1.5
    assert not study.is_over()
    assert study.next(sweep).job.settings["x"] == proposed["x"]
    finish(sweep, study)
    left = sweep.jobs()[2]
    carry_out(sweep, left, score_of(left))
    source(sweep)
    assert states(sweep) == [COMPLETE] * 4 and len(sweep.jobs()) == 8


def test_missing_seeds_of_a_trial_are_added(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, seeds=3))
    study = source(sweep)
    first = study.next(sweep)
    for job in sweep.jobs()[1:]:  # as if killed after the first
        (job.path / "job.json").unlink()
        job.path.rmdir()
    carry_out(sweep, first, 1.0)
    study = source(sweep)
    again = [study.next(sweep) for _ in range(2)]
    assert [job.job.name for job in again] == ["trial_0/run_1", "trial_0/run_2"]
    assert {job.job.settings["x"] for job in again} == {first.job.settings["x"]}


def test_a_resumed_study_proposes_no_setting_twice(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, "{trials: 9, sampler: random}"))
    for n in (2, 5, 9):
        finish(sweep, source(sweep), until=n)
        for job in sweep.jobs():
            if job.state() == "queued":
                carry_out(sweep, job, 0.0)
    source(sweep)
    assert len({job.job.settings["x"] for job in sweep.jobs()}) == 9 == len(trials(sweep))


LAUNCH = "import sys; from rlpyt.sweeps.start import resume; sys.exit(resume(sys.argv[1]))"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(2))
def test_a_search_survives_kills_of_its_launchers(tmp_path, seed):
    rng = random.Random(seed)
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, "{trials: 8, pruner: none}", seeds=2))
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", LAUNCH, str(sweep.path)])
        begun, wanted = time.monotonic(), len(sweep.jobs()) + rng.randint(1, 4)
        while len(sweep.jobs()) < wanted and process.poll() is None:
            assert time.monotonic() - begun < 200
            time.sleep(0.001)
        time.sleep(rng.random() * 0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert (
        subprocess.run([sys.executable, "-c", LAUNCH, str(sweep.path)], check=False).returncode == 0
    )
    assert len(trials(sweep)) == 8 == states(sweep).count(COMPLETE)
    assert len(sweep.jobs()) == 16
    for trial in trials(sweep):
        own = [job for job in sweep.jobs() if job.job.settings["trial"] == trial.number]
        assert sorted(job.job.settings["seed"] for job in own) == [0, 1]
        assert {job.job.settings["x"] for job in own} == {trial.params["x"]}
        assert trial.value == pytest.approx(np.mean([score_of(job) for job in own]))


def test_a_starting_run_of_a_pruned_trial_does_not_start(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, seeds=2))
    study = source(sweep)
    pruned, beginning = study.next(sweep), study.next(sweep)
    beginning.prepare(Attempt(1, beginning.job.command))  # its supervisor has been started
    study.ended(pruned, "pruned")
    assert beginning.attempts()[0].told == "pruned" and beginning.state() == "pruned"


def test_choices_may_be_lists_and_mixed_types(tmp_path):
    values = [[64, 64], [64], "relu", None, 1, True, 1.0]
    assert len(set(choice_texts(values))) == len(values)
    assert choice_texts(["1", 1]) == ['"1"', "1"]
    sweep = sweep_at(
        tmp_path / "sweep",
        write_file(
            tmp_path, "{trials: 20}", "net: {choice: [[64, 64], [64], relu, null, 1, true]}"
        ),
    )
    study = source(sweep)
    while (job := study.next(sweep)) is not None:
        carry_out(sweep, job, 1.0)
        study.ended(job, "done")
    seen = [job.job.settings["net"] for job in sweep.jobs()]
    assert {repr(value) for value in seen} >= {"[64, 64]", "[64]", "'relu'", "None", "1", "True"}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", get_args(get_type_hints(Search)["sampler"]))
def test_samplers_propose_within_the_space(tmp_path, sampler):
    if sampler == "cmaes":
        pytest.importorskip("cmaes", reason="Optuna's CMA-ES needs the package cmaes")
    space = "x: {uniform: [0, 5]}, n: {integer: [1, 3]}, lr: {log_uniform: [1e-5, 1]}"
    search = f"{{trials: 12, sampler: {sampler}}}"
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, search, space))
    finish(sweep, source(sweep))
    for job in sweep.jobs():
        own = job.job.settings
        assert 0 <= own["x"] <= 5 and own["n"] in (1, 2, 3) and 1e-5 <= own["lr"] <= 1
    assert states(sweep) == [COMPLETE] * 12


@pytest.mark.slow
@pytest.mark.parametrize("pruner", ["none", "halving", "hyperband"])
def test_every_pruner_accepts_reports(tmp_path, pruner):
    path = tmp_path / "search.yaml"
    path.write_text(
        "train: ppo\nenv: CartPole-v1\noptions: {steps: 27000, log_interval_steps: 3000}\n"
        "sample: {algo.learning_rate: {log_uniform: [1e-4, 1e-2]}}\n"
        f"search: {{trials: 12, pruner: {pruner}, sampler: random}}\n"
    )
    sweep = sweep_at(tmp_path / "sweep", path)
    study, ended = source(sweep), 0
    for i in range(12):
        job = study.next(sweep)
        rows = [(3000 * at, -float(i)) for at in range(1, 9)]
        write_rows(sweep, job, rows)
        look(study, job)
        ended += job.state() == "pruned"
        carry_out(sweep, job, -float(i), rows)
        study.ended(job, job.state())
    assert ended == 0 if pruner == "none" else 3 <= ended <= 11
    assert len(states(sweep)) == 12


def test_a_search_resumes_from_another_working_directory(tmp_path, monkeypatch):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, "{trials: 1}"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    launch(SweepDirectory(sweep.path))
    assert states(sweep) == [COMPLETE]


def test_the_study_can_be_opened_without_a_source(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    _, study = open_study(sweep, Search(direction="minimize"))
    assert study.direction == optuna.study.StudyDirection.MINIMIZE
