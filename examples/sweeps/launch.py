"""Run a sweep over two learning rates and two environments, with two seeds and one core per run.

Launch scripts of rlpyt's first version have the same form and run unchanged. Runs are in
data/local/DATE/TIME/ppo_sweep, which the first line prints. From another terminal, `rlpyt status
DIRECTORY` shows the progress and `rlpyt report DIRECTORY` draws the curves. If the machine goes
down, `rlpyt sweep DIRECTORY` resumes the sweep.

    python examples/sweeps/launch.py

Without a launch script: learning_rates.yaml and search.yaml (Optuna) in this directory are started
by `rlpyt sweep FILE`.
"""

from pathlib import Path
from typing import Any

import tyro

from rlpyt.utils.launching.affinity import encode_affinity
from rlpyt.utils.launching.exp_launcher import run_experiments
from rlpyt.utils.launching.variant import VariantLevel, make_variants


def main(steps: int = 20_480) -> None:
    """Launch eight runs.

    Args:
        steps: environment steps of each run.
    """
    rates = [[1e-3], [3e-4]]
    names = [f"lr_{learning_rate}" for [learning_rate] in rates]
    learning_rates = VariantLevel([("algo", "learning_rate")], rates, names)

    tasks: list[list[Any]] = [["CartPole-v1", steps], ["Acrobot-v1", steps]]
    names = [env_id for env_id, _ in tasks]
    environments = VariantLevel([("env", "id"), ("runner", "n_steps")], tasks, names)

    variants, log_dirs = make_variants(learning_rates, environments)
    run_experiments(
        script=str(Path(__file__).with_name("train.py").absolute()),
        affinity_code=encode_affinity(n_cpu_core=2, cpu_per_run=1),
        experiment_title="ppo_sweep",
        runs_per_setting=2,
        variants=variants,
        log_dirs=log_dirs,
        common_args=("ppo",),
    )


if __name__ == "__main__":
    tyro.cli(main)
