"""A train script that takes one of the named configurations and changes some of its settings."""

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.gym import make as gym_make
from rlpyt.experiments.configs.mujoco.qpg.mujoco_sac import configs
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.launching.variant import update_config
from rlpyt.utils.logging.context import logger_context


def build_and_train(log_dir="runs", run_ID=0, config_key="sac_1M_serial"):
    variant = dict(
        algo=dict(batch_size=16, replay_ratio=16, discount=0.98),
        env=dict(id="Pendulum-v1"),
        runner=dict(n_steps=120, log_interval_steps=60),
        sampler=dict(eval_n_envs=1, eval_max_steps=200, eval_max_trajectories=1),
    )
    config = update_config(configs[config_key], variant)
    config["agent"]["model_kwargs"] = config["agent"]["q_model_kwargs"] = dict(hidden_sizes=[16])
    config["algo"]["replay_size"] = 500
    config["algo"]["min_steps_learn"] = 60
    assert config["algo"]["learning_rate"] == 3e-4
    sampler = SerialSampler(
        EnvCls=gym_make,
        env_kwargs=config["env"],
        eval_env_kwargs=config["env"],
        **config["sampler"],
    )
    runner = MinibatchRlEval(
        algo=SAC(optim_kwargs=config["optim"], **config["algo"]),
        agent=SacAgent(**config["agent"]),
        sampler=sampler,
        affinity=dict(cuda_idx=None),
        **config["runner"],
    )
    with logger_context(
        log_dir, run_ID, "sac_" + config["env"]["id"], config, override_prefix=True
    ):
        runner.train()


if __name__ == "__main__":
    build_and_train()
