"""Policies and critics: shapes, ranges, critics joined and alone, observation statistics."""

import numpy as np
import pytest
import torch

from rlpyt.models.ensemble import split_members
from rlpyt.models.qpg.mlp import MuMlpModel, PiMlpModel, QofMuMlpModel, VMlpModel
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.collections import namedarraytuple

T, B, O, A, E, N = 4, 3, 5, 2, 3, 6
Shape = namedarraytuple("Shape", ["position", "button"])
LEADS = [(), (B,), (T, B)]


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("n_critics", [None, 1, E])
@pytest.mark.parametrize("n_quantiles", [None, N])
def test_shapes_follow_leading_dimensions(lead, n_critics, n_quantiles):
    q = QofMuMlpModel((O,), [8], A, n_critics=n_critics, n_quantiles=n_quantiles)
    o, a = torch.randn(*lead, O), torch.rand(*lead, A)
    members = () if n_critics is None else (n_critics,)
    quantiles = () if n_quantiles is None else (n_quantiles,)
    assert q(o, None, None, a).shape == (*members, *lead, *quantiles)
    if n_critics is not None:
        assert q(o, None, None, a, member=0).shape == (*lead, *quantiles)
    assert MuMlpModel((O,), [8], A)(o).shape == (*lead, A)
    assert [x.shape for x in PiMlpModel((O,), [8], A)(o)] == [(*lead, A)] * 2
    assert VMlpModel((O,), [8])(o).shape == lead


@pytest.mark.parametrize("Model", [MuMlpModel, PiMlpModel, VMlpModel, QofMuMlpModel])
def test_observations_of_any_structure_and_number(Model):
    model = Model(Shape((2, 2), ()), [8], action_size=A)
    flat = Model((O,), [8], action_size=A)
    flat.load_state_dict(model.state_dict())
    position, button = torch.randint(0, 9, (T, B, 2, 2)), torch.randint(0, 2, (T, B)).bool()
    vector = torch.cat([position.reshape(T, B, 4).float(), button[..., None].float()], -1)
    rest = (None, None, torch.rand(T, B, A)) if Model is QofMuMlpModel else ()
    torch.testing.assert_close(model(Shape(position, button), *rest), flat(vector, *rest))


@pytest.mark.parametrize("memory", ["gru", "lstm", "mingru"])
@pytest.mark.parametrize("Model", [MuMlpModel, PiMlpModel, VMlpModel, QofMuMlpModel])
def test_a_memory_reads_what_came_before_and_the_head_the_observation_again(Model, memory):
    torch.manual_seed(0)
    model = Model((O,), [8], action_size=A, memory=memory, lstm_size=6)
    inputs = torch.randn(T, B, O), torch.randn(T, B, A), torch.randn(T, B)
    action = torch.randn(T, B, A)
    more = (None, None, action) if Model is QofMuMlpModel else ()
    found, after = model.head_inputs(*inputs)
    assert found.features.shape == (T, B, 6 + O) and found.mask is None
    assert torch.equal(found.features[..., 6:], inputs[0])
    outputs, state = model(found, *more), None
    if Model is not QofMuMlpModel:
        whole, state = model(*inputs)[:-1], model(*inputs)[-1]
        torch.testing.assert_close(whole if len(whole) > 1 else whole[0], outputs)
    state = None
    for t in range(T):
        step, state = model.head_inputs(*(x[t] for x in inputs), state)
        torch.testing.assert_close(step.features, found.features[t])
    for a, b in zip(leaves_of(state), leaves_of(after), strict=True):
        torch.testing.assert_close(a, b)
    assert model.takes_starts == (memory == "mingru") and not model.observation_only
    assert model.numpy_forward() is None


def test_a_deterministic_policy_stays_within_bounds():
    model = MuMlpModel((O,), [8], A, output_max=0.7)
    out = model(1000 * torch.randn(200, O))
    assert out.abs().max() <= 0.7 and out.abs().max() > 0.69
    x = model.mlp(torch.ones(1, O))
    torch.testing.assert_close(model(torch.ones(1, O)), 0.7 * torch.tanh(x))


def test_mean_comes_before_log_std():
    model = PiMlpModel((O,), [8], A)
    with torch.no_grad():
        model.mlp.model[-1].weight.zero_()
        model.mlp.model[-1].bias.copy_(torch.arange(4.0))
    mean, log_std = model(torch.randn(B, O))
    assert mean.tolist() == [[0, 1]] * B and log_std.tolist() == [[2, 3]] * B


FORMS = {
    "plain": {},
    "layer norm": dict(layer_norm=True),
    "dropout": dict(dropout=0.2, layer_norm=True),
    "quantiles": dict(n_quantiles=N),
    "normalised observations": dict(normalize_observation=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_joined_critics_are_separate_ones_of_their_states(form):
    torch.manual_seed(0)
    kwargs = dict(observation_shape=(O,), hidden_sizes=[8, 7], action_size=A, **FORMS[form])
    joined = QofMuMlpModel(n_critics=E, **kwargs).eval()
    o, a = 3 * torch.randn(T, B, O), torch.rand(T, B, A)
    if hasattr(joined, "obs_rms"):
        joined.update_obs_rms(5 + o)
    out = joined(o, None, None, a)
    target = torch.randn_like(out)
    ((out - target) ** 2).sum().backward()
    for i, state in enumerate(split_members(joined, E)):
        alone = QofMuMlpModel(**kwargs).eval()
        alone.load_state_dict(state)
        own = alone(o, None, None, a)
        torch.testing.assert_close(own, out[i], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(joined(o, None, None, a, member=i), own, rtol=1e-4, atol=1e-5)
        ((own - target[i]) ** 2).sum().backward()
        for p, q in zip(joined.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(p.grad[i], q.grad, rtol=1e-3, atol=1e-5)


def test_critics_look_at_observation_and_action():
    q = QofMuMlpModel((O,), [8], A, n_critics=E)
    o, a = torch.randn(B, O, requires_grad=True), torch.rand(B, A, requires_grad=True)
    q(o, None, None, a).sum().backward()
    assert (o.grad != 0).all() and (a.grad != 0).all()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("Model", [MuMlpModel, PiMlpModel])
@pytest.mark.parametrize("shape", [(O,), Shape((2, 2), ())])
def test_acting_in_numpy_is_acting_in_torch(Model, normalize, shape):
    torch.manual_seed(0)
    kwargs = dict(output_max=0.8) if Model is MuMlpModel else {}
    model = Model(shape, [16, 16], A, normalize_observation=normalize, norm_obs_clip=1.5, **kwargs)
    flat = 4 * torch.randn(B, O)
    o = flat if shape == (O,) else Shape(flat[:, :4].reshape(B, 2, 2), flat[:, 4])
    model.update_obs_rms(o)
    as_numpy = o.numpy() if shape == (O,) else Shape(*(x.numpy() for x in o))
    for _ in range(2):
        expected = model(o)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = model.numpy_forward(live=False)(as_numpy)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1)


def test_a_subclass_with_another_forward_does_not_act_in_numpy():
    class Other(MuMlpModel):
        def forward(self, *args):
            return -super().forward(*args)

    assert Other((O,), [8], A).numpy_forward() is None


@pytest.mark.parametrize("Model", [MuMlpModel, PiMlpModel, VMlpModel, QofMuMlpModel])
def test_parameters_have_rlpyts_names(Model):
    """Snapshots of rlpyt's policies and critics can therefore be loaded."""
    names = [f"mlp.model.{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")]
    assert list(Model((O,), [8, 7], action_size=A).state_dict()) == names
