"""The attribute ``lr_scheduler`` of rlpyt (2019), which overrides of ``optimize_agent`` step."""

import warnings
from typing import Any


class AppliedScheduler:
    """Scheduler of an algorithm that sets its learning rate itself, before ``optimize_agent``."""

    def step(self) -> None:
        """Do nothing."""


class SchedulerAttribute:
    """Attribute that holds a scheduler of torch, which then determines ``learning_rate``.

    In iteration ``i`` it has been stepped ``i`` times: by the subclass that assigned it, or else
    here. Without one it is an `AppliedScheduler`.
    """

    def __get__(self, algo: Any, cls: type | None = None) -> Any:
        return self if algo is None else vars(algo).get("lr_scheduler") or AppliedScheduler()

    def __set__(self, algo: Any, scheduler: Any) -> None:
        vars(algo)["lr_scheduler"] = scheduler
        if scheduler is None:
            return

        def current(progress: float) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch expects its own ``optimizer.step``
                while scheduler.last_epoch < round(progress * algo.n_itr):
                    scheduler.step()
            return float(scheduler.get_last_lr()[0])

        algo.schedules["learning_rate"] = current
