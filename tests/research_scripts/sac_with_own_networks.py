"""SAC with a policy and critics of the project, an action prior, and critics read by name."""

import copy

import gymnasium
import torch
from gymnasium.wrappers import RescaleAction

from rlpyt.agents.base import AgentStep, BaseAgent, RecurrentAgentMixin
from rlpyt.agents.qpg.sac_agent import AgentInfoRnn, SacAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.models.mlp import MlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class Policy(torch.nn.Module):
    def __init__(self, observation_shape, hidden_sizes, action_size):
        super().__init__()
        self.net = MlpModel(observation_shape[0], hidden_sizes, 2 * action_size)

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        mean, log_std = self.net(observation.view(T * B, -1)).chunk(2, dim=-1)
        return restore_leading_dims((mean, log_std), lead_dim, T, B)


class Critic(torch.nn.Module):
    def __init__(self, observation_shape, hidden_sizes, action_size):
        super().__init__()
        self.net = MlpModel(observation_shape[0] + action_size, hidden_sizes, 1)

    def forward(self, observation, prev_action, prev_reward, action):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x = torch.cat([observation.view(T * B, -1), action.view(T * B, -1)], dim=1)
        return restore_leading_dims(self.net(x).squeeze(-1), lead_dim, T, B)


class NamedCritics(SacAgent):
    """Evaluates each critic by the name that rlpyt's agent has for it."""

    def q(self, observation, prev_action, prev_reward, action):
        inputs = buffer_to((observation, prev_action, prev_reward, action), device=self.device)
        return self.q1_model(*inputs), self.q2_model(*inputs)

    def target_q(self, observation, prev_action, prev_reward, action):
        inputs = buffer_to((observation, prev_action, prev_reward, action), device=self.device)
        return self.target_q1_model(*inputs), self.target_q2_model(*inputs)

    def load_state_dict(self, state_dict):
        for name in ("q1_model", "q2_model", "target_q1_model", "target_q2_model", "model"):
            getattr(self, name).load_state_dict(state_dict[name])


class SomeLayers(SacAgent):
    """Trains the critics' last layers only, and draws actions itself."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.min_itr_learn = 0  # from the algorithm

    def q1_parameters(self):
        return [p for name, p in self.q1_model.named_parameters() if "0." not in name]

    def q2_parameters(self):
        return [p for name, p in self.q2_model.named_parameters() if "0." not in name]

    def pi(self, observation, prev_action, prev_reward):
        inputs = buffer_to((observation, prev_action, prev_reward), device=self.device)
        dist_info = DistInfoStd(*self.model(*inputs))
        return *self.distribution.sample_loglikelihood(dist_info), dist_info

    def _build_critics(self):
        critics = super()._build_critics()
        self.at_first = copy.deepcopy(critics.state_dict())
        return critics


class Memory(RecurrentAgentMixin, SacAgent):
    """Keeps the state of a policy of the project in a step of its own."""

    def step(self, observation, prev_action, prev_reward):
        mean, log_std, state = self.model(observation, self.prev_rnn_state)
        previous = torch.zeros_like(state) if self.prev_rnn_state is None else self.prev_rnn_state
        dist_info = DistInfoStd(mean=mean, log_std=log_std)
        action = self.distribution.sample(dist_info)
        self.advance_rnn_state(state)
        return AgentStep(action, AgentInfoRnn(dist_info, previous.transpose(0, 1)))


class OwnCritics(SacAgent):
    """Builds its critics past the ready agent's initialize."""

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        BaseAgent.initialize(self, env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)
        for name in ("q1_model", "q2_model", "target_q1_model", "target_q2_model"):
            setattr(self, name, Critic(**self.env_model_kwargs, hidden_sizes=[8]))
        size = self.env_model_kwargs["action_size"]
        self.distribution = Gaussian(dim=size, squash=self.action_squash)


class FourOptimizers(SAC):
    """Has rlpyt's optimizers, and an update of its own."""

    def optim_initialize(self, rank=0):
        agent, self._log_alpha = self.agent, torch.zeros(1, requires_grad=True)
        parameters = dict(
            pi=agent.pi_parameters(),
            q1=agent.q1_parameters(),
            q2=agent.q2_parameters(),
            alpha=[self._log_alpha],
        )
        for name, own in parameters.items():
            optimizer = self.OptimCls([*own], lr=self.learning_rate, **self.optim_kwargs)
            setattr(self, f"{name}_optimizer", optimizer)

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        for name in ("pi", "q1", "q2", "alpha"):
            optimizer = getattr(self, f"{name}_optimizer")
            optimizer.zero_grad()
            sum((p - 1).pow(2).sum() for p in optimizer.param_groups[0]["params"]).backward()
            optimizer.step()
        return self.empty_opt_info()


