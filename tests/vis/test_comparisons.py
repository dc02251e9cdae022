"""Comparisons of final scores: formulas against plain definitions, and what pictures show."""

import itertools
import json
import warnings

import numpy as np
import pytest

from rlpyt.vis import comparisons, style
from rlpyt.vis.grouping import RunRecord
from rlpyt.vis.scores import Scores, final_scores, normalize
from rlpyt.vis.statistics import (
    mean_of_tasks,
    median_of_tasks,
    optimality_gap,
    performance_profile,
    pooled_iqm,
    probability_of_improvement,
    stratified_bootstrap,
)

TASKS = [np.array([1.0, 2.0, 4.0]), np.array([10.0, 30.0])]  # unequal numbers of runs


def test_aggregates_by_hand():
    assert pooled_iqm(TASKS) == pytest.approx((2 + 4 + 10) / 3)  # without 1 and 30
    assert mean_of_tasks(TASKS) == pytest.approx((7 / 3 + 20) / 2)
    assert median_of_tasks([*TASKS, [0.0]]) == pytest.approx(7 / 3)  # of 7/3, 20 and 0
    assert median_of_tasks([[1.0, 2.0, 9.0]]) == 2
    assert optimality_gap([[0.25, 2.0], [0.5, 0.5]]) == pytest.approx(1 - (0.625 + 0.5) / 2)
    assert optimality_gap([[1.0, 5.0]], target=2.0) == 0.5
    with pytest.raises(ValueError, match=r"got numbers \[1, 0\]"):
        mean_of_tasks([[1.0], []])


def test_profile_equals_its_definition():
    rng = np.random.default_rng(0)
    tasks = [rng.normal(size=n).round(1) for n in (4, 1, 6)]
    taus = np.linspace(-2, 2, 41).round(1)  # meets scores exactly: "above" excludes them
    slow = [
        sum(sum(score > tau for score in task) / len(task) for task in tasks) / len(tasks)
        for tau in taus
    ]
    profile = performance_profile(tasks, taus)
    assert np.allclose(profile, slow)
    assert profile[0] == 1 and (np.diff(profile) <= 0).all()


def test_probability_of_improvement_equals_its_definition():
    rng = np.random.default_rng(1)
    xs = [rng.integers(0, 4, size=n).astype(float) for n in (3, 5)]
    ys = [rng.integers(0, 4, size=n).astype(float) for n in (2, 4)]
    slow = []
    for x, y in zip(xs, ys):
        pairs = list(itertools.product(x, y))
        slow.append(sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs))
    found = probability_of_improvement(xs, ys)
    assert found == pytest.approx(np.mean(slow))
    assert probability_of_improvement(ys, xs) == pytest.approx(1 - found)
    assert probability_of_improvement([[3.0, 1.0]], [[2.0]]) == 0.5
    with pytest.raises(ValueError):
        probability_of_improvement(xs, ys[:1])


def test_improvement_interval_meets_the_exact_distribution():
    """Of three runs against two, all 108 draws can be listed."""
    x, y = np.array([1.0, 2.5, 4.0]), np.array([2.0, 3.0])
    exact = []
    for dx in itertools.product(x, repeat=3):
        for dy in itertools.product(y, repeat=2):
            exact.append(probability_of_improvement([dx], [dy]))
    point, low, high = comparisons.improvement([x], [y], confidence=0.75)
    assert point == 0.5
    assert (low, high) == tuple(np.quantile(exact, [0.125, 0.875]))
    assert 0 < low < 0.5 < high < 1


def test_bootstrap_keeps_tasks_apart_and_their_numbers_of_runs():
    seen = []
    stratified_bootstrap(TASKS, lambda drawn: seen.append(drawn) or 0.0, n_resamples=50)
    for first, second in seen:
        assert len(first) == 3 and set(first) <= {1, 2, 4}
        assert len(second) == 2 and set(second) <= {10, 30}
    assert len({tuple(first) for first, _ in seen}) > 10


# Scores


def make_run(path, label, env="CartPole-v1", returns=(1.0,), evaluation=None, steps=None):
    path.mkdir(parents=True)
    rows = [f"{100 * (i + 1)},{value}" for i, value in enumerate(returns)]
    lines = ["Diagnostics/CumSteps,ReturnAverage", *rows]
    (path / "progress.csv").write_text("\n".join(lines) + "\n")
    if evaluation is not None:
        (path / "evaluation.json").write_text(json.dumps({"return_mean": evaluation}))
    settings = {"env": env} if steps is None else {"env": env, "steps": steps}
    return RunRecord(path, settings, label)


def test_scores_are_evaluations_only_if_all_runs_have_one(tmp_path):
    runs = [make_run(tmp_path / f"{i}", "a", returns=range(20), evaluation=50 + i) for i in (0, 1)]
    scores, by_run = final_scores(runs)
    assert scores.of["a"]["CartPole-v1"].tolist() == [50, 51]
    assert by_run[runs[1].path] == 51 and scores.what == "Return in evaluation"
    runs.append(make_run(tmp_path / "2", "a", returns=range(20)))
    scores, _ = final_scores(runs)
    assert scores.of["a"]["CartPole-v1"].tolist() == [18.5] * 3  # the last two of twenty rows
    assert scores.what == "Final episode return"
    with pytest.warns(UserWarning, match=f"left out, .*{tmp_path / '2'}"):
        assert len(final_scores(runs, source="evaluation")[0].of["a"]["CartPole-v1"]) == 2


