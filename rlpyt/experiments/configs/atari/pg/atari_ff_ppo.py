"""PPO on Atari, under rlpyt's keys; see ``atari_ff_a2c``. For ``PPO`` and ``AtariFfAgent``.

The settings are those of Schulman et al. 2017, table 5.
"""

from rlpyt.experiments.configs.atari.pg import atari_ff_a2c
from rlpyt.experiments.configs.compose import Parts

configs: dict[str, Parts] = {}

configs["0"] = dict(
    atari_ff_a2c.configs["0"],
    algo=dict(
        discount=0.99,
        gae_lambda=0.95,
        learning_rate=2.5e-4,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.01,
        clip_grad_norm=0.5,
        epochs=4,
        minibatches=4,
        ratio_clip=0.1,
        linear_lr_schedule=True,
        normalize_advantage=True,
    ),
    sampler=dict(batch_T=128, batch_B=8, max_decorrelation_steps=1000),
    runner=dict(n_steps=int(10e6), log_interval_steps=int(1e5)),
)
