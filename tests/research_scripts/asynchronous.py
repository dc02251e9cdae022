"""Asynchronous sampling and optimisation, logging of the runner extended."""

from common import QModel, Walk

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger


class Agent(DqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


class LoggingAsyncRl(AsyncRl):
    def log_diagnostics(self, itr, sampler_itr, throttle_time, prefix="Diagnostics/"):
        logger.record_tabular("SamplerIteration", sampler_itr)
        super().log_diagnostics(itr, sampler_itr, throttle_time, prefix)


if __name__ == "__main__":
    affinity = AttrDict(
        all_cpus=[0, 1],
        optimizer=[dict(cpus=[0], torch_threads=1, cuda_idx=None, set_affinity=False)],
        sampler=dict(
            all_cpus=[1],
            master_cpus=[1],
            master_torch_threads=1,
            workers_cpus=[1],
            worker_torch_threads=1,
            set_affinity=False,
        ),
        set_affinity=False,
    )
    LoggingAsyncRl(
        algo=DQN(replay_size=500, min_steps_learn=50, batch_size=16),
        agent=Agent(ModelCls=QModel),
        sampler=AsyncCpuSampler(EnvCls=Walk, env_kwargs={}, batch_T=5, batch_B=2),
        n_steps=200,
        log_interval_steps=100,
        affinity=affinity,
    ).train()
