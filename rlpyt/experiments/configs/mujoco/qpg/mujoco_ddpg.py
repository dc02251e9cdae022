"""rlpyt's settings of DDPG on MuJoCo, key by key. For ``DDPG`` and ``DdpgAgent``.

Each configuration holds the arguments of the classes that a script builds:
``DDPG(optim_kwargs=config["optim"], **config["algo"])``, ``DdpgAgent(**config["agent"])`` and so
on; ``env`` is for training and evaluation. Environments are made by `rlpyt.envs.gym.make`, which
uses the current version of ``Hopper-v3``. The settings of the command line are in
`rlpyt.experiments.presets.families`.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
