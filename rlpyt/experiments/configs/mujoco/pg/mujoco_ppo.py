"""rlpyt's settings of PPO on MuJoCo, key by key. For ``PPO`` and ``MujocoFfAgent``.

Each configuration holds the arguments of the classes that a script builds:
``PPO(optim_kwargs=config["optim"], **config["algo"])``,
``MujocoFfAgent(model_kwargs=config["model"], **config["agent"])`` and so on. Environments are made
by `rlpyt.envs.gym.make`, which uses the current version of ``Hopper-v3``. There are no separate
evaluations. The settings of the command line are in `rlpyt.experiments.configs.presets`.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["ppo_1M_serial"] = ppo = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-4,
        clip_grad_norm=1e6,
        entropy_loss_coeff=0.0,
        gae_lambda=0.95,
        minibatches=32,
        epochs=10,
        ratio_clip=0.2,
        normalize_advantage=True,
        linear_lr_schedule=True,
    ),
    env=dict(id="Hopper-v3"),
    model=dict(normalize_observation=False),
    optim={},
    runner=dict(n_steps=int(1e6), log_interval_steps=2048 * 10),
    sampler=dict(batch_T=2048, batch_B=1, max_decorrelation_steps=0),
)
# Both use the complete batch for 32 updates.
configs["ppo_1M_cpu"] = cpu = with_parts(
    ppo, algo=dict(minibatches=1, epochs=32), sampler=dict(batch_T=256, batch_B=8)
)
configs["ppo_32ep_1mb"] = with_parts(cpu)
