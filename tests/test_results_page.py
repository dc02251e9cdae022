"""The pages of results show what the kept data say, and nothing else."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import learning
from rlpyt.cli.train import read_flags
from rlpyt.vis.results import write_results

TEXTS = {page: page.read_text(encoding="utf-8") for page in learning.PAGES}
EVERY = "\n".join(TEXTS.values())
SHOWN = [e for e in learning.EXPERIMENTS.values() if e.complete]


def test_tables_of_the_pages_are_those_of_the_data():
    assert {page: learning.render(page) for page in TEXTS} == TEXTS
    assert len(TEXTS) > 5


def test_curves_for_others_are_those_of_the_data(tmp_path):
    complete = [e for e in learning.TABLES["published"] if e.complete]
    write_results(learning.curves_of(complete), tmp_path / "curves.csv")
    assert (tmp_path / "curves.csv").read_bytes() == learning.CURVES.read_bytes()


def test_a_changed_evaluation_changes_the_page(monkeypatch, tmp_path):
    page = next(page for page in TEXTS if page.name == "classic.md")
    experiment = next(e for e in SHOWN if f"| {e.name} |" in TEXTS[page])
    copy = tmp_path / "evaluation.json"
    copy.write_text(json.dumps({"return_mean": 12345.6}))
    original = learning._read
    first = experiment.kept(experiment.seeds[0]) / "evaluation.json"
    monkeypatch.setattr(learning, "_read", lambda p: original(copy if p == first else p))
    assert "12345.6" in learning.render(page) and "12345.6" not in TEXTS[page]


def test_figures_of_the_page_are_drawn_from_the_kept_curves():
    drawn = json.loads(learning.FIGURE_DATA.read_text())
    assert drawn == learning.figure_checksums()
    on_page = re.findall(r"images/([\w-]+)\.png", EVERY)
    assert set(on_page) <= set(drawn)
    assert [name for name in on_page if not (learning.IMAGES / f"{name}.png").exists()] == []


@pytest.mark.parametrize("figure", learning.FIGURES)
def test_algorithms_have_one_color_and_their_variants_differ(figure):
    known = {algo for family in learning.FAMILIES for algo in family}
    looks = learning._looks(learning.FIGURES[figure][1])
    colors = {}
    for label, look in looks.items():
        (algo,) = known & set(re.findall(r"\w+", label))
        colors.setdefault(algo, set()).add(look["color"])
    assert all(len(found) == 1 for found in colors.values())
    assert len(set.union(*colors.values())) == len(colors)


def test_no_table_of_the_page_has_numbers_without_data():
    blocks = r"<!-- (\w+) [\w -]+ -->.*?<!-- end of \1 -->"
    assert "|" not in re.sub(blocks, "", EVERY, flags=re.S)


@pytest.mark.parametrize("experiment", SHOWN, ids=lambda e: e.name)
def test_every_run_keeps_settings_curve_evaluation_commit_and_machine(experiment):
    for seed in experiment.seeds:
        kept = experiment.kept(seed)
        config, machine, evaluation = (
            json.loads((kept / f"{name}.json").read_text())
            for name in ("config", "machine", "evaluation")
        )
        assert config["seed"] == seed
        assert re.fullmatch(r"[0-9a-f]{40}", machine["commit"])
        assert machine["processor"] and machine["cores"] and machine["versions"]["torch"]
        assert np.mean(evaluation["returns"]) == pytest.approx(evaluation["return_mean"])
        rows = len((kept / "progress.csv").read_text().splitlines()) - 1
        steps = config.get("steps", 5)  # none for bsuite, which has a row for each setting
        assert rows >= min(5, steps // (config.get("log_interval_steps") or steps))


@pytest.mark.parametrize("ours", [True, False])
def test_only_missing_runs_are_made_and_interrupted_ones_are_resumed(ours, monkeypatch, tmp_path):
    """Runs of another library are started again."""
    monkeypatch.setattr(learning, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(learning, "KEPT", tmp_path / "kept")
    commands = []

    def start(command, **kwargs):
        assert (tmp_path / "runs/name/run_1").exists() == ours
        commands.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "describe_machine", dict)
    monkeypatch.setattr(learning.subprocess, "run", start)
    program = {} if ours else dict(program="benchmarks.sb3_control")
    experiment = learning.Experiment(
        "name", "train ppo CartPole-v1", "475", seeds=(0, 1), **program
    )
    for path in ("kept/name/run_0", "runs/name/run_1"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "kept/name/run_0/evaluation.json").write_text("{}")
    learning.run(experiment, 0)
    with pytest.raises(KeyboardInterrupt):
        learning.run(experiment, 1)
    (words,) = commands
    assert {"--seed", "1"} <= set(words)
    assert (words[-3:] == ["--no-video", "--resume", "auto"]) == ours


def test_missing_seeds_of_a_small_network_are_trained_as_one(monkeypatch, tmp_path):
    monkeypatch.setattr(learning, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(learning, "KEPT", tmp_path / "kept")
    command = "train ppo CartPole-v1 --steps 640"
    experiment = learning.Experiment("name", command, "475", seeds=(0, 4, 7), together=True)
    experiment.kept(4).mkdir(parents=True)
    (experiment.kept(4) / "evaluation.json").write_text("{}")
    learning.run_together(experiment)
    settings = [json.loads((experiment.kept(n) / "config.json").read_text()) for n in (0, 7)]
    assert [each["seed"] for each in settings] == [0, 7]
    assert len(replace(experiment, seeds=(0, 7)).evaluations) == 2
    monkeypatch.setattr(learning.subprocess, "run", None)
    learning.run_together(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", learning.EXPERIMENTS.values(), ids=lambda e: e.name)
def test_commands_are_understood(experiment):
    if experiment.program != "rlpyt":
        pytest.skip("another program")
    algo_name, env_id, *flags = shlex.split(experiment.command)[1:]
    if env_id.startswith(("popgym:", "gymnasium_robotics:")):
        pytest.importorskip(env_id.partition(":")[0])
    options, _ = read_flags(algo_name, env_id, flags)
    assert (options.algo_name, options.env) == (algo_name, env_id)


def test_an_unknown_table_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table nothing -->\n<!-- end of table -->")
    with pytest.raises(ValueError, match=r"page\.md .*table 'nothing'"):
        learning.render(page)
