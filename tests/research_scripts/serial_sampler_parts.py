"""Serial samplers with an ``initialize`` of their own, which inherit ``obtain_samples``."""

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler


class OneEnvironmentEach(SerialSampler):
    """Environments with arguments by rank."""

    def initialize(self, agent, affinity=None, seed=None, bootstrap_value=False,
                   traj_info_kwargs=None, rank=0, world_size=1):  # fmt: skip
        B = self.batch_spec.B
        envs = [self.EnvCls(length=3 + b, **self.env_kwargs) for b in range(B)]
        global_B = B * world_size
        env_ranks = list(range(rank * B, (rank + 1) * B))
        agent.initialize(
            envs[-1].spaces, share_memory=False, global_B=global_B, env_ranks=env_ranks
        )
        samples_pyt, samples_np, examples = build_samples_buffer(
            agent, envs[-1], self.batch_spec, bootstrap_value, agent_shared=False,
            env_shared=False, subprocess=False,
        )  # fmt: skip
        if traj_info_kwargs:
            for k, v in traj_info_kwargs.items():
                setattr(self.TrajInfoCls, "_" + k, v)
        collector = self.CollectorCls(
            rank=0, envs=envs, samples_np=samples_np, batch_T=self.batch_spec.T,
            TrajInfoCls=self.TrajInfoCls, agent=agent, global_B=global_B, env_ranks=env_ranks,
        )  # fmt: skip
        if self.eval_n_envs > 0:
            eval_envs = [self.EnvCls(length=6, **self.eval_env_kwargs) for _ in range(2)]
            self.eval_collector = (self.eval_CollectorCls or SerialEvalCollector)(
                envs=eval_envs, agent=agent, TrajInfoCls=self.TrajInfoCls,
                max_T=self.eval_max_steps // self.eval_n_envs,
                max_trajectories=self.eval_max_trajectories,
            )  # fmt: skip
        agent_inputs, traj_infos = collector.start_envs(self.max_decorrelation_steps)
        collector.start_agent()
        self.agent = agent
        self.samples_pyt = samples_pyt
        self.samples_np = samples_np
        self.collector = collector
        self.agent_inputs = agent_inputs
        self.traj_infos = traj_infos
        return examples


class Padded(Walk):
    """A walk of any length, shown in six cells."""

    def __init__(self, length=5):
        super().__init__(length=6)
        self.goal = length - 1

    def step(self, action):
        step = super().step(action)
        arrived = self.position == self.goal
        return step._replace(done=arrived or step.done, reward=1.0 if arrived else -0.1)


if __name__ == "__main__":
    sampler = OneEnvironmentEach(Padded, {}, batch_T=5, batch_B=3, max_decorrelation_steps=4)
    algo = A2C()
    MinibatchRl(
        algo=algo, agent=PolicyAgent(), sampler=sampler, n_steps=90, log_interval_steps=30
    ).train()
    assert algo.update_counter == 6
    seen = sampler.samples_np.env.observation
    assert (seen.sum(-1) == 1).all() and not seen[:, 0, 2:].any()

    sampler = OneEnvironmentEach(
        Padded, {}, batch_T=5, batch_B=3, eval_n_envs=2, eval_env_kwargs={}, eval_max_steps=60,
        eval_max_trajectories=3,
    )  # fmt: skip
    runner = MinibatchRlEval(
        algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=45, log_interval_steps=15
    )
    runner.train()