def test_runs_without_values_and_incomplete_runs_cause_warnings(tmp_path):
    runs = [
        make_run(tmp_path / "good", "a", returns=[1, 2], steps=200),
        make_run(tmp_path / "none", "a", returns=["nan"]),
        make_run(tmp_path / "short", "b", returns=[5, 7], steps=1000),
        make_run(tmp_path / "sparse", "c", returns=[3, "nan", "nan"], steps=300),
    ]
    with pytest.warns(UserWarning) as caught:
        scores, _ = final_scores(runs, source="last")
    said = " ".join(str(warning.message) for warning in caught)
    assert f"{tmp_path / 'short'}: last ReturnAverage at 200 of 1000 steps" in said
    assert f"{tmp_path / 'sparse'}: last ReturnAverage at 100 of 300 steps" in said
    assert f"left out, without a value in the column 'ReturnAverage': {tmp_path / 'none'}" in said
    found = {k: v["CartPole-v1"].tolist() for k, v in scores.of.items()}
    assert found == {"a": [2], "b": [7], "c": [3]}
    with pytest.raises(ValueError, match="final score"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        final_scores(runs[1:2])
    with pytest.raises(ValueError, match="source='best'"):
        final_scores(runs, source="best")


def some_scores():
    rng = np.random.default_rng(0)
    of = {
        k: {"pong": rng.normal(i, 1, 4), "catch": rng.normal(i, 1, 3)} for i, k in enumerate("ab")
    }
    return Scores({**of, "c": {"pong": np.array([0.5])}}, "Final episode return")


def test_normalized_scores_by_hand():
    scores = Scores({"a": {"x": np.array([10.0, 30.0])}, "b": {"x": np.array([20.0])}}, "s")
    assert normalize(scores, "range").of["a"]["x"].tolist() == [0, 1]
    assert normalize(scores, {"x": [0, 20]}).of["b"]["x"].tolist() == [1]
    for ranges in ({}, {"x": [3, 3]}, {"x": 5}, "minmax"):
        with pytest.raises(ValueError, match="range"):
            normalize(scores, ranges)


def test_only_shared_environments_are_aggregated():
    with pytest.warns(UserWarning, match="lack: catch"):
        assert some_scores().shared().environments == ["pong"]
    apart = Scores({"a": {"x": np.ones(1)}, "b": {"y": np.ones(1)}}, "s")
    with pytest.raises(ValueError, match="in common"):
        apart.shared()


# Pictures


def lines_of(axes):
    return {line.get_color(): line for line in axes.get_lines()}


def test_profiles_have_a_panel_per_environment():
    figure = comparisons.draw_profile(some_scores())
    assert [axes.get_title() for axes in figure.axes] == ["catch", "pong"]
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 3]
    for line in figure.axes[1].get_lines():
        assert line.get_ydata()[0] == 1 and line.get_ydata()[-1] == 0
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["a (3-4 runs)", "b (3-4 runs)", "c (1 run)"]


def test_intervals_show_the_gap_only_if_normalized():
    scores = some_scores()
    figure = comparisons.draw_intervals(scores)
    assert [axes.get_title() for axes in figure.axes] == ["IQM", "Median", "Mean"] * 2
    iqm = figure.axes[3]  # of pong
    assert [label.get_text() for label in iqm.get_yticklabels()] == ["c (1)", "b (4)", "a (4)"]
    points = [line.get_xdata()[0] for line in iqm.get_lines()]
    assert points[::-1] == pytest.approx([float(pooled_iqm([scores.of[k]["pong"]])) for k in "abc"])
    with pytest.warns(UserWarning, match="left out"):
        figure = comparisons.draw_intervals(normalize(scores, "range"))
    assert figure.axes[-1].get_title() == "Optimality gap"


def test_improvement_shows_every_pair_or_those_of_one():
    figure = comparisons.draw_improvement(some_scores())
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["b  >  c", "a  >  c", "a  >  b"]
    shown = [line.get_xdata()[0] for line in axes.get_lines()][:3]
    of = some_scores().of
    expected = probability_of_improvement(of["a"].values(), of["b"].values())
    assert shown[2] == pytest.approx(expected)
    (axes,) = comparisons.draw_improvement(some_scores(), of="c").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"]
    with pytest.raises(ValueError, match="two variants"):
        comparisons.draw_improvement(Scores({"a": {"x": np.ones(2)}}, "s"))


def test_inline_plots_have_unique_ids_and_the_colors_of_the_page():
    figure = comparisons.draw_profile(some_scores())
    svg = style.inline_svg(figure, "p1", 'of "a" & <b>')
    assert svg.startswith("<svg ") and 'aria-label="of &quot;a&quot; &amp; &lt;b&gt;"' in svg
    assert "currentColor" in svg and "#000000" not in svg and style.GRID_COLOR not in svg
    assert "var(--series-0, #0072B2)" in svg
    ids = [part.split('"')[0] for part in svg.split(' id="')[1:]]
    assert ids and all(name.startswith("p1-") for name in ids)


@pytest.mark.parametrize(
    "suffix, start", [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_plots_are_saved_in_the_format_of_their_suffix(tmp_path, suffix, start):
    figure, (axes,) = style.panels(1)
    style.dress(axes, "costs $5 or $6", "_hidden", "$x$")
    axes.set_title(style.plain("\udce4"))  # of a path that is not UTF-8
    style.add_legend(figure, {"_seed $1": axes.plot([0, 1])[0]}, "note")
    output = style.save(figure, tmp_path / "new" / f"picture{suffix}")
    assert output.read_bytes().startswith(start)
    assert figure.legends[0].get_texts()[0].get_text() == " _seed \\$1"
    with pytest.raises(ValueError, match=r"picture\.doc .*\.png, \.svg, \.pdf"):
        style.save(figure, tmp_path / "picture.doc")
