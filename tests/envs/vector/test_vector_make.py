import gymnasium
import numpy as np
import pytest

from rlpyt.envs.gym import make
from rlpyt.envs.vector import make_atari_vec, make_envpool, make_vec
from rlpyt.envs.vector.gymnasium_vector import GymnasiumVectorEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from tests.envs.vector.vector_parts import CountGym


def test_samplers_may_give_the_number_of_rows():
    for factory in (make_vec, make_atari_vec, make_envpool):
        assert factory.batched is True
        with pytest.raises(TypeError, match="requires num_envs"):
            factory("CartPole-v1")
        with pytest.raises((TypeError, ValueError), match="num_envs"):
            factory("CartPole-v1", 0)


def test_environments_without_a_batched_form_are_stepped_in_a_loop():
    envs = make_vec("Pendulum-v1", 3)
    assert isinstance(envs, GymnasiumVectorEnv) and envs.horizon == 200
    single = SerialVectorEnv([make("Pendulum-v1") for _ in range(3)])
    for batch in (envs, single):
        batch.seed([1, 2, 3])
    np.testing.assert_array_equal(envs.reset(), single.reset())
    for t in range(450):
        action = np.full((3, 1), np.sin(t), np.float32)
        own, other = envs.step(action), single.step(action)
        np.testing.assert_array_equal(own.observation, other.observation)
        np.testing.assert_array_equal(own.reward, other.reward)
        np.testing.assert_array_equal(own.env_info.timeout, other.env_info.timeout)
        rows = np.flatnonzero(own.env_info.traj_done)
        np.testing.assert_array_equal(envs.reset_rows(rows), single.reset_rows(rows))


def test_settings_wrappers_and_modes_are_passed_on():
    envs = make_vec(
        "CartPole-v1",
        2,
        wrappers=[gymnasium.wrappers.TimeAwareObservation],
        max_episode_steps=7,
    )
    assert envs.observation_space.shape == (5,) and envs.horizon == 7
    assert envs.mode is gymnasium.vector.AutoresetMode.SAME_STEP
    kwargs = dict(autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP)
    envs = make_vec("CartPole-v1", 2, vector_kwargs=kwargs)
    assert envs.mode is gymnasium.vector.AutoresetMode.NEXT_STEP
    envs = make_vec("Pendulum-v1", 2, g=5.0)
    assert envs.source.envs[0].unwrapped.g == 5.0
    with pytest.raises(gymnasium.error.Error, match="vector_kwargs"):
        make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point", vector_kwargs=kwargs)


def test_no_time_limit_is_none_of_one_step():
    envs = make_vec("CartPole-v1", 2, max_episode_steps=-1)
    envs.reset()
    step = envs.step(np.zeros(2, np.int64))
    assert envs.horizon is None and not step.done.any()
    envs.close()


def test_workers():
    gymnasium.register("CountForWorkers-v0", CountGym)
    envs = make_vec("CountForWorkers-v0", 2, vectorization_mode="async", length=3)
    envs.seed([4, 5])
    assert envs.reset().tolist() == [[4, 0, 0], [5, 0, 0]]
    assert make_vec("CartPole-v1", 1, vectorization_mode="async", max_episode_steps=7).horizon == 7
    envs.close()
    envs.close()


def test_unknown_ids_have_the_nearest_names():
    with pytest.raises(ValueError, match="CartPole"):
        make_vec("CartPol-v1", 2)


def test_functions_are_refused():
    with pytest.raises(TypeError, match="id, got <function"):
        make_vec(lambda: None, 2)
