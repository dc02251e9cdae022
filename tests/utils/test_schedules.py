import pytest
import torch

from rlpyt.utils.schedules import LinearSchedule, linear_lr_scheduler


def test_linear_schedule_goes_down_and_stays():
    schedule = LinearSchedule(initial=1.0, final=0.1, N=3, start=0)
    assert [schedule(i) for i in range(6)] == pytest.approx([1.0, 0.7, 0.4, 0.1, 0.1, 0.1])
    late = LinearSchedule(0.0, 1.0, N=2, start=3)
    assert [late(i) for i in range(7)] == [0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert schedule(10**9) == 0.1  # exactly
    for wrong in (lambda: LinearSchedule(1, 0, 0), lambda: schedule(-1)):
        with pytest.raises(ValueError):
            wrong()


def test_learning_rates_of_all_groups_fall_to_the_same():
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = torch.optim.SGD([dict(params=[a], lr=1.0), dict(params=[b], lr=0.4)])
    scheduler = linear_lr_scheduler(optimizer, N=4, min_lr=0.2)
    seen = []
    for _ in range(6):
        seen.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    assert seen == [
        pytest.approx(pair)
        for pair in [(1.0, 0.4), (0.8, 0.35), (0.6, 0.3), (0.4, 0.25), (0.2, 0.2), (0.2, 0.2)]
    ]
    with pytest.raises(ValueError, match="min_lr"):
        linear_lr_scheduler(torch.optim.SGD([a], lr=0.1), N=4, min_lr=0.2)
