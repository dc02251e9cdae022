"""R2D1 on Atari, with asynchronous sampling in alternating workers."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
