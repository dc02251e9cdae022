"""Recurrent PPO on Atari, under rlpyt's keys; see ``atari_ff_ppo``. For ``AtariLstmAgent``."""

from rlpyt.experiments.configs.atari.pg import atari_ff_ppo
from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

# Minibatches are of whole sequences: of 16 environments, 4 at a time.
configs["0"] = with_parts(
    atari_ff_ppo.configs["0"],
    env=dict(num_img_obs=1),
    eval_env=dict(num_img_obs=1),
    sampler=dict(batch_T=64, batch_B=16),
)
