"""Rows of the results page that are repeated in part: probabilities, and runs that are stopped."""

import itertools
import json

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks import verify
from benchmarks.learning import EXPERIMENTS, Experiment

RECORDS = [path for path in sorted(verify.RECORDED.glob("*.json")) if path.stem in EXPERIMENTS]


def test_a_score_is_the_mean_of_the_second_half():
    values = [1.0, 2.0, 3.0, 5.0, 100.0, 100.0]
    assert verify.score(values, 4) == 4 and verify.score(values, 3) == 2.5
    assert verify.score(values, 1) == 1


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
        if not experiment.complete or len(experiment.seeds) < 5:
            continue
        curves = [verify.table_of(experiment.kept(s))["ReturnAverage"] for s in experiment.seeds]
        n_rows = max(1, min(map(len, curves)) // 5)
        scores = np.array([verify.score(curve, n_rows) for curve in curves])
        for _ in range(10):
            drawn = rng.permutation(scores)
            alarms.append(verify.probability(drawn[:2], drawn[2:]) < verify.ALARM)
    assert len(alarms) >= 200 and np.mean(alarms) < 0.1


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_false_alarms_with_columns_that_are_recorded(path):
    """Every two seeds of a row against its others."""
    row = verify.tables_of_row(EXPERIMENTS[path.stem])
    n_rows = len(row[0][verify.STEPS])
    pairs = list(itertools.combinations(range(len(row)), 2))
    results = [
        verify.together(
            verify.compared(
                [row[i] for i in pair],
                [x for i, x in enumerate(row) if i not in pair],
                n_rows,
            )
        )
        for pair in pairs
    ]
    assert len(verify.compared(row[:2], row[2:], n_rows)) >= 5
    assert np.mean(np.array(results) < verify.ALARM) <= 0.15


def test_a_fault_that_changes_one_column_is_found():
    rng = np.random.default_rng(0)
    names = ("ReturnAverage", "LengthAverage", "lossAverage", "gradNormAverage")

    def table(factor=1.0):
        columns = {name: rng.normal(10, 1, 4) for name in names}
        columns["gradNormAverage"] *= factor
        return {verify.STEPS: np.arange(4.0), "Diagnostics/EvalAverage": np.ones(4)} | columns

    row = [table() for _ in range(10)]
    same, other = (verify.compared([table(x), table(x)], row, 4) for x in (1.0, 2.0))
    assert set(same) == set(names)
    assert verify.together(same) > 0.05 > verify.together(other)
    theirs, ours, p = other["gradNormAverage"]
    assert 9 < theirs < 11 and 18 < ours < 22 and p < 1e-4


@pytest.mark.slow
def test_a_run_is_stopped_when_it_has_the_row(tmp_path):
    experiment = Experiment("toy", "train dqn toy/memory --steps 500000", "", seeds=(0,))
    (table,) = verify.begin_again(experiment, ["--log-interval-steps", "500"], [3], 1000)
    assert 1000 <= table[verify.STEPS][-1] < 100_000


def test_planted_faults_were_found():
    found = json.loads((verify.RECORDED / "planted.json").read_text())["probabilities"]
    assert [*found] == [f"{name} {words}".strip() for name, words in verify.PLANTED]
    alarms = {name: p < verify.ALARM for name, p in found.items()}
    assert np.mean([alarm for name, alarm in alarms.items() if " " in name]) >= 0.8
    assert not any(alarm for name, alarm in alarms.items() if " " not in name)
