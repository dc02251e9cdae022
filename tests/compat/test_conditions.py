import pytest

from rlpyt.compat.conditions import IntervalConditioner, NConditioner


def test_interval_condition_follows_multiples():
    due = IntervalConditioner(4, "accumulative")
    assert [n for n in (0, 3, 5, 7, 8, 8, 11, 21, 22, 24) if due(n)] == [5, 8, 21, 24]


def test_intervals_may_be_fractions():
    due = IntervalConditioner(0.1, "accumulative")
    assert [due(n / 10) for n in range(8)] == [False] + [True] * 7  # 0.3 // 0.1 is 2


def test_increments_are_added_up():
    so_far, added = IntervalConditioner(4, "accumulative"), IntervalConditioner(4, "incremental")
    total = 0
    for n in (3, 2, 2, 1, 0, 3, 10, 1, 2):
        total += n
        assert added(n) == so_far(total)
    assert added.count == total


@pytest.mark.parametrize("max_n, times", [(10, 3), (1000, 7), (12, 12)])
def test_n_conditions_are_even_and_the_last_is_at_the_end(max_n, times):
    due = NConditioner(max_n, times, "accumulative")
    told = [n for n in range(max_n + 20) if due(n)]
    assert len(told) == times and told[-1] == max_n
    gaps = [b - a for a, b in zip([0, *told], told)]
    assert max(gaps) - min(gaps) <= 1


def test_wrong_settings_are_refused():
    for wrong in (
        lambda: IntervalConditioner(0, "accumulative"),
        lambda: IntervalConditioner(4, "sometimes"),
        lambda: NConditioner(10, 0, "incremental"),
        lambda: NConditioner(0, 1, "incremental"),
    ):
        with pytest.raises(ValueError):
            wrong()
