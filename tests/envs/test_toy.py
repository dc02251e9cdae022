"""Probe environments: what each rewards, and that each can be resumed."""

import itertools

import numpy as np
import pytest

from rlpyt.envs.toy import (
    BanditEnv,
    CountEnv,
    DelayEnv,
    HybridEnv,
    MaskEnv,
    MemoryEnv,
    PartsEnv,
    PuzzleEnv,
    ReachEnv,
    TruncationEnv,
)
from rlpyt.testing import check_env
from rlpyt.utils.buffer import leaves_of
from tests.faulty import FaultyEnv


def episode(env, policy):
    """Play one episode; return (observations that were acted on, steps)."""
    observations, steps = [env.reset()], []
    while not (steps and steps[-1].done):
        steps.append(env.step(policy(observations[-1])))
        observations.append(steps[-1].observation)
    return observations[:-1], steps


def returns(env, policy, n=200):
    return [sum(s.reward for s in episode(env, policy)[1]) for _ in range(n)]


def test_bandit_pays_the_arms_mean():
    env = BanditEnv(means=(0.25, 2.0), noise=0.0)
    assert env.action_space.n == 2
    for arm, mean in enumerate(env.means):
        observations, (step,) = episode(env, lambda o, arm=arm: arm)
        assert step.reward == mean and step.done and not step.env_info.timeout
        assert observations[0].tolist() == [1.0]
    noisy = returns(BanditEnv(means=(0.0, 1.0), noise=0.5, seed=0), lambda o: 1, n=2000)
    assert np.mean(noisy) == pytest.approx(1.0, abs=0.05)
    assert np.std(noisy) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("n_cues", [2, 3])
def test_memory_pays_only_who_remembers(n_cues):
    env = MemoryEnv(delay=3, n_cues=n_cues, seed=0)
    seen = []

    def remember(observation):
        if observation[:-1].any():
            seen.append(int(observation.argmax()))
        return seen[-1]

    assert returns(env, remember, n=50) == [1.0] * 50
    assert set(seen) == set(range(n_cues))
    observations, steps = episode(env, remember)
    assert len(steps) == env.horizon == 4
    assert observations[0].sum() == 1 and not np.any(observations[1:3])
    assert observations[3].tolist() == [0] * n_cues + [1]  # nothing but "now"
    # Where the answer is due, all episodes look the same: no map from observation to action
    # does better than chance.
    for answer in range(n_cues):
        assert np.mean(returns(env, lambda o, a=answer: a)) == pytest.approx(1 / n_cues, abs=0.12)


def test_delay_pays_the_first_action_at_the_end():
    env = DelayEnv(delay=4, n_actions=3, lure=0.125)
    for first, others in itertools.product((0, 2), repeat=2):
        _, steps = episode(env, lambda o, f=first, r=others: f if o[0] else r)
        rewards = [s.reward for s in steps]
        cost = -0.125 * (others == env.good)
        assert len(rewards) == env.horizon == 5
        assert rewards[0] == -0.125 * (first == env.good)
        assert rewards[1:] == [cost] * 3 + [cost + (first == env.good)]


@pytest.mark.parametrize("terminate", [False, True])
def test_truncation_has_a_closed_form(terminate):
    env = TruncationEnv(horizon=3, terminate=terminate)
    _, steps = episode(env, lambda o: 0)
    assert [s.done for s in steps] == [False, False, True]
    assert steps[-1].env_info.timeout is not terminate
    assert not any(s.env_info.timeout for s in steps[:-1])
    # The value is its own Bellman equation: v = r + g v.
    value = TruncationEnv.value(0.9)
    assert value == pytest.approx(10.0)
    bootstrapped = sum(0.9**t * s.reward for t, s in enumerate(steps)) + 0.9**3 * value
    assert bootstrapped == pytest.approx(value)


def test_reach_pays_by_the_distance_in_units_of_the_bounds():
    env = ReachEnv(low=(-2.0, 0.0), high=(1.0, 10.0), length=3, seed=0)
    low, high = env.action_space.bounds

    def there(goal):
        return low + (goal + 1) / 2 * (high - low)

    observations, steps = episode(env, there)
    assert len(steps) == env.horizon == 3 and steps[-1].env_info.timeout
    assert np.allclose([s.reward for s in steps], 0, atol=1e-10)
    assert all(env.observation_space.contains(o) for o in observations)
    middle = returns(env, lambda goal: (low + high) / 2, n=500)
    assert np.mean(middle) == pytest.approx(3 * -1 / 3, abs=0.05)  # E[g^2] of uniform g is 1/3
    env.seed(0)
    assert np.array_equal(env.reset(), observations[0])


