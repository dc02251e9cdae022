"""Call code during training: stop early, keep the best agent, print progress, change a setting.

Two hooks are ready-made; the third is written here. A hook is a class with some of the methods
``on_start``, ``on_iteration``, ``on_log`` (after a row of progress.csv) and ``on_end``; the runner
calls all hooks in list order. Watch the lines that the hook prints; the run stops long before its
last step.

    python examples/callbacks.py
    python examples/callbacks.py --target-return 495

Hooks of a runner are given in the same way: ``MinibatchRl(..., hooks=[...])``.
"""

from pathlib import Path
from typing import Any

import tyro

import rlpyt
from rlpyt import Hook, KeepBest, StopAtReturn


class SlowerWhenGood(Hook):
    """Print each row, and divide the learning rate by three once the return is high."""

    def __init__(self, return_: float) -> None:
        self.return_ = return_
        self.is_slow = False

    def on_log(self, runner: Any, row: dict[str, Any]) -> None:
        """Print the return; a setting that is assigned acts at the next update."""
        print(f"{runner.cum_steps:>7,} steps: return {row['ReturnAverage']:.1f}")
        if row["ReturnAverage"] >= self.return_ and not self.is_slow:
            self.is_slow = True
            runner.algo.learning_rate = runner.algo.learning_rate / 3
            print(f"learning rate from now on: {runner.algo.learning_rate:.2g}")

    def on_end(self, runner: Any) -> None:
        """Print the number of steps; called after an error, too."""
        print(f"ended after {runner.cum_steps:,} steps")


def main(
    steps: int = 200_000, target_return: float = 400.0, run_dir: Path = Path("data/callbacks")
) -> None:
    """Train PPO on CartPole until a return is reached.

    Args:
        steps: maximum number of environment steps.
        target_return: return at which training stops.
        run_dir: run directory.
    """
    rlpyt.train(
        "ppo",
        "CartPole-v1",
        steps=steps,
        run_dir=run_dir,
        log_interval_steps=5_120,
        hooks=[KeepBest(), StopAtReturn(target_return), SlowerWhenGood(0.8 * target_return)],
        progress=False,
    )
    best = rlpyt.load(run_dir, best=True)
    print(best.evaluate(20))


if __name__ == "__main__":
    tyro.cli(main)
