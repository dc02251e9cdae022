"""rlpyt's name for samplers with worker processes."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.sampler import Sampler

EVAL_TRAJ_CHECK = 0.1  # seconds; rlpyt looked for finished evaluation episodes so often


class ParallelSamplerBase(Sampler):
    """A sampler whose environments live in worker processes."""

    layout = SamplerLayout(processes=True)
    gpu = False
