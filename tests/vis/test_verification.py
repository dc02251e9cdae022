"""Rows of docs/results against new runs: scores, probabilities, and the data that come along."""

import itertools
import json

import numpy as np
import pytest
from scipy.stats import t as student

from benchmarks.learning import RECORDED, first_parts
from benchmarks.verify import PLANTED
from rlpyt.vis import verification as verify


def table_of(values, every=10):
    steps = every * np.arange(1.0, len(values) + 1)
    return {verify.STEPS: steps, verify.RETURN: np.array(values, float)}


def test_a_score_is_the_mean_of_the_rows_at_these_steps():
    table = table_of([1, 2, 3, 5, 100, 100])
    assert verify.score(table, verify.RETURN, (20, 40)) == 4
    assert verify.score(table, verify.RETURN, (-np.inf, 10)) == 1
    assert np.isnan(verify.score(table, verify.RETURN, (40, 49)))


def test_rows_are_compared_at_their_steps_not_by_number():
    row = [table_of([0, 0, k, k, 9, 9]) for k in (1, 2, 3)]
    often = [table_of(np.repeat(x[verify.RETURN], 2), every=5) for x in row]
    for n_rows, mean in ((4, 2), (1, 0)):
        ((theirs, ours, _),) = verify.compare_tables(often, row, n_rows).values()
        assert theirs == ours == mean
    late = [{name: values[5:] for name, values in row[0].items()}]  # no return before
    assert not verify.compare_tables(late, row, 4)


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("new", [[6.0], [3.0, 3.5], [100.0, 101.0]])
def test_the_probability_is_students(n, new):
    row = [1.0, 2.0, 4.0, 4.5, 3.0, 2.5, 0.5, 3.0, 3.5, 2.0][:n]
    t = (np.mean(new) - np.mean(row)) / np.std(row, ddof=1) / np.sqrt(1 / len(new) + 1 / n)
    expected = 2 * student.sf(abs(t), n - 1)
    assert verify.probability(new, row) == pytest.approx(expected, rel=1e-4)


def test_equal_means_are_certain_and_a_row_without_spread_knows_one_value():
    assert verify.probability([2.875], [1.0, 2.0, 4.0, 4.5]) == pytest.approx(1)
    assert [verify.probability([x], [2.0, 2.0]) for x in (2.0, 2.1)] == [1, 0]


def test_false_alarms_are_one_in_twenty():
    rng = np.random.default_rng(0)
    draws = rng.normal(50, 7, (2000, 7))
    alarms = np.mean([verify.probability(x[:2], x[2:]) < verify.ALARM for x in draws])
    assert 0.03 < alarms < 0.07


def test_false_alarms_with_returns_of_rows():
    """Two seeds of each row against its others, many times; returns are not quite normal."""
    rng, alarms = np.random.default_rng(0), []
    for row in verify.read_rows().values():
        if len(row.tables) < 5:
            continue
        n_rows = row.rows_until(0.2)
        last = row.tables[0][verify.STEPS][n_rows - 1]
        half = (last / 2, last)
        scores = np.array([verify.score(x, verify.RETURN, half) for x in row.tables])
        for _ in range(10):
            drawn = rng.permutation(scores)
            alarms.append(verify.probability(drawn[:2], drawn[2:]) < verify.ALARM)
    assert len(alarms) >= 200 and np.mean(alarms) < 0.1


@pytest.mark.parametrize("part", [0.1, 0.3])
def test_false_alarms_with_columns_that_are_recorded(part):
    """Every two seeds of a row against its others."""
    results = []
    for path in RECORDED.glob("*.json"):
        if path.stem == "planted":
            continue
        row = verify.read_rows()[path.stem]
        tables, n_rows = row.tables, row.rows_until(part)
        for pair in itertools.combinations(range(len(tables)), 2):
            new, others = (
                [x for i, x in enumerate(tables) if (i in pair) == a] for a in (True, False)
            )
            found = verify.compare_tables(new, others, n_rows)
            assert len(found) >= 5
            results.append(verify.of_all(found))
    assert len(results) >= 180 and np.mean(np.array(results) < verify.ALARM) <= 0.1


def test_the_rows_are_those_of_the_results():
    assert verify.ROWS.read_text(encoding="utf-8") == first_parts()


def test_a_fault_that_changes_one_column_is_found():
    rng = np.random.default_rng(0)
    names = ("ReturnAverage", "LengthAverage", "lossAverage", "gradNormAverage")

    def table(factor=1.0):
        columns = {name: rng.normal(10, 1, 4) for name in names}
        columns["gradNormAverage"] *= factor
        return {verify.STEPS: np.arange(4.0), "Diagnostics/EvalAverage": np.ones(4)} | columns

    row = [table() for _ in range(10)]
    same, other = (verify.compare_tables([table(x), table(x)], row, 4) for x in (1.0, 2.0))
    assert set(same) == set(names)
    assert verify.of_all(same) > 0.05 > verify.of_all(other)
    theirs, ours, p = other["gradNormAverage"]
    assert 9 < theirs < 11 and 18 < ours < 22 and p < 1e-4


def test_planted_faults_were_found():
    about = json.loads((RECORDED / "planted.json").read_text())
    found = about["probabilities"]
    assert about["part"] == 0.1 and about["seeds"] == 2
    assert [*found] == [f"{name} {words}".strip() for name, words in PLANTED]
    alarms = {name: p < verify.ALARM for name, p in found.items()}
    assert np.mean([alarm for name, alarm in alarms.items() if " " in name]) >= 0.8
    assert not any(alarm for name, alarm in alarms.items() if " " not in name)
