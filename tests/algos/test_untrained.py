"""Parameters that will not be trained are named, once, at the start."""

import warnings

import pytest
import torch
from torch import nn

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.optim import GradientStep
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.untrained import unregistered, warn_of_untrained
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.parts import SmallMlp


class Spare(SmallMlp):
    """Has a layer that nothing is computed with."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.spare = nn.Linear(2, 2)


class Frozen(SmallMlp):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.body.requires_grad_(False)


class Listed(SmallMlp):
    """Keeps its layers where torch does not look."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.layers = [self.body[0], nn.Linear(16, 16)]


class Detached(SmallMlp):
    def forward(self, *inputs):
        return tuple(x.detach() for x in super().forward(*inputs))


def train(agent, algo, n=2):
    """Warnings of each iteration, the first with those of the algorithm's start."""
    sampler = SerialSampler(EnvCls=CountEnv, env_kwargs={}, batch_T=5, batch_B=4)
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    said = []
    for itr in range(n):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if itr == 0:
                algo.initialize(agent, 10, sampler.batch_spec, mid_batch_reset=True)
            samples, _ = sampler.obtain_samples(itr)
            algo.optimize_agent(itr, samples)
        said.append([str(w.message) for w in caught])
    return said


def small(Model):
    return CategoricalPgAgent(ModelCls=Model, model_kwargs=dict(inputs=3, actions=3))


@pytest.mark.parametrize("make_algo", [A2C, lambda: PPO(minibatches=2, epochs=2)])
@pytest.mark.parametrize(
    "Model,start,names",
    [
        (Spare, "the loss does not depend on", "spare.weight, spare.bias"),
        (Frozen, "freeze them in a hook", "body.0.weight, body.0.bias"),
        (Listed, "not trained, saved", "layers[1].weight, layers[1].bias"),
    ],
)
def test_untrained_parameters_are_named_once_a_run(make_algo, Model, start, names):
    first, second = train(small(Model), make_algo())
    assert len(first) == 1 and second == []
    assert start in first[0] and f": {names}." in first[0]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("make_algo", [A2C, lambda: PPO(minibatches=2, epochs=2)])
def test_ready_models_are_trained_in_whole_and_in_silence(make_algo, recurrent):
    agent = agent_for(
        CountEnv().spaces,
        recurrent=recurrent,
        model_kwargs=dict(normalize_observation=True),
    )
    assert train(agent, make_algo()) == [[], []]


def test_a_loss_without_any_parameter_is_an_error():
    with pytest.raises(ValueError, match="no parameter.*detach"):
        train(small(Detached), A2C())


def test_lists_dictionaries_and_bare_tensors_are_looked_into():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.heads = {"a": [nn.Linear(1, 1, bias=False)]}
            self.scale = torch.ones(1, requires_grad=True)
            self.fixed = [torch.ones(1), nn.Linear(1, 1).requires_grad_(False)]
            self.good = nn.ModuleList([nn.Linear(1, 1)])
            self.same = [self.good[0], self.good[0].weight]
            self.itself = [1, "text", None]
            self.itself.append(self.itself)

    assert sorted(unregistered(Deep())) == ["inner.heads['a'][0].weight", "scale"]


def test_parameters_that_a_model_leaves_out_are_registered():
    class Headed(nn.Sequential):
        def parameters(self, recurse=True):  # as rlpyt's models with `stop_conv_grad`
            yield from self[1].parameters()

        def named_parameters(self, *args, **kwargs):
            yield from self[1].named_parameters()

    model = Headed(nn.Linear(1, 1), nn.Linear(1, 1))
    assert unregistered(model) == unregistered(nn.Sequential(model)) == []


def test_many_names_are_counted():
    model = nn.Linear(1, 1)
    model.layers = [nn.Linear(1, 1, bias=False) for _ in range(11)]
    with pytest.warns(UserWarning, match=r"layers\[7\]\.weight and 3 more"):
        warn_of_untrained(model)


def test_nameless_parameters_are_told_by_their_shape():
    used, spare = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2, 3))
    step = GradientStep([used, spare], torch.optim.SGD, 0.1)
    with pytest.warns(UserWarning, match=r"shape \(2, 3\)"):
        step(used.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(used.sum())
