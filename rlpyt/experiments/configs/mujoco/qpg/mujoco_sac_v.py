"""rlpyt's settings of the first version of SAC on MuJoCo; see ``mujoco_ddpg``.

For ``SAC_V`` and the ``SacAgent`` of ``rlpyt.agents.qpg.sac_v_agent``.
"""

from rlpyt.experiments.configs.data import configs_of

configs = configs_of(__name__)
