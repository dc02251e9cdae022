"""DDPG on MuJoCo, under rlpyt's keys.

Each has ``agent, algo, env, eval_env, model, q_model, optim, runner, sampler``: arguments of the
classes a script builds: ``DDPG(optim_kwargs=config["optim"], **config["algo"])``,
``DdpgAgent(model_kwargs=config["model"], q_model_kwargs=config["q_model"], **config["agent"])`` and
so on; environments by `rlpyt.envs.gym.make`. The settings are those of the DDPG to which Fujimoto
et al. 2018 compare TD3 as their own, with networks of that paper.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["ddpg_from_td3_1M_serial"] = ddpg = dict(
    agent=dict(action_std=0.1),
    algo=dict(
        discount=0.99,
        batch_size=100,
        replay_ratio=100,
        replay_size=int(1e6),
        min_steps_learn=int(1e4),
        learning_rate=1e-3,
        q_learning_rate=1e-3,
        target_update_tau=0.005,
        target_update_interval=1,
        policy_update_interval=1,
        bootstrap_timelimit=False,
    ),
    env=dict(id="HalfCheetah-v5"),
    eval_env=dict(id="HalfCheetah-v5"),
    model=dict(hidden_sizes=[400, 300]),
    q_model=dict(hidden_sizes=[400, 300]),
    optim={},
    runner=dict(n_steps=int(1e6), log_interval_steps=int(5e3)),
    sampler=dict(
        batch_T=1,
        batch_B=1,
        max_decorrelation_steps=0,
        eval_n_envs=10,
        eval_max_steps=int(11e3),
        eval_max_trajectories=10,
    ),
)
configs["ddpg_from_td3_serial_bstl"] = with_parts(ddpg, algo=dict(bootstrap_timelimit=True))

# Sampling beside training, which is not held up by it: the ratio becomes what the machine gives.
configs["async_serial"] = with_parts(
    ddpg, algo=dict(updates_per_sync=1), sampler=dict(batch_T=100, batch_B=1)
)
