"""rlpyt's settings of PPO on Atari; see ``atari_ff_a2c``. For ``PPO`` and ``AtariFfAgent``."""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
