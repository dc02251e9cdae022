"""rlpyt's settings of SAC with a learned temperature on MuJoCo; see ``mujoco_ddpg``.

For ``SAC`` and the ``SacAgent`` of ``rlpyt.agents.qpg.sac_agent``.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
