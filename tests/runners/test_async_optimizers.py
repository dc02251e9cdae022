"""Several optimizers beside one sampler: one agent, and one named error when a rank fails."""

import os
import signal
import threading
import time

import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.gym import make
from rlpyt.errors import NonFiniteError, WorkerError, WorkerTimeout
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from tests.runners.test_async_rl import SMALL, B, Same, T, run
from tests.runners.test_minibatch_rl import StopAfter
from tests.runners.test_off_policy import NARROW

pytestmark = pytest.mark.usefixtures("nothing_left")
RANKS = dict(sampler=dict(n_workers=1), optimizer=[dict(torch_threads=1)] * 2)


@pytest.fixture(scope="module")
def warmed_up():
    """Train once: multiprocessing and the store open files that stay open."""
    run("dqn", AsyncRl, AsyncSerialSampler, affinity=RANKS)


@pytest.mark.parametrize("name", ["dqn", pytest.param("r2d1", marks=pytest.mark.slow)])
def test_all_ranks_have_one_agent_in_a_resumed_run_too(name, tmp_path):
    kwargs = dict(affinity=RANKS, max_lead=0, n_itr=10, settings=dict(batch_size=8))
    if name == "r2d1":
        kwargs["settings"] = dict(batch_B=2)
    first = run(name, AsyncRl, AsyncSerialSampler, hooks=[Same()], **kwargs)
    assert first.world_size == 2 and first.algo.update_counter > 0
    stop = dict(checkpoint_dir=tmp_path, hooks=[StopAfter(6)])
    run(name, AsyncRl, AsyncSerialSampler, **stop, **kwargs)
    again = dict(resume_from=tmp_path, checkpoint_dir=tmp_path / "other", hooks=[Same()])
    second = run(name, AsyncRl, AsyncSerialSampler, **again, **kwargs)
    assert second.algo.update_counter == first.algo.update_counter


@pytest.mark.parametrize("Algo, Agent, env", [(DQN, DqnMlpAgent, "CartPole-v1"),
                                              (SAC, SacAgent, "Pendulum-v1")])  # fmt: skip
def test_a_resumed_run_draws_in_every_rank_as_the_uninterrupted_one(Algo, Agent, env, tmp_path):
    """With uniform draws: priorities that ranks set at once arrive in either order."""
    small = dict(batch_size=8, min_steps_learn=4 * T * B, replay_size=10 * T * B, replay_ratio=2)

    def ended(**kwargs):
        sizes = dict(model_kwargs=NARROW) if Algo is DQN else dict(
            model_kwargs=dict(hidden_sizes=[8]), q_model_kwargs=dict(hidden_sizes=[8])
        )  # fmt: skip
        sampler = AsyncSerialSampler(make, dict(id=env), batch_T=T, batch_B=B)
        runner = AsyncRl(Algo(**small), Agent(**sizes), sampler, n_steps=16 * T * B, seed=4,
                         affinity=RANKS, max_lead=0, **kwargs)  # fmt: skip
        runner.train()
        return runner

    whole = ended()
    ended(checkpoint_dir=tmp_path, hooks=[StopAfter(9)])
    resumed = ended(resume_from=tmp_path, checkpoint_dir=tmp_path / "other")
    assert resumed.algo.update_counter == whole.algo.update_counter > 0
    ours, theirs = (runner.agent.state_dict() for runner in (resumed, whole))
    assert ours.keys() == theirs.keys()
    for part, parameters in theirs.items():
        assert all(torch.equal(ours[part][name], x) for name, x in parameters.items()), part


