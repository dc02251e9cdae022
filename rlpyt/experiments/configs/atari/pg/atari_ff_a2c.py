"""rlpyt's settings of A2C on Atari, key by key. For ``A2C`` and ``AtariFfAgent``.

Each configuration holds the arguments of the classes that a script builds:
``A2C(optim_kwargs=config["optim"], **config["algo"])``,
``AtariFfAgent(model_kwargs=config["model"], **config["agent"])`` and so on. There are no separate
evaluations. Steps are agent steps, of four frames each. The settings of the command line are in
`rlpyt.experiments.presets.families`.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
