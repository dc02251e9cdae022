"""Hindsight replay against episodes in plain lists: goals, rewards, ends, and what is drawn."""

from collections import defaultdict, namedtuple

import numpy as np
import pytest

from rlpyt.envs.goals import GoalRewards
from rlpyt.replays.batch import FinalObservations
from rlpyt.replays.hindsight import STRATEGIES, Hindsight, rows_to_done
from rlpyt.replays.non_sequence.prioritized import (
    AsyncPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
)
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.testing.trees import difference
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.serialize import dumps, loads

T, B, GAMMA = 16, 3, 0.5
FAR = 10_000.0
Observation = namedarraytuple("Observation", ["observation", "achieved_goal", "desired_goal"])
Samples = namedarraytuple(
    "Samples", ["observation", "action", "reward", "done", "final_goal", "timeout"]
)
Step = namedtuple("Step", "desired after reward done timeout")


class Distance:
    """Goals are (row, environment); episodes may end one row before the goal."""

    def close(self):
        pass

    def compute_reward(self, achieved, desired, info):
        return -np.abs(achieved - desired).sum(-1)


class Ending(Distance):
    def compute_terminated(self, achieved, desired, info):
        return np.abs(achieved - desired).sum(-1) <= 1


class EndingOneByOne(Distance):
    def compute_terminated(self, achieved, desired, info):
        return bool(np.linalg.norm(achieved - desired) <= 1)


class Walks:
    """Episodes of random lengths, in which the state after row t of environment b is (t + 1, b).

    Attributes:
        steps: by environment, the list of all steps.
    """

    def __init__(self, ends_at_goal, seed=0, lengths=(1, 8)):
        self.rng = np.random.default_rng(seed)
        self.ends_at_goal, self.lengths = ends_at_goal, lengths
        self.steps = [[] for _ in range(B)]
        self.open = [(0, 0, 0.0)] * B  # steps left, whether truncated, goal

    def step(self, b):
        t, env = len(self.steps[b]), Ending()
        left, truncated, goal = self.open[b]
        if left == 0:
            left, truncated = int(self.rng.integers(*self.lengths)), self.rng.random() < 0.5
            goal = FAR + t if truncated or not self.ends_at_goal else t + left + 1
        self.open[b] = left - 1, truncated, goal
        desired, after = np.float32([goal, b]), np.float32([t + 1, b])
        reward = float(env.compute_reward(after, desired, {}))
        self.steps[b].append(Step(desired, after, reward, left == 1, left == 1 and truncated))

    def batch(self, rows):
        start = len(self.steps[0])
        for b in range(B):
            for _ in range(rows):
                self.step(b)
        columns = [steps[start:] for steps in self.steps]

        def array(value, dtype=np.float32):
            return np.array([[value(steps[t]) for steps in columns] for t in range(rows)], dtype)

        after, done = array(lambda s: s.after), array(lambda s: s.done, bool)
        desired, timeout = array(lambda s: s.desired), array(lambda s: s.timeout, bool)
        before = after - np.float32([1, 0])
        samples = Samples(
            Observation(before, before, desired),
            np.zeros((rows, B), np.int64),
            array(lambda s: s.reward),
            done,
            np.where(done[..., None], after, np.nan),  # elsewhere it is never read
            timeout,
        )
        where = timeout.nonzero()
        return samples, FinalObservations(
            *where, Observation(after[where], after[where], desired[where])
        )


EXAMPLE = Samples(
    Observation(*[np.zeros(2, np.float32)] * 3), np.int64(0), np.float32(0), np.bool_(False),
    np.zeros(2, np.float32), np.bool_(False),
)  # fmt: skip


def made(cls=UniformReplayBuffer, env=Distance, strategy="future", k=4.0, n=1, seed=0, **kwargs):
    part = Hindsight(strategy, k, GoalRewards(env))
    part.rewards.bind(np.zeros(2, np.float32))
    settings = dict(size=T * B, B=B, discount=GAMMA, n_step_return=n, seed=seed)
    return cls(example=EXAMPLE, hindsight=part, **settings, **kwargs)


def fill(replay, walks, *rows):
    for n in rows:
        replay.append_samples(*walks.batch(n))


def plain_window(steps, t, n, goal, env):
    """Return (return, done_n, discount_n, last reward, row after the window) with this goal."""
    return_, weight = 0.0, 1.0
    for k in range(t, t + n):
        step = steps[k]
        reward = float(env.compute_reward(step.after, goal, {}))
        return_, weight = return_ + weight * reward, weight * GAMMA
        if hasattr(env, "compute_terminated"):
            if env.compute_terminated(step.after, goal, {}):
                return return_, True, 0.0, reward, k + 1
            assert not step.done or step.timeout  # else the window keeps its goal
        if step.done:
            return return_, not step.timeout, weight * step.timeout, reward, k + 1
    return return_, False, weight, reward, t + n


