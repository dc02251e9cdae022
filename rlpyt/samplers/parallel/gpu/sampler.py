"""Samplers with environments in worker processes and the agent in the master."""

from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector, GpuResetCollector
from rlpyt.samplers.policy_source import StepBuffer  # noqa: F401  (rlpyt had it here)
from rlpyt.samplers.serving import build_step_buffer  # noqa: F401  (rlpyt had it here)


class GpuSamplerBase(ParallelSamplerBase):
    """Base of samplers whose workers step environments, while the master acts for all at once.

    Workers and master are synchronized at every step, by a step record in shared memory and two
    semaphores per worker. The master acts on its device. Suited to large networks, in particular on
    a GPU.
    """

    layout = SamplerLayout(processes=True, agent="served")
    gpu = True
    CollectorCls, eval_CollectorCls = GpuResetCollector, GpuEvalCollector


class GpuSampler(GpuSamplerBase):
    """A sampler in which all workers step, then the master acts for all of them."""
