"""Call custom code during training: stop early, keep the best agent, print progress.

A hook is a class with some of the methods ``on_start``, ``on_iteration``, ``on_log`` (after a row
of progress.csv) and ``on_end``; the runner calls all hooks in list order. Watch the lines that the
hooks print; the run stops long before its last step.

    python examples/callbacks.py
    python examples/callbacks.py --target-return 495

Hooks of a runner are given in the same way: ``MinibatchRl(..., hooks=[...])``.
"""

from pathlib import Path
from typing import Any

import torch
import tyro

import rlpyt
from rlpyt import Hook


class StopAtReturn(Hook):
    """Stop training when the mean return of recent episodes reaches a target."""

    def __init__(self, target: float) -> None:
        self.target = target

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Request a stop; the runner ends after this iteration, with a checkpoint."""
        if runner.recent_return >= self.target:  # NaN before the first episode has ended
            print(f"stop after {runner.cum_steps:,} steps: return {runner.recent_return:.1f}")
            runner.request_stop()


class SaveBest(Hook):
    """Save the parameters of the agent with the highest return so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.best = path, float("-inf")

    def on_log(self, runner: Any, row: dict[str, Any]) -> None:
        """Save the parameters if the row has the highest return."""
        if row["ReturnAverage"] > self.best:
            self.best = row["ReturnAverage"]
            torch.save(runner.agent.state_dict(), self.path)
            print(f"{row['Diagnostics/CumSteps']:>7,} steps: new best return {self.best:.1f}")

    def on_end(self, runner: Any) -> None:
        """Print the best return; called after an error, too."""
        print(f"best return {self.best:.1f}, saved in {self.path}")


def main(
    steps: int = 200_000, target_return: float = 400.0, run_dir: Path = Path("data/callbacks")
) -> None:
    """Train PPO on CartPole until a return is reached.

    Args:
        steps: maximum number of environment steps.
        target_return: return at which training stops.
        run_dir: run directory.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    run = rlpyt.train(
        "ppo",
        "CartPole-v1",
        steps=steps,
        run_dir=run_dir,
        log_interval_steps=5_120,
        hooks=[StopAtReturn(target_return), SaveBest(run_dir / "best.pt")],
        progress=False,
    )
    run.agent.load_state_dict(torch.load(run_dir / "best.pt", weights_only=True))
    print(run.evaluate(20))


if __name__ == "__main__":
    tyro.cli(main)
