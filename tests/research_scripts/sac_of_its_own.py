"""SAC of the project, with an optimizer for each network, and rlpyt's agent with its parameters."""

from collections import namedtuple

import torch

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.envs.gym import make as gym_make
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args

OptInfo = namedtuple("OptInfo", ["q1Loss", "q2Loss", "piLoss"])
SamplesToBuffer = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])


class SAC(RlAlgorithm):
    opt_info_fields = OptInfo._fields

    def __init__(self, learning_rate, alpha=0.1, discount=0.98, batch_size=32, min_steps_learn=200):
        save__init__args(locals())

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, world_size=1, rank=0):
        self.agent = agent
        self.min_itr_learn = self.min_steps_learn // batch_spec.size
        agent.give_min_itr_learn(self.min_itr_learn)
        example = SamplesToBuffer(*(examples[name] for name in SamplesToBuffer._fields))
        self.replay_buffer = UniformReplayBuffer(example=example, size=5000, B=batch_spec.B)
        networks = agent.pi_parameters(), agent.q1_parameters(), agent.q2_parameters()
        self.parameters = [list(parameters) for parameters in networks]
        self.optimizers = [torch.optim.Adam(x, lr=self.learning_rate) for x in self.parameters]

    def optimize_agent(self, itr, samples):
        env = samples.env
        self.replay_buffer.append_samples(
            SamplesToBuffer(env.observation, samples.agent.action, env.reward, env.done)
        )
        opt_info = OptInfo([], [], [])
        if itr < self.min_itr_learn:
            return opt_info
        batch = self.replay_buffer.sample_batch(self.batch_size)
        q1_loss, q2_loss, pi_loss = self.loss(batch)
        for loss, optimizer in zip((pi_loss, q1_loss, q2_loss), self.optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for record, loss in zip(opt_info, (q1_loss, q2_loss, pi_loss)):
            record.append(loss.item())
        self.update_counter += 1
        self.agent.update_target(0.01)
        return opt_info

    def loss(self, batch):
        with torch.no_grad():
            action, log_pi, _ = self.agent.pi(*batch.target_inputs)
            target_q1, target_q2 = self.agent.target_q(*batch.target_inputs, action)
            value = torch.min(target_q1, target_q2) - self.alpha * log_pi
            y = batch.return_ + self.discount * (1 - batch.done_n.float()) * value
        q1, q2 = self.agent.q(*batch.agent_inputs, batch.action)
        action, log_pi, _ = self.agent.pi(*batch.agent_inputs)
        q = torch.min(*self.agent.q(*batch.agent_inputs, action))
        pi_loss = (self.alpha * log_pi - q).mean()
        return 0.5 * ((y - q1) ** 2).mean(), 0.5 * ((y - q2) ** 2).mean(), pi_loss


class Agent(SacAgent):
    def sync_shared_memory(self):  # of workers, which a serial sampler has not
        if self.shared_model is not self.model:
            self.shared_model.load_state_dict(self.model.state_dict())


if __name__ == "__main__":
    agent = Agent(model_kwargs=dict(hidden_sizes=[16]), q_model_kwargs=dict(hidden_sizes=[16]))
    algo = SAC(learning_rate=1e-2)
    sampler = SerialSampler(
        gym_make,
        dict(id="Pendulum-v1"),
        batch_T=2,
        batch_B=2,
        eval_n_envs=1,
        eval_max_steps=200,
    )
    MinibatchRlEval(algo=algo, agent=agent, sampler=sampler, n_steps=600, seed=1).train()
    assert algo.update_counter == 100

    # Each optimizer trains the critic that the agent uses: one step of the second changes it alone.
    batch = algo.replay_buffer.sample_batch(8)
    before = [q.detach() for q in agent.q(*batch.agent_inputs, batch.action)]
    algo.optimizers[2].zero_grad()
    algo.loss(batch)[1].backward()
    algo.optimizers[2].step()
    after = [q.detach() for q in agent.q(*batch.agent_inputs, batch.action)]
    assert torch.equal(before[0], after[0]) and not torch.allclose(before[1], after[1])
    # A state has the names and shapes of rlpyt, and is that of the trained critics.
    state = agent.state_dict()
    assert [*state] == ["model", "q1_model", "q2_model", "target_q1_model", "target_q2_model"]
    for name, parameters in zip(("q1_model", "q2_model"), algo.parameters[1:]):
        assert all(map(torch.equal, state[name].values(), parameters))
    # Targets have followed, and are not trained.
    assert not torch.equal(
        *(next(iter(state[x].values())) for x in ("q1_model", "target_q1_model"))
    )
    assert not any(p.requires_grad for p in agent.target_q_model.parameters())
