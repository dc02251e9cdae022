"""Run a sweep over two learning rates and two environments, with two seeds and one core per run.

Launch scripts of rlpyt's first version have the same form and run unchanged.

    python examples/sweep/launch.py

Runs are in data/local/DATE/TIME/ppo_sweep, which the first line prints; data is next to the package
rlpyt (in its repository), wherever the script is started. From another terminal, `rlpyt status
DIRECTORY` shows the progress and `rlpyt report DIRECTORY` draws the curves. If the machine goes
down, `rlpyt sweep DIRECTORY` resumes the sweep.

Next: docs/launching.md, and docs/sweep_files.md for sweeps without a launch script.
"""

import os
import sys

from rlpyt.utils.launching.affinity import encode_affinity
from rlpyt.utils.launching.exp_launcher import run_experiments
from rlpyt.utils.launching.variant import VariantLevel, make_variants

script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")
affinity_code = encode_affinity(n_cpu_core=2, cpu_per_run=1)
n_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_480

values = [[1e-3], [3e-4]]
dir_names = [f"lr_{learning_rate}" for [learning_rate] in values]
learning_rates = VariantLevel([("algo", "learning_rate")], values, dir_names)

values = [["CartPole-v1", n_steps], ["Acrobot-v1", n_steps]]
dir_names = [env_id for env_id, _ in values]
environments = VariantLevel([("env", "id"), ("runner", "n_steps")], values, dir_names)

variants, log_dirs = make_variants(learning_rates, environments)

run_experiments(
    script=script,
    affinity_code=affinity_code,
    experiment_title="ppo_sweep",
    runs_per_setting=2,
    variants=variants,
    log_dirs=log_dirs,
    common_args=("ppo",),
)
