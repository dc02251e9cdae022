"""rlpyt's settings of TD3 on MuJoCo; see ``mujoco_ddpg``. For ``TD3`` and ``Td3Agent``."""

from rlpyt.experiments.configs.compose import Parts, with_parts
from rlpyt.experiments.configs.mujoco.qpg import mujoco_ddpg

configs: dict[str, Parts] = {}

configs["td3_1M_serial"] = td3 = with_parts(
    mujoco_ddpg.configs["ddpg_from_td3_1M_serial"],
    algo=dict(target_update_tau=0.005, target_update_interval=2, policy_update_interval=2),
    model={},
    sampler=dict(eval_n_envs=6),
)
configs["td3_serial_bstl"] = with_time_limit = with_parts(td3, algo=dict(bootstrap_timelimit=True))
configs["async_cpu"] = with_parts(
    with_time_limit, algo=dict(updates_per_sync=1), sampler=dict(batch_T=5, batch_B=3)
)
