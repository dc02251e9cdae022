"""An algorithm with a replay, derived from RlAlgorithm alone, in an asynchronous run."""

from collections import namedtuple

import torch
from common import QModel, Walk

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.collections import AttrDict, namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import select_at_indexes

Loss = namedtuple("Loss", ["loss"])
Stored = namedarraytuple("Stored", ["observation", "action", "reward", "done"])


class QLearning(RlAlgorithm):
    opt_info_fields = Loss._fields

    def __init__(self, batch_size=8, replay_ratio=4, min_steps_learn=20, learning_rate=1e-3):
        save__init__args(locals())
        self.update_counter = 0

    def async_initialize(
        self, agent, sampler_n_itr, batch_spec, mid_batch_reset, examples, world_size=1
    ):
        self.agent, self.updates_per_optimize = agent, 1
        self.min_itr_learn = self.min_steps_learn // batch_spec.size
        example = Stored(*(examples[name] for name in Stored._fields))
        self.replay_buffer = AsyncUniformReplayBuffer(example=example, size=400, B=batch_spec.B)
        return self.replay_buffer

    def optim_initialize(self, rank=0):
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=self.learning_rate)

    def samples_to_buffer(self, samples):
        env = samples.env
        return Stored(env.observation, samples.agent.action, env.reward, env.done)

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if sampler_itr < self.min_itr_learn:
            return Loss([])
        batch = self.replay_buffer.sample_batch(self.batch_size)
        q = select_at_indexes(batch.action, self.agent(*batch.agent_inputs))
        with torch.no_grad():
            best = self.agent.target(*batch.target_inputs).max(dim=-1).values
        target = batch.return_ + 0.9 * (1 - batch.done_n.float()) * best
        loss = ((q - target) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.update_counter += 1
        return Loss([loss.item()])


class Agent(DqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    algo = QLearning()
    cores = dict(cpus=[0], torch_threads=1, cuda_idx=None, set_affinity=False)
    AsyncRl(
        algo=algo,
        agent=Agent(ModelCls=QModel),
        sampler=AsyncSerialSampler(EnvCls=Walk, env_kwargs={}, batch_T=5, batch_B=2),
        n_steps=200,
        log_interval_steps=100,
        max_lead=0,  # so that the number of updates is known
        affinity=AttrDict(optimizer=[cores], sampler=dict(cores), set_affinity=False),
    ).train()
    assert algo.update_counter == 18 * 10 * 4 / 8, algo.update_counter
