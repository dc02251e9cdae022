"""Samplers with alternating groups of workers, so that acting and stepping overlap."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class AlternatingSamplerBase(GpuSamplerBase):
    """Base of samplers with alternating groups of workers, two by default; for all agents.

    Fastest if stepping and acting take equally long. A subclass has three groups with
    ``layout = SamplerLayout(processes=True, agent="served", groups=3)``.
    """

    layout = SamplerLayout(processes=True, agent="served", groups=2)
    alternating = True


class AlternatingSampler(AlternatingSamplerBase):
    """A sampler in which a group steps as soon as it has its actions."""


class NoOverlapAlternatingSampler(AlternatingSamplerBase):
    """A sampler in which a group steps after the other one's step, so that each has all cores."""

    layout = SamplerLayout(processes=True, agent="served", groups=2, overlap=False)
