"""Names of ``Collector`` with the agent in an action server."""

from rlpyt.samplers.collectors import (  # noqa: F401 - rlpyt had these names here
    Collector,
    DecorrelatingStartCollector,
)
from rlpyt.samplers.evaluation import BaseEvalCollector, EvalCollector  # noqa: F401


class GpuResetCollector(Collector):
    """A collector that resets an environment as soon as its trajectory has ended."""

    mid_batch_reset = True


class GpuWaitResetCollector(Collector):
    """A collector that lets environments wait for the end of the batch, and records zeros."""

    mid_batch_reset = False


class GpuEvalCollector(EvalCollector):
    """Evaluation with the agent in an action server."""
