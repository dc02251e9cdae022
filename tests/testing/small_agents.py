"""Small agents that keep the contract, and variants with one fault each."""

import threading
from collections import namedtuple

import numpy as np
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.pg.agent import PgAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent, RecurrentCategoricalPgAgent
from rlpyt.distributions.categorical import Categorical
from rlpyt.utils.buffer import buffer_method
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

State = namedarraytuple("State", ["h"])
Plain = namedtuple("Plain", ["dist_info", "value"])


class Net(torch.nn.Module):
    """(pi, value) of vectors, previous actions [.., 2] and rewards."""

    def __init__(self, n_in=4, n_actions=2):
        super().__init__()
        self.body = torch.nn.Linear(n_in + n_actions + 1, 8)
        self.pi, self.v = torch.nn.Linear(8, n_actions), torch.nn.Linear(8, 1)

    def features(self, observation, prev_action, prev_reward):
        x = torch.cat([observation, prev_action.float(), prev_reward.unsqueeze(-1)], -1)
        return torch.tanh(self.body(x))

    def heads(self, x):
        return torch.softmax(self.pi(x), -1), self.v(x).squeeze(-1)

    def forward(self, observation, prev_action, prev_reward):
        return self.heads(self.features(observation, prev_action, prev_reward))


class Tempered(Net):
    """With a parameter without dimensions."""

    def __init__(self):
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.tensor(1.0))

    def heads(self, x):
        pi = torch.softmax(self.pi(x) * self.temperature, -1)
        return pi, self.v(x).squeeze(-1)


class RnnNet(Net):
    """The same with a recurrent layer; state [1, B, 8]."""

    def __init__(self, *args):
        super().__init__(*args)
        self.rnn = torch.nn.GRU(8, 8)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        x = self.features(observation, prev_action, prev_reward)
        lead_dim, T, B, _ = infer_leading_dims(x, 1)
        h = None if init_rnn_state is None else init_rnn_state.h
        out, h = self.rnn(x.reshape(T, B, -1), h)
        pi, value = self.heads(out.reshape(T * B, -1))
        return *restore_leading_dims((pi, value), lead_dim, T, B), State(h)


class Small(CategoricalPgAgent):
    def __init__(self, ModelCls=Net, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)


class SmallRnn(RecurrentCategoricalPgAgent):
    def __init__(self, ModelCls=RnnNet, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)


def with_net(base=Small, **members):
    """An agent whose network has some members replaced."""
    Parent = RnnNet if issubclass(base, SmallRnn) else Net
    NetCls = type("Odd" + Parent.__name__, (Parent,), members)
    return type("With", (base,), {"__init__": lambda self, **kw: base.__init__(self, NetCls, **kw)})


def with_step(new, base=Small):
    """An agent whose steps are computed anew, from (agent, step, t); t counts its steps."""

    def step(self, observation, prev_action, prev_reward):
        self.n_steps = getattr(self, "n_steps", -1) + 1
        taken = base.step(self, observation, prev_action, prev_reward)
        return new(self, taken, self.n_steps)

    return type("Stepping", (base,), {"step": step})


# Construction.


class HoldsLock(Small):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lock = threading.Lock()


class BuildsAtOnce(Small):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.model = Net()


class CannotInitialize(Small):
    def initialize(self, *args, **kwargs):
        raise ValueError("no such spaces")


class DrawsElsewhere(Small):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        with torch.no_grad():
            self.model.v.bias.add_(np.random.default_rng().random())


class NoParameters(Small):
    def parameters(self):
        return iter(())


class Frozen(Small):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.model.requires_grad_(False)


class PartlyFrozen(Small):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.model.body.requires_grad_(False)


def hides_a_layer(self):
    Net.__init__(self)
    self.layers = [torch.nn.Linear(8, 8)]


# Acting.


def with_graph(self, observation, prev_action, prev_reward):
    return PgAgent.step.__wrapped__(self, observation, prev_action, prev_reward)


class KeepsGraph(Small):
    step = with_graph


def normalized_over_batch(self, observation, prev_action, prev_reward):
    x = Net.features(self, observation, prev_action, prev_reward)
    return self.heads(x - x.mean(-2, keepdim=True))


def swapped(agent, step, t):
    return step._replace(action=torch.cat([step.action[:1], step.action[1:].flip(0)]))


class OwnNoise(Categorical):
    def sample(self, dist_info):
        self.set_noise(None)
        return super().sample(dist_info)


class IgnoresNoise(Small):
    def make_distribution(self, action_space):
        return OwnNoise(dim=2)


class NeverDeterministic(Small):
    def step(self, *args):
        self.deterministic = False
        return super().step(*args)


class OtherFastPolicy(Small):
    def fast_policy(self):
        def policy(observation, noise):
            B = len(noise)
            return np.zeros(B, np.int64), (np.full((B, 2), 0.5, np.float32),), np.zeros(B, "f")

        return policy