def allowed(steps, t, strategy, oldest):
    """Return the rows whose achieved goals may replace that of the window of row t."""
    last = t
    while not steps[last].done and last + 1 < len(steps):
        last += 1
    if not steps[last].done:
        last -= 1  # the state after the newest row is not stored
    first = t
    while first > oldest and not steps[first - 1].done:
        first -= 1
    rows = {"future": range(t, last + 1), "final": [last], "episode": range(first, last + 1)}
    return set(rows[strategy])


def compare(replay, walks, batch, env, strategy):
    """Compare each window with the plain ones; return the rows of new goals by window."""
    chosen, n = defaultdict(set), replay.n_step_return
    oldest = len(walks.steps[0]) - T
    for i in range(len(batch.return_)):
        t, b = batch.agent_inputs.observation.observation[i].int().tolist()
        steps, goal = walks.steps[b], batch.agent_inputs.observation.desired_goal[i].numpy()
        if goal[0] < FAR and goal[0] != steps[t].desired[0]:
            assert goal[1] == b
            goal_row = int(goal[0]) - 1
            chosen[t, b].add(goal_row)
            assert goal_row in allowed(steps, t, strategy, max(0, oldest))
        return_, done_n, discount_n, last_reward, after = plain_window(steps, t, n, goal, env)
        assert batch.return_[i] == return_
        assert (bool(batch.done_n[i]), float(batch.discount_n[i])) == (done_n, discount_n)
        begins = t == 0 or steps[t - 1].done
        before = 0 if begins else env.compute_reward(steps[t - 1].after, goal, {})
        assert batch.agent_inputs.prev_reward[i] == before
        if not done_n:
            target = batch.target_inputs.observation
            assert target.observation[i].tolist() == target.achieved_goal[i].tolist() == [after, b]
            assert target.desired_goal[i].tolist() == goal.tolist()
            assert batch.target_inputs.prev_reward[i] == last_reward
    return chosen


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("env", [Distance, Ending])
@pytest.mark.parametrize(
    "cls", [UniformReplayBuffer, PrioritizedReplayBuffer, AsyncUniformReplayBuffer]
)
def test_windows_equal_plain_ones_for_their_goals(cls, env, strategy, n):
    replay = made(cls, env, strategy, n=n)
    walks = Walks(env is Ending)
    for rows in (7, 1, 4, 9, 2, 5, 1, 1):
        fill(replay, walks, rows)
        batch = replay.sample_batch(120)
        assert compare(replay, walks, batch, env(), strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_allowed_goal_is_drawn_and_no_other(strategy):
    replay, walks = made(strategy=strategy, k=1000.0), Walks(False)
    fill(replay, walks, 10, 9, 4)
    chosen = compare(replay, walks, replay.sample_batch(6000), Distance(), strategy)
    low, high = replay.valid()
    assert set(chosen) == {(t, b) for t in range(low, high) for b in range(B)}
    for (t, b), rows in chosen.items():
        assert rows == allowed(walks.steps[b], t, strategy, low - 1)


def test_the_ratio_of_new_goals():
    replay, walks = made(k=4.0), Walks(False)
    fill(replay, walks, 10)
    batch = replay.sample_batch(10_000)
    fraction = (batch.agent_inputs.observation.desired_goal[:, 0] < FAR).float().mean()
    assert abs(fraction - 4 / 5) < 0.02  # five standard deviations


def test_where_an_end_was_that_of_the_first_goal_the_window_keeps_it():
    """With "episode", a goal before the window is not reached again, and the end is not its own."""
    replay, walks = made(env=Ending, strategy="episode", k=1e9), Walks(True, lengths=(4, 9))
    fill(replay, walks, T)
    batch = replay.sample_batch(500)
    goal = batch.agent_inputs.observation.desired_goal
    t, b = batch.agent_inputs.observation.observation.int().T.tolist()
    kept = [i for i in range(500) if goal[i, 0] == walks.steps[b[i]][t[i]].desired[0]]
    assert kept and all(walks.steps[b[i]][t[i]].done for i in kept)
    assert (batch.done_n[kept]).all() and len(kept) < 250


def test_environments_that_take_single_goals_give_the_same():
    batches = []
    for env in (Ending, EndingOneByOne):
        replay, walks = made(env=env, n=2), Walks(True)
        fill(replay, walks, 9, 9)
        batches.append(replay.sample_batch(50))
    assert difference(*batches) is None


def test_steps_after_an_interruption_are_another_episode():
    replay, walks = made(k=1e9, strategy="episode"), Walks(False, lengths=(30, 31))
    fill(replay, walks, 8)
    assert replay.interrupt() == 1  # row 7, whose state is the last one of the episode
    fill(replay, walks, 6)
    batch = replay.sample_batch(400)
    state = batch.agent_inputs.observation.observation[:, 0]
    goal = batch.agent_inputs.observation.desired_goal[:, 0]
    assert (goal[state < 7] <= 7).all() and (goal[state >= 8] >= 9).all()


def test_looking_at_the_newest_rows_changes_no_goal():
    replay, walks = made(k=1e9), Walks(False)
    fill(replay, walks, 10)
    before = replay.rng.bit_generator.state
    goal = replay.newest(5).agent_inputs.observation.desired_goal
    assert (goal[:, 0] >= FAR).all() and replay.rng.bit_generator.state == before


@pytest.mark.parametrize("cls", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_a_resumed_replay_draws_the_same_goals(cls):
    one, other, walks = made(cls, n=2), made(cls, n=2, seed=9), Walks(False)
    fill(one, walks, 9, 9)
    one.sample_batch(20)
    other.load_state_dict(one.state_dict())
    assert difference(one.sample_batch(30), other.sample_batch(30)) is None


def test_the_environment_stays_in_its_process():
    replay, walks = made(), Walks(False)
    fill(replay, walks, 9)
    copy = loads(dumps(replay))
    assert copy.hindsight.rewards._functions == ()
    assert difference(copy.sample_batch(30), replay.sample_batch(30)) is None


def test_priorities_reach_the_rows_of_their_windows():
    replay, walks = made(AsyncPrioritizedReplayBuffer, alpha=1.0), Walks(False)
    fill(replay, walks, 9)
    batch = replay.sample_batch(200)
    row = batch.agent_inputs.observation.observation
    at = (row[:, 0] == 3) & (row[:, 1] == 2)
    replay.update_batch_priorities(at.float() + 1e-9, batch.ticket)
    left = {
        tuple(x) for x in replay.sample_batch(400).agent_inputs.observation.observation.tolist()
    }
    assert (3.0, 2.0) in left


def test_a_window_that_reaches_its_goal_has_no_time_limit():
    replay, walks = made(TlUniformReplayBuffer, Ending, "episode", n=3, k=1e9), Walks(True)
    fill(replay, walks, T)
    batch = replay.sample_batch(500)
    assert batch.timeout_n.any() and not (batch.timeout_n & batch.done_n).any()


class InOtherUnits(Distance):
    def compute_reward(self, achieved, desired, info):
        return 100 * super().compute_reward(achieved, desired, info)


def test_other_rewards_than_those_of_the_environment_are_warned_of_once(recwarn):
    for env, n in ((Ending, 0), (InOtherUnits, 1)):
        replay, walks = made(env=env), Walks(True)
        fill(replay, walks, 9)
        replay.sample_batch(50)
        fill(replay, walks, 9)
        replay.sample_batch(50)
        assert [str(w.message).startswith("hindsight: compute_reward") for w in recwarn] == [
            True
        ] * n


@pytest.mark.parametrize("T", [5, 100])
@pytest.mark.parametrize("step", [1, -1])
def test_rows_to_done(T, step):
    rng = np.random.default_rng(1)
    done = rng.random((T, B)) < 0.03
    t, b, most = rng.integers(T, size=60), rng.integers(B, size=60), rng.integers(T, size=60)
    expected = [
        next((j for j in range(m) if done[(i + step * j) % T, c]), m)
        for i, c, m in zip(t, b, most, strict=True)
    ]
    assert rows_to_done(done, t, b, most, step).tolist() == expected


class Without(Distance):
    compute_reward = None


class Pairs(Distance):
    def compute_reward(self, achieved, desired, info):
        return achieved - desired


@pytest.mark.parametrize(
    "env, message", [(Without, "compute_reward"), (Pairs, "one number for a goal")]
)
def test_environments_without_rewards_of_goals_are_refused(env, message):
    with pytest.raises(ValueError, match=message):
        made(env=env)


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="sequences"):
        made(UniformSequenceReplayBuffer, batch_T=2, rnn_state_interval=0)
    with pytest.raises(ValueError, match="strategy"):
        Hindsight("past", 4, GoalRewards(Distance))
    part, example = Hindsight("final", 4, GoalRewards(Distance)), EXAMPLE
    with pytest.raises(TypeError, match="achieved_goal and desired_goal"):
        UniformReplayBuffer(
            example._replace(observation=np.zeros(2)), size=T * B, B=B, hindsight=part
        )
