"""rlpyt's name for samplers with worker processes."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.sampler import Sampler


class ParallelSamplerBase(Sampler):
    """A sampler whose environments live in worker processes."""

    layout = SamplerLayout(processes=True)
    gpu = False
