"""Alias of `atari_lstm_a2c_cpu`."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
