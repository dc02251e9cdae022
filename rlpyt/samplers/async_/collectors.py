"""rlpyt's names for collectors that are told which batch to write into; all of ours can be."""

from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector


class DoubleBufferCollectorMixin(BaseCollector):
    """``samples_np`` is set to the columns of another batch (``write_into``) before each."""


class DbCpuResetCollector(CpuResetCollector):
    """Resets an environment as soon as its trajectory is done."""


class DbCpuWaitResetCollector(CpuWaitResetCollector):
    """Lets an environment wait for the end of the batch."""


class DbGpuResetCollector(GpuResetCollector):
    """Resets an environment as soon as its trajectory is done; the agent is behind a server."""


class DbGpuWaitResetCollector(GpuWaitResetCollector):
    """Lets an environment wait for the end of the batch; the agent is behind a server."""
