"""Deep Q-learning on Atari, under rlpyt's keys.

Each has ``agent, algo, env, eval_env, model, optim, runner, sampler``: arguments of the classes a
script builds: ``AtariDqnAgent(model_kwargs=config["model"], **config["agent"])``,
``DQN(optim_kwargs=config["optim"], **config["algo"])`` and so on; ``catdqn`` and ``ernbw`` are for
``CategoricalDQN`` and ``AtariCatDqnAgent``. Steps are agent steps, of four frames each.
"""

import torch

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["dqn"] = dqn = dict(
    agent={},
    algo=dict(
        batch_size=128,
        learning_rate=2.5e-4,
        replay_ratio=8,
        min_steps_learn=int(5e4),
        replay_size=int(1e6),
        clip_grad_norm=10.0,
        target_update_interval=312,
        double_dqn=False,
        prioritized_replay=False,
        n_step_return=1,
    ),
    env=dict(game="pong", episodic_lives=True),
    eval_env=dict(game="pong", episodic_lives=False),
    model=dict(dueling=False),
    optim={},
    runner=dict(n_steps=int(50e6), log_interval_steps=int(1e6)),
    sampler=dict(
        batch_T=2,
        batch_B=32,
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
configs["catdqn"] = catdqn = with_parts(dqn, optim=dict(eps=0.01 / 128))
# Rainbow with epsilon-greedy exploration; model=dict(noisy=True) completes it.
configs["ernbw"] = with_parts(
    catdqn,
    algo=dict(double_dqn=True, prioritized_replay=True, n_step_return=3),
    model=dict(dueling=True),
)
configs["rmsprop"] = with_parts(
    dqn, algo=dict(OptimCls=torch.optim.RMSprop), optim=dict(alpha=0.95, eps=1e-2)
)

# Other ways to run it.
configs["fast_log"] = with_parts(dqn, runner=dict(log_interval_steps=int(1e4)))
configs["short_run"] = with_parts(
    dqn, runner=dict(n_steps=int(2e5), log_interval_steps=int(2e4)), algo=dict(eps_steps=int(5e4))
)
configs["no_eval"] = with_parts(
    dqn, sampler=dict(eval_n_envs=0, eval_max_steps=None, eval_max_trajectories=None)
)
configs["serial"] = with_parts(
    dqn, algo=dict(batch_size=32), sampler=dict(batch_T=4, batch_B=1), runner=dict(n_steps=int(1e6))
)
configs["cpu"] = with_parts(dqn, sampler=dict(batch_T=4, batch_B=16))
configs["debug"] = debug = with_parts(
    dqn,
    algo=dict(min_steps_learn=1000, replay_size=int(1e4), eps_steps=int(1e4)),
    runner=dict(n_steps=int(2e4), log_interval_steps=2000),
    sampler=dict(max_decorrelation_steps=0, eval_max_steps=2000, eval_max_trajectories=4),
)
configs["debug_vec_eps"] = with_parts(debug, agent=dict(eps_final=0.1, eps_final_min=0.0005))
configs["async_big"] = with_parts(
    configs["double_pri_duel"],
    algo=dict(batch_size=512, updates_per_sync=4, target_update_interval=1000),
    agent=dict(eps_final=0.1, eps_final_min=0.0005),
    sampler=dict(batch_T=5, batch_B=128),
)
