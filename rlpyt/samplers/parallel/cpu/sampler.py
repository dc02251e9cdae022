"""Sampler with environments and agent in worker processes."""

from typing import Any

from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector, CpuResetCollector


class CpuSampler(ParallelSamplerBase):
    """Each worker steps its environments and acts for them on the CPU.

    Workers and master are synchronized once per batch; workers read the master's parameters in
    shared memory.
    """

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = CpuResetCollector,
        eval_CollectorCls: Any = CpuEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
