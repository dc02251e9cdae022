"""Parallel sampling with an affinity written by hand."""

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

if __name__ == "__main__":
    affinity = dict(
        cuda_idx=None,
        master_cpus=[0],
        workers_cpus=[0, 1],
        master_torch_threads=1,
        worker_torch_threads=1,
        set_affinity=False,
        alternating=False,
    )
    MinibatchRl(
        algo=A2C(),
        agent=PolicyAgent(),
        sampler=CpuSampler(EnvCls=Walk, env_kwargs={}, batch_T=5, batch_B=4),
        n_steps=60,
        log_interval_steps=40,
        affinity=affinity,
    ).train()
