"""Small parts for tests of continuous control: environments, tiny networks, plain definitions."""

import copy
import math

import numpy as np
import torch

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.envs.base import EnvStep
from rlpyt.envs.toy import CountEnv, EnvInfo, TruncationEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.seed import set_seed

T, B, A = 8, 3, 2
LOW, HIGH = (-2.0, 0.0), (2.0, 1.0)
HALF, CENTER = torch.tensor([2.0, 0.5]), torch.tensor([0.0, 0.5])
NARROW = dict(hidden_sizes=[8, 6])
SIZES = dict(model_kwargs=NARROW, q_model_kwargs=NARROW)
NORMALIZED = dict(normalization=dict(kind="batch_renorm", warmup=2, unit_weights=True), **NARROW)
CROSSQ = dict(target_critics=False, model_kwargs=NORMALIZED, q_model_kwargs=NORMALIZED)
SMALL = dict(min_steps_learn=2 * T * B, replay_size=40 * B, batch_size=16, replay_ratio=2)


class DriftEnv(CountEnv):
    """``CountEnv`` with actions in an asymmetric box; rewards pay for some of them.

    Observation: (rank modulo 5, episode, t) / 5. The reward of the step that leaves (episode, t)
    is episode + 0.1 (t + 1), plus 0.3 times the action's sum with ``pays``.
    """

    def __init__(self, pays=False, low=LOW, high=HIGH, **kwargs):
        super().__init__(**kwargs)
        self.pays = pays
        self._action_space = FloatBox(low, high)
        self._observation_space = FloatBox(-1e4, 1e4, shape=(3,))

    def seed(self, seed):
        super().seed(seed)
        self._rank %= 5

    def step(self, action):
        self._t += 1
        over = self._t >= self.episode_length(self._episode)
        truncated = self.end == "truncation" or (self.end == "alternate" and self._episode % 2 == 1)
        reward = self._episode + 0.1 * self._t + 0.3 * self.pays * float(np.sum(action))
        return EnvStep(self._observe(), reward, over, EnvInfo(over and truncated))

    def _observe(self):
        return super()._observe() / 5


class ContinuousTruncationEnv(TruncationEnv):
    """``TruncationEnv`` with continuous actions, which change nothing either."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._action_space = FloatBox(LOW, HIGH)


class Telling(torch.nn.Module):
    """The value 2 rank + 7 episode + 1.5 t in ``DriftEnv``, whatever the action."""

    def __init__(self, observation_shape, action_size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([10.0, 35.0, 7.5]))

    def forward(self, observation, *rest):
        return observation @ self.weight


class Knowing(torch.nn.Module):
    """The value of ``ContinuousTruncationEnv`` at a discount of 0.9."""

    def __init__(self, observation_shape, action_size):
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(10.0))

    def forward(self, observation, *rest):
        return self.value.expand(observation.shape[:-1])


AGENTS = {
    "ddpg": lambda **kw: DdpgAgent(**{**SIZES, **kw}),
    "td3": lambda **kw: Td3Agent(**{**SIZES, **kw}),
    "sac": lambda **kw: SacAgent(**{**SIZES, **kw}),
    "sac_v": lambda **kw: SacVAgent(**{**SIZES, "v_model_kwargs": NARROW, **kw}),
}


def prepared(algo, agent, EnvCls=DriftEnv, env_kwargs=None, n_itr=100, **kwargs):
    """Sampler, with agent and algorithm initialized; networks and targets differ."""
    sampler = SerialSampler(
        EnvCls=EnvCls, env_kwargs=env_kwargs or {}, batch_T=T, batch_B=B,
        **{"max_decorrelation_steps": 0, **kwargs},
    )  # fmt: skip
    set_seed(1)
    examples = sampler.initialize(agent, seed=5, final_observation=True)
    for name in ("target_model", "target_q_model", "target_v_model"):
        shake(getattr(agent, name, None), 0.2)
    algo.initialize(agent, n_itr, sampler.batch_spec, sampler.mid_batch_reset, examples)
    return sampler


@torch.no_grad()
def shake(network, size):
    for p in () if network is None else network.parameters():
        p.add_(size * torch.randn_like(p))


def fill(algo, sampler, batches=6):
    """Sample and store, without learning."""
    for itr in range(batches):
        algo.agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        algo.store(samples)
    algo.agent.train_mode(batches)
    return samples


def sampled(algo, agent, n=30, **kwargs):
    """Fill the replay; a batch from it."""
    fill(algo, prepared(algo, agent, **kwargs))
    return algo.replay_buffer.sample_batch(n)


def one_update(algo):
    """Draw a batch and learn from it; return the statistics, a named tuple of lists."""
    opt_info = algo.make_opt_info([] for _ in algo.returned_fields)
    algo.learn_from(algo.draw_batch(), opt_info)
    return algo.add_recorded(opt_info)


def ranked(algo, batch):
    """Give the batch's rows different priorities; another batch, of different weights."""
    algo.replay_buffer.update_batch_priorities(torch.linspace(0.1, 3, 30), batch.ticket)
    return algo.replay_buffer.sample_batch(30)


