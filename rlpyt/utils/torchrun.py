"""The environment variables that torchrun sets."""

import os
from dataclasses import dataclass

NO_RUN_ID = ("", "none")  # what torchrun says where none was given
OWN = ("RANK", "WORLD_SIZE")  # nobody else sets these
MEETING = ("MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Place:
    """Position of this process among those of its run.

    Attributes:
        rank, world_size: among all.
        local_rank, local_world_size: among those on this machine.
        restarts: how often torchrun has started this machine's processes anew.
        run_id: of the whole job; empty where torchrun was given none.
    """

    rank: int
    world_size: int
    local_rank: int = 0
    local_world_size: int = 1
    restarts: int = 0
    run_id: str = ""


def place() -> Place | None:
    """This process's place, or ``None`` if it was not started by torchrun (or in its manner).

    Raises:
        ValueError: a variable is missing beside others, or no whole number, or the rank is not
            below the world size.
    """
    given = [name for name in OWN if name in os.environ]
    if not given:
        return None
    missing = [name for name in (*OWN, *MEETING) if name not in os.environ]
    if missing:
        raise ValueError(
            f"the environment variable {given[0]}={os.environ[given[0]]!r} says that this is one "
            f"of several processes, but {' and '.join(missing)} must be set too, as torchrun does; "
            f"to train in one process, unset {given[0]}."
        )
    _number("MASTER_PORT", 0)
    rank, world_size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < world_size:
        raise ValueError(f"RANK={rank} must be at least 0 and below WORLD_SIZE={world_size}.")
    run_id = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return Place(
        rank,
        world_size,
        _number("LOCAL_RANK", rank),
        _number("LOCAL_WORLD_SIZE", world_size),
        _number("TORCHELASTIC_RESTART_COUNT", 0),
        "" if run_id in NO_RUN_ID else run_id,
    )


def is_first() -> bool:
    """Return True in rank 0, or in the only process: the one that prints and writes files."""
    here = place()
    return here is None or here.rank == 0


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdigit():
        raise ValueError(f"the environment variable {name}={value!r} must be a whole number.")
    return int(value)
