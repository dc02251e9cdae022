"""Sampler with environments and agent in worker processes."""

from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector, CpuResetCollector


class CpuSampler(ParallelSamplerBase):
    """A sampler whose workers step their environments and act for them on the CPU.

    Workers and master are synchronized once per batch; workers read the master's parameters in
    shared memory.
    """

    CollectorCls, eval_CollectorCls = CpuResetCollector, CpuEvalCollector
