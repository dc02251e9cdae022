import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector import UnsupportedVectorEnv, VectorEnv, adapt, is_vector_env
from rlpyt.envs.vector.base import WaitingRows, vector_info
from tests.envs.vector.vector_parts import SEEDS, CountGym, NativeCount, oracle


def test_what_is_a_batch_of_environments():
    native = NativeCount(2, gymnasium.vector.AutoresetMode.NEXT_STEP)
    sync = gymnasium.vector.SyncVectorEnv([CountGym] * 2)
    wrapped = gymnasium.vector.VectorWrapper(sync)
    assert all(map(is_vector_env, (oracle(), native, sync, wrapped)))
    for single in (CountEnv(), CountGym(), GymEnvWrapper(CountGym()), VectorEnv, None, 3):
        assert not is_vector_env(single)


def test_what_only_claims_to_be_one_is_refused_by_name():
    class OtherPackage:
        num_envs = 4

        def reset(self): ...

        def step(self, action): ...

    assert is_vector_env(OtherPackage())
    with pytest.raises(UnsupportedVectorEnv, match=r"OtherPackage.*reset_rows"):
        adapt(OtherPackage())


def test_stable_baselines_environments_are_refused_with_another_way():
    body = {"num_envs": 2, "reset": None, "step": None}
    envs = type("DummyVecEnv", (), {**body, "__module__": "stable_baselines3.common.vec_env"})()
    assert is_vector_env(envs)
    with pytest.raises(UnsupportedVectorEnv, match="EnvCls=rlpyt.envs.gym.make"):
        adapt(envs)


def test_ours_are_returned_as_they_are():
    envs = oracle()
    assert adapt(envs) is envs


def test_defaults_of_the_interface():
    class Least(VectorEnv):
        n = 2
        _action_space = _observation_space = "a space"

    envs = Least()
    assert envs.spaces == EnvSpaces("a space", "a space")
    assert envs.horizon is None and envs.get_state() is None and envs.statistics() == {}
    envs.load_statistics({})
    envs.freeze()
    envs.close()
    with pytest.raises(NotImplementedError, match="Least does not support"):
        envs.set_state({})


@pytest.mark.parametrize("seeds", [[1, 2], [1, 2, -3], [1, 2, 3.5], 4, [1, 2, None]])
def test_seeds_must_be_one_for_each_row(seeds):
    with pytest.raises(ValueError, match="3 integers"):
        oracle().seed(seeds)


def test_seeds_take_effect_at_the_next_reset():
    envs = oracle()
    envs.seed(SEEDS)
    assert envs.reset()[:, 0].tolist() == SEEDS
    envs.seed(np.array([1, 2, 3]))
    assert envs.reset()[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.array([True, False, True]), TypeError, "flatnonzero"),
        (np.array([0.0]), TypeError, "row numbers"),
        (1, TypeError, "row numbers"),
        ([3], ValueError, r"\[0, 3\)"),
        ([-1], ValueError, r"\[0, 3\)"),
        ([1, 1], ValueError, "only once"),
    ],
)
@pytest.mark.parametrize("adapted", [True, False])
def test_rows_are_checked(rows, error, message, adapted):
    envs = adapt(gymnasium.vector.SyncVectorEnv([CountGym] * 3)) if adapted else oracle()
    envs.reset()
    with pytest.raises(error, match=message):
        envs.reset_rows(rows)


@pytest.mark.parametrize("adapted", [True, False])
def test_no_rows_give_an_empty_batch(adapted):
    envs = adapt(gymnasium.vector.SyncVectorEnv([CountGym] * 3)) if adapted else oracle()
    envs.reset()
    empty = envs.reset_rows(np.flatnonzero(np.zeros(3, bool)))
    assert empty.shape == (0, 3) and empty.dtype == np.float32
    assert envs.step(np.zeros(3, int)).observation[:, 2].tolist() == [1, 1, 1]


def test_env_info_always_tells_timeout_and_traj_done():
    assert vector_info(("lives",))._fields == ("timeout", "traj_done", "lives")
    assert vector_info(("lives",)) is vector_info(("lives",))
    with pytest.raises(ValueError, match="traj_done"):
        vector_info(("traj_done",))


def test_waiting_rows_are_counted():
    waiting = WaitingRows(4)
    waiting.add(np.array([True, False, True, False]))
    waiting.add(np.array([True, True, False, False]))
    assert waiting.n == 3
    waiting.remove(np.array([0, 3]))
    assert waiting.n == 2 and waiting.mask.tolist() == [False, True, True, False]
    waiting.remove()
    assert waiting.n == 0 and not waiting.mask.any()


def test_asking_imports_no_environment_library():
    code = (
        "import sys; from rlpyt.envs.vector import is_vector_env, make_vec;"
        "is_vector_env(object());"
        "print(sorted({'gymnasium', 'ale_py', 'envpool'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_examples_of_info_reach_the_adapter():
    class Env(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            return np.zeros(1, np.float32), {"ram": np.zeros(3, np.uint8)}

        def step(self, action):
            info = {"ram": np.arange(3, dtype=np.uint8)}
            return np.zeros(1, np.float32), 0.0, False, False, info

    envs = adapt(gymnasium.vector.SyncVectorEnv([Env] * 2), {"ram": np.zeros(3, np.uint8)})
    envs.reset()
    ram = envs.step(np.zeros(2, np.int64)).env_info.ram
    assert ram.dtype == np.uint8 and (ram == [[0, 1, 2]] * 2).all()
