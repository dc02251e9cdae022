"""rlpyt's settings of TD3 on MuJoCo; see ``mujoco_ddpg``. For ``TD3`` and ``Td3Agent``."""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
