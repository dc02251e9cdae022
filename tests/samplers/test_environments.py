"""Environments of a sampler: what their constructors warn of is said once."""

import warnings

import numpy as np
import pytest

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

OLD = dict(EnvCls=make, env_kwargs=dict(id="Pendulum-v0"), batch_T=2, batch_B=2)
EVALUATION = dict(
    eval_env_kwargs=dict(id="Pendulum-v0"), eval_n_envs=2, eval_max_steps=4, eval_max_trajectories=1
)
NOT_AVAILABLE = "'Pendulum-v0' is no longer available"


def test_the_environments_of_one_process_warn_once():
    with pytest.warns(UserWarning, match=NOT_AVAILABLE) as caught:
        sampler = SerialSampler(**OLD, **EVALUATION)
        sampler.initialize(MujocoFfAgent(), seed=0)
        sampler.shutdown()
    assert len(caught) == 1


@pytest.mark.slow  # three processes import torch
def test_the_environments_of_all_workers_warn_once(capfd):
    sampler = CpuSampler(**OLD, **EVALUATION)
    sampler.start_method = "spawn"  # a fork server has the stderr of another test
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.initialize(MujocoFfAgent(), affinity=dict(n_workers=2), seed=0)
    sampler.shutdown()
    assert capfd.readouterr().err.count(NOT_AVAILABLE) == 1


class Talkative(CountEnv):
    def __init__(self, said):
        super().__init__()
        warnings.warn(f"made with {said}", stacklevel=1)


def test_environments_with_other_arguments_warn_too():
    def dicts(*said):
        return [dict(said=x) for x in said]

    sampler = SerialSampler(
        Talkative, dicts("a", "b", "a", "b"), batch_T=2, batch_B=4,
        eval_env_kwargs=dicts("b", "d", "d"), eval_n_envs=3, eval_max_steps=9,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sampler.initialize(CategoricalMlpAgent(), seed=0)
        sampler.shutdown()
    assert [str(w.message)[-1] for w in caught] == ["a", "b", "d"]


def station_warnings(rank, env_kwargs, **kwargs):
    sampler = SerialSampler(CountEnv, env_kwargs, batch_T=2, batch_B=4, **kwargs)
    sampler.seed, sampler.examples = 0, None
    specs = sampler._env_worker_specs(2, rank, world_size=2, traj_info_kwargs={})
    return [own for spec in specs for own in spec.env_warns]


def test_the_first_rank_shows_the_warnings_of_equal_environments():
    different = [dict(x=np.zeros(2)), dict(x=np.zeros(2)), dict(x=1), dict(x=1.0)]
    assert station_warnings(0, dict(x=1)) == [True, False, False, False]
    assert station_warnings(1, dict(x=1)) == [False] * 4
    for rank in range(2):
        assert station_warnings(rank, different) == [True, True, True, False]
