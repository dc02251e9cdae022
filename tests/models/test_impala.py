"""Convolutions of IMPALA and spectral normalization: definitions, state, agents that have them."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import nn

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.vector import AGENTS, dqn_agent_for
from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.base import EnvSpaces, EnvStep
from rlpyt.envs.toy import EnvInfo, ToyEnv
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.image_encoder import ImageEncoder
from rlpyt.models.impala import ImpalaModel, SpectralConv2d
from rlpyt.models.mlp import ChannelNorm
from rlpyt.models.observation import ImageShape
from rlpyt.models.utils import update_state_dict
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.testing import check_encoder

SPECTRAL = {"kind": "impala", "spectral_norm": True}


def plain(weights, x, spectral_norm):
    """Evaluate the convolutions by definition; ``weights`` are those and biases, in order."""
    remaining = iter(weights)

    def conv(x, normalized=False):
        W, b = next(remaining), next(remaining)
        if normalized:
            W = W / torch.linalg.matrix_norm(W.flatten(1), ord=2)
        return F.conv2d(x, W, b, padding=1)

    for _ in range(3):
        x = conv(x)
        half = [-(-n // 2) for n in x.shape[2:]]
        if min(half) >= 4:
            # Windows of 3 x 3 around every second pixel.
            padded = F.pad(x, (1, 1, 1, 1), value=-torch.inf)
            h, w = half
            windows = [
                padded[:, :, i : i + 2 * h - 1 : 2, j : j + 2 * w - 1 : 2]
                for i in range(3)
                for j in range(3)
            ]
            x = torch.stack(windows).amax(0)
        for _ in range(2):
            x = x + conv(conv(x.relu(), spectral_norm).relu(), spectral_norm)
    return x.relu()


def normalized_layers(model):
    return [layer for layer in model.modules() if isinstance(layer, SpectralConv2d)]


def largest_of(layer):
    """Return the largest singular value of the weight, not normalized."""
    return torch.linalg.matrix_norm(layer.weight.flatten(1), ord=2)


def estimate_of(layer):
    return (layer.weight.flatten(1) @ layer.direction).norm()


def converge(model):
    """Let the stored vectors be the leading singular vectors, of any length."""
    for layer in normalized_layers(model):
        layer.direction.copy_(3 * torch.linalg.svd(layer.weight.detach().flatten(1))[2][0])


@pytest.mark.parametrize("spectral_norm", [False, True])
@pytest.mark.parametrize("shape,width,size", [((2, 17, 15), 1, 640), ((4, 10, 10), 2, 1600)])
def test_outputs_and_gradients_are_the_definition(shape, width, size, spectral_norm):
    torch.manual_seed(0)
    model = ImpalaModel(shape, width, spectral_norm).double()
    assert len(normalized_layers(model)) == (12 if spectral_norm else 0)
    converge(model)
    x = torch.randn(2, *shape, dtype=torch.float64)
    own, expected = model(x), plain([*model.parameters()], x, spectral_norm)
    assert own[0].numel() == size == model.conv_out_size(*shape[1:])
    torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    factor = torch.randn_like(own)
    losses = [(y * factor).sum() for y in (own, expected)]
    gradients = [torch.autograd.grad(loss, model.parameters()) for loss in losses]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


def test_paper_sizes():
    model = ImpalaModel((4, 84, 84))
    assert model.conv_out_size(84, 84) == 32 * 11 * 11
    assert sum(isinstance(layer, nn.Conv2d) for layer in model.modules()) == 15


def test_an_encoder_of_a_single_image_needs_a_kind():
    with pytest.raises(ValueError, match="must have a kind, one of .'impala'"):
        AtariDqnModel((4, 10, 10), 3, 8, encoder=dict(feature_size=9))


def test_layer_norm_is_before_nonlinearities_and_pooling():
    model = AtariDqnModel((4, 10, 10), 3, 8, encoder="impala", layer_norm=True)
    layers = [*model.conv.conv.conv]
    assert [type(layer).__name__ for layer in layers[:3]] == ["Conv2d", "ChannelNorm", "MaxPool2d"]
    assert sum(isinstance(layer, ChannelNorm) for layer in model.modules()) == 3 + 6
    block = layers[3].model
    assert [type(layer).__name__ for layer in block] == [
        *("ReLU", "Conv2d", "ChannelNorm", "ReLU", "Conv2d")
    ]


@pytest.mark.parametrize("spectral_norm", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_only_normalized_convolutions_learn_at_a_high_rate(spectral_norm):
    """Losses are 0.02 to 0.04 of three seeds, without normalization 0.12, the variance."""
    torch.manual_seed(0)
    model = ImpalaModel((1, 8, 8), spectral_norm=spectral_norm)
    network = nn.Sequential(model, nn.Flatten(), nn.Linear(model.conv_out_size(8, 8), 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        x = torch.rand(32, 1, 8, 8)
        y = 5 * (x[:, 0, :4].mean((1, 2)) - x[:, 0, 4:].mean((1, 2)))
        loss = (network(x).squeeze(-1) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert (np.mean(losses[-20:]) < 0.07) == spectral_norm


def test_training_keeps_the_largest_singular_value_at_one():
    torch.manual_seed(0)
    model = ImpalaModel((3, 8, 8), spectral_norm=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 3, 8, 8)).square().mean().backward()
        optimizer.step()
    for _ in range(5):
        model(torch.zeros(1, 3, 8, 8))
    for layer in normalized_layers(model):
        assert not 0.9 < largest_of(layer) < 1.1
        assert 0.96 < estimate_of(layer) / largest_of(layer) < 1 + 1e-5


def test_evaluation_changes_nothing_and_equals_training():
    model = ImpalaModel((3, 8, 8), spectral_norm=True)
    before = copy.deepcopy(model.state_dict())
    x = torch.randn(4, 3, 8, 8)
    evaluated = model.eval()(x)
    torch.testing.assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)
    torch.testing.assert_close(model.train()(x), evaluated)
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if name.endswith("direction")}


def test_two_passes_may_precede_one_backward_pass():
    model = ImpalaModel((3, 8, 8), spectral_norm=True)
    x = torch.randn(2, 3, 8, 8)
    first = model(x)
    model(x)
    first.sum().backward()


def test_slow_targets_are_normalized_too():
    """Averages of unit vectors are shorter; torch's estimate would be too small."""
    torch.manual_seed(0)
    model, target = (ImpalaModel((3, 8, 8), spectral_norm=True) for _ in range(2))
    update_state_dict(target, model.state_dict(), tau=0.5)
    for layer in normalized_layers(target):
        assert layer.direction.norm() < 0.9
    shorter = copy.deepcopy(target)
    for layer in normalized_layers(shorter):
        layer.direction.mul_(0.3)
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(shorter(x), target.train()(x))


