"""DQN on Atari, acting in worker processes."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
