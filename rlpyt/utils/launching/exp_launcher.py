"""Original import path of the script launchers; see `rlpyt.sweeps.rlpyt_scripts`."""

from rlpyt.sweeps.directory import log_exps_tree, log_num_launched
from rlpyt.sweeps.rlpyt_scripts import launch_experiment, run_experiments

__all__ = ["launch_experiment", "log_exps_tree", "log_num_launched", "run_experiments"]
