"""Properties of all policy-gradient models, and of single ones."""

import copy
import pickle

import pytest
import torch
from torch import nn

from rlpyt.models.network import to_unit_floats
from rlpyt.models.pg import atari_lstm_model, mujoco_lstm_model
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.pg.vector import (
    CategoricalLstmModel,
    CategoricalMlpModel,
    GaussianLstmModel,
    GaussianMlpModel,
    MultiCategoricalMlpModel,
)
from rlpyt.models.recurrent import RnnState
from rlpyt.utils.collections import namedarraytuple

T, B, A, O, H = 5, 3, 4, 6, 7
IMAGE = (2, 20, 18)
SMALL = dict(channels=[3, 4], kernel_sizes=[4, 3], strides=[2, 2], fc_sizes=8)

# name: (build, observation shape, is recurrent, trailing shapes of the outputs but rnn_state)
MODELS = {
    "AtariFf": (lambda: AtariFfModel(IMAGE, A, **SMALL), IMAGE, False, [(A,), ()]),
    "AtariLstm": (
        lambda: AtariLstmModel(IMAGE, A, lstm_size=H, **SMALL),
        IMAGE,
        True,
        [(A,), ()],
    ),
    "MujocoFf": (lambda: MujocoFfModel((O,), A), (O,), False, [(A,), (A,), ()]),
    "MujocoFf normalized": (
        lambda: MujocoFfModel((O,), A, normalize_observation=True),
        (O,),
        False,
        [(A,), (A,), ()],
    ),
    "MujocoLstm": (
        lambda: MujocoLstmModel((O,), A, [8], lstm_size=H, normalize_observation=True),
        (O,),
        True,
        [(A,), (A,), ()],
    ),
    "CategoricalMlp": (lambda: CategoricalMlpModel((O,), A), (O,), False, [(A,), ()]),
    "CategoricalMlp shared": (
        lambda: CategoricalMlpModel((O,), A, shared=True),
        (O,),
        False,
        [(A,), ()],
    ),
    "MultiCategoricalMlp": (
        lambda: MultiCategoricalMlpModel((2, 3), [3, 1]),
        (2, 3),
        False,
        [(4,), ()],
    ),
    "GaussianMlp": (lambda: GaussianMlpModel((O,), A), (O,), False, [(A,), (A,), ()]),
    "CategoricalLstm": (
        lambda: CategoricalLstmModel((O,), A, [8], lstm_size=H),
        (O,),
        True,
        [(A,), ()],
    ),
    "GaussianLstm": (
        lambda: GaussianLstmModel((O,), A, [8], lstm_size=H),
        (O,),
        True,
        [(A,), (A,), ()],
    ),
}
RECURRENT = [name for name, spec in MODELS.items() if spec[2]]


def build(name):
    torch.manual_seed(0)
    make, shape, recurrent, outputs = MODELS[name]
    return make(), shape, recurrent, outputs


def make_inputs(shape, *lead):
    if len(shape) == 3:
        observation = torch.randint(0, 256, (*lead, *shape), dtype=torch.uint8)
    else:
        observation = torch.randn(*lead, *shape)
    prev_action = nn.functional.one_hot(torch.randint(0, A, lead), A).float()
    return observation, prev_action, torch.randn(lead)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_outputs_have_the_leading_dimensions_of_the_input(name, lead):
    model, shape, recurrent, outputs = build(name)
    result = model(*make_inputs(shape, *lead), *([None] if recurrent else []))
    if recurrent:
        *result, state = result
        assert isinstance(state, RnnState)
        assert state.h.shape == state.c.shape == (1, lead[-1] if lead else 1, H)
    assert [tuple(x.shape) for x in result] == [lead + tail for tail in outputs]
    assert all(x.dtype == torch.float32 for x in result)


