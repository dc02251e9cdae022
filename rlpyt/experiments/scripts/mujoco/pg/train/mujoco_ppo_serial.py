"""Alias of `mujoco_ff_ppo_serial`."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
