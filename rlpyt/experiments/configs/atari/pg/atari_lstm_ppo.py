"""rlpyt's settings of PPO with an LSTM on Atari; see ``atari_ff_a2c``. For ``AtariLstmAgent``.

Minibatches and epochs are the defaults of ``PPO``: each minibatch contains the complete sequences
of a quarter of the environments.
"""

from rlpyt.experiments.configs.atari.pg import atari_lstm_a2c
from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["0"] = with_parts(
    atari_lstm_a2c.configs["0"],
    algo=dict(learning_rate=1e-3, value_loss_coeff=1.0, gae_lambda=0.98, linear_lr_schedule=True),
    sampler=dict(batch_T=64),
)
