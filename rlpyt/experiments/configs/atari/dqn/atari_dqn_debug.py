"""rlpyt's settings to compare collectors and replays on Atari, key by key; see ``atari_dqn``.

``config["sampler"]["collector"]`` and ``config["algo"]["replay_buffer"]`` are keys of
``COLLECTORS`` and ``REPLAY_BUFFERS``, or ``None`` for the default class.
``rlpyt.experiments.scripts.train`` passes the classes as ``CollectorCls`` and ``ReplayBufferCls``.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
