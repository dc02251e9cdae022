"""Samplers whose ``initialize`` fails after it has started processes: none of them remains."""

import multiprocessing as mp
import time

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

AFFINITY = dict(workers_cpus=[0, 1], set_affinity=False)


def endless():
    """Wait for a word that never comes."""
    time.sleep(1000)


class OwnProcesses(BaseSampler):
    """No base of ours that starts processes."""

    def initialize(self, agent, affinity, seed, bootstrap_value, traj_info_kwargs, rank,
                   world_size):  # fmt: skip
        self.workers = [mp.Process(target=endless) for _ in range(2)]
        for worker in self.workers:
            worker.start()
        self.helper = mp.Process(target=endless)
        self.helper.start()
        raise ValueError("the project's mistake")


class AfterOurs(CpuSampler):
    """Fails after the inherited start."""

    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        raise ValueError("the project's mistake")


class InAHook(GpuSampler):
    """Fails when one worker has started."""

    def _assemble_workers_kwargs(self, affinity, seed, n_envs_list):
        kwargs = super()._assemble_workers_kwargs(affinity, seed, n_envs_list)
        del kwargs[1]["n_envs"]
        return kwargs


class BrokenWalk(Walk):
    def step(self, action):
        raise KeyError("the project's mistake")


class Inherited(CpuSampler):
    """Workers that fail while the master waits for them at a barrier."""

    def _build_parallel_ctrl(self, n_worker):
        super()._build_parallel_ctrl(n_worker)


if __name__ == "__main__":
    for SamplerCls, EnvCls in (
        (OwnProcesses, Walk),
        (AfterOurs, Walk),
        (InAHook, Walk),
        (Inherited, BrokenWalk),
    ):
        sampler = SamplerCls(EnvCls, {}, batch_T=4, batch_B=2, CollectorCls=CpuSampler.CollectorCls)
        runner = MinibatchRl(
            algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=16, affinity=AFFINITY
        )
        try:
            runner.train()
        except Exception as error:
            text = f"{error!r} {error.__cause__!r} {getattr(error, '__notes__', '')}"
            assert "project's mistake" in text or "n_envs" in text, text
        else:
            raise AssertionError(f"{SamplerCls.__name__} did not fail")
        assert not mp.active_children(), (SamplerCls, mp.active_children())
