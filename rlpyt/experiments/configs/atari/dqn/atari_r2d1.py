"""rlpyt's settings of R2D1 on Atari, key by key; see ``atari_dqn``.

For ``R2D1`` and ``AtariR2d1Agent`` (or ``AtariR2d1AlternatingAgent``). Rewards are not clipped:
values are rescaled. Steps are agent steps, of four frames each.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

_EVAL_STEPS = 28_000  # per evaluation environment, a bit more than the horizon of a game

configs["r2d1"] = r2d1 = dict(
    agent={},
    algo=dict(
        discount=0.997,
        batch_T=80,
        batch_B=32,
        warmup_T=40,
        store_rnn_state_interval=40,
        replay_ratio=4,
        learning_rate=1e-4,
        clip_grad_norm=80.0,
        min_steps_learn=int(1e5),
        double_dqn=True,
        prioritized_replay=True,
        n_step_return=5,
        pri_alpha=0.9,
        pri_beta_init=0.6,
        pri_beta_final=0.6,
        input_priority_shift=2,
    ),
    env=dict(game="pong", episodic_lives=True, clip_reward=False, horizon=27_000, num_img_obs=4),
    eval_env=dict(
        game="pong", episodic_lives=False, clip_reward=False, horizon=27_000, num_img_obs=4
    ),
    model=dict(dueling=True),
    optim={},
    runner=dict(n_steps=int(100e6), log_interval_steps=int(1e6)),
    sampler=dict(
        batch_T=30,
        batch_B=32,
        max_decorrelation_steps=1000,
        eval_n_envs=4,
        eval_max_steps=int(161e3),
        eval_max_trajectories=100,
    ),
)
configs["r2d1_long"] = r2d1_long = with_parts(
    r2d1,
    agent=dict(eps_final=0.1, eps_final_min=0.0005),
    algo=dict(batch_B=64, replay_ratio=1, replay_size=int(4e6)),
    env=dict(episodic_lives=False),
    runner=dict(n_steps=int(20e9), log_interval_steps=int(10e6)),
    sampler=dict(batch_T=40, batch_B=192, eval_n_envs=6, eval_max_steps=6 * _EVAL_STEPS),
)
configs["r2d1_long_4tr"] = with_parts(
    r2d1_long,
    algo=dict(replay_ratio=4),
    sampler=dict(eval_n_envs=12, eval_max_steps=12 * _EVAL_STEPS),
)

# Short full-size runs to measure speed, at several ratios of training to sampling.
configs["r2d1_profile"] = profile = with_parts(
    r2d1_long,
    algo=dict(min_steps_learn=int(5e4)),
    runner=dict(n_steps=int(1e6), log_interval_steps=int(1e6)),
    sampler=dict(eval_max_trajectories=2),
)
configs["r2d1_prof_halftrain"] = with_parts(profile, algo=dict(batch_B=32, replay_ratio=0.5))
configs["r2d1_prof_quartertrain"] = with_parts(profile, algo=dict(batch_B=16, replay_ratio=0.25))


def _asynchronous(batch_B: int, eval_n_envs: int, eval_max_trajectories: int = 100) -> Parts:
    """Return ``r2d1_long`` for a machine of several GPUs."""
    sampler = dict(
        batch_B=batch_B,
        eval_n_envs=eval_n_envs,
        eval_max_steps=eval_n_envs * _EVAL_STEPS,
        eval_max_trajectories=eval_max_trajectories,
    )
    return with_parts(r2d1_long, sampler=sampler)


configs["async_gpu"] = _asynchronous(256, 20)
configs["async_gpu_dgx"] = _asynchronous(312, 39, 210)
configs["async_alt_pabti"] = _asynchronous(264, 44, 120)
configs["async_alt_dgx"] = _asynchronous(312, 78, 210)
configs["async_alt_got"] = _asynchronous(252, 36)

configs["r2d1_test"] = with_parts(
    r2d1_long,
    algo=dict(
        batch_T=10,
        batch_B=16,
        warmup_T=5,
        store_rnn_state_interval=5,
        min_steps_learn=int(1e4),
        replay_size=int(1e5),
        eps_steps=int(1e5),
    ),
    env=dict(episodic_lives=True),
    runner=dict(log_interval_steps=int(1e5)),
    sampler=dict(
        batch_T=5,
        batch_B=8,
        max_decorrelation_steps=20,
        eval_n_envs=8,
        eval_max_steps=int(12e3),
        eval_max_trajectories=8,
    ),
)
