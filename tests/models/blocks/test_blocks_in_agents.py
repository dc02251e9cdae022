"""Models put together from the blocks train in our agents, with our samplers."""

import math

import pytest
import torch
from torch import nn

from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.agents.pg.categorical import CategoricalPgAgent, RecurrentCategoricalPgAgent
from rlpyt.agents.pg.gaussian import GaussianPgAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent, GaussianMlpAgent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import MemoryEnv, ReachEnv
from rlpyt.models.blocks import (
    CategoricalHead,
    DiagGaussianHead,
    make_fc,
    make_lnlstm,
    ortho_init,
    to_vec,
)
from rlpyt.models.recurrent import run_recurrent
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.testing import check_agent
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

H = 12


class Body(nn.Module):
    """Two layers with a rectifier after each."""

    def __init__(self, observation_shape):
        super().__init__()
        self.layers = make_fc(math.prod(observation_shape), [16, H])
        for layer in self.layers:
            ortho_init(layer, "relu")

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Plain(nn.Module):
    """(mu, log_std, value) or (pi, value), from the observation."""

    def __init__(self, observation_shape, output_size=None, action_size=None):
        super().__init__()
        self.body = Body(observation_shape)
        self.value = make_fc(H, [1])[0]
        self.discrete = output_size is not None
        head = (
            CategoricalHead(H, output_size) if self.discrete else DiagGaussianHead(H, action_size)
        )
        self.policy = head

    def forward(self, observation, prev_action, prev_reward):
        x = self.body(observation)
        parameters = (self.policy(x),) if self.discrete else self.policy(x)
        return (*parameters, self.value(x).squeeze(-1))


class Remembering(nn.Module):
    """(pi, value, state) or (q, state), by a layer-normalised LSTM."""

    def __init__(self, observation_shape, output_size, values=False):
        super().__init__()
        self.body = Body(observation_shape)
        self.lstm = make_lnlstm(H + output_size + 1, H, num_layers=2)
        self.policy = make_fc(H, [output_size])[0] if values else CategoricalHead(H, output_size)
        self.value = None if values else make_fc(H, [1])[0]

    def forward(self, observation, prev_action, prev_reward, init_rnn_state=None):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x = self.body(observation.reshape(T * B, -1))
        x, state = run_recurrent(self.lstm, x, prev_action, prev_reward, init_rnn_state, T, B)
        policy = restore_leading_dims(self.policy(x), lead_dim, T, B)
        if self.value is None:
            return policy, state
        return policy, restore_leading_dims(self.value(x).squeeze(-1), lead_dim, T, B), state


class DiscreteAgent(CategoricalPgAgent):
    space_arguments = CategoricalMlpAgent.space_arguments


class ContinuousAgent(GaussianPgAgent):
    space_arguments = GaussianMlpAgent.space_arguments


class RecurrentAgent(RecurrentCategoricalPgAgent):
    space_arguments = CategoricalMlpAgent.space_arguments


class ReplayingAgent(R2d1Agent):
    space_arguments = CategoricalMlpAgent.space_arguments


def ppo():
    return PPO(learning_rate=0.003, epochs=2, minibatches=2, entropy_loss_coeff=0.0)


def r2d1():
    return R2D1(
        batch_T=6, batch_B=4, warmup_T=4, store_rnn_state_interval=2, min_steps_learn=64,
        replay_size=800, replay_ratio=4, n_step_return=2, learning_rate=1e-3,
    )  # fmt: skip


RUNS = {
    "discrete": (lambda: DiscreteAgent(ModelCls=Plain), ppo, MemoryEnv),
    "continuous": (lambda: ContinuousAgent(ModelCls=Plain), ppo, ReachEnv),
    "recurrent": (lambda: RecurrentAgent(ModelCls=Remembering), ppo, MemoryEnv),
    "replay": (
        lambda: ReplayingAgent(ModelCls=Remembering, model_kwargs=dict(values=True)),
        r2d1,
        MemoryEnv,
    ),
}


def run(kind, Sampler, n_itr, T=16, B=4):
    make_agent, make_algo, Env = RUNS[kind]
    agent = make_agent()
    sampler = Sampler(EnvCls=Env, env_kwargs={}, batch_T=T, batch_B=B, max_decorrelation_steps=0)
    seen = []

    class Look(MinibatchRl):
        def startup(self):
            n_itr = super().startup()
            seen.append(to_vec(self.agent.model))
            return n_itr

    n_steps = n_itr * T * B
    Look(
        algo=make_algo(),
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        seed=1,
        log_interval_steps=n_steps,
        affinity=dict(n_workers=1),
    ).train()
    return seen[0], to_vec(agent.model), agent


@pytest.mark.parametrize("kind", RUNS)
def test_agents_of_blocks_keep_the_contract(kind):
    make_agent, _, Env = RUNS[kind]
    assert check_agent(make_agent(), Env).ok


@pytest.mark.parametrize("kind", RUNS)
def test_every_parameter_is_trained(kind):
    before, after, agent = run(kind, SerialSampler, n_itr=8)
    assert torch.isfinite(after).all()
    moved = (after != before).split([p.numel() for p in agent.model.parameters()])
    still = [name for (name, _), own in zip(agent.model.named_parameters(), moved) if not own.any()]
    assert still == []


def test_workers_sample_with_it_as_one_process_does():
    after = (run("recurrent", Sampler, 3)[1] for Sampler in (CpuSampler, SerialSampler))
    torch.testing.assert_close(*after)


@pytest.mark.slow
def test_layer_normalised_memory_solves_the_memory_task():
    _, _, agent = run("recurrent", SerialSampler, n_itr=300, T=20, B=8)
    sampler = SerialSampler(
        MemoryEnv,
        {},
        8,
        8,
        max_decorrelation_steps=0,
        eval_n_envs=8,
        eval_max_steps=8 * 200,
        eval_max_trajectories=64,
    )
    state = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    sampler.initialize(agent, seed=5)
    agent.load_state_dict(state)
    agent.eval_mode(0)
    infos = sampler.evaluate_agent(0)
    sampler.shutdown()
    assert sum(info.Return for info in infos) / len(infos) > 0.9  # without memory 0.5
