"""Population-based training: copying between members, and recovery after failures."""

import contextlib
import json
import os

import numpy as np
import pytest

from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.launcher import SourceError
from rlpyt.sweeps.population import keep, perturbed, read_standing, truncated
from rlpyt.sweeps.search import Search
from rlpyt.sweeps.spec import Draw
from rlpyt.sweeps.view import read_sweep
from tests.sweeps.searching import carry_out, launch, source, sweep_at

OPTIONS = "{steps: 800, sampler.batch_T: 10, sampler.batch_B: 2, sampler.kind: serial}"
SAMPLE = "{algo.learning_rate: {log_uniform: [1e-4, 1e-2]}}"


def write_file(directory, search="", sample=SAMPLE, options=OPTIONS, seeds=1, population=4):
    search = f"{{method: pbt, population: {population}, interval_steps: 200{search}}}"
    path = directory / "population.yaml"
    path.write_text(
        f"train: ppo\nenv: CartPole-v1\noptions: {options}\n"
        f"sample: {sample}\nsearch: {search}\nseeds: {seeds}\n"
    )
    return path


def train(sweep, population, job, score):
    """Leave behind what a stretch would, with its name as what was learnt."""
    place = sweep.path / job.job.run_dir / "checkpoint" / "checkpoint-1"
    before = place / "learnt"
    learnt = before.read_text() if before.exists() else ""
    place.mkdir(parents=True, exist_ok=True)
    before.unlink(missing_ok=True)  # files of checkpoints are never changed
    before.write_text(f"{learnt}/{job.job.name}")
    carry_out(sweep, job, score)
    population.ended(job, "done")


def learnt(sweep, number):
    (path,) = (sweep.path / f"member_{number}").glob("run_*/checkpoint/*/learnt")
    return path.read_text()


@pytest.mark.parametrize(
    ("scores", "quantile", "best", "worst"),
    [
        ([3, 9, 1, 5, 7, 2, 8, 4], 0.25, [1, 6], [5, 2]),
        ([3, 9, 1], 0.25, [1], [2]),
        ([3, 9], 0.5, [1], [0]),
        ([3, 9, 1, 5, 7], 0.5, [1, 4], [0, 2]),
        ([3], 0.5, [], []),
    ],
)
def test_truncation_selects_equal_numbers_of_best_and_worst(scores, quantile, best, worst):
    assert truncated(dict(enumerate(scores)), Search(quantile=quantile)) == (best, worst)
    negative = {member: -score for member, score in enumerate(scores)}
    lower_is_better = Search(quantile=quantile, direction="minimize")
    assert truncated(negative, lower_is_better) == (best, worst)


def test_perturbed_numbers_stay_within_their_range():
    search, rng = Search(method="pbt", perturb=1.25, resample=0), np.random.default_rng(0)
    draw = Draw("log_uniform", (1e-4, 1e-2))
    assert {perturbed(4e-3, draw, search, rng) for _ in range(50)} == {4e-3 * 1.25, 4e-3 / 1.25}
    assert {perturbed(9e-3, draw, search, rng) for _ in range(50)} == {1e-2, 9e-3 / 1.25}
    whole = Draw("integer", (1, 10))
    assert {perturbed(4, whole, search, rng) for _ in range(50)} == {5, 3}
    assert {perturbed(1, whole, search, rng) for _ in range(50)} == {1, 2}
    assert all(type(perturbed(4, whole, search, rng)) is int for _ in range(5))
    # A bound written as a whole number makes no whole number of the setting.
    assert perturbed(0.99, Draw("uniform", (0, 1)), search, rng) in (1.0, 0.99 / 1.25)
    steps = Draw("choice", ("a", "b", "c"))
    assert {perturbed("b", steps, search, rng) for _ in range(50)} == {"a", "c"}
    assert {perturbed("a", steps, search, rng) for _ in range(50)} == {"a", "b"}


