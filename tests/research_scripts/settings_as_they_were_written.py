"""Numbers and truth values as scripts of the time gave them."""

import numpy as np
from common import PolicyAgent, Walk

from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler

if __name__ == "__main__":
    sampler = SerialSampler(
        EnvCls=Walk,
        env_kwargs={},
        batch_T=np.int64(5),
        batch_B=2.0,
        max_decorrelation_steps=1e1,
        eval_n_envs=0,
    )
    runner = MinibatchRl(
        algo=PPO(
            epochs=1.0,
            minibatches=np.int32(2),
            linear_lr_schedule=0,
            normalize_advantage=np.bool_(True),
            learning_rate=np.float32(1e-3),
        ),
        agent=PolicyAgent(),
        sampler=sampler,
        n_steps=8,  # less than one batch: one iteration
        log_interval_steps=1e5,
        seed=np.int64(3),
    )
    runner.train()
    assert runner.algo.update_counter == 2