def test_observation_statistics_are_those_of_all_samples():
    seen = {}
    normalized = dict(hidden_sizes=[8], normalize_observation=True)
    for n in (1, 2):
        runner = AsyncRl(
            SAC(batch_size=16 // n, min_steps_learn=64, replay_size=1000, replay_ratio=4),
            SacAgent(model_kwargs=normalized, q_model_kwargs=normalized),
            AsyncSerialSampler(make, dict(id="Pendulum-v1"), batch_T=T, batch_B=B),
            n_steps=8 * T * B, seed=3, affinity={**RANKS, "optimizer": RANKS["optimizer"][:n]},
            max_lead=0, hooks=[Same()] if n == 2 else [],
        )  # fmt: skip
        runner.train()
        state = runner.agent.state_dict()["model"]
        seen[n] = {key: value for key, value in state.items() if "obs_rms" in key}
        assert seen[n] and all(value.isfinite().all() for value in seen[n].values())
    count = [key for key in seen[1] if key.endswith("count")]
    assert count and all(seen[1][key] == seen[2][key] == 8 * T * B for key in count)


class Failing(DQN):
    """Its second rank fails in some way after some updates, or the first has a loss of NaN."""

    how = "raise"

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if self.rank == 1 and self.update_counter >= 5:
            if self.how == "raise":
                raise ArithmeticError("the second rank is lost")
            os.kill(os.getpid(), getattr(signal, self.how))
        return super().optimize_agent(itr, samples, sampler_itr)


class Killed(Failing):
    how = "SIGKILL"


class Stopped(Failing):
    how = "SIGSTOP"


class NaN(DQN):
    def loss(self, samples, *args):
        loss, *others = super().loss(samples, *args)
        lost = self.rank == 0 and self.update_counter >= 5
        return (loss * float("nan") if lost else loss, *others)


@pytest.mark.parametrize(
    "Algo, error, message",
    [
        (Failing, WorkerError, "^optimizer rank 1 of 2 .*the second rank is lost"),
        (
            Killed,
            WorkerError,
            "^optimizer rank 1 .*SIGKILL",
        ),
        (Stopped, WorkerTimeout, r"^optimizer rank 1 .* 3 s \(rank_timeout_s\)"),
        (NaN, NonFiniteError, r"^NaN, iteration \d+, update 5: .*nan"),
    ],
)
def test_one_rank_that_fails_ends_the_run_by_name(Algo, error, message, tmp_path):
    runner = AsyncRl(
        Algo(**SMALL), DqnMlpAgent(model_kwargs=NARROW),
        AsyncSerialSampler(make, dict(id="CartPole-v1"), batch_T=T, batch_B=B),
        n_steps=200 * T * B, seed=3, affinity=RANKS, max_lead=1, rank_timeout_s=3.0,
        checkpoint_dir=tmp_path,
    )  # fmt: skip
    with pytest.raises(error, match=message) as failed:
        runner.train()
    if error is NonFiniteError:
        assert "(in optimizer rank 0 of 2)" in failed.value.__notes__
    else:
        assert failed.value.worker == 1
    assert not torch.distributed.is_initialized()
    assert not [t for t in threading.enumerate() if "optimizer ranks" in t.name]


class Counting(AsyncRl):
    """Knows how many episodes ended in what it has taken in."""

    n_ended = 0

    def build_ctrl(self, world_size):
        feed = super().build_ctrl(world_size)
        take = feed.next

        def counted():
            batch = take()
            self.n_ended += len(batch.traj_infos)
            return batch

        feed.next = counted
        return feed


class Locked(AsyncUniformReplayBuffer):
    """The second rank is killed while it samples, when the copier has begun to wait for it."""

    what = "the room"
    drawn = 0

    def valid(self, *args):
        if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
            self.drawn += 1
            if self.drawn == 20:
                if self.what == "the counter":
                    assert self.rw_lock._counting.acquire()
                deadline = time.monotonic() + 10
                while self.rw_lock._turnstile.acquire(block=False):
                    self.rw_lock._turnstile.release()
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().valid(*args)


class LockedCounter(Locked):
    what = "the counter"


@pytest.mark.parametrize("Replay", [Locked, LockedCounter])
def test_a_rank_that_dies_with_the_replay_locked_ends_the_run_and_nothing_is_lost(Replay, tmp_path):
    small = {**SMALL, "replay_size": 4000, "ReplayBufferCls": Replay}
    runner = Counting(
        DQN(**small), DqnMlpAgent(model_kwargs=NARROW),
        AsyncSerialSampler(make, dict(id="CartPole-v1"), batch_T=T, batch_B=B),
        n_steps=10**6 * T * B, seed=3, affinity=RANKS, checkpoint_dir=tmp_path,
    )  # fmt: skip
    started = time.monotonic()
    with pytest.raises(WorkerError, match="^optimizer rank 1 .*SIGKILL") as failed:
        runner.train()
    assert time.monotonic() - started < 45  # env_timeout is 60
    assert f"Checkpoint after iteration {runner.trained_itr} in " in failed.value.__notes__[-1]
    saved = load_checkpoint(tmp_path).state
    assert saved["itr"] == runner.trained_itr > 4
    assert saved["algo"]["replay"] is not None
    assert saved["counters"]["cum_completed_trajs"] == runner.n_ended > 0


def test_without_a_replay_there_is_one_optimizer():
    sampler = AsyncSerialSampler(make, dict(id="CartPole-v1"), batch_T=T, batch_B=B)
    runner = AsyncRl(VTrace(), CategoricalMlpAgent(), sampler, n_steps=10 * T * B, affinity=RANKS)
    with pytest.raises(ValueError, match="optimizer.* VTrace"):
        runner.train()
