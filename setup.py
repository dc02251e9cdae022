"""Package metadata; versions are the honest ranges, the pinned set lies in constraints.txt."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'VERSION = "(.+)"', (HERE / "rlpyt" / "version.py").read_text())[1]

EXTRAS = {
    "atari": ["ale-py>=0.11", "opencv-python-headless>=4.9"],
    "mujoco": ["mujoco>=3.2", "imageio>=2.34"],
    "fast": ["numba>=0.62"],  # compiles the sum tree of prioritised replay: twice as fast or more
    "minatar": ["minatar>=1.0.15"],  # its gymnasium module imports seaborn, which it needs to draw
    "envpool": ["envpool>=1.2.5"],
    "plot": [
        "matplotlib>=3.8",
        "imageio>=2.34",
        "imageio-ffmpeg>=0.5",
        "gymnasium[classic-control]",
    ],
    "tensorboard": ["tensorboard>=2.16"],
    "wandb": ["wandb>=0.17"],
    "optuna": ["optuna>=4", "cmaes>=0.10"],  # cmaes for its sampler of that name
    "ray": ["ray>=2.60"],
    "slurm": ["submitit>=1.5"],
    "docs": ["sphinx>=8", "furo", "myst-parser"],
    "dev": [
        "pytest>=8",
        "pytest-timeout>=2.3",
        "pytest-xdist>=3.6",
        "hypothesis>=6.100",
        "ruff>=0.17,<0.18",
        "mypy>=2,<3",
        "types-psutil",
        "types-PyYAML",
        "selenium>=4",  # drives the browser that looks at reports
        "types-tqdm",
        "scipy",
        "cma>=4",  # what evolution strategies are compared with
        "syllabus-rl>=0.7",  # whose curricula ours can wrap
    ],
    "bench": ["stable-baselines3>=2.9", "cma>=4"],
}
EXTRAS["all"] = sorted(
    {
        need
        for name, needs in EXTRAS.items()
        if name not in ("dev", "docs", "bench")
        for need in needs
    }
)

setup(
    name="rlpyt",
    version=VERSION,
    description="High-throughput, parallel deep reinforcement learning in PyTorch",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["rlpyt", "rlpyt.*"]),
    package_data={"rlpyt": ["py.typed"]},
    install_requires=[
        "torch>=2.10",
        "numpy>=2.0",
        "gymnasium>=1.0",
        "psutil>=5.9",
        "cloudpickle>=3",
        "safetensors>=0.5",
        "tyro>=1.0",
        "tqdm>=4.66",
        "pyyaml>=6",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["rlpyt=rlpyt.cli.main:main"]},
)
