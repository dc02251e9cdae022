"""PPO on MuJoCo, under rlpyt's keys.

Each has ``agent, algo, env, eval_env, model, optim, runner, sampler``: arguments of the classes a
script builds: ``PPO(optim_kwargs=config["optim"], **config["algo"])``,
``MujocoFfAgent(model_kwargs=config["model"], **config["agent"])`` and so on; environments by
`rlpyt.envs.gym.make`. The settings are those of Schulman et al. 2017, table 3, with normalised
observations; training is reported as it goes, as in that paper, so nothing is evaluated apart.
"""

from rlpyt.experiments.configs.compose import Parts, with_parts

configs: dict[str, Parts] = {}

configs["ppo_1M_serial"] = ppo = dict(
    agent={},
    algo=dict(
        discount=0.99,
        gae_lambda=0.95,
        learning_rate=3e-4,
        epochs=10,
        minibatches=32,  # of 64 steps
        ratio_clip=0.2,
        entropy_loss_coeff=0.0,
        linear_lr_schedule=False,
        normalize_advantage=True,
    ),
    env=dict(id="HalfCheetah-v5"),
    eval_env=dict(id="HalfCheetah-v5"),
    model=dict(hidden_sizes=[64, 64], normalize_observation=True),
    optim={},
    runner=dict(n_steps=int(1e6), log_interval_steps=2048 * 10),
    sampler=dict(batch_T=2048, batch_B=1, max_decorrelation_steps=0),
)
# As many steps to a batch, of several environments side by side.
configs["ppo_1M_cpu"] = cpu = with_parts(ppo, sampler=dict(batch_T=256, batch_B=8))
# Whole batches, used more often.
configs["ppo_32ep_1mb"] = with_parts(cpu, algo=dict(epochs=32, minibatches=1))
