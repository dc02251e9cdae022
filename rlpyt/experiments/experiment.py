"""lagom's path of ``run_experiment``; see `rlpyt.sweeps.function_runs`."""

from rlpyt.sweeps.function_runs import ExperimentError, run_experiment

__all__ = ["ExperimentError", "run_experiment"]
