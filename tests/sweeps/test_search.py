"""The key ``search`` of sweep files: valid and refused values, results and reports."""

import contextlib
import dataclasses
import doctest
import json
import os
import re
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from rlpyt.cli.sweep import main
from rlpyt.sweeps import plan
from rlpyt.sweeps import search as search_module
from rlpyt.sweeps.plan import plan_sweep
from rlpyt.sweeps.report import write_report
from rlpyt.sweeps.search import Search, read_search
from rlpyt.sweeps.search_results import read_results, write_best
from tests.sweeps.searching import SLOTS, carry_out, score_of, source, sweep_at, write_file

ROOT = Path(__file__).parents[2]
TRAIN = {"train": "ppo", "env": "CartPole-v1", "options": "{steps: 4000}",
         "sample": "{algo.learning_rate: {uniform: [0.001, 0.01]}}"}  # fmt: skip


def write(directory, **keys):
    path = directory / "search.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items() if value))
    return path


@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        ({"search": "{trails: 3}"}, 5, "trails.*trials"),
        ({"search": "{trials: none}"}, 5, "trials.*none"),
        ({"search": "{trials: 0}"}, 5, "trials=0 must be at least 1"),
        ({"search": "{pruner: middle}"}, 5, "median.*middle"),
        ({"search": "{sampler: tpi}"}, 5, "tpe.*tpi"),
        ({"search": "{method: genetic}"}, 5, "optuna.*genetic"),
        ({"search": "{direction: up}"}, 5, "maximize.*up"),
        ({"search": "{storage: study.db}"}, 5, "unknown key of search 'storage'"),
        ({"search": "{}", "sample": ""}, 4, "nothing to search"),
        ({"search": "{}", "grid": "{algo.epochs: [1, 2]}"}, 6, "a search has no grid"),
        ({"search": "{}", "n_samples": "3"}, 6, "n_samples is for sweeps without"),
    ],
)  # fmt: skip
def test_invalid_searches_are_refused_with_their_line(tmp_path, changes, line, words):
    path = write(tmp_path, **{**TRAIN, **changes})
    with pytest.raises((ValueError, TypeError)) as caught:
        plan_sweep(path, SLOTS)
    assert str(caught.value).startswith(f"{path}:{line}: "), caught.value
    assert re.search(words, str(caught.value)), caught.value


def test_scripts_refuse_reserved_setting_names(tmp_path):
    with pytest.raises(ValueError, match="yaml:2: trial"):
        plan_sweep(write_file(tmp_path, sample="trial: {integer: [0, 5]}"), SLOTS)


def test_packages_required_by_a_sampler_are_checked_before_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(
        search_module, "REQUIRED_PACKAGES", {"cmaes": ("a_package_that_is_missing",)}
    )
    path = write(tmp_path, **TRAIN, search="{sampler: cmaes}")
    with pytest.raises(ImportError, match="yaml:5: .*a_package_that_is_missing"):
        plan_sweep(path, SLOTS)


def test_an_empty_search_uses_optuna(tmp_path):
    planned = plan_sweep(write(tmp_path, **TRAIN, search="{}"), SLOTS)
    assert read_search(planned.spec) == Search()
    assert planned.about().search == {"method": "optuna"}


def test_the_documentation_lists_every_key_with_its_default():
    page = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]*\| ([^|]*) \|", page, re.MULTILINE)
    known = {}
    for item in dataclasses.fields(Search):
        whole = isinstance(item.default, int)
        known[item.name] = f"{item.default:_}" if whole else str(item.default) or "the sweep's own"
    assert {name: default.strip().strip("`") for name, default in rows} == known


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "sweeps").glob("*.yaml")))
def test_documented_searches_can_be_started(path, capsys):
    assert main([str(path), "--dry-run", "--slots", SLOTS]) == 0
    assert path.stem.replace("_", " ") in capsys.readouterr().out or path.stem == "learning_rates"