@pytest.mark.parametrize("name", MODELS)
def test_acting_step_by_step_is_training_on_the_sequence(name):
    model, shape, recurrent, _ = build(name)
    inputs = make_inputs(shape, T, B)
    state = RnnState(torch.randn(1, B, H), torch.randn(1, B, H)) if recurrent else None
    whole = model(*inputs, *([state] if recurrent else []))
    assert all(x.requires_grad for x in whole[:2])
    for t in range(T):
        with torch.no_grad():
            step = model(*(x[t] for x in inputs), *([state] if recurrent else []))
        if recurrent:
            *step, state = step
        for own, theirs in zip(step, whole):
            torch.testing.assert_close(own, theirs[t], rtol=1e-4, atol=1e-5)
    if recurrent:
        torch.testing.assert_close(tuple(state), tuple(whole[-1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_recorded_outputs_do_not_follow_later_updates(name):
    model, shape, recurrent, _ = build(name)
    inputs = (*make_inputs(shape, B), *([None] if recurrent else []))
    with torch.no_grad():
        record = model(*inputs)
        record = record[:-1] if recurrent else record
        before = [x.numpy().copy() for x in record]
        for parameter in model.parameters():
            parameter.add_(1)
    for own, theirs in zip(record, before):
        assert (own.numpy() == theirs).all()


@pytest.mark.parametrize("name", RECURRENT)
def test_memory_starts_at_zero_and_matters(name):
    model, shape, _, _ = build(name)
    inputs = make_inputs(shape, T, B)
    nothing = model(*inputs, None)
    zeros = RnnState(torch.zeros(1, B, H), torch.zeros(1, B, H))
    torch.testing.assert_close(model(*inputs, zeros)[0], nothing[0])
    record = torch.randn(B, 1, H)  # as agents keep it; transposed it is not contiguous
    other = model(*inputs, RnnState(record.transpose(0, 1), record.transpose(0, 1)))
    assert not torch.allclose(other[0][0], nothing[0][0], atol=1e-6)


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("which", [1, 2])
def test_previous_action_and_reward_reach_the_memory(name, which):
    model, shape, _, _ = build(name)
    inputs = list(make_inputs(shape, T, B))
    before = model(*inputs, None)
    inputs[which] = inputs[which] + 1
    after = model(*inputs, None)
    assert not torch.allclose(before[-2], after[-2], atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_gradient_reaches_every_parameter(name):
    model, shape, recurrent, _ = build(name)
    result = model(*make_inputs(shape, T, B), *([None] if recurrent else []))
    if recurrent:
        result = result[:-1]
    sum((x * torch.randn_like(x)).sum() for x in result).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert (parameter.grad != 0).any(), parameter_name


@pytest.mark.parametrize("name", MODELS)
def test_models_pickle_copy_and_load(name):
    model, shape, recurrent, _ = build(name)
    inputs = (*make_inputs(shape, B), *([None] if recurrent else []))
    expected = model(*inputs)[0]
    torch.manual_seed(9)
    fresh = MODELS[name][0]()
    fresh.load_state_dict(model.state_dict())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), fresh):
        assert torch.equal(other(*inputs)[0], expected)


@pytest.mark.parametrize(
    "name", ["AtariFf", "AtariLstm", "CategoricalMlp", "CategoricalLstm", "CategoricalMlp shared"]
)
def test_pi_is_a_distribution(name):
    model, shape, recurrent, _ = build(name)
    pi = model(*make_inputs(shape, B), *([None] if recurrent else []))[0]
    torch.testing.assert_close(pi.sum(-1), torch.ones(B))
    assert (pi > 0).all()


def test_each_part_of_multi_categorical_pi_is_a_distribution():
    model = MultiCategoricalMlpModel((O,), [3, 1, 2])
    pi, _ = model(torch.randn(B, O))
    for part in pi.split([3, 1, 2], dim=-1):
        torch.testing.assert_close(part.sum(-1), torch.ones(B))


def test_images_are_scaled_to_one():
    model, shape, *_ = build("AtariFf")
    image = make_inputs(shape, B)[0]
    for other in (image.float(), image.double().float()):
        torch.testing.assert_close(model(image)[0], model(other)[0])
    seen = []
    model.conv.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model(torch.full((B, *IMAGE), 255, dtype=torch.uint8))
    torch.testing.assert_close(seen[0], torch.ones(B, *IMAGE))


def test_images_of_false_and_true_become_zeros_and_ones():
    image = torch.rand(B, *IMAGE) < 0.5
    floats = to_unit_floats(image)
    assert floats.dtype == torch.float32 and torch.equal(floats.bool(), image)
    assert set(floats.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_images_of_other_floats_are_converted(dtype):
    model, shape, *_ = build("AtariFf")
    image, *others = make_inputs(shape, B)
    for x, y in zip(model(image.to(dtype), *others), model(image.float(), *others)):
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, y)


def test_images_given_as_floats_are_left_alone():
    model, shape, *_ = build("AtariFf")
    image = make_inputs(shape, B)[0].float()
    before = image.clone()
    model(image)
    assert torch.equal(image, before)


def test_default_atari_network_is_that_of_the_documentation():
    model = AtariFfModel((4, 104, 80), 6)
    shapes = [tuple(p.shape) for p in model.conv.parameters() if p.dim() > 1]
    assert shapes == [(16, 4, 8, 8), (32, 16, 4, 4), (512, 32 * 12 * 9)]
    assert next(iter(model.state_dict())) == "conv.conv.conv.0.weight"


def test_initial_weights_of_ready_models():
    """An undecided policy, whatever is seen; a value of ordinary size."""
    torch.manual_seed(0)
    observation = 5 * torch.randn(200, O)
    pi, value = CategoricalMlpModel((O,), A)(observation)
    assert (pi - 1 / A).abs().max() < 0.01
    assert 0.1 < value.std() < 3
    mu, log_std, value = GaussianMlpModel((O,), A, init_log_std=-0.7)(observation)
    assert mu.abs().max() < 0.05
    assert (log_std == -0.7).all()
    assert 0.1 < value.std() < 3


def test_mu_nonlinearity_bounds_the_mean():
    torch.manual_seed(0)
    bounded, free = MujocoFfModel((O,), A), MujocoFfModel((O,), A, mu_nonlinearity=None)
    with torch.no_grad():
        for last in (bounded.mu[0].model[-1], free.mu.model[-1]):
            last.bias.fill_(5.0)
    assert (bounded(torch.randn(B, O))[0] <= 1).all()
    assert (free(torch.randn(B, O))[0] > 1).all()


@pytest.mark.parametrize(
    "cls",
    [
        *(MujocoFfModel, MujocoLstmModel, GaussianMlpModel, GaussianLstmModel),
        *(CategoricalMlpModel, CategoricalLstmModel),
        lambda shape, n, **kwargs: MultiCategoricalMlpModel(shape, [n, 2], **kwargs),
    ],
)
def test_observation_statistics_normalize_the_input(cls):
    torch.manual_seed(0)
    model = cls((O,), A, normalize_observation=True)
    plain = cls((O,), A)
    plain.load_state_dict(
        {k: v for k, v in model.state_dict().items() if not k.startswith("obs_rms")}
    )
    data = 3 + 2 * torch.randn(T, B, O)
    model.update_obs_rms(data)
    plain.update_obs_rms(data)  # nothing to keep, nothing happens
    scaled = (data - data.mean((0, 1))) / data.flatten(0, 1).std(0, correction=0)
    rest = make_inputs((O,), T, B)[1:]
    own, expected = model(data, *rest)[:2], plain(scaled, *rest)[:2]
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(own[0], plain(data, *rest)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cls", [CategoricalMlpModel, GaussianMlpModel])
def test_composite_observations_are_flattened_and_joined(cls):
    Shape = namedarraytuple("Shape", ["position", "inner"])
    Inner = namedarraytuple("Inner", ["button", "grid"])
    torch.manual_seed(0)
    model = cls(Shape((2,), Inner((), (2, 2))), A)
    position, button = torch.randn(T, B, 2), torch.randint(0, 9, (T, B))
    grid = torch.randint(0, 255, (T, B, 2, 2), dtype=torch.uint8)
    flat = torch.cat(
        [position, button.float().unsqueeze(-1), grid.float().reshape(T, B, 4)], dim=-1
    )
    plain = cls((7,), A)
    plain.load_state_dict(model.state_dict())
    result = model(Shape(position, Inner(button, grid)))[0]
    assert torch.equal(result, plain(flat)[0])
    one = model(Shape(position[0, 0], Inner(button[0, 0], grid[0, 0])))[0]
    torch.testing.assert_close(one, result[0, 0])


def test_integer_observations_are_cast():
    model = CategoricalMlpModel((O,), A)
    observation = torch.arange(B * O).reshape(B, O)
    for dtype in (torch.uint8, torch.int64, torch.float64):
        assert torch.equal(model(observation.to(dtype))[0], model(observation.float())[0])
    scalar = CategoricalMlpModel((), A)
    assert scalar(torch.tensor([3, 1, 2]))[0].shape == (3, A)


def test_wrong_observation_shapes_are_named():
    with pytest.raises(ValueError, match=r"\(3, 3, 2\) must end"):
        CategoricalMlpModel((2, 3), A)(torch.zeros(B, 3, 2))


def test_rnn_state_is_one_type():
    assert atari_lstm_model.RnnState is RnnState
    assert mujoco_lstm_model.RnnState is RnnState


@pytest.mark.parametrize("name", ["AtariFf", "CategoricalMlp", "MujocoFf", "CategoricalLstm"])
def test_outputs_stay_float32_under_autocast(name):
    model, shape, recurrent, outputs = build(name)
    with torch.autocast("cpu", torch.bfloat16):
        result = model(*make_inputs(shape, T, B), *([None] if recurrent else []))
    assert all(x.dtype == torch.float32 for x in result[: len(outputs)])


def test_both_atari_models_see_with_the_same_network():
    options = dict(use_maxpool=True, fc_sizes=[8, 5], paddings=[1, 0])
    ff, lstm = (cls((4, 104, 80), A, **options) for cls in (AtariFfModel, AtariLstmModel))
    assert str(ff.conv) == str(lstm.conv) and "MaxPool2d" in str(ff.conv)
