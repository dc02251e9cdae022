"""Base class of samplers with worker processes, a name of rlpyt (2019)."""

from rlpyt.compat.parallel_sampler import BarrierSampler
from rlpyt.samplers.layout import SamplerLayout

EVAL_TRAJ_CHECK = 0.1  # not used; polling interval of rlpyt (2019) in seconds


class ParallelSamplerBase(BarrierSampler):
    """A sampler with environments in worker processes."""

    layout = SamplerLayout(processes=True)
    gpu = False
