"""Stop and resume a run, then load and evaluate the trained agent.

The first run stops half-way as with Ctrl-C: after the iteration, with a checkpoint. The second one
resumes from there. Watch the line that compares parameters: they equal those of a third run, which
was not interrupted, bit for bit. At last the agent is loaded from the run directory and plays 20
episodes.

    python examples/resume.py

On the command line: ``rlpyt resume RUN_DIR`` and ``rlpyt eval RUN_DIR``, also for runs of scripts.
"""

from pathlib import Path
from typing import Any

import torch
import tyro

import rlpyt
from rlpyt import PPO, CategoricalMlpAgent, Hook, MinibatchRl, SerialSampler, logger_context
from rlpyt.envs.gym import make
from rlpyt.utils.logging import logger


class StopHalfWay(Hook):
    """Stop training after half of the iterations."""

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Request a stop."""
        if itr + 1 == runner.n_itr // 2:
            runner.request_stop()


def train(steps: int, log_dir: Path, run_id: int, resume: bool = False, **kwargs: Any) -> Path:
    """Train, and return the run directory."""
    runner = MinibatchRl(
        algo=PPO(gae_lambda=0.95, ratio_clip=0.2, normalize_advantage=True),
        agent=CategoricalMlpAgent(),
        sampler=SerialSampler(make, dict(id="CartPole-v1"), batch_T=128, batch_B=8),
        n_steps=steps,
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=10_240,
        resume_from=log_dir / f"run_{run_id}" / "checkpoint" if resume else None,
        **kwargs,
    )
    with logger_context(log_dir, run_id, "cartpole", snapshot_mode="last", resume=resume) as path:
        runner.train()
    print(f"{path.name}: trained iterations {runner.start_itr} to {runner.itr}")
    return path


def main(steps: int = 60_000, log_dir: Path = Path("data/resume")) -> None:
    """Stop, resume, compare parameters, and evaluate.

    Args:
        steps: environment steps.
        log_dir: directory of the two runs.
    """
    logger.set_console(False)  # the tables are in debug.log of each run
    log_dir = log_dir.absolute()
    train(steps, log_dir, run_id=0, hooks=[StopHalfWay()])
    # A resumed run has the same hooks, or warns; this one does nothing after half of the steps.
    resumed = rlpyt.load(train(steps, log_dir, run_id=0, resume=True, hooks=[StopHalfWay()]))
    uninterrupted = rlpyt.load(train(steps, log_dir, run_id=1))

    a, b = uninterrupted.agent.state_dict(), resumed.agent.state_dict()
    same = all(torch.equal(a[name], b[name]) for name in a)
    print(f"parameters equal bit for bit: {same}")
    print(resumed.evaluate(20))


if __name__ == "__main__":
    tyro.cli(main)
