"""Launch A2C on Atari games, without GPUs. Takes an optional affinity code."""

import sys
from pathlib import Path

from rlpyt.experiments.scripts.launching import GAMES, games, launch

SCRIPT = Path(__file__).parents[1] / "train" / "atari_ff_a2c_cpu.py"

if __name__ == "__main__":
    levels = games(*GAMES, evaluated=False)
    sys.exit(launch(SCRIPT, "atari_ff_a2c_cpu", "0", levels, use_gpu=False))