def test_list_choices_read_from_json_are_perturbed():
    search, rng = Search(method="pbt", resample=0), np.random.default_rng(0)
    draw = Draw("choice", ([0.9, 0.999], [0.5, 0.9]))
    value = json.loads(json.dumps(draw.values[0]))
    assert perturbed(value, draw, search, rng) in draw.values


def test_values_are_resampled_with_the_given_probability():
    search, rng = Search(method="pbt", resample=0.25), np.random.default_rng(0)
    draw = Draw("uniform", (0.0, 1.0))
    values = [perturbed(0.5, draw, search, rng) for _ in range(4000)]
    anew = np.mean([value not in (0.6, 0.5 / 1.2) for value in values])
    assert anew == pytest.approx(0.25, abs=0.03)


def test_members_advance_evenly_and_the_worst_copy_the_best(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, ", resample: 0"))
    population, scores = source(sweep), [1.0, 4.0, 2.0, 3.0]
    for at in range(4):
        for _ in range(4):  # one slot
            job = population.next(sweep)
            marks = job.job.settings
            assert marks["round"] == at and marks["ends"] == 200 * (at + 1)
            train(sweep, population, job, scores[marks["member"]] + 10 * at)
    assert population.next(sweep) is None and population.is_over()
    jobs = {(j.job.settings["member"], j.job.settings["round"]): j.job for j in sweep.jobs()}
    assert [jobs[i, 0].settings["from"] for i in range(4)] == [0, 1, 2, 3]
    # At the first comparison member 1 is the best, member 0 the worst.
    assert [jobs[i, 1].settings["from"] for i in range(4)] == [1, 1, 2, 3]
    key = "algo.learning_rate"
    ratio = jobs[0, 1].settings[key] / jobs[1, 0].settings[key]
    assert ratio == pytest.approx(1.2) or ratio == pytest.approx(1 / 1.2)
    assert jobs[1, 1].settings[key] == jobs[1, 0].settings[key]
    assert jobs[0, 1].config["algo"]["learning_rate"] == jobs[0, 1].settings[key]
    # Member 0 stays the worst, so it takes over every time.
    before = "".join(f"/member_1/round_{at}" for at in range(3))
    assert learnt(sweep, 0) == f"{before}/member_0/round_3"
    assert learnt(sweep, 3) == "".join(f"/member_3/round_{at}" for at in range(4))


def test_the_next_round_waits_for_scores_of_all_members(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    population = source(sweep)
    first = [population.next(sweep) for _ in range(4)]
    for job, score in zip(first[:3], (1.0, 2.0, 3.0)):
        train(sweep, population, job, score)
    assert population.next(sweep) is None and not population.is_over()
    train(sweep, population, first[3], 0.0)
    second = [population.next(sweep) for _ in range(4)]
    assert [job.job.settings["from"] for job in second] == [0, 1, 2, 2]
    assert population.next(sweep) is None


def test_a_member_copies_the_checkpoint_that_was_compared(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    population = source(sweep)
    for score in (4.0, 3.0, 2.0, 1.0):
        train(sweep, population, population.next(sweep), score)
    train(sweep, population, population.next(sweep), -5.0)  # the best, a stretch later
    population.next(sweep), population.next(sweep)
    assert population.next(sweep).job.settings["from"] == 0
    assert learnt(sweep, 3) == "/member_0/round_0"


def test_members_without_scores_continue_alone_with_a_warning(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, ", metric: ReturnAverage"))
    population = source(sweep)
    with pytest.warns(UserWarning, match="column ReturnAverage"):
        for _ in range(16):
            job = population.next(sweep)
            assert job.job.settings["from"] == job.job.settings["member"]
            train(sweep, population, job, 1.0)
    assert population.is_over()


def test_a_missing_metric_ends_the_population_search(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, ", metric: Lost"))
    population = source(sweep)
    with pytest.raises(SourceError, match="member_0/round_0 .*column 'Lost'"):
        train(sweep, population, population.next(sweep), 1.0)


