"""A script that asks for fork, so that environments made by a closure reach the workers."""

import multiprocessing

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    table = {"length": 4}

    def make_env(horizon):
        return Walk(horizon=horizon, **table)

    sampler = CpuSampler(EnvCls=make_env, env_kwargs=dict(horizon=5), batch_T=5, batch_B=2)
    MinibatchRl(
        algo=A2C(),
        agent=PolicyAgent(),
        sampler=sampler,
        n_steps=20,
        affinity=dict(workers_cpus=[0, 1], set_affinity=False),
    ).train()
