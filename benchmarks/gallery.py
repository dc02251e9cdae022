"""Record the videos of docs/gallery.md, and write the page.

    python -m benchmarks.gallery            # train agents and record videos that are missing
    python -m benchmarks.gallery --report   # only write the page

Every task is one of the experiments of `benchmarks.learning`. Its agent with the first seed of the
report is trained in data/results if it is not there, and recorded in docs/images/gallery. Numbers,
curves and commands of the page are those of docs/results; ``tests/test_gallery_page.py``
compares the page with the data.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.learning import EXPERIMENTS, FIGURES, ROOT, WITH, Experiment

PAGE = ROOT / "docs" / "gallery.md"
VIDEOS = ROOT / "docs" / "images" / "gallery"
BEGIN = "<!-- gallery -->"
RLPYT = (sys.executable, "-m", "rlpyt")


class Task(NamedTuple):
    """A section of the page.

    Attributes:
        title: its title.
        experiment: name of the experiment.
        figure: name of the figure of docs/results that has its curve.
        max_steps: largest number of frames of the video.
    """

    title: str
    experiment: str
    figure: str
    max_steps: int = 500

    @property
    def of(self) -> Experiment:
        """Return the experiment."""
        return EXPERIMENTS[self.experiment]

    @property
    def directory(self) -> Path:
        """Return the directory of the run whose agent is recorded."""
        return self.of.directory(self.of.seeds[0])

    @property
    def video(self) -> Path:
        """Return the path of the video."""
        return VIDEOS / f"{self.experiment}.mp4"


TASKS = (
    Task("CartPole", "ppo-CartPole", "cartpole", 300),
    Task("Acrobot", "dqn-Acrobot", "q-acrobot"),
    Task("Pendulum", "tqc-Pendulum", "q-pendulum", 200),
    Task("LunarLander", "ppo-LunarLander", "box2d"),
    Task("BipedalWalker", "ppo-BipedalWalker", "box2d", 800),
    Task("MountainCarContinuous", "sac-held-MountainCarContinuous", "held-noise", 300),
    Task("InvertedDoublePendulum", "sac-InvertedDoublePendulum", "untuned-control", 300),
    Task("Reacher", "sac-Reacher", "untuned-control", 150),
    Task("HalfCheetah", "ppo-HalfCheetah", "published-ppo", 300),
    Task("Hopper", "ppo-Hopper", "published-ppo", 300),
    Task("Walker2d", "ppo-Walker2d", "published-ppo-v4", 300),
    Task("Ant", "ppo-Ant", "published-ppo-v4", 200),
    Task("FetchReach", "sac-FetchReach-hindsight", "goals", 150),
    Task("Taxi", "ppo-Taxi", "untuned-text", 60),
    Task("FrozenLake", "ppo-FrozenLake", "untuned-text", 100),
    Task("MinAtar Asterix", "pqn-Asterix", "minatar"),
    Task("MinAtar Breakout", "ppo-Breakout", "minatar"),
    Task("MinAtar Freeway", "pqn-Freeway", "minatar"),
    Task("MinAtar Seaquest", "pqn-Seaquest", "minatar"),
    Task("MinAtar SpaceInvaders", "pqn-SpaceInvaders", "minatar"),
)


def make(task: Task) -> None:
    """Train the agent and record the video, where they are missing."""
    if task.video.exists():
        return
    if not (task.directory / "evaluation.json").exists():
        words = [*shlex.split(task.of.command), "--seed", str(task.of.seeds[0]), "--no-video"]
        subprocess.run([*RLPYT, *words, "--run-dir", task.directory], check=True, cwd=ROOT)
    limit = ["--max-steps", str(task.max_steps)]
    subprocess.run([*RLPYT, "record", task.directory, task.video, *limit], check=True, cwd=ROOT)


def section(task: Task) -> str:
    """Return the section of a task as Markdown."""
    experiment, returns = task.of, np.array(task.of.evaluations)
    _, algo, env, *_ = shlex.split(experiment.command)
    name, low, high = task.video.name, returns.min(), returns.max()
    return f"""## {task.title}

<video src="_static/{name}" controls loop muted playsinline style="max-width: 28em"></video>

`{env}`, {algo}{WITH.get(task.experiment, "")}: {returns.mean():.1f} over {len(returns)} seeds
({low:.1f} to {high:.1f}). The [video](images/gallery/{name}) is of seed {experiment.seeds[0]}.

```bash
{experiment.command_line}
```

![{FIGURES[task.figure][0]}](images/{task.figure}.png)
"""


def render(page: str) -> str:
    """Return the page with the sections of the tasks that have a video."""
    sections = [section(task) for task in TASKS if task.video.exists() and task.of.complete]
    return "\n".join([page.partition(BEGIN)[0] + BEGIN + "\n", *sections])


def main() -> None:
    """Make what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    if not parser.parse_args().report:
        for task in TASKS:
            make(task)
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
