"""Alternating workers with a recurrent agent of the project."""

from common import Walk
from recurrent_agent import LstmModel

from rlpyt.agents.base import AlternatingRecurrentAgentMixin
from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgentBase
from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler


class Agent(AlternatingRecurrentAgentMixin, RecurrentCategoricalPgAgentBase):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    sampler = AlternatingSampler(EnvCls=Walk, env_kwargs={}, batch_T=4, batch_B=4)
    MinibatchRl(
        algo=A2C(),
        agent=Agent(ModelCls=LstmModel),
        sampler=sampler,
        n_steps=64,
        log_interval_steps=32,
        affinity=dict(workers_cpus=[0, 1], set_affinity=False, alternating=True),
    ).train()
