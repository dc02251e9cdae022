"""Names of collectors for asynchronous samplers; every collector can alternate batches."""

from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector


class DoubleBufferCollectorMixin(BaseCollector):
    """A collector whose ``samples_np`` is replaced by ``write_into``."""


class DbCpuResetCollector(CpuResetCollector):
    """A collector that resets an environment as soon as its trajectory has ended."""


class DbCpuWaitResetCollector(CpuWaitResetCollector):
    """A collector that lets an environment wait for the end of the batch."""


class DbGpuResetCollector(GpuResetCollector):
    """A ``DbCpuResetCollector`` with the agent in an action server."""


class DbGpuWaitResetCollector(GpuWaitResetCollector):
    """A ``DbCpuWaitResetCollector`` with the agent in an action server."""
