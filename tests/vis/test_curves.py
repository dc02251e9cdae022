"""Curves show what is in the files, say what they leave out, and their intervals are right."""

import itertools
import math
import sys

import numpy as np
import pytest

from rlpyt.vis import curves, style
from rlpyt.vis.curves import find_runs, plot_runs, run_label, short_number
from rlpyt.vis.statistics import bootstrap_interval, interquartile_mean

STEPS, RETURN = "Diagnostics/CumSteps", "ReturnAverage"


def write_run(path, returns, steps=None, columns=(STEPS, RETURN)):
    path.mkdir(parents=True)
    steps = range(100, 100 * len(returns) + 1, 100) if steps is None else steps
    lines = [",".join(columns), *(f"{a},{b}" for a, b in zip(steps, returns))]
    (path / "progress.csv").write_text("\n".join(lines) + "\n")
    return path


# Statistics


def test_interquartile_mean_by_hand():
    assert interquartile_mean([1, 2, 3]) == 2  # nothing to cut: the mean
    assert interquartile_mean([100, 1, 2, 4]) == 3
    assert interquartile_mean([9, 1, 2, 3, 4, 5, 6, -900]) == 3.5  # of 2 3 4 5
    both = np.array([[100, 1, 2, 4], [0, 0, 8, 8]])
    assert interquartile_mean(both, axis=1).tolist() == [3, 4]
    assert interquartile_mean(both.T).tolist() == [3, 4]
    with pytest.raises(ValueError, match="empty"):
        interquartile_mean([])


def test_interquartile_mean_is_scipys_trimmed_mean():
    stats = pytest.importorskip("scipy.stats")
    for n in range(1, 14):
        values = np.random.default_rng(n).normal(size=(n, 3))
        assert np.allclose(interquartile_mean(values), stats.trim_mean(values, 0.25))


def test_bootstrap_interval_meets_the_exact_distribution():
    """Of three runs all 27 draws can be listed, and their quantiles taken."""
    scores = np.array([1.0, 2.0, 9.0])
    exact = [np.mean(draw) for draw in itertools.product(scores, repeat=3)]
    low, high = bootstrap_interval(scores, np.mean, confidence=0.8, n_resamples=5000)
    assert low == pytest.approx(np.quantile(exact, 0.1), abs=1e-9)
    assert high == pytest.approx(np.quantile(exact, 0.9), abs=1e-9)


def test_bootstrap_interval_of_a_mean_agrees_with_the_normal_one():
    scores = np.random.default_rng(1).normal(5, 2, size=400)
    low, high = bootstrap_interval(scores, lambda s: s.mean(axis=0))
    half_width = 1.96 * scores.std() / np.sqrt(400)
    assert low == pytest.approx(scores.mean() - half_width, abs=0.03)
    assert high == pytest.approx(scores.mean() + half_width, abs=0.03)


def test_bootstrap_draws_runs_within_their_task():
    """Two tasks on different scales: each draw has three scores of each, so nothing varies."""
    scores = np.array([[0.0, 100.0]] * 3)
    low, high = bootstrap_interval(scores, lambda s: s.mean(axis=0))
    assert low == high == 50


def test_bootstrap_points_share_draws_and_the_seed_decides():
    scores = np.random.default_rng(0).normal(size=(4, 1, 5))
    low, high = bootstrap_interval(scores, n_resamples=50)
    shifted = bootstrap_interval(scores + 3, n_resamples=50)
    assert low.shape == high.shape == (5,) and np.allclose(shifted[0], low + 3)
    alone, _ = bootstrap_interval(scores[:, :, 2], n_resamples=50)
    assert alone == pytest.approx(low[2])
    assert not np.allclose(low, bootstrap_interval(scores, n_resamples=50, seed=1)[0])
    with pytest.raises(ValueError, match="confidence=95"):
        bootstrap_interval([1, 2], confidence=95)
    with pytest.raises(ValueError, match="empty"):
        bootstrap_interval(np.zeros((0, 2)))


# Reading


def test_runs_are_found_at_and_below_paths(tmp_path):
    runs = [write_run(tmp_path / "a" / f"run_{i}", [1]) for i in (0, 1)]
    other = write_run(tmp_path / "b", [1])
    assert find_runs(tmp_path) == [*runs, other]
    assert find_runs(runs[1] / "progress.csv", runs[1], str(other)) == [runs[1], other]
    (tmp_path / "empty").mkdir()
    with pytest.warns(UserWarning, match="empty: .*progress.csv"):
        assert find_runs(tmp_path / "b", tmp_path / "empty") == [other]
    with pytest.raises(FileNotFoundError, match="no runs .*empty"):
        find_runs(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="absent"):
        find_runs(tmp_path / "absent")


