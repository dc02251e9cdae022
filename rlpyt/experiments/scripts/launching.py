"""Common function of launch scripts: run a train script with variants of a configuration."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rlpyt.sweeps.rlpyt_scripts import run_experiments
from rlpyt.sweeps.slots import divide_machine
from rlpyt.utils.launching.affinity import quick_affinity_code
from rlpyt.utils.launching.variant import VariantLevel, make_variants

GAMES = ("pong", "qbert", "seaquest", "chopper_command")
ROBOTS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5")


def games(*names: str, evaluated: bool = True) -> VariantLevel:
    """Return a level that varies the Atari game.

    Args:
        names: names of the games.
        evaluated: True if the configuration has an ``eval_env``, whose game is set as well.
    """
    keys = [("env", "game"), ("eval_env", "game")] if evaluated else [("env", "game")]
    return VariantLevel(keys, [[name] * len(keys) for name in names], list(names))


def robots(*ids: str) -> VariantLevel:
    """Return a level that varies the MuJoCo environment."""
    return VariantLevel([("env", "id")], [[name] for name in ids], list(ids))


def launch(
    script: Path,
    title: str,
    config_key: str,
    *levels: VariantLevel,
    runs_per_setting: int = 2,
    use_gpu: bool = True,
    cpus_per_run: int | None = None,
    argv: Sequence[str] | None = None,
) -> int:
    """Run a train script for every variant, as many at a time as the machine has slots.

    Args:
        script: train script.
        title: title of the experiment, the name of its directory.
        config_key: key of one of the script's configurations.
        levels: levels of the variants.
        runs_per_setting: number of runs per variant, with different seeds.
        use_gpu: use the GPUs of this machine, if it has any.
        cpus_per_run: cores per run, using all cores of this machine and no GPUs; ``None`` for one
            run per GPU, or one run at a time without GPUs.
        argv: command line arguments: an affinity code, instead of one for this machine.

    Returns:
        0 if all runs are done, 1 if one has failed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    variants, log_dirs = make_variants(*levels)
    if arguments:
        code = arguments[0]
    elif cpus_per_run:
        code = divide_machine(cpus_per_run).to_code()
    else:
        code = quick_affinity_code(use_gpu=use_gpu)
    return run_experiments(
        script=script,
        affinity_code=code,
        experiment_title=title,
        runs_per_setting=runs_per_setting,
        variants=variants,
        log_dirs=log_dirs,
        common_args=(config_key,),
    )