def number_shown(observation):
    """Return the number that a puzzle's observation shows, and ``None`` if it shows none."""
    if not hasattr(observation, "image"):
        one_hot = getattr(observation, "number", observation)
        return int(one_hot.argmax()) if one_hot.any() else None
    columns = np.flatnonzero(observation.image.any((0, 1)))
    return (columns[0] // 2 + int(observation.category)) % 4 if len(columns) else None


def solver(env, lacking=None):
    """Return the best policy for a puzzle, or for one that lacks an ability."""
    known, Action = [], getattr(env.action_space, "_NamedTupleCls", None)

    def act(observation):
        shown = number_shown(observation)
        number = known[-1] if shown is None else shown
        known.append(0 if lacking == "memory" else number)
        mask = getattr(observation, "action_mask", np.ones(4))
        choice = next(k % 4 for k in range(number, 8) if mask[k % 4])
        return choice if Action is None else Action(choice, np.array([number / 2 - 0.75]))

    return act


@pytest.mark.parametrize("EnvCls", [MaskEnv, PartsEnv, HybridEnv, PuzzleEnv])
def test_puzzles_are_solved_with_all_abilities(EnvCls):
    env = EnvCls(seed=0)
    found = returns(env, solver(env), n=50)
    assert found == [5.0] * 50
    shown = {number_shown(env.reset()) for _ in range(50)}
    assert shown == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "EnvCls, lacking, expected",
    [
        (MaskEnv, "mask", 3.125),  # a number is valid with probability 1/2 + 1/4 * 1/2
        (PartsEnv, "parts", 1.25),
        (HybridEnv, "hybrid", 3.4375),  # squares of 1/4 and 3/4
        (PuzzleEnv, "memory", 2.2),
        (PuzzleEnv, "mask", 3.125),
        (PuzzleEnv, "hybrid", 3.4375),
    ],
)
def test_puzzles_need_each_ability(EnvCls, lacking, expected):
    env = EnvCls(None if lacking == "memory" else lacking, seed=0)
    if lacking == "parts":  # all numbers look the same
        best = max(np.mean(returns(env, lambda o, k=k: k, n=400)) for k in range(4))
    else:
        best = np.mean(returns(env, solver(env, lacking), n=400))
    assert best == pytest.approx(expected, abs=0.25)


def test_puzzles_pass_the_conformance_check():
    assert check_env(PuzzleEnv, skip=["time-limit"]).ok


def test_puzzles_show_the_number_only_once_if_memory_is_needed():
    env = PuzzleEnv(seed=0)
    observations, _ = episode(env, solver(env))
    assert [number_shown(o) is None for o in observations] == [False] + [True] * 4


