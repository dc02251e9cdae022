"""What the loops of a process know beside the documented arguments of a collector."""

from dataclasses import dataclass, field
from typing import Any

from rlpyt.processes.status import fresh_progress


@dataclass
class CollectorContext:
    """What a process knows beside the documented arguments of a collector."""

    seed: int = 0
    # Where the process stands (``processes.status``), read by the parent after a failure.
    progress: Any = field(default_factory=fresh_progress)
