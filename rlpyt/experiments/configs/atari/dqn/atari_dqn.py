"""rlpyt's settings of deep Q-learning on Atari, key by key.

Each configuration holds the arguments of the classes that a script builds:
``AtariDqnAgent(model_kwargs=config["model"], **config["agent"])``,
``DQN(optim_kwargs=config["optim"], **config["algo"])`` and so on; ``catdqn`` and ``ernbw`` are for
``CategoricalDQN`` and ``AtariCatDqnAgent``. Steps are agent steps, of four frames each. The
settings of the command line are in `rlpyt.experiments.presets.families`.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
