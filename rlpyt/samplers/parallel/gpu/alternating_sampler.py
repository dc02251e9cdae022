"""Groups of workers that alternate, so that acting and stepping overlap."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class AlternatingSamplerBase(GpuSamplerBase):
    """Workers in alternating groups, two by default; for all agents, recurrent ones included.

    Fastest if stepping and acting take equally long. A subclass has three groups with
    ``layout = SamplerLayout(processes=True, agent="served", groups=3)``.
    """

    layout = SamplerLayout(processes=True, agent="served", groups=2)
    alternating = True


class AlternatingSampler(AlternatingSamplerBase):
    """A group steps as soon as it has its actions."""


class NoOverlapAlternatingSampler(AlternatingSamplerBase):
    """A group steps when the other has finished its step, so that each has all cores."""

    layout = SamplerLayout(processes=True, agent="served", groups=2, overlap=False)