def test_replaced_results_are_left_out(tmp_path):
    run = write_run(tmp_path / "a" / "run_0", [1])
    aside = [write_run(tmp_path / "a" / f"run_0.{i}", [9]) for i in (1, 12)]
    others = [write_run(tmp_path / "b" / name, [2]) for name in ("lr_0.05", "run_1.1")]
    with pytest.warns(UserWarning, match=r"left out .*run_0\.1, .*run_0\.12: "):
        assert find_runs(tmp_path) == [run, *others]
    with pytest.warns(UserWarning, match=r"left out .*run_0\.1"):
        assert find_runs(run, aside[0]) == [run]  # as a shell writes out run_*
    assert find_runs(aside[0]) == [aside[0]]


def test_a_run_reached_by_several_paths_counts_once(tmp_path, monkeypatch):
    run = write_run(tmp_path / "sweep" / "run_0", [1])
    (tmp_path / "sweep" / "a_link").symlink_to(run)
    (tmp_path / "sweep" / "back").symlink_to(tmp_path)
    assert find_runs(tmp_path) == [run]  # by its own path
    monkeypatch.chdir(tmp_path)
    assert len(find_runs("sweep", tmp_path, run, "sweep/a_link")) == 1
    links = tmp_path / "chosen"
    links.mkdir()
    (links / "best").symlink_to(run)
    assert find_runs(links) == [links / "best"]
    write_run(tmp_path / "outside", [1])
    (links / "up").symlink_to(tmp_path)
    assert find_runs(links) == [links / "best"]


def test_labels_are_the_same_for_all_seeds(tmp_path):
    assert run_label(tmp_path / "ppo" / "run_3") == "ppo"
    for i, params in enumerate(['{"name": "ppo"}', "[]", "torn {"]):
        run = write_run(tmp_path / f"r{i}", [1])
        (run / "params.json").write_text(params)
    assert [run_label(tmp_path / f"r{i}") for i in range(4)] == ["ppo", "r1", "r2", "r3"]


# Drawing


@pytest.fixture
def drawn(monkeypatch):
    """The first panel of the next picture, to look at what was drawn."""
    made = []
    panels = style.panels

    def remember(*args):
        made.append(panels(*args))
        return made[-1]

    monkeypatch.setattr(style, "panels", remember)
    return lambda: made[-1][1][0]


def legend_of(axes):
    return axes.figure.legends[0]


def test_a_single_run_is_plotted_directly(tmp_path, drawn):
    run = write_run(tmp_path / "ppo" / "run_0", [1, "nan", 3, 8], steps=[0, 1000, 4000, 2000])
    output = plot_runs(str(run), tmp_path / "new" / "curve.png", title="CartPole-v1")
    assert output.read_bytes().startswith(b"\x89PNG")
    (line,) = drawn().get_lines()
    assert line.get_xdata().tolist() == [0, 2000, 4000]  # sorted, without the gap
    assert line.get_ydata().tolist() == [1, 8, 3]
    assert drawn().get_xlabel() == "Environment steps" and drawn().get_ylabel() == "Episode return"
    assert [text.get_text() for text in legend_of(drawn()).get_texts()] == ["ppo (1 run)"]
    ticks = [label.get_text() for label in drawn().get_xticklabels()]
    assert "2k" in ticks and "4k" in ticks


def test_seeds_become_an_interquartile_mean_with_an_interval(tmp_path, drawn):
    for i, height in enumerate([0, 10, 20, 900]):
        write_run(tmp_path / "ppo" / f"run_{i}", [height, height + 10, height + 20])
    write_run(tmp_path / "a2c" / "run_0", [5, 5])
    with pytest.warns(UserWarning, match="a2c lacks seed 1, 2, 3"):
        plot_runs(tmp_path, tmp_path / "curve.png")
    _, line = drawn().get_lines()
    assert len(line.get_xdata()) == curves.GRID_POINTS
    assert line.get_ydata()[[0, -1]].tolist() == [15, 35]  # mean of 10 and 20, rising by 20
    (shade,) = drawn().collections
    bottom, top = shade.get_paths()[0].get_extents().get_points()[:, 1]
    assert 0 <= bottom <= 15 and 35 < top <= 920
    legend = legend_of(drawn())
    assert [text.get_text() for text in legend.get_texts()] == ["a2c (1 run)", "ppo (4 runs)"]
    assert legend.get_title().get_text() == "Interquartile mean, 95% bootstrap interval"


def test_a_shorter_seed_ends_the_curve_with_a_warning(tmp_path, drawn):
    write_run(tmp_path / "ppo" / "run_0", [1, 2, 3, 4])
    write_run(tmp_path / "ppo" / "run_1", [1, 2])
    with pytest.warns(UserWarning, match="^ppo: .* 200, .* 400"):
        plot_runs(tmp_path, tmp_path / "curve.png")
    assert drawn().get_lines()[0].get_xdata()[-1] == 200