class OtherValue(Small):
    def value(self, *inputs):
        return super().value(*inputs) + 1


class ValueMovesMemory(SmallRnn):
    def value(self, *inputs):
        value = super().value(*inputs)
        self.advance_rnn_state(self.model(*self._inputs(*inputs), self.prev_rnn_state)[-1])
        return value


class NoValue(BaseAgent):
    """Acts at random."""

    def __init__(self):
        super().__init__(ModelCls=Net)

    def step(self, observation, prev_action, prev_reward):
        action = torch.randint(2, prev_reward.shape)
        return AgentStep(action, namedarraytuple("Nothing", ["x"])(torch.zeros(len(action))))


# Memory.


class NeverForgets(SmallRnn):
    def reset(self):
        pass


class HiddenMemory(Small):
    """Counts its steps, and says nothing of it."""

    count = 0

    def step(self, observation, prev_action, prev_reward):
        self.count += 1
        return super().step(observation + self.count, prev_action, prev_reward)

    def reset(self):
        self.count = 0


class ResetsNone(SmallRnn):
    def reset_one(self, idx):
        pass


class ResetsAll(SmallRnn):
    def reset_one(self, idx):
        self.reset()


class RecordsStateAfter(SmallRnn):
    def step(self, observation, prev_action, prev_reward):
        step = super().step(observation, prev_action, prev_reward)
        after = buffer_method(self.prev_rnn_state, "transpose", 0, 1)
        return step._replace(agent_info=step.agent_info._replace(prev_rnn_state=after))


class NeverAdvances(SmallRnn):
    def advance_rnn_state(self, new_rnn_state):
        pass


class OneMemory(SmallRnn):
    """Evaluation goes on with the memory of sampling."""

    def eval_mode(self, itr):
        super().eval_mode(itr)
        self.memory.select(mode="sample")


class EvaluationGoesOn(SmallRnn):
    def eval_mode(self, itr):
        self.memory.select(mode="eval")
        state = self.prev_rnn_state
        super().eval_mode(itr)
        self.advance_rnn_state(state)


class TrainingForgets(SmallRnn):
    def train_mode(self, itr):
        super().train_mode(itr)
        self.memory.clear("sample")


class LeavesTrainingOn(Small):
    def sample_mode(self, itr):
        self._mode = "sample"


class OneGroup(SmallRnn):
    def set_group(self, group):
        pass


# Training.


class NoCall(SmallRnn):
    __call__ = BaseAgent.__call__


class FlatOutputs(Small):
    def __call__(self, *inputs):
        dist_info, value = super().__call__(*inputs)
        return dist_info, value.reshape(-1)


class StateByRows(SmallRnn):
    def __call__(self, *inputs):
        *out, state = super().__call__(*inputs)
        return *out, buffer_method(state, "transpose", 0, 1)


class OtherOrder(Small):
    """Trains on the previous action as it is, acts on it one-hot."""

    def __call__(self, observation, prev_action, prev_reward):
        return super().__call__(observation, 1 - prev_action, prev_reward)


class BackwardsInTime(SmallRnn):
    def __call__(self, *inputs, init_rnn_state=None):
        *inputs, state = inputs
        inputs = [x.flip(0) if x.dim() > 2 else x for x in inputs]
        return super().__call__(*inputs, state)


def dropping_out(self, x):
    x = torch.nn.functional.dropout(x, 0.5, self.training)
    return Net.heads(self, x)


class Detached(Small):
    @torch.no_grad()
    def __call__(self, *inputs):
        return super().__call__(*inputs)


def with_unused(self):
    Net.__init__(self)
    self.unused = torch.nn.Linear(2, 2)


def root_of_zero(self, x):
    pi, value = Net.heads(self, x)
    return pi, value + torch.sqrt(0 * value)


class OddLikelihood(Categorical):
    def log_likelihood(self, indexes, dist_info):
        return super().log_likelihood(indexes, dist_info).sum()


class OddRatio(Categorical):
    def likelihood_ratio(self, indexes, old_dist_info, new_dist_info):
        return 0 * super().likelihood_ratio(indexes, old_dist_info, new_dist_info)


def with_distribution(Cls):
    return type(
        "Distributed", (Small,), {"make_distribution": lambda self, action_space: Cls(dim=2)}
    )


class StateIsPartial(Small):
    def state_dict(self):
        return {name: x for name, x in super().state_dict().items() if "pi" not in name}

    def load_state_dict(self, state_dict):
        self.model.load_state_dict(state_dict, strict=False)


class LoadsNothing(Small):
    def load_state_dict(self, state_dict):
        pass


class CountsInState(Small):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.n_acted = 0

    def step(self, *inputs):
        self.n_acted += 1
        return super().step(*inputs)

    def state_dict(self):
        return {**super().state_dict(), "n_acted": self.n_acted}

    def load_state_dict(self, state_dict):
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "n_acted"})
