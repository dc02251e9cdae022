"""A sweep: two learning rates, on two environments, with two seeds each, a core to every run.

Scripts for rlpyt's first version look just like this, and run as they are.

    python examples/sweep/launch.py

The runs lie in data/local/DATE/TIME/ppo_sweep, and the first line says where that is: data lies
beside the package rlpyt (in its repository), wherever the script is started. From another terminal
`rlpyt status DIRECTORY` shows how far they are; `rlpyt report DIRECTORY` draws their curves. If the
machine goes down in between, `rlpyt sweep DIRECTORY` goes on.

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
