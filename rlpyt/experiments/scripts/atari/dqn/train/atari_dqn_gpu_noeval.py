"""Alias of `atari_dqn_gpu`, for the key `no_eval`."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
