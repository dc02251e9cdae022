"""rlpyt's settings of A2C on MuJoCo; see ``mujoco_ppo``. For ``A2C`` and ``MujocoFfAgent``."""

from rlpyt.experiments.configs.compose import Parts

configs: dict[str, Parts] = {}

configs["a2c_1M"] = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-5,
        clip_grad_norm=1e6,
        entropy_loss_coeff=0.0,
        value_loss_coeff=0.5,
        normalize_advantage=True,
    ),
    env=dict(id="Hopper-v3"),
    model=dict(normalize_observation=False),
    optim={},
    runner=dict(n_steps=int(1e6), log_interval_steps=int(2e4)),
    sampler=dict(batch_T=100, batch_B=8, max_decorrelation_steps=1000),
)
