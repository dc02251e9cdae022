"""Rows of the results page that are repeated in part: probabilities, and runs that are stopped."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks import verify
from benchmarks.learning import EXPERIMENTS, Experiment
from rlpyt.vis.results import Curve


def test_a_score_is_the_mean_of_the_second_half():
    curve = Curve(np.arange(6), np.array([1.0, 2.0, 3.0, 5.0, 100.0, 100.0]))
    assert verify.score(curve, 4) == 4 and verify.score(curve, 3) == 2.5
    assert verify.score(curve, 1) == 1


def test_one_new_score_for_many_is_that_of_a_prediction():
    """Against scipy's test of a mean, whose statistic lacks the new score's own spread."""
    row, new = [1.0, 2.0, 4.0, 4.5], 6.0
    known = ttest_1samp(row, new).statistic
    assert verify.probability([new], row) == pytest.approx(
        2 * verify.student.cdf(known / np.sqrt(5), 3)
    )
    assert verify.probability([2.875], row) == 1
    assert [verify.probability([x], [2.0, 2.0]) for x in (2.0, 2.1)] == [1, 0]


def test_false_alarms_are_one_in_twenty():
    rng = np.random.default_rng(0)
    draws = rng.normal(50, 7, (2000, 7))
    alarms = np.mean([verify.probability(x[:2], x[2:]) < verify.ALARM for x in draws])
    assert 0.03 < alarms < 0.07


def test_false_alarms_with_curves_that_are_kept():
    """Two seeds of each row against its others, many times; returns are not quite normal."""
    rng, alarms = np.random.default_rng(0), []
    for experiment in EXPERIMENTS.values():
        if experiment.shown is None or len(experiment.shown.seeds) < 5:
            continue
        curves = [verify.curve_of(experiment.kept(s)) for s in experiment.shown.seeds]
        n_rows = max(1, min(len(c.steps) for c in curves) // 5)
        scores = np.array([verify.score(curve, n_rows) for curve in curves])
        for _ in range(10):
            drawn = rng.permutation(scores)
            alarms.append(verify.probability(drawn[:2], drawn[2:]) < verify.ALARM)
    assert len(alarms) >= 200 and np.mean(alarms) < 0.1


@pytest.mark.slow
def test_a_run_is_stopped_when_it_has_the_row(tmp_path):
    experiment = Experiment("toy", "train dqn toy/memory --steps 500000", "", seeds=(0,))
    curve = verify.begin_again(experiment, ["--log-interval-steps", "500"], 3, 1000)
    assert 1000 <= curve.steps[-1] < 100_000
