"""rlpyt's settings of PPO on MuJoCo, key by key. For ``PPO`` and ``MujocoFfAgent``.

Each configuration holds the arguments of the classes that a script builds:
``PPO(optim_kwargs=config["optim"], **config["algo"])``,
``MujocoFfAgent(model_kwargs=config["model"], **config["agent"])`` and so on. Environments are made
by `rlpyt.envs.gym.make`, which uses the current version of ``Hopper-v3``. There are no separate
evaluations. The settings of the command line are in `rlpyt.experiments.presets.families`.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
