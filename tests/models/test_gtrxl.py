"""Attention in blocks equals attention by its definition."""

import pytest
import torch
from torch.nn import functional as F

from rlpyt.models.gtrxl import Gtrxl, WindowState

W, H, HEADS = 3, 8, 2


def layer(**kwargs):
    torch.manual_seed(0)
    made = Gtrxl(5, H, window=W, num_heads=HEADS, **{"num_layers": 2, **kwargs})
    with torch.no_grad():
        for p in made.parameters():  # biases and gates matter
            p.add_(0.3 * torch.randn_like(p))
    return made


PROJECTIONS = {  # of a layer; the biases u and v of Dai et al. are query.bias and their difference
    "query.weight", "query.bias", "key.weight", "value.weight", "position.weight", "position_bias",
    "output.weight", "output.bias",
}  # fmt: skip


def attention_of_one(part, context, t):
    """Attention of the last step of ``context`` [n, H] to all its steps, by definition."""
    x = part.norm(context)
    n, d = len(context), H // HEADS
    names = {name for name, _ in part.named_parameters()}
    assert {x for x in names if x.split(".")[0] not in ("norm", "gate", "mlp", "mlp_gate")} == (
        PROJECTIONS
    )
    w = dict(part.named_parameters())
    query = w["query.weight"] @ x[-1] + w["query.bias"]
    key, value = x @ w["key.weight"].T, x @ w["value.weight"].T
    result = []
    for head in range(HEADS):
        own = slice(head * d, (head + 1) * d)
        scores = []
        for i in range(n):
            distance = n - 1 - i
            wave = (w["position.weight"] @ part.waves[W - distance])[own]
            content = query[own] @ key[i, own]
            scores.append(content + (query + w["position_bias"])[own] @ wave)
        weights = torch.softmax(torch.stack(scores) / d**0.5, 0)
        result.append(weights @ value[:, own])
    return w["output.weight"] @ torch.cat(result) + w["output.bias"]


def by_definition(model, inputs):
    """Outputs [T, H] of one episode [T, 5] from its start."""
    x = model.embed(inputs)
    for part in model.layers:
        after = []
        for t in range(len(x)):
            attended = attention_of_one(part, x[max(0, t - W) : t + 1], t)
            y = part.gate(x[t], F.relu(attended))
            after.append(part.mlp_gate(y, F.relu(part.mlp(y))))
        x = torch.stack(after)
    return x


@pytest.mark.parametrize("T", [1, 2, 3, 4, 7, 9])
def test_blocks_are_attention_to_the_last_steps(T):
    model, inputs = layer(), torch.randn(T, 1, 5)
    output, _ = model(inputs)
    torch.testing.assert_close(output[:, 0], by_definition(model, inputs[:, 0]), atol=1e-5, rtol=0)


def test_an_episode_is_computed_alone():
    model, inputs = layer(), torch.randn(8, 1, 5)
    starts = torch.zeros(8, 1, dtype=torch.bool)
    starts[[3, 4]] = True
    output, _ = model(inputs, None, starts)
    parts = [by_definition(model, inputs[a:b, 0]) for a, b in ((0, 3), (3, 4), (4, 8))]
    torch.testing.assert_close(output[:, 0], torch.cat(parts), atol=1e-5, rtol=0)


def test_layers_read_their_window_and_nothing_before():
    for num_layers in (1, 2):
        model, inputs = layer(num_layers=num_layers), torch.randn(12, 1, 5)
        inputs.requires_grad_()
        model(inputs)[0][-1].sum().backward()
        read = inputs.grad.abs().sum((1, 2)) > 0
        assert read.tolist() == [t >= 11 - num_layers * W for t in range(12)]


def test_the_state_is_the_window_of_the_current_episode():
    model, inputs = layer(), torch.randn(5, 2, 5)
    starts = torch.zeros(5, 2, dtype=torch.bool)
    starts[3, 1] = True
    _, state = model(inputs, None, starts)
    assert isinstance(state, WindowState)
    assert state.window.shape == (2 * W, 2, H) and state.length.shape == (1, 2, 1)
    assert state.length.flatten().tolist() == [W, 2]
    embedded = model.embed(inputs)
    torch.testing.assert_close(state.window[:W, 0], embedded[-W:, 0])
    torch.testing.assert_close(state.window[1:W, 1], embedded[-2:, 1])
    assert not state.window[0, 1].any()


def test_initial_layers_are_nearly_the_identity():
    torch.manual_seed(0)
    model, inputs = Gtrxl(5, H), torch.randn(9, 3, 5)
    embedded = model.embed(inputs)
    assert (model(inputs)[0] - embedded).std() < 0.5 * embedded.std()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(num_heads=3), "num_heads=3 .*8"),
        (dict(window=0), "window=0"),
        (dict(num_layers=0), "num_layers=0"),
    ],
)
def test_impossible_sizes_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        Gtrxl(5, H, **kwargs)
