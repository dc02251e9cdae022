"""rlpyt's settings of R2D1 on Atari, key by key; see ``atari_dqn``.

For ``R2D1`` and ``AtariR2d1Agent`` (or ``AtariR2d1AlternatingAgent``). Rewards are not clipped:
values are rescaled. Steps are agent steps, of four frames each.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