def test_a_run_that_ends_before_another_begins_is_left_out(tmp_path, drawn):
    write_run(tmp_path / "ppo" / "run_0", [1, 2])
    write_run(tmp_path / "ppo" / "run_1", [math.nan, math.nan, math.nan, 4, 5])
    with pytest.warns(UserWarning, match="^ppo: runs that end before 400, .* left out: 1 of 2"):
        plot_runs(tmp_path, tmp_path / "curve.png")
    assert [*drawn().get_lines()[0].get_ydata()[[0, -1]]] == [4, 5]


def test_other_columns_labels_and_groups(tmp_path, drawn):
    columns = ("Diagnostics/CumEvalTime", "q1Loss")
    for i in (0, 1):
        write_run(tmp_path / f"r{i}", [i, 2, 7, 3], columns=columns)
    names = iter(["first", "second"])
    plot_runs(
        [tmp_path / "r0", tmp_path / "r1"],
        tmp_path / "curve.png",
        y="q1Loss",
        x=columns[0],
        y_label="Loss",
        label=lambda run: next(names),
        smooth=2,
    )
    assert (drawn().get_xlabel(), drawn().get_ylabel()) == ("Cum eval time", "Loss")
    assert [line.get_ydata().tolist() for line in drawn().get_lines()] == [
        [0, 1, 4.5, 5],
        [1, 1.5, 4.5, 5],
    ]


def test_runs_without_a_named_environment_have_a_titled_panel(tmp_path, drawn):
    write_run(tmp_path / "script", [1, 2])
    named = write_run(tmp_path / "named", [1, 2])
    (named / "config.json").write_text('{"algo_name": "ppo", "env": "CartPole-v1"}')
    plot_runs(tmp_path, tmp_path / "curve.png")
    titles = [axes.get_title() for axes in drawn().figure.axes]
    assert titles == ["Runs without a named environment", "CartPole-v1"]


def test_invalid_plots_are_explained(tmp_path):
    write_run(tmp_path / "a" / "run_0", [1, 2])
    output = tmp_path / "curve.png"
    with pytest.raises(KeyError, match="'ReturnAverag'.*'ReturnAverage'"):
        plot_runs(tmp_path, output, y="ReturnAverag")
    with pytest.raises(ValueError, match="smooth .*got 0"):
        plot_runs(tmp_path, output, smooth=0)
    nothing = write_run(tmp_path / "b" / "run_0", ["nan"])
    with pytest.warns(UserWarning, match=f"left out, .*{nothing}"):
        plot_runs(tmp_path, output)
    with pytest.raises(KeyError, match="numbers in both"):
        plot_runs(nothing, tmp_path / "other.png")
    assert not (tmp_path / "other.png").exists()


def test_matplotlib_is_only_needed_to_plot(tmp_path, monkeypatch):
    write_run(tmp_path / "run_0", [1, 2])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"matplotlib\. .*\[plot\]'"):
        plot_runs(tmp_path, tmp_path / "curve.png")


def test_numbers_are_abbreviated():
    values = {0: "0", 0.25: "0.25", -21: "-21", 999: "999", 20000: "20k", 1.5e6: "1.5M", 2e9: "2G"}
    assert {value: short_number(value) for value in values} == values


@pytest.mark.parametrize("suffix", style.SUFFIXES)
def test_no_text_is_given_to_latex(tmp_path, monkeypatch, suffix):
    """Names of somebody else's run would be commands of it, and so would a sent matplotlibrc."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setattr("matplotlib.texmanager.subprocess", None)
    runs = [write_run(tmp_path / name / "run_0", [1, 2, 3]) for name in ("a", r"\input{b}")]
    with matplotlib.rc_context({"text.usetex": True}):
        plot_runs(runs, tmp_path / f"curves{suffix}", title=r"\input{/etc/passwd}")
        figure = curves.draw_curves(curves.read_runs(*runs))
        assert "<svg" in style.inline_svg(figure, "curves", "curves")
        assert matplotlib.rcParams["text.usetex"]


def test_a_huge_value_does_not_change_later_means(tmp_path, drawn):
    write_run(tmp_path / "run", [1, 2, 1e17, 3, 4, 5])
    plot_runs(tmp_path, tmp_path / "curve.png", smooth=2)
    (line,) = drawn().get_lines()[:1]
    assert line.get_ydata()[4:].tolist() == [3.5, 4.5]
    write_run(tmp_path / "short", [1, 2])
    plot_runs(tmp_path / "short", tmp_path / "curve.png", smooth=10**12)
    assert drawn().get_lines()[0].get_ydata().tolist() == [1, 1.5]
