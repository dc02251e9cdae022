"""Gymnasium's normalizing wrappers are named, and returns are those before them."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import (
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TransformReward,
)
from gymnasium.wrappers.vector import NormalizeReward as NormalizeVectorReward

import rlpyt
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.envs.base import build_env
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector import adapt
from rlpyt.envs.vector.wrappers import StandardizeReward
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.serial.sampler import SerialSampler


class Sevens(gymnasium.Env):
    """Episodes of three steps with reward 7."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, 100.0 * self.t, np.float32), 7.0, self.t == 3, False, {}


def single():
    return RecordEpisodeStatistics(NormalizeReward(gymnasium.wrappers.ClipReward(Sevens(), 0, 9)))


def scaled():
    return TransformReward(RecordEpisodeStatistics(TransformReward(Sevens(), Halve())), Halve())


class Halve:
    def __call__(self, reward):
        return reward / 2


def same_step(num_envs):
    return NormalizeVectorReward(
        SyncVectorEnv([Sevens] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    )


def inside(num_envs):
    return SyncVectorEnv([lambda: NormalizeReward(Sevens())] * num_envs)


def ours(num_envs):
    return StandardizeReward(SyncVectorEnv([Sevens] * num_envs))


same_step.batched = inside.batched = ours.batched = True


@pytest.mark.parametrize("make", [single, same_step, inside, ours])
@pytest.mark.parametrize("TrajInfoCls", [TrajInfo, type("OwnInfo", (TrajInfo,), {})])
def test_returns_are_those_before_normalization(make, TrajInfoCls):
    sampler = SerialSampler(
        make, {}, batch_T=20, batch_B=2, TrajInfoCls=TrajInfoCls, max_decorrelation_steps=0,
        eval_n_envs=2, eval_max_steps=40, eval_max_trajectories=4,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler.initialize(CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[4])), seed=0)
    try:
        samples, infos = sampler.obtain_samples(0)
        assert [info.Return for info in infos] == [21.0] * 12
        assert [info.Return for info in sampler.evaluate_agent(0)] == [21.0] * 4
        assert samples.env.reward.ne(7).any()  # the wrapper's
    finally:
        sampler.shutdown()


class Shaped(gymnasium.Wrapper):
    """Halve rewards in an own ``step``."""

    def step(self, action):
        observation, reward, *others = self.env.step(action)
        return observation, reward / 2, *others


class Skip(gymnasium.Wrapper):
    """Take three steps in one, and return half of their rewards."""

    def step(self, action):
        steps = [self.env.step(action) for _ in range(3)]
        return steps[-1][0], sum(step[1] for step in steps) / 2, *steps[-1][2:]


def test_rows_without_the_wrapper_have_their_own_rewards():
    envs = SyncVectorEnv([lambda: NormalizeReward(Sevens()), Sevens])
    with pytest.warns(UserWarning, match="NormalizeReward"):
        env = adapt(envs)
    env.reset()
    raw = env.step(np.zeros(2, np.int64)).env_info.raw_reward
    assert raw[0] == raw[1] != 0


def test_returns_inside_custom_wrappers_are_those_that_record_episode_statistics_reads():
    for wrapper, n_steps, reward in ((Shaped, 3, 3.5), (Skip, 1, 10.5)):
        wrapped = wrapper(RecordEpisodeStatistics(Sevens()))
        with warnings.catch_warnings(action="error"):
            env = build_env(GymEnvWrapper, dict(env=wrapped))
        for _ in range(2):  # episodes
            env.reset()
            steps = [env.step(0) for _ in range(n_steps)]
            assert {step.reward for step in steps} == {reward}
            assert sum(step.env_info.raw_reward for step in steps) == 21
            assert steps[-1].done


def test_returns_are_those_that_record_episode_statistics_reads():
    sampler = SerialSampler(scaled, {}, batch_T=20, batch_B=2, max_decorrelation_steps=0)
    with warnings.catch_warnings(action="error", category=UserWarning):  # of the entry "episode"
        sampler.initialize(CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[4])), seed=0)
        samples, infos = sampler.obtain_samples(0)
    assert [info.Return for info in infos] == [10.5] * 12
    assert samples.env.reward.eq(1.75).all()
    sampler.shutdown()


def test_the_wrapper_is_named_with_what_to_use_instead():
    def make():
        return NormalizeObservation(NormalizeReward(Sevens()))

    with pytest.warns(UserWarning) as said:
        env = build_env(make, {})
    texts = sorted(str(w.message) for w in said)
    assert len(texts) == 2
    assert "NormalizeObservation" in texts[0] and "normalize_observation=True" in texts[0]
    assert "NormalizeReward" in texts[1] and "normalize_reward=True" in texts[1]
    assert env.horizon is None
    with pytest.warns(UserWarning, match="NormalizeReward"):
        adapt(same_step(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_env(lambda: RecordEpisodeStatistics(Sevens()), {})


def normalized():
    return NormalizeObservation(NormalizeReward(Sevens()))


def test_wrappers_in_other_processes_are_named():
    with pytest.warns(UserWarning) as said:
        adapt(AsyncVectorEnv([normalized] * 2)).close()
    texts = sorted(str(w.message) for w in said)
    assert len(texts) == 2 and "normalize_observation=True" in texts[0]
    assert "Returns are logged with it" in texts[1]


def test_a_sampler_warns_once():
    sampler = SerialSampler(lambda: NormalizeReward(Sevens()), {}, batch_T=8, batch_B=4)
    with pytest.warns(UserWarning) as said:
        sampler.initialize(CategoricalMlpAgent(), seed=0)
    sampler.shutdown()
    assert sum("NormalizeReward" in str(w.message) for w in said) == 1


def test_a_loaded_run_plays_returns_before_normalization(tmp_path):
    with pytest.warns(UserWarning, match="NormalizeReward"):
        run = rlpyt.train(
            "a2c", single, steps=64, run_dir=tmp_path / "run", progress=False,
            sampler=dict(kind="serial", batch_T=8, batch_B=2), log_interval_steps=16,
        )  # fmt: skip
        assert run.evaluate(2).returns == (21.0, 21.0)
