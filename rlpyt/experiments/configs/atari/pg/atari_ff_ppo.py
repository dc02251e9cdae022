"""rlpyt's settings of PPO on Atari; see ``atari_ff_a2c``. For ``PPO`` and ``AtariFfAgent``."""

from rlpyt.experiments.configs.atari.pg import atari_ff_a2c
from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["0"] = with_parts(
    atari_ff_a2c.configs["0"],
    algo=dict(
        learning_rate=1e-3,
        value_loss_coeff=1.0,
        gae_lambda=0.98,
        linear_lr_schedule=True,
        minibatches=4,
        epochs=4,
    ),
    sampler=dict(batch_T=64),
)
