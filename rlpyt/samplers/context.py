"""Per-process context of the collectors: random seed, activity numbers, last action."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlpyt.processes.status import Progress, fresh_progress


@dataclass
class CollectorContext:
    """State shared by the collectors of a process, in addition to their documented arguments.

    Attributes:
        seed: seed of the run.
        progress: activity numbers of ``processes.status``; the parent reads them after a failure.
        actions: last actions of the environments, by row; None before the first step.
        where: function that returns a description of the current activity, for warnings.
        warns: True until the process has warned of observations outside their bounds; False from
            the start in processes whose environments another one has, too.
        noted: warnings of spaces and first observations that the process has given.
    """

    seed: int = 0
    progress: Progress = field(default_factory=fresh_progress)
    actions: Any = None
    where: Callable[[], object] | None = None
    warns: bool = True
    noted: set[str] = field(default_factory=set)

    def warn(self, text: str | None, key: str | None = None) -> None:
        """Warn once in this process; of texts with the same ``key``, only of the first."""
        if text and self.warns and (key or text) not in self.noted:
            self.noted.add(key or text)
            warnings.warn(text)