@torch.no_grad()
def level(agent, batch):
    """Shift critics so that each is the least somewhere."""
    for network in (agent.q_model, agent.target_q_model):
        values = network(batch.agent_inputs.observation, None, None, to_unit(batch.action))
        means = values.reshape(*values.shape[:2], -1).mean((1, 2))
        network.mlp.model[-1].bias -= means[:, None]


def feed(algo, batches):
    """From now on the algorithm draws these batches, in turn."""
    rest = iter(batches)
    algo.replay_buffer.sample_batch = lambda n: next(rest)


# Plain definitions, in float64.


def perceptron(state, x):
    """Return the output for x of linear layers with these parameters and ReLU between them."""
    weights = [v.double() for k, v in state.items() if k.endswith("weight")]
    biases = [v.double() for k, v in state.items() if k.endswith("bias")]
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = x @ weight.T + bias
        if i < len(weights) - 1:
            x = x.clamp(min=0)
    return x


def to_unit(action):
    return (action.double() - CENTER.double()) / HALF.double()


def q_of(agent, name, observation, unit_action):
    """Values of one critic by its name in the state, [B], or [B, N] of quantiles."""
    x = torch.cat([observation.double(), unit_action.double()], -1)
    return perceptron(agent.state_dict()[name], x).squeeze(-1)


def mu_of(agent, name, observation):
    return torch.tanh(perceptron(agent.state_dict()[name], observation.double()))


def pi_of(agent, observation, noise):
    """Actions in units of [-1, 1] made of noise, and their log-likelihoods, by a loop."""
    out = perceptron(agent.state_dict()["model"], observation.double())
    size = out.shape[-1] // 2
    action, log_pi = torch.zeros(len(out), size), []
    action = action.double()
    for b in range(len(out)):
        total = 0.0
        for i in range(size):
            mean, log_std = float(out[b, i]), min(max(float(out[b, size + i]), -20), 2)
            x = mean + math.exp(log_std) * float(noise[b, i])
            density = math.exp(-0.5 * ((x - mean) / math.exp(log_std)) ** 2)
            density /= math.exp(log_std) * math.sqrt(2 * math.pi)
            action[b, i] = math.tanh(x)
            total += math.log(density / (1 - math.tanh(x) ** 2))
        log_pi.append(total)
    return action, torch.tensor(log_pi, dtype=torch.float64)


def standalone(network):
    """A copy that shares nothing."""
    return copy.deepcopy(network)


def assert_same_state(a, b, **close):
    """Trees of dictionaries of tensors are equal, or close if it is said how much."""
    assert a.keys() == b.keys()
    for k in a:
        if isinstance(a[k], dict):
            assert_same_state(a[k], b[k], **close)
        else:
            torch.testing.assert_close(a[k], b[k], **(close or dict(rtol=0, atol=0)))
