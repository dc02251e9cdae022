"""R2D1 on Atari, under rlpyt's keys.

As in ``atari_dqn``, for ``R2D1`` and ``AtariR2d1Agent`` (or ``AtariR2d1AlternatingAgent``). Rewards
are not clipped: values are rescaled. Steps are agent steps, of four frames each.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["r2d1"] = r2d1 = dict(
    agent=dict(eps_final=0.1, eps_final_min=0.0005),
    algo=dict(
        discount=0.997,
        batch_T=80,
        batch_B=32,
        warmup_T=40,
        store_rnn_state_interval=40,
        replay_ratio=1,
        replay_size=int(1e6),
        learning_rate=1e-4,
        clip_grad_norm=80.0,
        min_steps_learn=int(1e5),
        double_dqn=True,
        prioritized_replay=True,
        n_step_return=5,
        pri_alpha=0.6,
        pri_beta_init=0.6,
        pri_beta_final=0.6,
        input_priority_shift=2,
    ),
    env=dict(game="pong", episodic_lives=True, clip_reward=False, horizon=27000, num_img_obs=4),
    eval_env=dict(
        game="pong", episodic_lives=False, clip_reward=False, horizon=27000, num_img_obs=4
    ),
    model=dict(dueling=True),
    optim=dict(eps=1e-3),
    runner=dict(n_steps=int(100e6), log_interval_steps=int(1e6)),
    sampler=dict(
        batch_T=40,
        batch_B=32,
        max_decorrelation_steps=1000,
        eval_n_envs=4,
        eval_max_steps=int(161e3),
        eval_max_trajectories=100,
    ),
)
_long = dict(runner=dict(n_steps=int(20e9), log_interval_steps=int(10e6)))
configs["r2d1_long"] = r2d1_long = with_parts(
    r2d1,
    algo=dict(batch_B=64, replay_size=int(4e6), target_update_interval=2500, eps_steps=int(4e6)),
    sampler=dict(batch_B=192, eval_n_envs=6),
    **_long,
)
configs["r2d1_long_4tr"] = with_parts(r2d1_long, algo=dict(replay_ratio=4))

# To measure how fast parts are: full size, short, at several ratios of training to sampling.
configs["r2d1_profile"] = profile = with_parts(
    r2d1_long,
    algo=dict(min_steps_learn=int(2e4), replay_size=int(1e6)),
    runner=dict(n_steps=int(2e6), log_interval_steps=int(2e5)),
    sampler=dict(eval_n_envs=0, eval_max_steps=None, eval_max_trajectories=None),
)
configs["r2d1_prof_halftrain"] = with_parts(profile, algo=dict(replay_ratio=0.5))
configs["r2d1_prof_quartertrain"] = with_parts(profile, algo=dict(replay_ratio=0.25))

# Asynchronous, for machines of several devices.
configs["async_gpu"] = async_gpu = with_parts(
    r2d1_long, algo=dict(updates_per_sync=2), sampler=dict(batch_B=264, eval_n_envs=44)
)
configs["async_gpu_dgx"] = with_parts(async_gpu, sampler=dict(batch_B=256, eval_n_envs=32))
configs["async_alt_pabti"] = with_parts(async_gpu, sampler=dict(batch_B=264, eval_n_envs=44))
configs["async_alt_dgx"] = with_parts(async_gpu, sampler=dict(batch_B=252, eval_n_envs=36))
configs["async_alt_got"] = with_parts(async_gpu, sampler=dict(batch_B=192, eval_n_envs=48))

configs["r2d1_test"] = with_parts(
    r2d1,
    algo=dict(
        batch_T=20,
        batch_B=8,
        warmup_T=10,
        store_rnn_state_interval=10,
        input_priority_shift=1,
        min_steps_learn=1000,
        replay_size=int(1e4),
        eps_steps=int(1e4),
    ),
    runner=dict(n_steps=int(2e4), log_interval_steps=2000),
    sampler=dict(batch_T=10, batch_B=8, max_decorrelation_steps=0, eval_max_steps=4000),
)
