"""Asynchronous samplers with two groups of workers per action server."""

from typing import Any

from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSamplerBase
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)


class AsyncAlternatingSamplerBase(AsyncGpuSamplerBase):
    """Base of samplers with two alternating groups of workers; any agent can use them."""

    SamplerCls: Any = AlternatingSampler
    alternating = True


class AsyncAlternatingSampler(AsyncAlternatingSamplerBase):
    """A sampler in which a group steps as soon as it has its actions."""


class AsyncNoOverlapAlternatingSampler(AsyncAlternatingSamplerBase):
    """A sampler in which a group steps after the other one's step, so that each has all cores."""

    SamplerCls = NoOverlapAlternatingSampler
