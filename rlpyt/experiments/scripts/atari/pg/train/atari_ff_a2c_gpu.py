"""A2C on Atari, acting in the master process, in one rank or as many as in the code."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
