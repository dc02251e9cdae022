"""Asynchronous samplers with action servers, one for each GPU."""

from typing import Any, NoReturn

from rlpyt.samplers.async_.base import AsyncParallelSamplerMixin
from rlpyt.samplers.async_.collectors import DbGpuResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler


class AsyncGpuSamplerBase(AsyncParallelSamplerMixin):
    """One or several ``GpuSampler`` in parallel with the optimizer.

    For each entry of the list ``affinity["sampler"]`` there is a process, which has an action
    server on its own device (``cuda_idx``) and its own workers. Without GPUs the servers act on
    the CPU.
    """

    SamplerCls: Any = GpuSampler
    CollectorCls, eval_CollectorCls = DbGpuResetCollector, GpuEvalCollector

    def action_server_process(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise ``NotImplementedError``; in rlpyt (2019) this was the loop of a server's process.

        Raises:
            NotImplementedError: always; ``samplers.sampler_process`` runs ``SamplerCls``.
        """
        raise NotImplementedError(
            "action_server_process and launch_workers are not used any more: a server's process "
            "runs SamplerCls (rlpyt.samplers.sampler_process), which starts its workers in "
            "initialize. Set SamplerCls to a subclass of GpuSampler to change it."
        )

    launch_workers = action_server_process  # started a server's workers

    def shutdown_workers(self) -> None:
        """Stop servers and workers."""
        self.shutdown()


class AsyncGpuSampler(AsyncGpuSamplerBase):
    """A sampler in which all workers of a server step, then the server acts for all of them."""
