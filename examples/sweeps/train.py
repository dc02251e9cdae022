"""Train one run of the sweep in launch.py. The launcher calls

    python examples/sweeps/train.py SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY

The code defines the cores of this run. LOG_DIR is the directory of the setting, with its variant:
the differences from the default configuration below.
"""

import sys

from rlpyt import PPO, CategoricalMlpAgent, MinibatchRl, SerialSampler, logger_context
from rlpyt.envs.gym import make
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.variant import load_variant, update_config

CONFIGS = dict(
    ppo=dict(
        agent=dict(model_kwargs=dict(hidden_sizes=[64, 64])),
        algo=dict(discount=0.99, learning_rate=1e-3, gae_lambda=0.95, clip_grad_norm=0.5),
        env=dict(id="CartPole-v1"),
        sampler=dict(batch_T=64, batch_B=8),
        runner=dict(n_steps=20_480, log_interval_steps=2_048),
    ),
)


def build_and_train(slot_affinity_code: str, log_dir: str, run_ID: str, config_key: str) -> None:
    """Build all parts and train; the run's number is its seed."""
    config = update_config(CONFIGS[config_key], load_variant(log_dir))
    runner = MinibatchRl(
        algo=PPO(**config["algo"]),
        agent=CategoricalMlpAgent(**config["agent"]),
        sampler=SerialSampler(EnvCls=make, env_kwargs=config["env"], **config["sampler"]),
        seed=int(run_ID),
        affinity=affinity_from_code(slot_affinity_code),
        **config["runner"],
    )
    name = f"{config_key}_{config['env']['id']}"
    with logger_context(log_dir, run_ID, name, log_params=config, snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    build_and_train(*sys.argv[1:])
