"""Call a user's function for one run: ``python -m rlpyt.sweeps.function_job``.

The function and all arguments are in one file beside the queue, written by the launching process
(`rlpyt.sweeps.function_runs`).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpyt.experiments.config import ID
from rlpyt.utils.files import atomic_write
from rlpyt.utils.serialize import dumps, loads

CALLS = "calls.pkl"
RESULT = "result.pkl"

Function = Callable[[dict[str, Any], int, Any, str], Any]


@dataclass(frozen=True)
class FunctionCall:
    """Arguments of ``run(config, seed, device, logdir)``, without ``logdir``."""

    config: dict[str, Any]
    seed: int
    device: str

    @property
    def name(self) -> str:
        """Return the directory of the call, relative to the experiment's."""
        return f"{self.config[ID]}/{self.seed}"

    def make(self, run: Function, logdir: Path) -> Any:
        """Call the function in this process; return its result."""
        import torch

        logdir.mkdir(parents=True, exist_ok=True)
        return run(self.config, self.seed, torch.device(self.device), str(logdir))


def main(calls: Path, number: int, job_dir: Path, run_dir: Path) -> None:
    """Make the call with this number, and write its result to the job's directory."""
    run, every = loads(calls.read_bytes())
    result = every[number].make(run, run_dir)
    with atomic_write(job_dir / RESULT) as file:
        file.write(dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
