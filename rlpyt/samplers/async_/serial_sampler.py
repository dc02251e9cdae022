"""One process beside the optimizer that steps all environments."""

from typing import Any

from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.async_.collectors import DbCpuResetCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler


class AsyncSerialSampler(AsyncSamplerMixin):
    """A ``SerialSampler`` beside the optimizer."""

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
