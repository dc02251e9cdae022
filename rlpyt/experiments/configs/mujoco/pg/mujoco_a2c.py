"""rlpyt's settings of A2C on MuJoCo; see ``mujoco_ppo``. For ``A2C`` and ``MujocoFfAgent``."""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
