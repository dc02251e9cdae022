"""Messages of models, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest
from torch import nn

from rlpyt.models.blocks import make_cnn, make_fc
from rlpyt.models.conv2d import Conv2dModel
from rlpyt.models.gtrxl import Gtrxl
from rlpyt.models.mlp import MlpModel
from rlpyt.models.pg.vector import CategoricalLstmModel
from tests.wording import check

MESSAGES = {
    "list": (
        TypeError,
        lambda: make_fc(3, 64),
        "hidden_sizes=64 must be a list with an entry for each layer.",
    ),
    "unequal lists": (
        ValueError,
        lambda: Conv2dModel(2, [4, 6], [3, 2], [2]),
        (
            "channels, kernel_sizes, strides and paddings must have one entry for each layer, "
            "got [2, 2, 1, 2] entries."
        ),
    ),
    "strides": (
        TypeError,
        lambda: make_cnn(3, [8], [3], 2, [0]),
        "strides=2 must be a list with an entry for each layer.",
    ),
    "window": (
        ValueError,
        lambda: Gtrxl(5, 8, window=0),
        "window=0 must be at least 1.",
    ),
    "instance of a nonlinearity": (
        TypeError,
        lambda: MlpModel(3, [4], 2, nn.ReLU()),
        (
            "nonlinearity must be a class such as torch.nn.ReLU, or its name, got ReLU(). Give "
            "the class, not an object of it."
        ),
    ),
    "memory": (
        ValueError,
        lambda: CategoricalLstmModel((3,), 2, memory="rnn"),
        "memory='rnn' must be one of lstm, gru, ln_lstm, mingru, gtrxl, or a class of layers.",
    ),
    "heads": (
        ValueError,
        lambda: Gtrxl(5, 8, num_heads=3),
        "num_heads=3 must divide the size of the memory, 8. Change one of the two.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
