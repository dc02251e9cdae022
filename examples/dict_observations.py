"""Train on observations with several parts: an image, a vector and a category.

Every ready agent takes Dict and Tuple spaces. Images are encoded by convolutions, vectors are read
as they are (or standardized, with ``normalize_observation=True``), categories one-hot; the features
are joined before the network's hidden layers (docs/algorithms.md, Composite observations). In
``Questions`` the category says what is asked: whether the square in the image is in its right
half, or whether the first number of the vector is the greater one. Watch ReturnAverage, the number
of right answers of 20: random answers give 10, and without one of the parts 15 is the best.

    python examples/dict_observations.py
    cd examples; rlpyt train ppo dict_observations:Questions --agent.hidden-sizes 64
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import tyro
from gymnasium import spaces

import rlpyt

SIZE, N_QUESTIONS = 8, 20


class Questions(gymnasium.Env):
    """Questions about an image or about two numbers, each with two possible answers."""

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Dict(
            image=spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8),  # [C, H, W]
            numbers=spaces.Box(-1, 1, (2,), np.float32),
            question=spaces.Discrete(2),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask the first question."""
        super().reset(seed=seed)
        self.t = 0
        return self._ask(), {}

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Give 1 for a right answer, and ask the next question."""
        reward = float(action == self.answer)
        self.t += 1
        return self._ask(), reward, self.t >= N_QUESTIONS, False, {}

    def _ask(self) -> dict[str, Any]:
        row, column = self.np_random.integers(SIZE - 1, size=2)
        image = np.zeros((1, SIZE, SIZE), np.uint8)
        image[0, row : row + 2, column : column + 2] = 255
        numbers = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        question = int(self.np_random.integers(2))
        self.answer = int(numbers[0] > numbers[1] if question else column >= SIZE // 2)
        return dict(image=image, numbers=numbers, question=question)


def main(steps: int = 60_000, run_dir: Path | None = None) -> None:
    """Train PPO.

    Args:
        steps: environment steps.
        run_dir: run directory; by default data/ALGO-ENV-TIMESTAMP.
    """
    encoder = dict(channels=[16], kernel_sizes=[3], strides=[1], paddings=[1], feature_size=32)
    run = rlpyt.train(
        "ppo",
        Questions,
        steps=steps,
        run_dir=run_dir,
        agent=dict(hidden_sizes=[64], model=dict(encoder=encoder)),
        sampler=dict(kind="serial", batch_T=32, batch_B=16),
        learning_rate=3e-3,
        minibatches=4,
        epochs=4,
        discount=0.0,  # answers do not influence later questions
    )
    print(run.evaluate(100))


if __name__ == "__main__":
    tyro.cli(main)
