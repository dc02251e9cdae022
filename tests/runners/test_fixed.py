"""Arguments that are read when a run starts cannot be assigned in vain."""

import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.toy import DelayEnv
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

RUNNER = ("n_steps", "n_itr", "log_interval_steps", "checkpoint_interval_steps", "seed", "affinity")
SAMPLER = (
    "batch_T",
    "batch_B",
    "batch_spec",
    "env_kwargs",
    "eval_n_envs",
    "eval_max_steps",
    "env_timeout",
)


class Assigns(Hook):
    def __init__(self):
        self.refused = []

    def on_iteration(self, runner, itr):
        for part, names in ((runner, RUNNER), (runner.sampler, SAMPLER)):
            for name in names:
                with pytest.raises(AttributeError, match=f"{name} of .*changed"):
                    setattr(part, name, getattr(part, name))
                self.refused.append(name)


@pytest.mark.parametrize("Sampler", [SerialSampler, CpuSampler, AsyncSerialSampler])
def test_what_has_no_effect_during_training_is_refused(Sampler):
    hook = Assigns()
    sampler = Sampler(DelayEnv, batch_T=8, batch_B=2)
    asynchronous = Sampler is AsyncSerialSampler
    runner = (AsyncRl if asynchronous else MinibatchRl)(
        algo=VTrace() if asynchronous else PPO(minibatches=1), agent=CategoricalMlpAgent(),
        sampler=sampler, n_steps=32, hooks=[hook],
    )  # fmt: skip
    runner.train()
    assert {*hook.refused} == {*RUNNER, *SAMPLER}
    runner.n_steps, sampler.eval_max_steps = 64, 100  # for another run


def test_a_sampler_that_has_ended_takes_other_settings():
    sampler = SerialSampler(DelayEnv, batch_T=8, batch_B=2)
    sampler.initialize(CategoricalMlpAgent(), seed=1)
    with pytest.raises(AttributeError, match="env_kwargs of SerialSampler"):
        sampler.env_kwargs = {}
    sampler.shutdown()
    sampler.env_kwargs = {}
