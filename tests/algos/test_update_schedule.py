"""Schedule of updates by the replay ratio."""

import pytest

from rlpyt.algos.update_schedule import UpdateSchedule


@pytest.mark.parametrize("per_step", [1 / 48, 1 / 3, 0.1, 1, 2.5])
def test_fractions_carry_over_and_nothing_is_lost(per_step):
    schedule, made = UpdateSchedule(), 0
    for n in range(1, 1001):
        made += schedule.due(16, per_step)
        assert made == int(16 * n * per_step + 1e-6)


def test_another_ratio_holds_for_new_steps_only():
    schedule = UpdateSchedule()
    assert schedule.due(100, 0.5) == 50
    assert schedule.due(100, 2) == 200


def test_postponed_updates_are_due_with_the_next_steps():
    schedule = UpdateSchedule()
    schedule.postponed = schedule.due(8, 1) - 3
    assert schedule.due(8, 1) == 13 and schedule.due(8, 1) == 8
