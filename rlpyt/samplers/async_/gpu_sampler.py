"""Asynchronous samplers with action servers, one for each GPU."""

from typing import Any

from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin
from rlpyt.samplers.async_.collectors import DbGpuResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.utils.old_names import removed


class AsyncGpuSamplerBase(AsyncParallelSamplerMixin):
    """One or several ``GpuSampler`` in parallel with the optimizer.

    For each entry of the list ``affinity["sampler"]`` there is a process, which has an action
    server on its own device (``cuda_idx``) and its own workers. Without GPUs the servers act on
    the CPU.
    """

    SamplerCls: Any = GpuSampler
    CollectorCls, eval_CollectorCls = DbGpuResetCollector, GpuEvalCollector

    action_server_process = removed(
        "action_server_process",
        "a server's process runs SamplerCls (rlpyt.samplers.sampler_process). Set SamplerCls to a "
        "subclass of GpuSampler to change it",
    )
    launch_workers = removed(
        "launch_workers", "the SamplerCls in the server's process starts its workers in initialize"
    )

    def shutdown_workers(self) -> None:
        """Stop servers and workers."""
        self.shutdown()


class AsyncGpuSampler(AsyncGpuSamplerBase):
    """A sampler in which all workers of a server step, then the server acts for all of them."""
