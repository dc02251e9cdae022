"""rlpyt's settings of deep Q-learning on Atari, key by key.

Each configuration holds the arguments of the classes that a script builds:
``AtariDqnAgent(model_kwargs=config["model"], **config["agent"])``,
``DQN(optim_kwargs=config["optim"], **config["algo"])`` and so on; ``catdqn`` and ``ernbw`` are for
``CategoricalDQN`` and ``AtariCatDqnAgent``. Steps are agent steps, of four frames each. The
settings of the command line are in `rlpyt.experiments.configs.presets`.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["dqn"] = dqn = dict(
    agent={},
    algo=dict(
        discount=0.99,
        batch_size=128,
        learning_rate=1e-4,
        clip_grad_norm=10.0,
        min_steps_learn=int(5e4),
        double_dqn=False,
        prioritized_replay=False,
        n_step_return=1,
        replay_size=int(1e6),
    ),
    env=dict(game="pong", episodic_lives=True),
    eval_env=dict(game="pong", episodic_lives=False, horizon=27_000),
    model=dict(dueling=False),
    optim={},
    runner=dict(n_steps=int(50e6), log_interval_steps=int(1e6)),
    sampler=dict(
        batch_T=2,
        batch_B=16,
        max_decorrelation_steps=1000,
        eval_n_envs=4,
        eval_max_steps=int(125e3),
        eval_max_trajectories=100,
    ),
)
configs["double"] = with_parts(dqn, algo=dict(double_dqn=True))
configs["prioritized"] = with_parts(dqn, algo=dict(prioritized_replay=True))
configs["dueling"] = with_parts(dqn, model=dict(dueling=True))
configs["double_pri_duel"] = with_parts(
    dqn, algo=dict(double_dqn=True, prioritized_replay=True), model=dict(dueling=True)
)
configs["catdqn"] = with_parts(dqn, algo=dict(learning_rate=2.5e-4))
# Rainbow with epsilon-greedy exploration.
configs["ernbw"] = with_parts(
    dqn,
    algo=dict(learning_rate=6.25e-5, double_dqn=True, prioritized_replay=True, n_step_return=3),
    model=dict(dueling=True),
)
# ``optim`` is for ``DQN(OptimCls=torch.optim.RMSprop, ...)``: Adam has no ``alpha``.
configs["rmsprop"] = with_parts(
    dqn,
    algo=dict(learning_rate=2.5e-4),
    optim=dict(alpha=0.95, eps=1e-6),
    runner=dict(n_steps=int(15e6)),
)

# Other schedules and samplers.
configs["fast_log"] = with_parts(
    dqn,
    runner=dict(n_steps=int(15e6), log_interval_steps=int(1e5)),
    sampler=dict(eval_max_steps=int(7e4), eval_max_trajectories=50),
)
configs["short_run"] = with_parts(dqn, runner=dict(n_steps=int(15e6)))
configs["no_eval"] = with_parts(
    dqn, runner=dict(log_interval_steps=int(1e5)), sampler=dict(eval_n_envs=0)
)
configs["serial"] = with_parts(dqn, sampler=dict(batch_T=8, batch_B=2))
configs["cpu"] = with_parts(dqn, sampler=dict(batch_T=4, batch_B=4))
configs["debug"] = debug = with_parts(
    dqn,
    algo=dict(min_steps_learn=int(1e4), replay_size=int(1e4), eps_steps=int(2e4)),
    runner=dict(n_steps=int(3e4), log_interval_steps=int(1e4)),
    sampler=dict(
        batch_T=8,
        batch_B=2,
        max_decorrelation_steps=20,
        eval_max_steps=int(8e3),
        eval_max_trajectories=4,
    ),
)
configs["debug_vec_eps"] = with_parts(
    debug, agent=dict(eps_final_min=0.001), sampler=dict(batch_T=4, batch_B=4)
)
# In rlpyt ``eval_n_envs`` is outside of the parts, where no script reads it.
configs["async_big"] = with_parts(dqn, sampler=dict(batch_T=4, batch_B=256), eval_n_envs=10)
