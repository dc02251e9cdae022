"""Asynchronous sampler in one process."""

from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.async_.collectors import DbCpuResetCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler


class AsyncSerialSampler(AsyncSamplerMixin):
    """A ``SerialSampler`` in parallel with the optimizer."""

    SamplerCls = SerialSampler
    CollectorCls, eval_CollectorCls = DbCpuResetCollector, SerialEvalCollector
