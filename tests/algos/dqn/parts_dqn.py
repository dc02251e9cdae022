"""Small parts for tests of deep Q-learning: tiny networks, and a filled replay."""

import torch

from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.qrdqn_agent import IqnAgent, QrDqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import set_seed

T, B, N_ATOMS = 8, 3, 5


class Tiny(torch.nn.Module):
    """Action values, or P outputs for each, from observation, previous action and reward."""

    def __init__(self, n_atoms=None, n_quantiles=None, actions=3, inputs=3):
        super().__init__()
        self.shape = (actions, n_atoms or n_quantiles or 1)
        self.softmax = n_atoms is not None
        self.linear = torch.nn.Linear(inputs + actions + 1, self.shape[0] * self.shape[1])

    def forward(self, observation, prev_action, prev_reward):
        o = observation / torch.tensor([2.0**20, 5.0, 5.0])
        x = torch.cat([o, prev_action, prev_reward[..., None] / 500], -1)
        out = self.linear(x).unflatten(-1, self.shape)
        return torch.softmax(out, -1) if self.softmax else out.squeeze(-1)


class TinyImplicit(Tiny):
    """Quantiles that grow with the fraction."""

    def forward(self, observation, prev_action, prev_reward, tau):
        q = super().forward(observation, prev_action, prev_reward)[..., None]
        return q + tau.unsqueeze(-2)


class TinyRnn(torch.nn.Module):
    """Action values, or P outputs for each, through a GRU."""

    def __init__(self, actions=3, inputs=3, n_atoms=None, n_quantiles=None, memory="gru"):
        super().__init__()
        self.shape = (actions, n_atoms or n_quantiles or 1)
        self.softmax = n_atoms is not None
        self.rnn = torch.nn.GRU(inputs + actions + 1, 6)
        self.head = torch.nn.Linear(6, self.shape[0] * self.shape[1])
        self.scale = [2.0**20, 5.0, 5.0] if inputs == 3 else [1.0] * inputs

    def forward(self, observation, prev_action, prev_reward, init_rnn_state=None):
        o = observation / torch.tensor(self.scale)
        x = torch.cat([o, prev_action, prev_reward[..., None] / 500], -1)
        single = x.dim() == 2
        out, state = self.rnn(x.unsqueeze(0) if single else x, init_rnn_state)
        out = self.head(out.squeeze(0) if single else out).unflatten(-1, self.shape)
        return torch.softmax(out, -1) if self.softmax else out.squeeze(-1), state


class TinyImplicitRnn(TinyRnn):
    """Quantiles that grow with the fraction, through a GRU."""

    def forward(self, observation, prev_action, prev_reward, tau, init_rnn_state=None):
        q, state = super().forward(observation, prev_action, prev_reward, init_rnn_state)
        return q[..., None] * (1 + tau.unsqueeze(-2)), state


AGENTS = {
    "dqn": lambda: DqnAgent(ModelCls=Tiny),
    "cat": lambda: CatDqnAgent(n_atoms=N_ATOMS, ModelCls=Tiny),
    "qr": lambda: QrDqnAgent(n_quantiles=N_ATOMS, ModelCls=Tiny),
    "iqn": lambda: IqnAgent(n_act_quantiles=4, ModelCls=TinyImplicit),
    "r2d1": lambda: R2d1Agent(ModelCls=TinyRnn),
}
GRU = dict(model_kwargs=dict(memory="gru"))
AGENTS_WITH_MEMORY = {
    "dqn": lambda: DqnAgent(ModelCls=TinyRnn, **GRU),
    "cat": lambda: CatDqnAgent(n_atoms=N_ATOMS, ModelCls=TinyRnn, **GRU),
    "qr": lambda: QrDqnAgent(n_quantiles=N_ATOMS, ModelCls=TinyRnn, **GRU),
    "iqn": lambda: IqnAgent(n_act_quantiles=4, ModelCls=TinyImplicitRnn, **GRU),
}


def prepared(algo, agent, EnvCls=CountEnv, env_kwargs=None, n_itr=100, batch_T=T, **kwargs):
    """Sampler, with agent and algorithm initialized; model and target differ."""
    sampler = SerialSampler(
        EnvCls=EnvCls, env_kwargs=env_kwargs or {}, batch_T=batch_T, batch_B=B,
        **{"max_decorrelation_steps": 0, **kwargs},
    )  # fmt: skip
    set_seed(1)
    examples = sampler.initialize(agent, seed=5, final_observation=True)
    with torch.no_grad():
        for p in agent.target_model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    algo.initialize(agent, n_itr, sampler.batch_spec, sampler.mid_batch_reset, examples)
    return sampler


def fill(algo, sampler, batches=6):
    """Sample and store, without learning."""
    for itr in range(batches):
        algo.agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        algo.store(samples)
    algo.agent.train_mode(batches)
    return samples