# Agents.

ENV_SPACES = EnvSpaces(
    GymSpaceWrapper(spaces.Box(0, 255, (10, 10, 3), "uint8")), GymSpaceWrapper(spaces.Discrete(3))
)


@pytest.mark.parametrize("kind", AGENTS)
def test_every_kind_of_action_values_has_it_and_a_target_like_it(kind):
    memory = {"memory": "lstm"} if kind == "r2d1" else {}
    agent = dqn_agent_for(kind, ENV_SPACES, model_kwargs={"encoder": SPECTRAL, **memory})
    agent.initialize(ENV_SPACES)
    model, target = agent.model, agent.target_model
    assert len(normalized_layers(model)) == len(normalized_layers(target)) == 12
    agent.train_mode(0)
    x = torch.randint(0, 256, (5, 10, 10, 3), dtype=torch.uint8)
    for _ in range(3):
        model.encode(x)[0].sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    assert not torch.allclose(target.encode(x)[0], model.encode(x)[0])
    agent.update_target()
    torch.testing.assert_close(target.encode(x)[0], model.encode(x)[0])


@pytest.mark.parametrize(
    "observation,action",
    [
        (ENV_SPACES.observation.space, spaces.Discrete(3)),
        (ENV_SPACES.observation.space, spaces.Box(-1, 1, (2,))),
        (
            spaces.Dict(a=ENV_SPACES.observation.space, b=spaces.Box(-1, 1, (2,))),
            spaces.Discrete(3),
        ),
    ],
)
@pytest.mark.parametrize("encoder", ["impala", SPECTRAL])
def test_policies_of_every_observation_with_images_have_it(observation, action, encoder):
    chosen = EnvSpaces(GymSpaceWrapper(observation), GymSpaceWrapper(action, name="act"))
    agent = agent_for(chosen, model_kwargs={"encoder": encoder})
    agent.initialize(chosen)
    assert sum(isinstance(layer, ImpalaModel) for layer in agent.model.modules()) == 1
    assert len(normalized_layers(agent.model)) == (0 if encoder == "impala" else 12)


