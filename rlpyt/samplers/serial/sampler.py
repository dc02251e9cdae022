"""Sampler in the calling process."""

from typing import Any

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.sampler import Sampler
from rlpyt.samplers.serial.collectors import SerialEvalCollector


class SerialSampler(Sampler):
    """Steps all environments in the calling process; the easiest sampler to debug."""

    layout = SamplerLayout(processes=False)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = CpuResetCollector,
        eval_CollectorCls: Any = SerialEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
