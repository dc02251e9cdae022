"""One environment per task: settings are a list, one entry for each environment."""

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

TASKS = [dict(length=5, horizon=h) for h in (3, 4, 5, 6)]


class LongestFirst(SerialSampler):
    def initialize(self, *args, **kwargs):
        examples = super().initialize(*args, **kwargs)
        assert self.env_kwargs == TASKS
        return examples


if __name__ == "__main__":
    for SamplerCls in (LongestFirst, CpuSampler):
        sampler = SamplerCls(
            Walk, env_kwargs=TASKS, batch_T=12, batch_B=4, max_decorrelation_steps=0
        )
        lengths = []

        class Runner(MinibatchRl):
            def store_diagnostics(self, itr, traj_infos, opt_info, lengths=lengths):
                lengths.extend(info.Length for info in traj_infos)
                super().store_diagnostics(itr, traj_infos, opt_info)

        runner = Runner(
            algo=A2C(),
            agent=PolicyAgent(),
            sampler=sampler,
            n_steps=96,
            affinity=dict(workers_cpus=[0, 1], set_affinity=False),
        )
        runner.train()
        assert max(lengths) <= 6 and {3, 6} <= set(lengths), lengths