class RecurrentPolicy(torch.nn.Module):
    def __init__(self, observation_shape, hidden_sizes, action_size):
        super().__init__()
        self.gru = torch.nn.GRU(observation_shape[0], 8)
        self.head = torch.nn.Linear(8, 2 * action_size)

    def forward(self, observation, init_rnn_state):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x, state = self.gru(observation.view(T, B, -1), init_rnn_state)
        mean, log_std = self.head(x.view(T * B, -1)).chunk(2, dim=-1)
        return *restore_leading_dims((mean, log_std), lead_dim, T, B), state


def train(AgentCls, QModelCls, action_prior):
    agent = AgentCls(
        ModelCls=Policy,
        QModelCls=QModelCls,
        model_kwargs=dict(hidden_sizes=(16,)),
        q_model_kwargs=dict(hidden_sizes=[16, 16]),
        pretrain_std=1,
    )
    algo = SAC(
        min_steps_learn=40,
        replay_size=int(1e3),
        batch_size=16,
        replay_ratio=4,
        action_prior=action_prior,
        bootstrap_timelimit=1,
    )
    sampler = SerialSampler(bounded, {}, batch_T=1, batch_B=1)
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=100, seed=1).train()
    assert algo.update_counter > 0
    return agent


def bounded():
    return GymEnvWrapper(RescaleAction(gymnasium.make("Pendulum-v1"), -1.0, 1.0))


if __name__ == "__main__":
    train(SacAgent, Critic, "gaussian")
    for QModelCls in (Critic, None):
        one, other = (train(A, QModelCls, "uniform") for A in (SacAgent, NamedCritics))
        weights = [a.model.state_dict().values() for a in (one, other)]
        assert all(torch.allclose(x, y, atol=1e-6) for x, y in zip(*weights))
    # Read before training, critics are modules of their own.
    agent = NamedCritics(model_kwargs=dict(hidden_sizes=[8]), q_model_kwargs=dict(hidden_sizes=[8]))
    agent.initialize(bounded().spaces)
    state = {k: {n: x + 1 for n, x in v.items()} for k, v in agent.state_dict().items()}
    agent.load_state_dict(state)
    assert all(
        torch.equal(x, state[k][n]) for k, v in agent.state_dict().items() for n, x in v.items()
    )
    # The parameters that an agent chooses are trained, and no others.
    agent = train(SomeLayers, None, "uniform")
    now, before = agent.state_dict(), agent.at_first
    for i in range(2):
        for name, x in now[f"q{i + 1}_model"].items():
            assert torch.equal(x, before[name][i].reshape(x.shape)) == ("0." in name)
    # A recurrent agent with a step of its own needs no memory of ours.
    agent = Memory(
        ModelCls=RecurrentPolicy, QModelCls=Critic, q_model_kwargs=dict(hidden_sizes=[8])
    )
    sampler = SerialSampler(bounded, {}, batch_T=4, batch_B=2)
    sampler.initialize(agent, seed=1)
    agent.sample_mode(0)
    samples, _ = sampler.obtain_samples(0)
    assert samples.agent.agent_info.prev_rnn_state[1:].abs().sum() > 0
    # Critics that the project has built are saved, loaded, followed by targets, and change modes.
    agent = OwnCritics(model_kwargs=dict(hidden_sizes=[8]))
    agent.initialize(bounded().spaces)
    agent.train_mode(1)
    assert agent.q1_model.training and agent.q2_model.training
    agent.sample_mode(1)
    assert not agent.q1_model.training and agent.distribution.std is None
    agent.update_target(1.0)
    state = agent.state_dict()
    assert [*state] == ["model", "q1_model", "q2_model", "target_q1_model", "target_q2_model"]
    for i in (1, 2):
        ends = state[f"q{i}_model"].values(), state[f"target_q{i}_model"].values()
        assert all(map(torch.equal, *ends))
    raised = {k: {n: x + 1 for n, x in v.items()} for k, v in state.items()}
    agent.load_state_dict(raised)
    assert all(map(torch.equal, agent.q2_model.state_dict().values(), raised["q2_model"].values()))
    # So are the states of optimizers that the project has built.
    algos = []
    for n_steps in (10, 4):
        algos.append(FourOptimizers(min_steps_learn=0, replay_size=100))
        sampler = SerialSampler(bounded, {}, batch_T=2, batch_B=1)
        agent = SacAgent(model_kwargs=dict(hidden_sizes=[8]))
        MinibatchRl(algo=algos[-1], agent=agent, sampler=sampler, n_steps=n_steps).train()
    one, other = algos
    state = one.optim_state_dict()
    names = [f"{name}_optimizer" for name in ("pi", "q1", "q2", "alpha")]
    assert [*state] == [*names, "log_alpha"] and state["q2_optimizer"]["state"][0]["step"] == 5
    other.load_optim_state_dict(state)
    assert other.q2_optimizer.state_dict()["state"][0]["step"] == 5
    assert torch.equal(other._log_alpha, one._log_alpha) and one._log_alpha != 0
