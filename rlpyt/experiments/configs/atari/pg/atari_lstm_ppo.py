"""rlpyt's settings of PPO with an LSTM on Atari; see ``atari_ff_a2c``. For ``AtariLstmAgent``.

Minibatches and epochs are the defaults of ``PPO``: each minibatch contains the complete sequences
of a quarter of the environments.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
