"""Sampler in the calling process."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.sampler import Sampler
from rlpyt.samplers.serial.collectors import SerialEvalCollector


class SerialSampler(Sampler):
    """A sampler that steps all environments in the calling process; the easiest to debug."""

    layout = SamplerLayout(processes=False)
    CollectorCls, eval_CollectorCls = CpuResetCollector, SerialEvalCollector