def test_a_failed_member_continues_as_a_copy(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    population = source(sweep)
    for score in (1.0, 2.0, None, 3.0):
        job = population.next(sweep)
        if score is None:
            carry_out(sweep, job, exit_code=2)
            population.ended(job, "failed")
        else:
            train(sweep, population, job, score)
    jobs = [population.next(sweep) for _ in range(4)]
    assert [job.job.settings["from"] for job in jobs] == [3, 1, 3, 3]
    for job in jobs:
        train(sweep, population, job, 1.0)
    assert learnt(sweep, 2) == "/member_3/round_0/member_2/round_1"
    for _ in range(8):
        train(sweep, population, population.next(sweep), 1.0)
    assert population.is_over()


def test_the_lock_of_a_member_on_a_lost_node_is_removed(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, population=2))
    population = source(sweep)
    first, second = population.next(sweep), population.next(sweep)
    train(sweep, population, first, 1.0)
    carry_out(sweep, second, exit_code=1)
    population.ended(second, "failed")
    lock = sweep.path / second.job.run_dir / "run.lock"
    lock.write_text(json.dumps({"pid": 1, "started": 1.0, "host": "node7"}))
    again = [population.next(sweep) for _ in range(2)][1]
    assert again.job.run_dir == second.job.run_dir and not lock.exists()


def test_a_search_ends_when_all_members_have_failed(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    population = source(sweep)
    for job in [population.next(sweep) for _ in range(4)]:
        carry_out(sweep, job, exit_code=2)
        population.ended(job, "failed")
    assert population.next(sweep) is None and population.is_over()
    assert source(sweep).is_over()


@pytest.mark.parametrize("heard", [True, False])
def test_a_second_launcher_makes_the_same_decisions(tmp_path, heard):
    def begin(place):
        sweep = sweep_at(tmp_path / place / "sweep", write_file(tmp_path))
        population = source(sweep)
        jobs = [population.next(sweep) for _ in range(4)]
        for job, score in zip(jobs, (3.0, 1.0, 2.0, 4.0)):
            train(sweep, population, job, score)
        return sweep, population, population.next(sweep)

    sweep, population, job = begin("whole")
    expected = [job, *(population.next(sweep) for _ in range(3))]
    killed, population, _ = begin("killed")
    add = population.runs.sweep.add

    def dies(job):
        raise KeyboardInterrupt

    population.runs.sweep.add = dies
    with pytest.raises(KeyboardInterrupt):  # the checkpoint is in place, the job is not
        population.next(killed)
    population.runs.sweep.add = add
    if not heard:  # nor was the snapshot of the last one
        (killed.jobs()[3].path / "standing.json").unlink()
    population = source(killed)
    found = [killed.jobs()[4], *(population.next(killed) for _ in range(3))]
    assert [one.job.settings for one in found] == [one.job.settings for one in expected]
    assert learnt(killed, 1) == learnt(sweep, 1) == "/member_3/round_0"


def test_an_interrupted_copy_of_a_checkpoint_is_repeated(tmp_path, monkeypatch):
    run_dir, job = tmp_path / "run", JobDirectory(tmp_path / "00000")
    (run_dir / "checkpoint").mkdir(parents=True)
    job.path.mkdir()
    for name in "abc":
        (run_dir / "checkpoint" / name).write_text("new")
    link = os.link

    def dies(source, target):
        if source.endswith("b"):
            raise KeyboardInterrupt
        link(source, target)

    monkeypatch.setattr(os, "link", dies)
    with pytest.raises(KeyboardInterrupt):
        keep(run_dir, job, {"score": 1.0})
    assert read_standing(job) == {}
    monkeypatch.undo()
    keep(run_dir, job, {"score": 1.0})
    assert read_standing(job) == {"score": 1.0}
    assert [(job.path / "checkpoint" / name).read_text() for name in "abc"] == ["new"] * 3


def test_checkpoints_are_copied_without_hard_links(tmp_path, monkeypatch):
    def refuses(source, target):
        raise PermissionError(f"{target}: no hard links")

    monkeypatch.setattr(os, "link", refuses)
    job = JobDirectory(tmp_path / "00000")
    job.path.mkdir()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "a").write_text("weights")
    keep(tmp_path, job, {"score": 1.0})
    assert (job.path / "checkpoint" / "a").read_text() == "weights"


