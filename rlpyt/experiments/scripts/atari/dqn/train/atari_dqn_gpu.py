"""DQN on Atari, acting in the master process, on a GPU if the code has one."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
