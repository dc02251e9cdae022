"""rlpyt's settings of A2C with an LSTM on Atari; see ``atari_ff_a2c``. For ``AtariLstmAgent``."""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
