"""Train a member of a population for one segment: ``python -m rlpyt.sweeps.pbt_segment``.

The run is planned for all its steps, so that schedules continue from segment to segment. It ends
after the segment, with a checkpoint and an evaluation.
"""

import sys
from pathlib import Path
from typing import Any

from rlpyt.experiments import rundir
from rlpyt.experiments.finish import finish
from rlpyt.experiments.options import read_options
from rlpyt.experiments.run import train
from rlpyt.runners.hooks import Hook
from rlpyt.runners.progress import ProgressHook
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit


class EndsAt(Hook):
    """Hook that stops training early, with a snapshot.

    Args:
        steps: environment steps; the last iteration is the last one that ends within them.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Stop if the next iteration would exceed the steps."""
        is_last = itr + 1 == runner.n_itr
        if not is_last and runner.cum_steps + runner.itr_batch_size > self.steps:
            runner.save_snapshot(itr)
            runner.request_stop()


def main(config: Path, run_dir: Path, steps: int) -> None:
    """Train, from the checkpoint in the run directory if there is one.

    Args:
        config: a ``config.json``.
        run_dir: of the member.
        steps: environment steps at the end of the segment, counted from the start of the run.
    """
    options = read_options(config, trust=True)  # written by the launcher
    resume = rundir.has_checkpoint(run_dir)
    with rundir.showing_how_to_resume(run_dir):
        train(options, run_dir, [EndsAt(steps), ProgressHook()], resume, finish)


if __name__ == "__main__":
    wait_for_helpers_at_exit()
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
