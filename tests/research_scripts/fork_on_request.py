"""A script that asks for fork; environments made by a closure reach other workers, too."""

import multiprocessing

from common import Walk, train_a2c

from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    table = {"length": 4}

    def make_env(horizon):
        return Walk(horizon=horizon, **table)

    sampler = CpuSampler(EnvCls=make_env, env_kwargs=dict(horizon=5), batch_T=5, batch_B=2)
    train_a2c(sampler, n_steps=20)
