"""TD3 on MuJoCo, under rlpyt's keys; see ``mujoco_ddpg``. For ``TD3`` and ``Td3Agent``.

The settings are those of Fujimoto et al. 2018, but for the first steps: their actions are uniform
there, ours Gaussian around those of the first policy.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts
from rlpyt.experiments.configs.mujoco.qpg import mujoco_ddpg

configs: dict[str, Parts] = {}

configs["td3_1M_serial"] = td3 = with_parts(
    mujoco_ddpg.configs["ddpg_from_td3_1M_serial"],
    agent=dict(target_noise_std=0.2, target_noise_clip=0.5),
    algo=dict(target_update_interval=2, policy_update_interval=2),
)
configs["td3_serial_bstl"] = with_parts(td3, algo=dict(bootstrap_timelimit=True))

# Asynchronous, with environments in worker processes.
configs["async_cpu"] = with_parts(
    td3, algo=dict(updates_per_sync=1), sampler=dict(batch_T=25, batch_B=8)
)
