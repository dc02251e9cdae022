"""Names of collectors for asynchronous samplers; every collector can alternate batches."""

from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.parallel.cpu import collectors as cpu
from rlpyt.samplers.parallel.gpu import collectors as gpu

DbCpuResetCollector, DbCpuWaitResetCollector = cpu.CpuResetCollector, cpu.CpuWaitResetCollector
DbGpuResetCollector, DbGpuWaitResetCollector = gpu.GpuResetCollector, gpu.GpuWaitResetCollector


class DoubleBufferCollectorMixin(BaseCollector):
    """A collector whose ``samples_np`` is replaced by ``write_into``."""
