"""rlpyt's names for the collection loop with the agent in the same process."""

from rlpyt.samplers.collectors import Collector
from rlpyt.samplers.evaluation import EvalCollector


class CpuResetCollector(Collector):
    """Resets an environment as soon as its trajectory is done."""

    mid_batch_reset = True


class CpuWaitResetCollector(Collector):
    """Lets an environment wait for the end of the batch; zeros are recorded meanwhile."""

    mid_batch_reset = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]


class CpuEvalCollector(EvalCollector):
    """Evaluation with the agent in the worker."""
