"""Launch TD3 on MuJoCo environments, one core per run. Takes an optional affinity code."""

import sys
from pathlib import Path

from rlpyt.experiments.scripts.launching import ROBOTS, launch, robots

SCRIPT = Path(__file__).parents[1] / "train" / "mujoco_td3_serial.py"

if __name__ == "__main__":
    levels = robots(*ROBOTS)
    sys.exit(launch(SCRIPT, "mujoco_td3_serial", "td3_1M_serial", levels, cpus_per_run=1))
