"""rlpyt's settings of the first version of SAC on MuJoCo; see ``mujoco_ddpg``.

For ``SAC_V`` and the ``SacAgent`` of ``rlpyt.agents.qpg.sac_v_agent``.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts
from rlpyt.experiments.configs.mujoco.qpg import mujoco_ddpg

configs: dict[str, Parts] = {}

configs["sac_1M_serial"] = sac = with_parts(
    mujoco_ddpg.configs["ddpg_from_td3_1M_serial"],
    agent=dict(v_model_kwargs=None),
    model={},
    sampler=dict(eval_n_envs=6),
) | dict(
    algo=dict(
        discount=0.99,
        batch_size=256,
        replay_ratio=256,
        target_update_tau=0.005,
        target_update_interval=1,
        learning_rate=3e-4,
        reparameterize=True,
        policy_output_regularization=0.001,
        reward_scale=5,
    )
)
configs["sac_serial_bstl"] = with_time_limit = with_parts(sac, algo=dict(bootstrap_timelimit=True))
configs["async_gpu"] = with_parts(
    with_time_limit, algo=dict(updates_per_sync=1), sampler=dict(batch_T=5, batch_B=3)
)
