"""Recurrent A2C on Atari, under rlpyt's keys; see ``atari_ff_a2c``. For ``AtariLstmAgent``.

The agent remembers, so it sees one frame at a time, and learns from longer batches.
"""

from rlpyt.experiments.configs.atari.pg import atari_ff_a2c
from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["0"] = lstm = with_parts(
    atari_ff_a2c.configs["0"],
    env=dict(num_img_obs=1),
    eval_env=dict(num_img_obs=1),
    sampler=dict(batch_T=20, batch_B=16),
)
configs["4frame"] = four = with_parts(lstm, env=dict(num_img_obs=4), eval_env=dict(num_img_obs=4))
# Batches as without memory.
configs["like_ff"] = with_parts(four, sampler=dict(batch_T=5, batch_B=32))
