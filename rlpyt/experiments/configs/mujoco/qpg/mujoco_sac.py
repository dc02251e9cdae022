"""SAC with a learned temperature on MuJoCo, under rlpyt's keys; see ``mujoco_ddpg``.

For ``SAC`` and the ``SacAgent`` of ``rlpyt.agents.qpg.sac_agent``. The settings are those of
Haarnoja et al. 2018b.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts
from rlpyt.experiments.configs.mujoco.qpg import mujoco_ddpg

configs: dict[str, Parts] = {}

_protocol = mujoco_ddpg.configs["ddpg_from_td3_1M_serial"]

configs["sac_1M_serial"] = sac = dict(
    agent={},
    algo=dict(
        discount=0.99,
        batch_size=256,
        replay_ratio=256,
        replay_size=int(1e6),
        min_steps_learn=int(1e4),
        learning_rate=3e-4,
        fixed_alpha=None,
        target_entropy="auto",
        target_update_tau=0.005,
        target_update_interval=1,
        bootstrap_timelimit=False,
    ),
    env=dict(_protocol["env"]),
    eval_env=dict(_protocol["eval_env"]),
    model=dict(hidden_sizes=[256, 256]),
    q_model=dict(hidden_sizes=[256, 256]),
    optim={},
    runner=dict(_protocol["runner"]),
    sampler=dict(_protocol["sampler"]),
)
configs["sac_serial_bstl"] = with_parts(sac, algo=dict(bootstrap_timelimit=True))