def test_a_dry_run_shows_the_space_and_an_example_run(tmp_path, capsys):
    path = write(tmp_path, **TRAIN, search="{trials: 3}", seeds=2)
    assert main([str(path), "--dry-run", "--slots", SLOTS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0]
        == "search: a search by optuna, 3 trials of 2 seeds each, 1 at once (1 core each, local)"
    )
    assert lines[1:3] == [
        "  algo.learning_rate  uniform from 0.001 to 0.01",
        "  to maximize evaluation",
    ]
    assert re.match(r"  for example algo\.learning_rate=0\.00\d+, by$", lines[3])
    assert lines[4] == "    rlpyt train --config {job}/config.json --run-dir {run_dir} --trust"
    sample = "x: {choice: [a b, null]}, y: {integer: [1, 3]}"
    main([str(write_file(tmp_path, sample=sample)), "--dry-run", "--slots", SLOTS])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["  x  choice of a b, null", "  y  integer from 1 to 3"]
    assert lines[-1].endswith("program.py {affinity} {sweep}/trial_0 0")


def test_examples_in_docstrings_run():
    result = doctest.testmod(plan)
    assert result.attempted and not result.failed


@pytest.fixture
def searched(tmp_path):
    """Eight trials of two seeds; the third has failed."""
    sample = "x: {uniform: [0, 5]}, net: {choice: [[64, 64], '<b>&']}"
    path = write_file(tmp_path, "{trials: 8, sampler: random}", sample, seeds=2)
    sweep = sweep_at(tmp_path / "sweep", path)
    study = source(sweep)
    while (job := study.next(sweep)) is not None:
        bad = job.job.settings["trial"] == 2
        carry_out(sweep, job, score_of(job), [(100, 1.0), (200, 2.0)], exit_code=2 * bad)
        study.ended(job, "failed" if bad else "done")
    return sweep


def test_results_contain_all_trials_and_the_best(searched):
    results = read_results(searched)
    assert [trial.state for trial in results.trials] == ["complete"] * 2 + ["fail"] + [
        "complete"
    ] * 5
    done = [trial for trial in results.trials if trial.value is not None]
    best = min(done, key=lambda trial: abs(trial.settings["x"] - 3))
    assert results.best.name == f"trial {best.number}"
    assert results.best.score == pytest.approx(-((best.settings["x"] - 3) ** 2) + 0.5)
    assert sum(results.importances.values()) == pytest.approx(1)
    assert {type(trial.settings["net"]) for trial in done} == {list, str}


def test_the_best_configuration_is_saved(searched):
    lines = write_best(searched)
    content = json.loads((searched.path / "best.json").read_text())
    best = read_results(searched).best
    assert content["settings"] == best.settings and content["score"] == best.score
    assert Path(content["run_dir"]).is_dir() and content["metric"] == "evaluation"
    assert lines[0].startswith(f"Best: {best.name}, evaluation") and content["command"] in lines[1]


def test_the_report_of_a_search(searched):
    text = write_report(searched.path).read_text(encoding="utf-8")
    for title in ("Best setting", "Search", "Trials"):
        assert f"<h2>{title}</h2>" in text
    for picture in ("Optimization history", "Importance of settings", "Score against each setting"):
        assert f'aria-label="{picture}"' in text
    assert "<b>&'" not in text and "&lt;b&gt;&amp;" in text
    assert "<h2>Comparisons</h2>" not in text  # of trials with each other it says nothing


@pytest.fixture
def one_trial(tmp_path):
    """A search with one trial, which is done."""
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path, "{trials: 1, sampler: random}"))
    study = source(sweep)
    job = study.next(sweep)
    carry_out(sweep, job, 1.0)
    study.ended(job, "done")
    return sweep


def with_other_trials(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE trials SET number = number + 50")


def with_text_as_value(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE trial_values SET value = 'abc'")


def of_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def without_a_beginning(path):
    path.write_bytes(path.read_bytes()[5000:])


def test_the_report_of_a_search_with_a_damaged_database_shows_the_runs(one_trial):
    path = one_trial.queue / "optuna.db"
    content = path.read_bytes()
    for damage in (with_other_trials, with_text_as_value, without_a_beginning, of_a_pipe):
        path.write_bytes(content)
        damage(path)
        report = write_report(one_trial.path).read_text(encoding="utf-8")
        assert "cannot be read" in report and "trial_0/run_0" in report


def test_the_report_of_a_search_without_results(tmp_path):
    sweep = sweep_at(tmp_path / "sweep", write_file(tmp_path))
    study = source(sweep)
    study.next(sweep)
    assert "No run has a score yet" in write_report(sweep.path).read_text(encoding="utf-8")
    assert write_best(sweep) == ["No run has a score yet."]
