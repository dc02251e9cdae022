"""Building blocks of models: layers, LSTMs, heads, conversion of parameters to a vector."""

from rlpyt.models.blocks.heads import CategoricalHead, DiagGaussianHead  # noqa: F401
from rlpyt.models.blocks.layers import (  # noqa: F401
    make_cnn,
    make_fc,
    make_transposed_cnn,
    ortho_init,
)
from rlpyt.models.blocks.lstm import (  # noqa: F401
    LayerNormLSTMCell,
    LSTMLayer,
    StackedLSTM,
    make_lnlstm,
)
from rlpyt.models.blocks.mdn import MDNHead  # noqa: F401
from rlpyt.models.blocks.parameters import (  # noqa: F401
    count_parameters,
    from_vec,
    load,
    save,
    to_vec,
)
