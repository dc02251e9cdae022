"""A launch script: two variants of a learning rate, each in a process of its own."""

from pathlib import Path

from rlpyt.utils.launching.affinity import encode_affinity
from rlpyt.utils.launching.exp_launcher import run_experiments
from rlpyt.utils.launching.variant import VariantLevel, make_variants
from rlpyt.utils.logging import context

if __name__ == "__main__":
    context.LOG_DIR = str(Path.cwd() / "data")  # not the repository's

    affinity_code = encode_affinity(
        n_cpu_core=2, n_gpu=0, cpu_per_run=1, hyperthread_offset=0, n_socket=1, set_affinity=False
    )
    rates = [(1e-3,), (1e-2,)]
    level = VariantLevel(
        keys=[("algo", "learning_rate")],
        values=rates,
        dir_names=[f"rate_{rate[0]}" for rate in rates],
    )
    variants, log_dirs = make_variants(level)
    run_experiments(
        script=str(Path(__file__).parent / "launched.py"),
        affinity_code=affinity_code,
        experiment_title="walk_rates",
        runs_per_setting=1,
        variants=variants,
        log_dirs=log_dirs,
        common_args=("walk",),
    )
