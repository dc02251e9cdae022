"""``env_kwargs`` as a list: environment b is made with entry b, in every layout."""

import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.make import make_vec
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

T, B = 3, 4
TRAINING = [dict(rank=10 + b) for b in range(B)]
EVALUATION = [dict(rank=50 + b) for b in range(3)]


class WithRank(TrajInfo):
    def terminate(self, observation):
        self.Rank = int(observation[0])
        return self


def sampler_of(SamplerCls, **kwargs):
    given = dict(EnvCls=CountEnv, env_kwargs=TRAINING, eval_env_kwargs=EVALUATION, eval_n_envs=3)
    return SamplerCls(
        **{**given, **kwargs}, batch_T=T, batch_B=B, eval_max_steps=60, TrajInfoCls=WithRank
    )


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler, GpuSampler, AlternatingSampler])
def test_each_environment_has_its_own_arguments(SamplerCls):
    sampler = sampler_of(SamplerCls)
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=2), seed=1)
    try:
        samples, _ = sampler.obtain_samples(0)
        assert samples.env.observation[0, :, 0].tolist() == [10, 11, 12, 13]
        # Two workers have two evaluation environments each: the fourth is made as the first.
        assert {info.Rank for info in sampler.evaluate_agent(0)} == {50, 51, 52}
    finally:
        sampler.shutdown()


def test_each_environment_has_its_own_arguments_beside_the_optimizer():
    sampler = sampler_of(AsyncCpuSampler, eval_env_kwargs=None)
    sampler.async_initialize(CategoricalMlpAgent(), seed=1)
    sampler.initialize([dict(n_workers=1), dict(n_workers=1)])
    try:
        sampler.obtain_samples(0, 0)
        assert sampler.slots[0].env.observation[0, :, 0].tolist() == [10, 11, 12, 13]
        assert {info.Rank for info in sampler.evaluate_agent(0)} == {10, 11, 12}
    finally:
        sampler.shutdown()


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(env_kwargs=TRAINING[:3]), ValueError, "^env_kwargs .*batch_B=4, got 3"),
        (dict(eval_n_envs=2), ValueError, "^eval_env_kwargs .*eval_n_envs=2, got 3"),
        (dict(env_kwargs="rank"), TypeError, "env_kwargs .*'rank'"),
        (
            dict(
                EnvCls=make_vec,
                env_kwargs=[dict(id="CartPole-v1") for _ in range(B)],
                eval_n_envs=0,
            ),
            ValueError,
            "4 rows .*env_kwargs",
        ),
    ],
)
def test_lists_that_do_not_fit_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        sampler_of(SerialSampler, **kwargs).initialize(CategoricalMlpAgent())