def test_count_says_who_and_when():
    env = CountEnv(rank=2, length=3)
    rows = []
    for number in range(4):
        observations, steps = episode(env, lambda o: 1)
        assert len(steps) == env.episode_length(number)
        rows += [o.tolist() for o in observations]
        assert [s.reward for s in steps] == [100 * number + t + 1 for t in range(len(steps))]
        assert steps[-1].observation.tolist() == [2, number, len(steps)]
        assert {s.env_info.action for s in steps} == {1}
    # (0 + 2 + 2) % 3 = 1, then 2, 0, 1: lengths 2, 3, 1, 2.
    assert rows == [
        [2, 0, 0],
        [2, 0, 1],
        [2, 1, 0],
        [2, 1, 1],
        [2, 1, 2],
        [2, 2, 0],
        [2, 3, 0],
        [2, 3, 1],
    ]
    fixed = CountEnv(length=3, fixed=True)
    assert [len(episode(fixed, lambda o: 0)[1]) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize(
    "end, timeouts",
    [
        ("termination", [False, False]),
        ("truncation", [True, True]),
        ("both", [False, False]),
        ("alternate", [False, True]),
    ],
)
def test_count_ends_as_told(end, timeouts):
    env = CountEnv(rank=0, length=2, end=end)
    lasts = [episode(env, lambda o: 0)[1][-1] for _ in range(2)]
    assert [s.env_info.timeout for s in lasts] == timeouts
    assert all(s.done and s.env_info.traj_done for s in lasts)


def test_count_can_lose_lives():
    env = CountEnv(rank=0, length=5, life=2, fixed=True)
    env.reset()
    steps = [env.step(0) for _ in range(5)]
    assert [s.done for s in steps] == [False, True, False, True, True]
    assert [s.env_info.traj_done for s in steps] == [False] * 4 + [True]


def test_count_takes_its_rank_from_the_seed():
    env = CountEnv()
    env.seed(7)
    assert env.reset().tolist() == [7, 0, 0]
    env.seed(2**20 + 3)
    assert env.reset().tolist() == [3, 0, 0]
    env = CountEnv(rank=1)
    env.seed(7)
    assert env.reset()[0] == 1


TOYS = [
    lambda: BanditEnv(noise=1.0),
    lambda: MemoryEnv(delay=3, n_cues=3),
    lambda: DelayEnv(delay=3),
    lambda: TruncationEnv(horizon=4),
    lambda: ReachEnv(length=4),
    MaskEnv,
    PuzzleEnv,
    lambda: PuzzleEnv(without="parts"),
    lambda: CountEnv(length=5, life=2),
    lambda: FaultyEnv("none"),
]


def run(env, n):
    seen = []
    Action = getattr(env.action_space, "_NamedTupleCls", None)
    for t in range(n):
        step = env.step(t % 2 if Action is None else Action(t % 2, np.array([0.5])))
        seen.append((as_list(step.observation), *step[1:]))
        if getattr(step.env_info, "traj_done", step.done):
            seen.append(as_list(env.reset()))
    return seen


def as_list(observation):
    return [np.asarray(leaf).tolist() for leaf in leaves_of(observation)]


@pytest.mark.parametrize("make", TOYS)
def test_toys_go_on_bit_for_bit_from_a_saved_state(make):
    env, fresh = make(), make()
    env.seed(5)
    env.reset()
    run(env, 6)
    state = env.get_state()
    expected = run(env, 50)
    for _ in range(2):
        fresh.set_state(state)
        assert run(fresh, 50) == expected
    with pytest.raises(ValueError, match="next_seed"):
        fresh.set_state({**state, "next_seed": -1})


@pytest.mark.parametrize("make", TOYS)
def test_toys_repeat_after_the_same_seed(make):
    env, other = make(), make()
    streams = []
    for e in (env, other, env):
        e.seed(8)
        streams.append((as_list(e.reset()), run(e, 20), as_list(e.action_space.sample())))
    assert streams[0] == streams[1] == streams[2]


@pytest.mark.parametrize("make", TOYS)
def test_toys_keep_the_contract(make):
    env = make()
    env.seed(0)
    assert env.observation_space.contains(env.reset())
    for _ in range(12):
        step = env.step(env.action_space.sample())
        assert env.observation_space.contains(step.observation)
        assert type(step.reward) is float and type(step.done) is bool
        if getattr(step.env_info, "traj_done", step.done):
            env.reset()


def test_bad_arguments_are_named():
    for make, name in (
        (lambda: MemoryEnv(delay=0), "delay=0"),
        (lambda: MemoryEnv(n_cues=1), "n_cues=1"),
        (lambda: TruncationEnv(horizon=0), "horizon=0"),
        (lambda: CountEnv(length=0), "length=0"),
        (lambda: ReachEnv(length=0), "length=0"),
        (lambda: CountEnv(end="never"), "end='never'"),
        (lambda: MaskEnv(without="hybrid"), "without='hybrid'"),
        (lambda: PuzzleEnv(without="memory"), "without='memory'"),
    ):
        with pytest.raises(ValueError, match=name):
            make()
    with pytest.raises(TypeError, match="horizon=1.5"):
        TruncationEnv(horizon=1.5)


def test_whole_floats_are_counts():
    assert CountEnv(length=4.0, life=2.0).length == 4
    env = MemoryEnv(delay=3.0, n_cues=2.0)
    assert env.horizon == 4 and env.reset().shape == (3,)
