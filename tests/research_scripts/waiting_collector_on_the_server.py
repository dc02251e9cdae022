"""DQN with actions served by the master and environments that wait for the end of the batch."""

from common import QModel, Walk

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.parallel.gpu.collectors import GpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler


class Agent(DqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    sampler = GpuSampler(
        EnvCls=Walk,
        env_kwargs=dict(length=4, horizon=7),
        CollectorCls=GpuWaitResetCollector,
        batch_T=10,
        batch_B=4,
        max_decorrelation_steps=0,
        eval_n_envs=2,
        eval_env_kwargs=dict(length=4, horizon=7),
        eval_max_steps=40,
        eval_max_trajectories=4,
    )
    algo = DQN(replay_size=800, min_steps_learn=80, batch_size=16, n_step_return=2)
    MinibatchRlEval(
        algo=algo,
        agent=Agent(ModelCls=QModel, eps_itr_max=4),
        sampler=sampler,
        n_steps=240,
        log_interval_steps=120,
        affinity=dict(workers_cpus=[0, 1], set_affinity=False),
    ).train()
    assert algo.update_counter > 0
