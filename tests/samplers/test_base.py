"""A sampler's arguments and methods are checked before anything is started."""

import re
import warnings

import pytest

from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.base import UNCALLED_ASYNC_HOOKS, UNCALLED_HOOKS, kwargs_by_env
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

SAMPLERS = (CpuSampler, GpuSampler, AlternatingSampler, AsyncCpuSampler, AsyncGpuSampler)


def warnings_of(SamplerCls):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SamplerCls(CountEnv, {}, batch_T=2, batch_B=2)._check_arguments()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_overridden_methods_that_are_not_called_are_named_in_one_warning(SamplerCls):
    names = UNCALLED_HOOKS if SamplerCls.SamplerCls is None else UNCALLED_ASYNC_HOOKS
    hooks = dict.fromkeys(names, lambda self, *args, **kwargs: None)
    (said,) = warnings_of(type("Own", (SamplerCls,), hooks))
    assert re.findall(r"Own\.(\w+)", said) == list(names)
    (said,) = warnings_of(type("Own", (SamplerCls,), {names[0]: hooks[names[0]]}))
    assert said.startswith(f"Own.{names[0]} is not called: ") and "BaseSampler" in said


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_default_collectors_are_class_attributes(SamplerCls):
    class Own(SamplerCls):
        CollectorCls = CpuWaitResetCollector

    arguments = CountEnv, {}, 2, 2
    assert Own(*arguments).CollectorCls is CpuWaitResetCollector
    assert Own(*arguments).mid_batch_reset is False
    assert Own(*arguments).eval_CollectorCls is SamplerCls.eval_CollectorCls is not None
    given = Own(*arguments, CollectorCls=CpuResetCollector)
    assert given.CollectorCls is CpuResetCollector and given.mid_batch_reset is True
    assert SamplerCls(*arguments).CollectorCls is SamplerCls.CollectorCls is not None


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_own_serve_actions_is_named_where_it_is_not_called(SamplerCls):
    own = type("Own", (SamplerCls,), {"serve_actions": lambda self, itr: None})
    assert len(warnings_of(own)) == SamplerCls.__name__.startswith("Async")
    assert warnings_of(SamplerCls) == []


def test_environments_need_no_arguments_and_batches_have_a_size():
    sampler = CpuSampler(EnvCls=CountEnv)
    assert (sampler.env_kwargs, *sampler.batch_spec) == ({}, 128, 8)


def test_copied_arguments_remain_those_of_one_vector_environment():
    one, other = dict(n=1), dict(n=1)
    copies = kwargs_by_env("env_kwargs", [one, one, other], 3, "batch_B")
    assert copies == [one] * 3 and copies[0] is not one
    assert copies[0] is copies[1] is not copies[2]
