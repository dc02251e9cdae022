"""Hindsight replay in runs: every sampler, resumed, asynchronous; it learns where others do not."""

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from torch.utils._pytree import tree_leaves

import rlpyt
from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.replays.hindsight import achieved_after
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import leaves_of
from tests.goal_envs import BitFlip, EndingBitFlip, Maze, Point
from tests.runners.test_minibatch_rl import StopAfter

T, B, N_ITR = 4, 2, 30
NARROW = dict(model_kwargs=dict(hidden_sizes=[8]))
BOTH = dict(**NARROW, q_model_kwargs=dict(hidden_sizes=[8]))
SMALL = dict(
    batch_size=16, min_steps_learn=8 * T * B, replay_size=20 * T * B, replay_ratio=2,
    learning_rate=1e-3, hindsight="future",
)  # fmt: skip
RUNS = {
    "dqn": lambda **kw: (EndingBitFlip, DQN(**{**SMALL, **kw}), DqnMlpAgent(**NARROW)),
    "dqn, prioritized, n-step": lambda **kw: (
        BitFlip,
        DQN(
            n_step_return=3, prioritized_replay=True, double_dqn=True,
            **{**SMALL, "hindsight": "episode", **kw},
        ),
        DqnMlpAgent(**NARROW),
    ),
    "ddpg": lambda **kw: (Point, DDPG(**{**SMALL, "hindsight": "final", **kw}), DdpgAgent(**BOTH)),
    "td3": lambda **kw: (Point, TD3(n_step_return=2, **{**SMALL, **kw}), Td3Agent(**BOTH)),
    "sac": lambda **kw: (Point, SAC(prioritized_replay=True, **{**SMALL, **kw}), SacAgent(**BOTH)),
}  # fmt: skip


def run(name, Runner=MinibatchRl, Sampler=SerialSampler, sampler=(), Env=None, **kwargs):
    Single, algo, agent = RUNS[name]()
    made = Sampler(
        Env or Single, {}, batch_T=T, batch_B=B, max_decorrelation_steps=0, **dict(sampler)
    )
    settings = dict(seed=4, log_interval_steps=8 * T * B, affinity=dict(n_workers=2))
    runner = Runner(
        algo=algo, agent=agent, sampler=made, n_steps=N_ITR * T * B, **{**settings, **kwargs}
    )
    runner.train()
    return runner


def assert_same_run(a, b):
    assert a.algo.update_counter == b.algo.update_counter > 0
    for part in (lambda x: x.agent.state_dict(), lambda x: leaves_of(x.algo.replay_buffer.samples)):
        pairs = zip(tree_leaves(part(a)), tree_leaves(part(b)), strict=True)
        assert all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_is_the_uninterrupted_one(name, tmp_path):
    whole = run(name)
    run(name, checkpoint_dir=tmp_path, hooks=[StopAfter(15)])
    resumed = run(name, resume_from=tmp_path, checkpoint_dir=tmp_path / "other", seed=99)
    assert_same_run(whole, resumed)


def rows(num_envs):
    return SyncVectorEnv([lambda: TimeLimit(EndingBitFlip(), 100)] * num_envs)


class Own(SyncVectorEnv):
    def __init__(self, num_envs):
        super().__init__([EndingBitFlip] * num_envs)
        self.compute_reward = EndingBitFlip().compute_reward
        self.compute_terminated = EndingBitFlip().compute_terminated


rows.batched = Own.batched = True


@pytest.mark.parametrize("Env", [rows, Own])
def test_a_vector_environment_with_any_number_of_rows_is_the_same_run(Env):
    assert_same_run(run("dqn"), run("dqn", Env=Env))


def check_goals(replay):
    """Check that every stored step leads to the goal that its action achieves."""
    oldest, written = replay.ring.bounds
    rows, B_idxs = replay.to_T_B_idxs(np.arange(oldest * B, (written - 1) * B))
    used = ~replay.ring.void[rows, B_idxs]
    rows, B_idxs, samples = rows[used], B_idxs[used], replay.samples
    before = samples.observation.achieved_goal[rows, B_idxs]
    flipped = np.eye(before.shape[1])[samples.action[rows, B_idxs]]
    assert (achieved_after(replay, rows, B_idxs) == np.abs(before - flipped)).all()
    done = samples.done[rows, B_idxs]
    return done.any() and not done.all()


