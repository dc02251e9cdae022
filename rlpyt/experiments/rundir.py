"""The run directory: what it is called, and what it contains."""

import time
from pathlib import Path

from rlpyt.experiments.options import CONFIG, RunOptions

ROOT = Path("data")  # below the current directory

SNAPSHOT = "params.pkl"
CHECKPOINTS = "checkpoint"
CURVE = "learning_curve.png"
VIDEO = "video.mp4"
EVALUATION = "evaluation.json"

CONTENTS = {
    "progress.csv": "statistics, one row per log interval",
    CONFIG: "the options, from which the run can be rebuilt",
    "params.json": "the settings as logged",
    SNAPSHOT: "the trained agent; torch.load reads it, rlpyt.load plays it",
    CHECKPOINTS: "what `rlpyt resume` continues from",
    EVALUATION: "returns of the trained agent",
    CURVE: "the learning curve",
    VIDEO: "the trained agent at work",
}


def has_checkpoint(run_dir: Path) -> bool:
    """Whether there is something to go on from."""
    return any((run_dir / CHECKPOINTS).glob("checkpoint-*"))


def has_rows(run_dir: Path) -> bool:
    """Whether a run has written statistics here; before that it leaves nothing of value."""
    progress = run_dir / "progress.csv"
    return progress.exists() and progress.stat().st_size > 0


def default_run_dir(options: RunOptions) -> Path:
    """``data/<algorithm>-<environment>-<timestamp>``, numbered where that exists already."""
    env = options.env.replace("/", "-").replace(":", "-")
    name = f"{options.algo_name}-{env}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, again = ROOT / name, 1
    while path.exists():
        again += 1
        path = ROOT / f"{name}-{again}"
    return path
