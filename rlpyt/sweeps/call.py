"""Carries out one call of a user's function as a run: ``python -m rlpyt.sweeps.call``.

The functions and their arguments lie in one file beside the queue, written by the process that
launched them (:mod:`rlpyt.experiments.experiment`) and read by no other.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpyt.utils.files import atomic_write
from rlpyt.utils.serialize import dumps, loads

CALLS = "calls.pkl"
RESULT = "result.pkl"


@dataclass(frozen=True)
class Call:
    """``run(config, seed, device, logdir)``, with all but the last."""

    config: dict[str, Any]
    seed: int
    device: str


def main(calls: Path, number: int, job_dir: Path, run_dir: Path) -> None:
    """Make the call of this number, and leave its result in the job's directory."""
    import torch

    run, every = loads(calls.read_bytes())
    call = every[number]
    run_dir.mkdir(parents=True, exist_ok=True)
    result = run(call.config, call.seed, torch.device(call.device), str(run_dir))
    with atomic_write(job_dir / RESULT) as file:
        file.write(dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
