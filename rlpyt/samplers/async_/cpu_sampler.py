"""Asynchronous sampler whose workers have the agent."""

from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin
from rlpyt.samplers.async_.collectors import DbCpuResetCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

EVAL_TRAJ_CHECK = 0.1  # not used; polling interval of rlpyt (2019) in seconds


class AsyncCpuSampler(AsyncParallelSamplerMixin):
    """A ``CpuSampler`` in parallel with the optimizer."""

    SamplerCls = CpuSampler
    CollectorCls, eval_CollectorCls = DbCpuResetCollector, CpuEvalCollector
