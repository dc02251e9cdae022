"""Environments of a sampler: what their constructors warn of is said once."""

import warnings

import pytest

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.envs.gym import make
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
