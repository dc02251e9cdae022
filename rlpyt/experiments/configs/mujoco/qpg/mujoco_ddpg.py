"""rlpyt's settings of DDPG on MuJoCo, key by key. For ``DDPG`` and ``DdpgAgent``.

Each configuration holds the arguments of the classes that a script builds:
``DDPG(optim_kwargs=config["optim"], **config["algo"])``, ``DdpgAgent(**config["agent"])`` and so
on; ``env`` is for training and evaluation. Environments are made by `rlpyt.envs.gym.make`, which
uses the current version of ``Hopper-v3``. The settings of the command line are in
`rlpyt.experiments.configs.presets`.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["ddpg_from_td3_1M_serial"] = ddpg = dict(
    agent=dict(model_kwargs=None, q_model_kwargs=None),
    algo=dict(
        discount=0.99,
        batch_size=100,
        replay_ratio=100,
        target_update_tau=0.01,
        target_update_interval=1,
        policy_update_interval=1,
        learning_rate=1e-3,
        q_learning_rate=1e-3,
    ),
    env=dict(id="Hopper-v3"),
    optim={},
    runner=dict(n_steps=int(1e6), log_interval_steps=int(1e4)),
    sampler=dict(
        batch_T=1,
        batch_B=1,
        max_decorrelation_steps=0,
        eval_n_envs=5,
        eval_max_steps=int(51e3),
        eval_max_trajectories=50,
    ),
)
configs["ddpg_from_td3_serial_bstl"] = with_time_limit = with_parts(
    ddpg, algo=dict(bootstrap_timelimit=True)
)
configs["async_serial"] = with_parts(
    with_time_limit, algo=dict(updates_per_sync=1), sampler=dict(batch_T=5)
)
