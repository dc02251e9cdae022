"""A2C on MuJoCo, under rlpyt's keys; see ``mujoco_ppo``. For ``A2C`` and ``MujocoFfAgent``.

No paper says how to run A2C here: environments, network and returns are those of ``mujoco_ppo``,
with short batches and the learning rate of our preset.
"""

from rlpyt.experiments.configs.compose import Parts
from rlpyt.experiments.configs.mujoco.pg import mujoco_ppo

_protocol = mujoco_ppo.configs["ppo_1M_serial"]

configs: dict[str, Parts] = {}

configs["a2c_1M"] = dict(
    agent={},
    algo=dict(
        discount=0.99,
        gae_lambda=0.95,
        learning_rate=7e-4,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.0,
        clip_grad_norm=0.5,
        normalize_advantage=True,
    ),
    env=_protocol["env"],
    eval_env=_protocol["eval_env"],
    model=_protocol["model"],
    optim={},
    runner=dict(n_steps=int(1e6), log_interval_steps=int(2e4)),
    sampler=dict(batch_T=16, batch_B=16, max_decorrelation_steps=0),
)
