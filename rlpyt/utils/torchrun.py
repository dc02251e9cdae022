"""Environment variables set by torchrun."""

import os
from dataclasses import dataclass

from rlpyt.utils.text import digits

NO_RUN_ID = ("", "none")  # values of torchrun without a run ID
OWN = ("RANK", "WORLD_SIZE")  # set only by torchrun
MEETING = ("MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class RankInfo:
    """Position of this process among the processes of its run.

    Attributes:
        rank, world_size: index of this process and number of processes.
        local_rank, local_world_size: the same among the processes on this machine.
        restarts: number of times torchrun has restarted this machine's processes.
        run_id: ID of the job; empty if torchrun was given none.
    """

    rank: int
    world_size: int
    local_rank: int = 0
    local_world_size: int = 1
    restarts: int = 0
    run_id: str = ""


def place() -> RankInfo | None:
    """Return the position of this process, or ``None`` if it was not started like by torchrun.

    Raises:
        ValueError: only some of the variables are set, one is not a whole number, or the rank is
            not below the world size.
    """
    given = [name for name in OWN if name in os.environ]
    if not given:
        return None
    missing = [name for name in (*OWN, *MEETING) if name not in os.environ]
    if missing:
        raise ValueError(
            f"{' and '.join(missing)} must be set, as by torchrun, if the environment variable "
            f"{given[0]} is set, got {given[0]}={os.environ[given[0]]!r}. To train in one process, "
            f"unset {given[0]}."
        )
    _number("MASTER_PORT", 0)
    rank, world_size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < world_size:
        raise ValueError(f"RANK={rank} must be at least 0 and below WORLD_SIZE={world_size}.")
    run_id = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return RankInfo(
        rank,
        world_size,
        _number("LOCAL_RANK", rank),
        _number("LOCAL_WORLD_SIZE", world_size),
        _number("TORCHELASTIC_RESTART_COUNT", 0),
        "" if run_id in NO_RUN_ID else run_id,
    )


def is_first() -> bool:
    """Return True in rank 0 or a single process, which prints and writes files."""
    here = place()
    return here is None or here.rank == 0


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    number = digits(value)
    if number is None:
        raise ValueError(f"the environment variable {name}={value!r} must be a whole number.")
    return number
