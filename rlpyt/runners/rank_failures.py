"""Kinds of failures of ranks, and which of several caused the others."""

import json
import os
import re
import socket
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from rlpyt.errors import NonFiniteError, RankError, RankTimeout, RlpytError
from rlpyt.utils.processes import failure_text, summary_of, traceback_text

# What gloo, NCCL and the store say where a peer has gone.
_LOST = re.compile(r"connection|peer|nccl|gloo|timed? ?out|broken pipe|socket|recvvalue", re.I)


class Kind(IntEnum):
    """Kinds of failures; of several, the lowest is the cause."""

    OWN = 0  # an error, death or standstill of the rank's own
    SHARED = 1  # a gradient that is not finite, though the rank's loss is: it is the mean of all
    LOST = 2  # the connection to another rank


@dataclass(frozen=True)
class Failure:
    """One rank's failure, as JSON can hold it."""

    rank: int
    kind: int
    what: str  # happened, as "failed with ValueError: ..."
    pid: int = -1
    host: str = ""
    itr: int = -1
    traceback: str = ""
    stacks: str = ""
    number: int = 0  # of the rank's report, in their order; 0: others noticed
    standstill: bool = False

    @classmethod
    def of(cls, error: BaseException, rank: int, itr: int, number: int = 0) -> "Failure":
        """Return the report of a rank whose training raised this error."""
        return cls(
            rank=rank,
            kind=kind_of(error),
            what=f"failed with {summary_of(error)}",
            pid=os.getpid(),
            host=socket.gethostname(),
            itr=itr,
            traceback=traceback_text(error),
            number=number,
        )

    def to_json(self) -> str:
        """Return the failure as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: Any) -> "Failure":
        """Read the result of ``to_json``."""
        return cls(**json.loads(text))

    def error(self, world_size: int) -> RankError:
        """Return the error to raise in all ranks."""
        who = f"rank {self.rank} of {world_size}"
        if self.pid >= 0:
            who += f" (pid {self.pid} on {self.host})"
        when = f"in iteration {self.itr}" if self.itr >= 0 else "before the first iteration"
        last = "" if self.number else "last seen "
        said, where = f"{who} {self.what}", f"{last}{when}. All ranks are stopped"
        message = failure_text(said, where, "that rank", self.traceback, self.stacks)
        cls = RankTimeout if self.standstill else RankError
        return cls(message, self.rank, self.pid, self.traceback, self.itr, self.stacks)


def kind_of(error: BaseException) -> Kind:
    """Return whether an error is the rank's own, or the consequence of another's."""
    if isinstance(error, NonFiniteError) and "but the gradient is not finite" in str(error):
        return Kind.SHARED
    if isinstance(error, RankError):
        return Kind.LOST
    foreign = isinstance(error, RuntimeError) and not isinstance(error, RlpytError)
    return Kind.LOST if foreign and _LOST.search(str(error)) else Kind.OWN