def test_the_status_shows_one_line_per_member(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    population = source(sweep)
    for _ in range(6):
        train(sweep, population, population.next(sweep), 1.0)
    view = read_sweep(sweep.path)
    assert [run.name for run in view.runs] == [
        "member_0/round_1", "member_1/round_1", "member_2/round_0", "member_3/round_0",
    ]  # fmt: skip
    assert {run.total_steps for run in view.runs} == {800}
    assert [len(run.attempts) for run in view.runs] == [2, 2, 1, 1]
    assert [round(run.seconds) for run in view.runs] == [2, 2, 1, 1]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_member_resumes_from_another_ones_weights_with_its_own_learning_rate(tmp_path):
    options = (
        "{steps: 400, sampler.batch_T: 50, sampler.batch_B: 2, sampler.kind: serial, "
        "eval_episodes: 2, log_interval_steps: 100, checkpoint_interval_steps: 200, "
        "algo.linear_lr_schedule: false}"
    )
    sample = "{algo.learning_rate: {log_uniform: [1e-4, 1e-2]}}"
    path = write_file(tmp_path, ", resample: 0, quantile: 0.5", sample, options, population=2)
    sweep = sweep_at(tmp_path / "sweep", path)
    said = launch(sweep)
    assert not any("failed" in line for line in said), said
    jobs = sweep.jobs()
    assert len(jobs) == 4
    (worst,) = [j for j in jobs if j.job.settings["from"] != j.job.settings["member"]]
    marks = worst.job.settings
    rate = marks["algo.learning_rate"]
    begun = next(j for j in jobs if j.job.settings["member"] == marks["from"])
    ratio = rate / begun.job.settings["algo.learning_rate"]
    assert ratio == pytest.approx(1.2) or ratio == pytest.approx(1 / 1.2)
    run_dir = sweep.path / worst.job.run_dir
    checkpoints = sorted((run_dir / "checkpoint").iterdir())
    source_dir = sweep.path / begun.job.run_dir / "checkpoint"
    inherited, own = checkpoints
    arrays = [place / "tensors.safetensors" for place in (inherited, own)]
    same = source_dir / inherited.name / "tensors.safetensors"
    assert arrays[0].read_bytes() == same.read_bytes() != arrays[1].read_bytes()
    text = (own / "state.json").read_text() + (own / "manifest.json").read_text()
    assert repr(rate) in text and json.loads((run_dir / "config.json").read_text())
    assert "Resumed from" in (run_dir / "debug.log").read_text()
    assert json.loads((run_dir / "config.json").read_text())["algo"]["learning_rate"] == rate
    for view in read_sweep(sweep.path).runs:
        assert view.state == "done" and view.steps == 400 == view.total_steps


@pytest.mark.parametrize("n, name, refused", [
    (3, "discount", True), (1, "discount", False), (1, "pri_alpha", True), 
])  # fmt: skip
def test_settings_of_what_a_replay_holds_are_not_searched(n, name, refused, tmp_path):
    """The next segment could not load the replay of the one before."""
    options = OPTIONS.replace("{", f"{{algo.n_step_return: {n}, ", 1)
    path = write_file(tmp_path, sample=f"{{algo.{name}: {{choice: [0.5, 0.9]}}}}", options=options)
    path.write_text(path.read_text().replace("train: ppo", "train: dqn"))
    context = pytest.raises(ValueError, match=rf"algo\.{name} cannot change")
    with context if refused else contextlib.nullcontext():
        sweep_at(tmp_path / "sweep", path)
