"""A2C on Atari, under rlpyt's keys. For ``A2C`` and ``AtariFfAgent``.

Each has ``agent, algo, env, eval_env, model, optim, runner, sampler``: arguments of the classes a
script builds: ``A2C(optim_kwargs=config["optim"], **config["algo"])``,
``AtariFfAgent(model_kwargs=config["model"], **config["agent"])`` and so on. The settings are those
of our preset, after Mnih et al. 2016. Training is reported as it goes, nothing is evaluated apart.
Steps are agent steps, of four frames each.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["0"] = a2c = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=7e-4,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.01,
        clip_grad_norm=0.5,
    ),
    env=dict(game="pong", episodic_lives=True, num_img_obs=4),
    eval_env=dict(game="pong", episodic_lives=False, num_img_obs=4),
    model={},
    optim={},
    runner=dict(n_steps=int(25e6), log_interval_steps=int(1e5)),
    sampler=dict(batch_T=5, batch_B=32, max_decorrelation_steps=1000),
)
configs["low_lr"] = with_parts(a2c, algo=dict(learning_rate=1e-4))
# For two ranks, each with half of the batch.
configs["2gpu"] = with_parts(a2c, sampler=dict(batch_B=16))
