"""Launch DQN with all its improvements on Atari games. Takes an optional affinity code."""

import sys
from pathlib import Path

from rlpyt.experiments.scripts.launching import GAMES, games, launch

SCRIPT = Path(__file__).parents[1] / "train" / "atari_dqn_gpu.py"

if __name__ == "__main__":
    sys.exit(launch(SCRIPT, "atari_dqn_gpu", "double_pri_duel", games(*GAMES)))
