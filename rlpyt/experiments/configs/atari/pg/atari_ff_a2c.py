"""rlpyt's settings of A2C on Atari, key by key. For ``A2C`` and ``AtariFfAgent``.

Each configuration holds the arguments of the classes that a script builds:
``A2C(optim_kwargs=config["optim"], **config["algo"])``,
``AtariFfAgent(model_kwargs=config["model"], **config["agent"])`` and so on. There are no separate
evaluations. Steps are agent steps, of four frames each. The settings of the command line are in
`rlpyt.experiments.configs.presets`.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["0"] = a2c = dict(
    agent={},
    algo=dict(
        discount=0.99,
        learning_rate=3e-4,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.01,
        clip_grad_norm=1.0,
    ),
    env=dict(game="pong"),
    model={},
    optim={},
    runner=dict(n_steps=int(50e6)),
    sampler=dict(batch_T=5, batch_B=32, max_decorrelation_steps=1000),
)
configs["low_lr"] = with_parts(a2c, algo=dict(learning_rate=4e-4))
# For two ranks, each with half of the batch.
configs["2gpu"] = with_parts(a2c, sampler=dict(batch_B=16))
