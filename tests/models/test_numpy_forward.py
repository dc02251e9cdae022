"""Acting in numpy must be acting in torch, from parameters that change under it."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from rlpyt import CategoricalMlpAgent, SerialSampler
from rlpyt.envs.gym import make
from rlpyt.models.dqn.vector import DqnMlpModel, QrDqnMlpModel
from rlpyt.models.mlp import MlpModel
from rlpyt.models.network import VectorModel
from rlpyt.models.normalization import batch_norms
from rlpyt.models.observation import CategoryShape, ImageShape
from rlpyt.models.pg.joint import JointMlpModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.vector import (
    CategoricalMlpModel,
    GaussianMlpModel,
    MultiCategoricalMlpModel,
)
from rlpyt.models.qpg.mlp import JointPiMlpModel, MuMlpModel, PiMlpModel
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.shared import Arena

Shape = namedarraytuple("Shape", ["position", "button"])
COMPOSITE = Shape((2, 2), ())

MODELS = {
    "categorical": lambda: CategoricalMlpModel((4,), 3),
    "two actions": lambda: CategoricalMlpModel((4,), 2),
    "one action": lambda: CategoricalMlpModel((4,), 1),
    "many actions": lambda: CategoricalMlpModel((4,), 9, hidden_sizes=[16]),
    "shared": lambda: CategoricalMlpModel((4,), 3, shared=True),
    "linear": lambda: CategoricalMlpModel((4,), 3, hidden_sizes=[]),
    "relu": lambda: CategoricalMlpModel((2, 2), 3, nonlinearity=nn.ReLU),
    "sigmoid": lambda: CategoricalMlpModel((4,), 3, nonlinearity=nn.Sigmoid),
    "multi": lambda: MultiCategoricalMlpModel((4,), [3, 1, 6]),
    "binary": lambda: MultiCategoricalMlpModel((4,), [2, 2, 2]),
    "gaussian": lambda: GaussianMlpModel((4,), 2, init_log_std=-0.5),
    "normalized": lambda: GaussianMlpModel((4,), 2, normalize_observation=True, norm_obs_clip=1.5),
    "normalized actions": lambda: CategoricalMlpModel((4,), 3, normalize_observation=True),
    "mujoco": lambda: MujocoFfModel((4,), 2),
    "joint": lambda: JointMlpModel((4,), [(3,), 2, (2, 2), 1, (2, 3)], init_log_std=-0.5),
    "joint, shared": lambda: JointMlpModel((4,), [(2, 2), (2, 2)], shared=True),
    "joint, one part": lambda: JointMlpModel((4,), [2]),
    "batch renorm": lambda: PiMlpModel((4,), [16, 8], 2, normalization="batch_renorm").eval(),
    "normalized before": lambda: PiMlpModel(
        (4,), [16, 8], 2, normalization=dict(kind="batch", before=True, unit_weights="all")
    ).eval(),
    "composite": lambda: CategoricalMlpModel(COMPOSITE, 3),
    "bounded": lambda: MuMlpModel((4,), [8], 2, output_max=2.5),
    "dueling": lambda: DqnMlpModel((4,), 3, dueling=True),
    "quantiles": lambda: QrDqnMlpModel((4,), 3, dueling=True),
    "joint, off policy": lambda: JointPiMlpModel((4,), [8], [(3,), 2, (2, 2)]),
}


def build(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    if hasattr(model, "obs_rms"):
        model.update_obs_rms(2 + 3 * torch.randn(50, 4))
    for norm in batch_norms(model):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.3, 3)
    return model


def observe(model, B, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = model._observation_shape
    if hasattr(shape, "_fields"):
        return Shape._make(torch.randn(B, *part, generator=generator) for part in shape)
    return 2 * torch.randn(B, *shape, generator=generator)


def numpify(tree):
    return tree._make(x.numpy() for x in tree) if isinstance(tree, tuple) else tree.numpy()


def assert_agrees(model, function, B=5, seed=0):
    observation = observe(model, B, seed)
    with torch.no_grad():
        expected = model(observation, None, None)
    expected = expected if isinstance(expected, tuple) else (expected,)
    result = function(numpify(observation))
    assert len(result) == len(expected)
    for own, theirs in zip(result, expected):
        assert own.shape == theirs.shape
        assert own.dtype == np.float32
        atol = 1e-6 * max(1, theirs.abs().max().item())
        np.testing.assert_allclose(own, theirs.numpy(), rtol=1e-6, atol=atol)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("live", [True, False])
def test_same_outputs_as_torch(name, live):
    model = build(name)
    function = model.numpy_forward(live=live)
    for B in (5, 1, 40, 5):
        assert_agrees(model, function, B, seed=B)


@pytest.mark.parametrize("name", ["categorical", "normalized", "shared"])
def test_live_functions_see_updates_at_once(name):
    model = build(name)
    function = model.numpy_forward()
    assert_agrees(model, function)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    sum(out.sum() for out in model(observe(model, 5), None, None)).backward()
    optimizer.step()
    if name == "normalized":
        model.update_obs_rms(observe(model, 9))
    assert_agrees(model, function)


def test_others_see_updates_when_refreshed():
    model = build("categorical")
    function = model.numpy_forward(live=False)
    before = function(np.ones((2, 4), np.float32))[0].copy()
    with torch.no_grad():
        model.pi.model[0].weight.mul_(-1)
        model.pi.model[2].bias.add_(1)
    np.testing.assert_array_equal(function(np.ones((2, 4), np.float32))[0], before)
    assert model.numpy_forward(live=False) is function  # asked for again, it has been refreshed
    assert_agrees(model, function)
    assert_agrees(model, function, B=11)


def test_parameters_that_move_are_found_again():
    model = build("categorical")
    stale = model.numpy_forward()
    moved = torch.from_numpy(Arena().allocate((64, 4), np.float32))
    moved.copy_(-model.pi.model[0].weight.detach())
    model.pi.model[0].weight.data = moved
    function = model.numpy_forward()
    assert function is not stale
    assert_agrees(model, function)
    model.value = copy.deepcopy(model.value)
    assert model.numpy_forward() is not function


def test_replaced_layers_are_followed():
    model = build("categorical")
    function = model.numpy_forward()
    assert model.numpy_forward() is function
    model.pi.model[1] = nn.ReLU()
    other = model.numpy_forward()
    assert other is not function
    assert_agrees(model, other)
    model.pi.model[0].weight = nn.Parameter(-model.pi.model[0].weight.detach())
    assert_agrees(model, model.numpy_forward())
    hook = model.pi.model[1].register_forward_hook(lambda module, args, out: -out)
    assert model.numpy_forward() is None
    hook.remove()
    assert_agrees(model, model.numpy_forward())


def test_copies_of_the_model_compile_their_own():
    model = build("categorical")
    function = model.numpy_forward()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            other.pi.model[0].weight.mul_(-1)
        assert_agrees(other, other.numpy_forward())
    assert_agrees(model, function)


def test_observations_of_other_dtypes_layouts_and_shared_memory():
    model = build("categorical")
    function = model.numpy_forward()
    integers = np.arange(24).reshape(6, 4)
    expected = function(integers.astype(np.float32))[0].copy()
    shared = Arena().allocate((6, 4), np.float32)
    shared[:] = integers
    wide = np.repeat(integers.astype(np.float32), 2, axis=1)[:, ::2]
    for observation in (integers, integers.astype(np.uint8), integers.astype(float), shared, wide):
        np.testing.assert_array_equal(function(observation)[0], expected)
    with torch.no_grad():
        torch_pi = model(torch.from_numpy(integers))[0]
    np.testing.assert_allclose(expected, torch_pi, atol=1e-6)


def test_extreme_logits_stay_probabilities():
    model = build("two actions")
    with torch.no_grad():
        model.pi.model[-1].weight.mul_(1e4)
    pi = model.numpy_forward()(np.random.default_rng(0).normal(size=(50, 4)))[0]
    assert np.isfinite(pi).all()
    np.testing.assert_allclose(pi.sum(-1), 1, rtol=1e-6)


def hooked():
    model = build("categorical")
    model.pi.model[1].register_forward_hook(lambda module, args, out: -out)
    return model


@pytest.mark.parametrize(
    "model",
    [
        CategoricalMlpModel((4,), 3, nonlinearity=nn.ELU),
        CategoricalMlpModel((4,), 3).double(),
        CategoricalMlpModel((4,), 3).to("meta"),
        hooked(),
        DqnMlpModel((4,), 3, noisy=True),
        DqnMlpModel((4,), 3, layer_norm=True),
        PiMlpModel((4,), [8], 2, residual="simba"),
    ],
    ids=["module", "float64", "device", "hook", "noisy", "layer norm", "residual"],
)
def test_none_where_numpy_could_not_follow(model):
    assert model.numpy_forward() is None


@pytest.mark.parametrize("method", ["forward", "encode", "read", "heads", "__call__"])
def test_a_model_that_replaces_methods_acts_in_torch(method):
    def own(self, *args):
        return getattr(CategoricalMlpModel, method)(self, *args)

    cls = type("Replaced", (CategoricalMlpModel,), {method: own})
    assert type("Plain", (CategoricalMlpModel,), {})((4,), 3).numpy_forward() is not None
    assert cls((4,), 3).numpy_forward() is None


class Doubled(MlpModel):
    def forward(self, input):
        return 2 * super().forward(input)


@pytest.mark.parametrize("part", ["value", "pi.model.2", "pi"])
def test_a_part_of_another_class_acts_in_torch(part):
    model = build("categorical")
    model.numpy_forward()
    old = model.get_submodule(part)
    model.set_submodule(part, Doubled(old.in_features if part == "pi.model.2" else 4, [8], 3))
    assert model.numpy_forward() is None


def test_a_compiled_part_acts_in_torch():
    model = build("categorical")
    model.pi = torch.compile(model.pi, backend="eager")
    assert model.numpy_forward() is None
    assert torch.isfinite(model(observe(model, 2), None, None)[0]).all()


@pytest.mark.parametrize("patched", ["", "pi", "pi.model.0", "pi.model.1"])
def test_a_patched_method_is_called(patched):
    model = build("categorical")
    assert model.numpy_forward(live=False) is not None
    part = model.get_submodule(patched)
    part.forward = lambda *args: type(part).forward(part, *args)
    assert model.numpy_forward(live=False) is None
    del part.forward
    assert_agrees(model, model.numpy_forward(live=False))
    model.heads = lambda features: type(model).heads(model, features)
    assert model.numpy_forward(live=False) is None


class Indexed(VectorModel):
    """Heads whose trace would have a constant instead of an order and of noise."""

    def __init__(self, observation_shape, output_size):
        super().__init__(observation_shape)
        self.pi = MlpModel(self.observation_size, [8], output_size)
        self.value = MlpModel(self.observation_size, [8], 1)

    def heads(self, features):
        logits = self.pi(features)[..., [1, 0]]
        noise = torch.rand(2) * self.training
        return torch.softmax(logits + noise, -1), self.value(features).squeeze(-1)


def test_custom_heads_are_trained_as_they_act():
    sampler = SerialSampler(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=16, batch_B=2)
    agent = CategoricalMlpAgent(ModelCls=Indexed)
    sampler.initialize(agent, seed=0, bootstrap_value=True)
    agent.sample_mode(0)
    samples, _ = sampler.obtain_samples(0)
    agent.eval_mode(0)
    with torch.no_grad():
        dist_info, _ = agent(samples.env.observation, None, None)
    acted = samples.agent.agent_info.dist_info.prob
    sampler.shutdown()
    torch.testing.assert_close(acted, dist_info.prob)


def test_settings_that_the_heads_read_are_followed():
    model = MuMlpModel((4,), [8], 2)
    observation = torch.randn(3, 4)
    for scale in (2.0, 5.0):
        model.output_max = scale
        with torch.no_grad():
            expected = model(observation)
        (found,) = model.numpy_forward(live=False)(observation.numpy())
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_categories_are_read_in_numpy_and_images_in_torch():
    shape = namedarraytuple("Parts", ["kind", "at"])(CategoryShape((), [3]), (2,))
    model = CategoricalMlpModel(shape, 3)
    observation = type(shape)(torch.tensor([2, 0, 1]), torch.randn(3, 2))
    with torch.no_grad():
        expected = model(observation)
    for own, theirs in zip(model.numpy_forward()(numpify(observation)), expected):
        np.testing.assert_allclose(own, theirs, rtol=1e-6, atol=1e-6)
    assert CategoricalMlpModel(shape, 3, normalize_observation=True).numpy_forward() is None
    assert CategoricalMlpModel(ImageShape((3, 8, 8)), 3).numpy_forward() is None