@pytest.mark.parametrize(
    "Sampler, more",
    [
        (SerialSampler, {}),
        (CpuSampler, {}),
        (CpuSampler, dict(CollectorCls=CpuWaitResetCollector)),
        (GpuSampler, {}),
    ],
)
def test_achieved_goals_are_those_of_the_states_after_steps(Sampler, more):
    assert check_goals(run("dqn", Sampler=Sampler, sampler=more).algo.replay_buffer)


@pytest.mark.parametrize(
    "Sampler, affinity",
    [
        (AsyncSerialSampler, None),
        pytest.param(
            AsyncCpuSampler,
            dict(sampler=dict(n_workers=2), optimizer=dict(torch_threads=1)),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_held_in_step_an_asynchronous_run_is_the_run_of_one_process(Sampler, affinity):
    tiles = dict(deterministic_acting=True)
    whole = run("dqn, prioritized, n-step", sampler=tiles)
    name = "dqn, prioritized, n-step"
    beside = run(name, AsyncRl, Sampler, sampler=tiles, affinity=affinity, max_lead=0)
    assert_same_run(whole, beside)
    assert check_goals(beside.algo.replay_buffer)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(env="CartPole-v1"), "achieved_goal and desired_goal"),
        (dict(agent=dict(memory="gru")), "recurrent"),
        (dict(hindsight="past"), "future"),
        (dict(n_sampled_goals=0), "n_sampled_goals"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message, tmp_path):
    settings = dict(env=BitFlip, hindsight="future", sampler=dict(kind="serial")) | settings
    env = settings.pop("env")
    with pytest.raises((ValueError, TypeError), match=message):
        rlpyt.train("dqn", env, steps=100, run_dir=tmp_path / "run", video=False, **settings)


def successes(algo, Env, run_dir, **settings):
    """Return the fraction of 50 evaluation episodes that achieve their goal."""
    trained = rlpyt.train(algo, Env, run_dir=run_dir, video=False, eval_episodes=0, **settings)
    result = trained.evaluate(50)
    return np.mean(np.array(result.returns) > -np.array(result.lengths))


@pytest.mark.slow
@pytest.mark.parametrize(
    "Env, hindsight",
    [(BitFlip, "future"), (EndingBitFlip, "future"), (BitFlip, "final"), (BitFlip, "episode")],
)
def test_bits_are_flipped_with_hindsight_only(Env, hindsight, tmp_path):
    settings = dict(
        steps=8000, env_args=dict(n=10), min_steps_learn=500, eps_steps=4000, n_step_return=1,
        replay_ratio=64, batch_size=64, learning_rate=1e-3, target_update_interval=50,
    )  # fmt: skip
    found = [
        successes("dqn", Env, tmp_path / str(i), hindsight=where, **settings)
        for i, where in enumerate((hindsight, None))
    ]
    assert found[0] > 0.8 and found[1] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    "hindsight, more, learns",
    [
        ("future", {}, True),
        ("final", {}, True),
        ("future", dict(prioritized_replay=True), True),
        ("future", dict(n_step_return=3), True),
        (None, {}, False),
    ],
)
def test_a_way_through_a_maze_is_found_with_hindsight_only(hindsight, more, learns, tmp_path):
    """The goal is 14 to 19 steps away."""
    settings = dict(
        steps=12_000, min_steps_learn=500, eps_steps=4000, n_step_return=1, discount=0.95,
        replay_ratio=64, batch_size=64, learning_rate=1e-3, target_update_interval=50,
    )  # fmt: skip
    run_dir, settings = tmp_path / "run", settings | more
    found = successes("dqn", Maze, run_dir, hindsight=hindsight, **settings)
    assert found > 0.6 if learns else found < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_a_point_finds_places_with_hindsight_only(algo, tmp_path):
    settings = dict(steps=6000, batch_size=64, replay_ratio=32, min_steps_learn=500)
    found = [
        successes(algo, Point, tmp_path / str(i), hindsight=hindsight, **settings)
        for i, hindsight in enumerate(("future", None))
    ]
    assert found[0] > 0.8 and found[1] < 0.6
