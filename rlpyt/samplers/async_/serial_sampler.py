"""Asynchronous sampler in one process."""

from typing import Any

from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.async_.collectors import DbCpuResetCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler


class AsyncSerialSampler(AsyncSamplerMixin):
    """A ``SerialSampler`` in parallel with the optimizer."""

    SamplerCls = SerialSampler

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = DbCpuResetCollector,
        eval_CollectorCls: Any = SerialEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
