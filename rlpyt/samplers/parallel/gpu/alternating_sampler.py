"""Groups of workers that take turns, so that acting and stepping go on at the same time."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class AlternatingSamplerBase(GpuSamplerBase):
    """Workers in groups that take turns, two by default; any agent, recurrent ones included.

    Pays where stepping all environments and acting for them take about equally long. A subclass
    with ``SamplerLayout(processes=True, agent="served", groups=3)`` as ``layout`` has three groups.
    """

    layout = SamplerLayout(processes=True, agent="served", groups=2)
    alternating = True


class AlternatingSampler(AlternatingSamplerBase):
    """A group steps as soon as it is answered, be the other still stepping or not."""


class NoOverlapAlternatingSampler(AlternatingSamplerBase):
    """A group steps only once the other has arrived, so that each has the cores to itself."""

    layout = SamplerLayout(processes=True, agent="served", groups=2, overlap=False)
