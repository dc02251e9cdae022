"""rlpyt's settings of A2C with an LSTM on Atari; see ``atari_ff_a2c``. For ``AtariLstmAgent``."""

from rlpyt.experiments.configs.atari.pg import atari_ff_a2c
from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

# The LSTM remembers, so observations are single frames.
configs["0"] = lstm = with_parts(
    atari_ff_a2c.configs["0"], env=dict(num_img_obs=1), sampler=dict(batch_T=20)
)
configs["4frame"] = with_parts(
    lstm,
    algo=dict(learning_rate=1e-4),
    env=dict(num_img_obs=4),
    sampler=dict(batch_T=5, batch_B=16),
)
configs["like_ff"] = with_parts(
    lstm, algo=dict(learning_rate=7e-4), env=dict(num_img_obs=4), sampler=dict(batch_T=5)
)
