"""Asynchronous samplers with two groups of workers per action server."""

from typing import Any

from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSamplerBase
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)


class AsyncAlternatingSamplerBase(AsyncGpuSamplerBase):
    """Workers in two alternating groups; for all agents, recurrent ones included."""

    SamplerCls: Any = AlternatingSampler
    alternating = True


class AsyncAlternatingSampler(AsyncAlternatingSamplerBase):
    """A group steps as soon as it has its actions."""


class AsyncNoOverlapAlternatingSampler(AsyncAlternatingSamplerBase):
    """A group steps when the other has finished its step, so that each has all cores."""

    SamplerCls = NoOverlapAlternatingSampler
