"""Base class of samplers with worker processes, a name of rlpyt (2019)."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.sampler import Sampler

EVAL_TRAJ_CHECK = 0.1  # not used; polling interval of rlpyt (2019) in seconds


class ParallelSamplerBase(Sampler):
    """A sampler with environments in worker processes."""

    layout = SamplerLayout(processes=True)
    gpu = False