def test_as_an_encoder():
    image = spaces.Box(0, 255, (9, 9, 3), "uint8")
    settings = {**SPECTRAL, "width": 2, "feature_size": 5}
    assert check_encoder(settings, image).ok
    encoder = ImageEncoder(ImageShape((3, 9, 9)), **settings)
    assert encoder.output_size == 5 and encoder.conv.conv.conv[0].out_channels == 32
    # Residual blocks keep their initial weights, and with them the estimates.
    for layer in normalized_layers(encoder):
        assert 0.9 < estimate_of(layer) / largest_of(layer) < 1 + 1e-5
    with pytest.raises(TypeError, match="width"):
        ImageEncoder(ImageShape((3, 9, 9)), width=2)


class Dots(ToyEnv):
    """An image with a dot, which may be black; its quarter of the image is the right action."""

    _state = ("_t", "_place")

    def __init__(self, white=255, *, seed=None):
        super().__init__(n_actions=4, obs_size=1, seed=seed)
        self._white = white
        self._observation_space = IntBox(0, 256, shape=(1, 8, 8), dtype="uint8")
        self._place = (0, 0)

    def _begin(self):
        self._place = tuple(int(i) for i in self._rng.integers(8, size=2))
        image = np.zeros((1, 8, 8), np.uint8)
        image[0][self._place] = self._white
        return image

    def step(self, action):
        row, column = self._place
        reward = float(action == 2 * (row >= 4) + (column >= 4))
        return EnvStep(self._begin(), reward, True, EnvInfo(False))


class Watch(Hook):
    """Hook that keeps the mean of the last returns, and may stop the run."""

    def __init__(self, stop_after=None):
        self.recent_return, self.stop_after = None, stop_after

    def on_iteration(self, runner, itr):
        self.recent_return = runner.recent_return
        if itr == self.stop_after:
            runner.request_stop()


def trained(
    n_steps=128,
    Sampler=SerialSampler,
    encoder=SPECTRAL,
    hook=None,
    ratio=1,
    seed=0,
    white=255,
    **kwargs,
):
    """Train on `Dots`; return the agent."""
    agent = AtariDqnAgent(eps_final=0.05, model_kwargs=dict(encoder=encoder, fc_sizes=32))
    algo = DQN(
        learning_rate=1e-3,
        batch_size=16,
        min_steps_learn=32,
        replay_size=2_000,
        replay_ratio=ratio,
        target_update_interval=2 if ratio == 1 else 10,
        eps_steps=1_000,
        discount=0.0,
    )
    sampler = Sampler(Dots, dict(white=white), batch_T=8, batch_B=2, max_decorrelation_steps=0)
    hooks = [] if hook is None else [hook]
    settings = dict(n_steps=n_steps, log_interval_steps=16, hooks=hooks, seed=seed)
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, **settings, **kwargs).train()
    return agent


def tensors_of(agent):
    states = [agent.model.state_dict(), agent.target_model.state_dict()]
    return [x.clone() for state in states for x in state.values()]


def test_workers_act_with_the_network_that_is_trained():
    agents = [trained(Sampler=Sampler) for Sampler in (SerialSampler, CpuSampler)]
    assert all(map(torch.equal, *map(tensors_of, agents)))


@pytest.mark.filterwarnings("ignore:.*hooks that this one lacks")
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    whole = trained()
    trained(hook=Watch(stop_after=4), checkpoint_dir=tmp_path)
    resumed = trained(seed=9, resume_from=tmp_path, checkpoint_dir=tmp_path / "b")
    assert all(map(torch.equal, tensors_of(whole), tensors_of(resumed)))


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["impala", SPECTRAL])
@pytest.mark.parametrize("white,learns", [(255, True), (0, False)])
def test_it_learns_where_something_is(encoder, white, learns):
    """At random the return is 0.25; seeds 0 to 3 have 0.93 to 0.96."""
    hook = Watch()
    trained(1_500, encoder=encoder, hook=hook, ratio=2, white=white)
    assert hook.recent_return > 0.85 if learns else hook.recent_return < 0.5
