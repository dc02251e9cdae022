"""What launch scripts share: a train script, a configuration, and what to vary."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rlpyt.sweeps.rlpyt_scripts import run_experiments
from rlpyt.sweeps.slots import code_for_machine
from rlpyt.utils.launching.affinity import quick_affinity_code
from rlpyt.utils.launching.variant import VariantLevel, make_variants

GAMES = ("pong", "qbert", "seaquest", "chopper_command")
ROBOTS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5")


def games(*names: str, evaluated: bool = True) -> VariantLevel:
    """Vary the Atari game.

    Args:
        evaluated: the configuration has an ``eval_env``, whose game is set, too.
    """
    keys = [("env", "game"), ("eval_env", "game")] if evaluated else [("env", "game")]
    return VariantLevel(keys, [[name] * len(keys) for name in names], list(names))


def robots(*ids: str) -> VariantLevel:
    """Vary the MuJoCo environment."""
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
        script: that trains one run.
        title: of the experiment, names its directory.
        config_key: of the script's configurations.
        levels: what to vary.
        runs_per_setting: with seeds of their own.
        use_gpu: whether runs get the GPUs of this machine, if it has any.
        cpus_per_run: cores of a run, on all of this machine's and without its GPUs; ``None``: a
            run for each GPU, or one at a time.
        argv: of the command line: an affinity code, instead of one for this machine.

    Returns:
        0 if all runs are done, 1 if one has failed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    variants, log_dirs = make_variants(*levels)
    if arguments:
        code = arguments[0]
    else:
        code = (
            code_for_machine(cpus_per_run) if cpus_per_run else quick_affinity_code(use_gpu=use_gpu)
        )
    return run_experiments(
        script=script,
        affinity_code=code,
        experiment_title=title,
        runs_per_setting=runs_per_setting,
        variants=variants,
        log_dirs=log_dirs,
        common_args=(config_key,),
    )
