"""Name of samplers with worker processes."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.sampler import Sampler

EVAL_TRAJ_CHECK = 0.1  # seconds; interval of rlpyt (2019), not used


class ParallelSamplerBase(Sampler):
    """A sampler with environments in worker processes."""

    layout = SamplerLayout(processes=True)
    gpu = False
