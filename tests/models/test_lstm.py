"""LSTM models of every kind."""

import pytest

from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.dqn.vector import R2d1LstmModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.pg.vector import CategoricalLstmModel, GaussianLstmModel

VECTORS = ((4,), 2)
IMAGES = ((4, 104, 80), 3)
MODELS = [
    (CategoricalLstmModel, VECTORS),
    (GaussianLstmModel, VECTORS),
    (R2d1LstmModel, VECTORS),
    (MujocoLstmModel, VECTORS),
    (AtariLstmModel, IMAGES),
    (AtariR2d1Model, IMAGES),
]


@pytest.mark.parametrize("Model,args", MODELS)
def test_the_size_of_an_lstm_may_be_a_whole_float(Model, args):
    def shapes(lstm_size):
        return [tuple(p.shape) for p in Model(*args, lstm_size=lstm_size).parameters()]

    assert shapes(8.0) == shapes(8)
    with pytest.raises(TypeError, match="lstm_size=8.5 must be a whole number"):
        shapes(8.5)
