"""Settings that hooks change in the runner's process act in all processes of a run."""

import pytest

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from tests.algos.test_settings import Assign
from tests.runners.sync_parts import StopAfter, same, sync_runner
from tests.runners.test_async_optimizers import RANKS
from tests.runners.test_async_rl import ONE, Same, assert_same_run, run


class Refused(Hook):
    """Assigns settings that an asynchronous run cannot change."""

    messages = ()

    def on_start(self, runner):
        for name in ("replay_ratio", "batch_size", "replay_size"):
            with pytest.raises(AttributeError, match=f"^{name} .*changed") as caught:
                setattr(runner.algo, name, 8)
            self.messages = (*self.messages, str(caught.value))


def test_asynchronous_optimizers_follow_hooks_and_schedules():
    kwargs = dict(affinity=RANKS, max_lead=0, settings=dict(batch_size=8))
    refused = Refused()
    hooks = [Assign("learning_rate", "linear:0.02"), Assign("target_update_tau", 0.5, 7), refused]
    changed = run("dqn", AsyncRl, AsyncSerialSampler, hooks=[*hooks, Same()], **kwargs)
    assert changed.world_size == 2 and changed.algo.update_counter > 0
    assert changed.algo.statistics()["LearningRate"] == pytest.approx(0.02 / changed.n_itr)
    assert "since the updates of an asynchronous run" in refused.messages[0]


@pytest.mark.parametrize("ranks", [1, 2])
def test_settings_assigned_in_a_hook_act_in_all_ranks(ranks):
    """With another learning rate in rank 1, its gradients and the average would differ."""
    assigned = [Assign("learning_rate", 0.05), Assign("entropy_loss_coeff", [(0, 1.0), (1, 0.5)])]
    first = sync_runner(n_ranks=ranks, hooks=assigned)
    first.train()
    given = A2C(learning_rate=0.05, entropy_loss_coeff=[(0, 1.0), (1, 0.5)])
    second = sync_runner(n_ranks=ranks, algo=given)
    second.train()
    assert first.world_size == ranks
    assert same(first.agent.state_dict(), second.agent.state_dict())
    assert first.algo.entropy_loss_coeff == pytest.approx(1 - 0.5 * (first.n_itr - 1) / first.n_itr)


@pytest.mark.slow
def test_a_resumed_run_of_ranks_with_schedules_is_the_uninterrupted_one(tmp_path):
    def runner(**kwargs):
        algo = A2C(learning_rate=lambda progress: 0.05 - 0.04 * progress**2)
        return sync_runner(SyncRl, algo=algo, **kwargs)

    whole = runner()
    whole.train()
    runner(checkpoint_dir=tmp_path, hooks=[StopAfter(2)]).train()
    resumed = runner(resume_from=tmp_path, checkpoint_dir=tmp_path / "b")
    resumed.train()
    assert resumed.start_itr == 3
    assert same(whole.agent.state_dict(), resumed.agent.state_dict())


def test_functions_assigned_during_a_run_of_ranks_are_refused():
    hooks = [Assign("learning_rate", lambda progress: 1e-3, after=1)]
    with pytest.raises(ValueError, match="learning_rate .*function"):
        sync_runner(hooks=hooks).train()


class NoteRates(Hook):
    """Notes the learning rate of each iteration, as set and in the optimizer."""

    def __init__(self):
        self.rates = {}

    def on_iteration(self, runner, itr):
        in_use = runner.algo.optimizer.param_groups[0]["lr"]
        self.rates[itr] = (runner.algo.learning_rate, in_use)


@pytest.mark.parametrize("max_lead", [0, None])
@pytest.mark.parametrize(
    "schedule, expected",
    [
        ("linear:0.02", lambda p: 0.02 * (1 - p)),
        ([(0.25, 0.02), (1, 0.01)], lambda p: 0.02 - 0.01 * max(p - 0.25, 0) / 0.75),
    ],
    ids=["linear", "pairs"],
)
@pytest.mark.parametrize(
    "affinity", [ONE, pytest.param(RANKS, marks=pytest.mark.slow)], ids=["one", "ranks"]
)
def test_a_resumed_asynchronous_run_follows_its_schedule(
    tmp_path, affinity, schedule, expected, max_lead
):
    """In step with the sampler it is the uninterrupted run; otherwise it has the same values."""
    settings = dict(learning_rate=schedule, batch_size=8)
    kwargs = dict(affinity=affinity, max_lead=max_lead, settings=settings)
    notes = [NoteRates() for _ in range(3)]
    whole = run("dqn", AsyncRl, AsyncSerialSampler, hooks=[notes[0]], **kwargs)
    first = dict(checkpoint_dir=tmp_path / "a", hooks=[notes[1], StopAfter(7)])
    run("dqn", AsyncRl, AsyncSerialSampler, **first, **kwargs)
    again = dict(resume_from=tmp_path / "a", checkpoint_dir=tmp_path / "b", hooks=[notes[2]])
    resumed = run("dqn", AsyncRl, AsyncSerialSampler, **again, **kwargs)
    n = resumed.n_itr
    assert [*notes[1].rates] == [*range(8)] and [*notes[2].rates] == [*range(8, n)]
    assert notes[1].rates | notes[2].rates == notes[0].rates
    for itr in range(n):
        assert notes[0].rates[itr] == pytest.approx((expected(itr / n),) * 2)
    if max_lead == 0:
        assert_same_run(whole, resumed)
