"""Alias of `atari_ff_a2c_gpu`, for the key `2gpu`."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
