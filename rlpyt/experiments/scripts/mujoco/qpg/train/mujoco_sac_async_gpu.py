"""The first version of SAC on MuJoCo, with asynchronous sampling and action servers."""

from rlpyt.experiments.scripts.table import script

build_and_train = script(__file__, __name__)
