"""DQN with a Q model of the project, evaluated in environments of its own."""

from common import QModel, Walk

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler


class WalkDqnAgent(DqnAgent):
    def __init__(self, ModelCls=QModel, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    sampler = SerialSampler(
        Walk,
        env_kwargs={},
        eval_env_kwargs=dict(horizon=20),
        batch_T=4,
        batch_B=1,
        max_decorrelation_steps=0,
        eval_n_envs=2,
        eval_max_steps=int(2e2),
        eval_max_trajectories=4,
    )
    algo = DQN(min_steps_learn=1e2, replay_size=1e3, batch_size=16, double_dqn=1)
    runner = MinibatchRlEval(
        algo=algo, agent=WalkDqnAgent(), sampler=sampler, n_steps=3e2, log_interval_steps=1e2
    )
    runner.train()
    assert algo.update_counter > 0
