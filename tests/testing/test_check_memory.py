"""``check_memory`` passes valid recurrent layers and reports each fault of others."""

from collections import namedtuple

import pytest
import torch
from torch import nn

from rlpyt.models.blocks import make_lnlstm
from rlpyt.models.mingru import MinGru
from rlpyt.models.recurrent import MEMORIES
from rlpyt.testing import ConformanceError, check_memory
from rlpyt.testing.memory import CHECKS
from tests.cases import product_of

Pair = namedtuple("Pair", ["now", "before"])


def two_layers(input_size, size):
    return make_lnlstm(input_size, size, num_layers=2)


class Trace(nn.Module):
    """A decaying sum of the inputs; its state is a named tuple."""

    def __init__(self, input_size, size):
        super().__init__()
        self.inputs = nn.Linear(input_size, size)

    def forward(self, input, state=None):
        zeros = input.new_zeros(1, input.shape[1], self.inputs.out_features)
        now, before = (zeros, zeros) if state is None else (state.now, state.before)
        outputs = []
        for x in self.inputs(input):
            before, now = now, 0.5 * now + x
            outputs.append(now + before)
        return torch.cat(outputs), Pair(now, before)


class FastWeights(nn.Module):
    """An associative memory; its state is a matrix, [1, B, H, H]."""

    def __init__(self, input_size, size, decay=0.9):
        super().__init__()
        self.decay, self.size = decay, size
        self.keys, self.values, self.queries = (nn.Linear(input_size, size) for _ in range(3))

    def forward(self, input, state=None):
        zeros = input.new_zeros(input.shape[1], self.size, self.size)
        weights = zeros if state is None else state[0]
        values, queries = self.values(input)[..., None], self.queries(input)[..., None]
        outputs = []
        for t, key in enumerate(torch.softmax(self.keys(input), -1)[..., None, :]):
            weights = self.decay * weights + values[t] * key
            outputs.append((weights @ queries[t]).squeeze(-1))
        return torch.stack(outputs), weights[None]


VALID = [
    *MEMORIES,
    dict(kind="mingru", num_layers=2),
    dict(kind="gtrxl", window=3),
    dict(kind="gtrxl", window=9, num_layers=1),
    dict(kind="gru", num_layers=2),
    nn.GRU,
    two_layers,
    Trace,
    FastWeights,
    dict(kind=FastWeights, decay=0.5),
]


@pytest.mark.parametrize(
    "memory, seed",
    product_of(  # GTrXL takes most of the time
        VALID,
        range(3),
        fast=[(m, seed) for m in VALID for seed in (range(1) if "gtrxl" in str(m) else range(3))],
    ),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_memories_pass(memory, seed):
    report = check_memory(memory, T=11, seed=seed)
    takes_starts = str(memory).find("mingru") >= 0 or str(memory).find("gtrxl") >= 0
    assert {*report.passed} == {*CHECKS}
    assert bool([f for f in report.findings if f.check == "starts"]) != takes_starts


class NoParameters(MinGru):
    def __init__(self, input_size, size):
        super().__init__(input_size, size)
        self.requires_grad_(False)


class LastOutput(nn.GRU):
    def forward(self, input, state=None):
        output, state = super().forward(input, state)
        return output[-1], state


class BatchFirst(nn.GRU):
    def forward(self, input, state=None):
        output, state = super().forward(input, None if state is None else state.transpose(0, 1))
        return output, state.transpose(0, 1)


class OnesAtStart(nn.GRU):
    def forward(self, input, state=None):
        if state is None:
            state = input.new_ones(1, input.shape[1], self.hidden_size)
        return super().forward(input, state)


class Forgets(nn.GRU):
    def forward(self, input, state=None):
        outputs = [super(Forgets, self).forward(x, None) for x in input.split(1)]
        return torch.cat([o for o, _ in outputs]), outputs[-1][1]


class LooksAhead(nn.GRU):
    def forward(self, input, state=None):
        return super().forward(input + input[-1:], state)


class MixesRows(nn.GRU):
    def forward(self, input, state=None):
        return super().forward(input - input.mean(1, keepdim=True), state)


class AddsRowsBefore(nn.GRU):
    def forward(self, input, state=None):
        return super().forward(input.cumsum(1), state)


class IgnoresStarts(MinGru):
    def forward(self, input, state=None, starts=None):
        return super().forward(input, state)


class Detaches(nn.GRU):
    def forward(self, input, state=None):
        outputs = []
        for x in input.split(1):
            output, state = super().forward(x, None if state is None else state.detach())
            outputs.append(output)
        return torch.cat(outputs), state


class DetachesAtStart(nn.GRU):
    def forward(self, input, state=None):
        return super().forward(input, None if state is None else state.detach())


class Unused(MinGru):
    def __init__(self, input_size, size):
        super().__init__(input_size, size)
        self.unused = nn.Linear(2, 2)


class HiddenScale(nn.GRU):
    def __init__(self, input_size, size):
        super().__init__(input_size, size)
        self.scale = torch.rand(())

    def forward(self, input, state=None):
        return super().forward(input * self.scale, state)


FAULTS = [
    (NoParameters, "construction", "no parameters"),
    (LastOutput, "shapes", r"\(3, 8\), .*\(7, 3, 8\)"),
    (BatchFirst, "shapes", "3, 1, 8.*B = 3"),
    (OnesAtStart, "zeros", "zeros: "),
    (Forgets, "memory", "depend on the first input"),
    (LooksAhead, "steps", "sequence and single steps"),
    (MixesRows, "rows", "environment 0 alone"),
    (AddsRowsBefore, "rows", "environment 2 alone"),
    (IgnoresStarts, "starts", "zeroed states"),
    (Detaches, "gradients", "no gradient reaches the first input"),
    (DetachesAtStart, "gradients", "single steps: weight_ih_l0"),
    (Unused, "gradients", "no gradient reaches"),
    (HiddenScale, "state-dict", "a copy that loaded it"),
]


@pytest.mark.parametrize(("memory", "check", "message"), FAULTS, ids=lambda x: str(x)[:30])
def test_faults_are_reported(memory, check, message):
    with pytest.raises(ConformanceError, match=message) as caught:
        check_memory(memory)
    assert check in {f.check for f in caught.value.report.errors}


def test_the_callers_generator_is_kept():
    before = torch.get_rng_state()
    check_memory("gru")
    assert torch.equal(before, torch.get_rng_state())


def test_sequences_of_one_step_are_refused():
    with pytest.raises(ValueError, match="T=1"):
        check_memory(nn.GRU, T=1)
