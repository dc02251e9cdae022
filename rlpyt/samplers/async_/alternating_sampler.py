"""Two groups of workers per action server, beside the optimizer."""

from typing import Any

from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSamplerBase
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)


class AsyncAlternatingSamplerBase(AsyncGpuSamplerBase):
    """Twice the workers, in two groups that take turns; any agent, recurrent ones included."""

    SamplerCls: Any = AlternatingSampler
    alternating = True


class AsyncAlternatingSampler(AsyncAlternatingSamplerBase):
    """A group steps as soon as it is answered, be the other still stepping or not."""


class AsyncNoOverlapAlternatingSampler(AsyncAlternatingSamplerBase):
    """A group steps only once the other has arrived, so that each has the cores to itself."""

    SamplerCls = NoOverlapAlternatingSampler
