"""A run that a test interrupts and resumes: ``python resumable_run.py LAYOUT RUN_DIR``.

It continues from the checkpoint in RUN_DIR if there is one, and starts again otherwise.
"""

import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from rlpyt.runners.async_rl import AsyncRlEval
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.runners import async_trouble
from tests.runners.sync_parts import B, T, sync_runner

N_ITR = 60
EVERY = dict(log_interval_steps=6 * T * B, checkpoint_interval_steps=7 * T * B, n_itr=N_ITR)
STEPS = async_trouble.T * async_trouble.B
AFFINITY = dict(n_workers=2, master_torch_threads=1)
EVALUATES = dict(
    Runner=AsyncRlEval,
    log_interval_steps=6 * STEPS,
    checkpoint_interval_steps=7 * STEPS,
    sampler=dict(eval_max_steps=40),
)
LAYOUTS = {
    "serial": partial(sync_runner, MinibatchRl, **EVERY),
    "cpu": partial(sync_runner, MinibatchRl, Sampler=CpuSampler, affinity=AFFINITY, **EVERY),
    "ranks": partial(sync_runner, **EVERY),
    "async": partial(async_trouble.runner_for, n_itr=N_ITR, **EVALUATES),
    "endless async": partial(async_trouble.runner_for, **EVALUATES),
}


def main(layout, run_dir):
    """Run to the end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in background jobs
    Path(f"{run_dir}.started").touch()
    checkpoint = Path(run_dir, "checkpoint")
    try:
        load_checkpoint(checkpoint)
        resume = dict(resume_from=checkpoint)
    except CheckpointError:
        resume = {}
        shutil.rmtree(run_dir, ignore_errors=True)
    runner = LAYOUTS[layout](**resume)
    with run_context(run_dir, 0, "run", resume=bool(resume)):
        runner.train()


if __name__ == "__main__":
    main(*sys.argv[1:])
