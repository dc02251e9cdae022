"""Names of collectors that write into several batches in turn; all collectors can."""

from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector


class DoubleBufferCollectorMixin(BaseCollector):
    """A collector whose ``samples_np`` is set to another batch by ``write_into``."""


class DbCpuResetCollector(CpuResetCollector):
    """Resets an environment as soon as its trajectory has ended."""


class DbCpuWaitResetCollector(CpuWaitResetCollector):
    """Lets an environment wait for the end of the batch."""


class DbGpuResetCollector(GpuResetCollector):
    """Resets an environment as soon as its trajectory has ended; the agent is in a server."""


class DbGpuWaitResetCollector(GpuWaitResetCollector):
    """Lets an environment wait for the end of the batch; the agent is in a server."""
