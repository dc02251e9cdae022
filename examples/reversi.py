"""Train on a board game in which few of the actions are valid: Reversi against a random player.

The environment returns the legal moves as ``info["action_mask"]``, so that the agent chooses only
among them (docs/action_masks.md). With ``--no-masked`` there is no mask, and an illegal move loses
the game. Watch ReturnAverage: a win counts 1, a loss -1. A random player with the mask has 0;
without the mask nearly all games are lost by an illegal move at first, and many of them for long.

    python examples/reversi.py
    python examples/reversi.py --no-masked
    cd examples; rlpyt train ppo reversi:Reversi --steps 200000
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import tyro
from gymnasium import spaces

import rlpyt

# A board is a number with one bit per square. Rows of six squares are seven bits apart, so that
# shifts of the board in the eight directions do not move squares from one row to another.
SIZE = 6
STRIDE = SIZE + 1
BITS = [1 << (row * STRIDE + column) for row in range(SIZE) for column in range(SIZE)]
SQUARES = sum(BITS)
DIRECTIONS = (1, SIZE, STRIDE, STRIDE + 1, -1, -SIZE, -STRIDE, -STRIDE - 1)
START = BITS[14] | BITS[21], BITS[15] | BITS[20]  # discs of both players, on the middle squares


def shift(board: int, by: int) -> int:
    """Return a board whose squares are moved in one direction."""
    return board << by if by > 0 else board >> -by


def legal_moves(own: int, other: int) -> int:
    """Return the empty squares from which a line of the other's discs leads to an own disc."""
    found, empty = 0, SQUARES & ~(own | other)
    for by in DIRECTIONS:
        line = shift(own, by) & other
        for _ in range(SIZE - 3):
            line |= shift(line, by) & other
        found |= shift(line, by) & empty
    return found


def flipped(own: int, other: int, move: int) -> int:
    """Return the other's discs that a move turns over."""
    found = 0
    for by in DIRECTIONS:
        line, square = 0, shift(move, by)
        while square & other:
            line |= square
            square = shift(square, by)
        if square & own:
            found |= line
    return found


class Reversi(gymnasium.Env):
    """Reversi on 6 x 6 squares against a player who chooses legal moves at random.

    Observation: own discs, then those of the other, [72] of 0 and 1. Action: square to play. A
    player without a legal move is skipped. The reward at the end of a game is 1, 0 or -1.

    Args:
        masked: give the mask of legal moves. An illegal move loses the game.
    """

    def __init__(self, masked: bool = True) -> None:
        self.observation_space = spaces.Box(0, 1, (2 * SIZE**2,), np.float32)
        self.action_space = spaces.Discrete(SIZE**2)
        self.masked = masked

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a game; a random player begins."""
        super().reset(seed=seed)
        self.own, self.other = START
        if self.np_random.random() < 0.5:
            self.reply()
        self.legal = legal_moves(self.own, self.other)
        return self.outputs()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play, and let the other player reply until the agent can play again."""
        move = BITS[action]
        if not self.legal & move:
            observation, info = self.outputs()
            return observation, -1.0, True, False, info
        turned = flipped(self.own, self.other, move)
        self.own, self.other = self.own | move | turned, self.other & ~turned
        over = False
        while not over:
            replied = self.reply()
            self.legal = legal_moves(self.own, self.other)
            if self.legal:
                break
            over = not replied
        lead = self.own.bit_count() - self.other.bit_count()
        observation, info = self.outputs()
        return observation, float(np.sign(lead)) if over else 0.0, over, False, info

    def reply(self) -> bool:
        """Play a random move for the other player; return False if there is none."""
        legal = legal_moves(self.other, self.own)
        moves = [bit for bit in BITS if bit & legal]
        if not moves:
            return False
        move = moves[self.np_random.integers(len(moves))]
        turned = flipped(self.other, self.own, move)
        self.own, self.other = self.own & ~turned, self.other | move | turned
        return True

    def outputs(self) -> tuple[Any, dict[str, Any]]:
        """Return the observation and info."""
        observation = np.array([*squares(self.own), *squares(self.other)], np.float32)
        mask = np.array([*squares(self.legal)], np.int8)
        return observation, {"action_mask": mask} if self.masked else {}


def squares(board: int) -> Iterator[bool]:
    """Yield True or False for each square."""
    return (bool(board & bit) for bit in BITS)


def main(steps: int = 200_000, masked: bool = True, run_dir: Path | None = None) -> None:
    """Train PPO.

    Args:
        steps: environment steps.
        masked: give the mask of legal moves.
        run_dir: run directory; by default data/ALGO-ENV-TIMESTAMP.
    """
    run = rlpyt.train("ppo", Reversi, steps=steps, run_dir=run_dir, env_args=dict(masked=masked))
    print(run.evaluate(200))


if __name__ == "__main__":
    tyro.cli(main)
