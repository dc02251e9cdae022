"""``check_memory``: check that a recurrent layer keeps the contract with models and agents."""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.algos.episodes import zeroed
from rlpyt.models.recurrent import Memory, StateAndStarts, add_memory, run_layer
from rlpyt.testing.case import Case, Claims
from rlpyt.testing.report import Report
from rlpyt.testing.trees import difference
from rlpyt.utils.buffer import buffer_func, leaves_of, shapes_of
from rlpyt.utils.checks import whole_number

RTOL, ATOL = 1e-2, 1e-4  # of gradients, relative to the largest
CHECKS = {
    "pickle": "can be sent to worker processes",
    "construction": "called with (input size, H), returns a module with parameters",
    "shapes": "output [T, B, H]; leaves of the state [N, B, ...], float32, the same at every step",
    "zeros": "a state of zeros is the start of an episode, as None",
    "memory": "earlier inputs change later outputs",
    "steps": "a sequence gives the same outputs and state as its steps one by one",
    "rows": "an environment's outputs do not depend on the others",
    "starts": "with takes_starts: episodes may start at any step of a sequence",
    "gradients": "finite, for every parameter, the same as those of single steps",
    "state-dict": "a copy that loads it computes the same",
}


def check_memory(
    memory: Memory,
    *,
    input_size: int = 6,
    size: int = 8,
    T: int = 7,
    B: int = 3,
    seed: int = 0,
    skip: Collection[str] = (),
) -> Report:
    """Check a recurrent layer, as models take it: ``model_kwargs=dict(memory=...)``.

    >>> import torch
    >>> from rlpyt.testing import check_memory
    >>> check_memory(torch.nn.GRU).ok
    True

    Args:
        memory: class or function (input size, H) that returns the layer, or a name; see
            `rlpyt.models.recurrent.add_memory`.
        input_size: number of input components.
        size: H, number of output components.
        T, B: time steps and environments of the inputs.
        seed: seed of parameters and inputs.
        skip: names of checks (``rlpyt.testing.memory.CHECKS``) whose findings to leave out.

    Returns:
        The report, if there are no errors.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        ValueError: ``skip`` has an unknown name, or T or B is too small.
    """
    T, B = whole_number("T", T, 2), whole_number("B", B, 1)
    return _Case(memory, skip, input_size, size, T, B).run(seed).conclude()


class _Case(Case):
    """The layer under test, and inputs [T, B, input_size]."""

    checks = CHECKS

    def __init__(self, memory: Memory, skip: Collection[str], *sizes: int) -> None:
        super().__init__(f"check_memory({getattr(memory, '__name__', memory)})", memory, skip)
        self.input_size, self.size, self.T, self.B = sizes

    def built(self) -> Any:
        parent = nn.Module()
        return getattr(parent, add_memory(parent, self.part, self.input_size, self.size))

    def outputs(self, module: Any) -> Any:
        return tuple(run_layer(module, self.input, None))

    def steps(self, input: Tensor, state: Any = None, starts: Tensor | None = None) -> Any:
        """Return (outputs, next state), as models do."""
        given = state if starts is None else StateAndStarts(state, starts)
        return run_layer(self.module, input, given)

    def check_construction(self) -> Claims:
        self.input = torch.randn(self.T, self.B, self.input_size)
        self.module = self.built()
        trained = any(p.requires_grad for p in self.module.parameters())
        fix = "register layers as attributes of the module, lists of them as nn.ModuleList."
        yield trained, "it has no parameters", fix

    def check_shapes(self) -> Claims:
        output, state = self.steps(self.input)
        expected = (self.T, self.B, self.size)
        what = f"the output has shape {tuple(output.shape)}, expected [T, B, H] = {expected}"
        yield output.shape == expected, what, "return the output of every step."
        fix = "return a tensor [N, B, ...], or a named tuple of such tensors, as the state."
        for leaf in leaves_of(state):
            ok = isinstance(leaf, Tensor) and leaf.dim() > 1 and leaf.shape[1] == self.B
            shape = getattr(leaf, "shape", leaf)
            what = f"the state has a leaf of shape {shape}, with B = {self.B}"
            yield ok and leaf.dtype == torch.float32, what, fix
        yield leaves_of(state), "there is no state", fix
        fix = "return a state of the same structure and shapes, whatever T and the state are."
        for t in range(self.T):
            before, (_, state) = shapes_of(state), self.steps(self.input[t : t + 1], state)
            what = f"after one more step the shapes are {shapes_of(state)}, before {before}"
            yield shapes_of(state) == before, what, fix

    def check_zeros(self) -> Claims:
        expected = self.steps(self.input)
        found = self.steps(self.input, buffer_func(expected[1], torch.zeros_like))
        fix = "agents reset an environment by zeroing its state; store what zeros should mean."
        yield _same(found, expected, "zeros", fix)

    def check_memory(self) -> Claims:
        other = self.input.clone()
        other[0] += 1
        same = torch.equal(self.steps(self.input[:2])[0][1], self.steps(other[:2])[0][1])
        what = "the output of the second step does not depend on the first input"
        yield not same, what, "use the state."

    def check_steps(self) -> Claims:
        for state in (None, self.steps(self.input.flip(0))[1]):
            found, expected = self.steps(self.input, state), self._stepped(state)
            fix = "start from the given state, and read no inputs but those up to the step."
            yield _same(found, expected, "sequence and single steps", fix)

    def check_rows(self) -> Claims:
        output, state = self.steps(self.input)
        fix = "compute each environment by itself, without statistics of the batch."
        for b in (0, self.B - 1):
            own = output[:, b : b + 1], buffer_func(state, lambda leaf, b=b: leaf[:, b : b + 1])
            found = self.steps(self.input[:, b : b + 1])
            yield _same(found, own, f"environment {b} alone and with others", fix)

    def check_starts(self) -> Claims:
        if not getattr(self.module, "takes_starts", False):
            self.report.note("no takes_starts: batches are cut into episodes")
            return
        state = self.steps(self.input.flip(0))[1]
        for share in (0.0, 0.3, 1.0):
            starts = torch.rand(self.T, self.B) < share
            found, expected = self.steps(self.input, state, starts), self._stepped(state, starts)
            what = f"starts at {int(starts.sum())} of {starts.numel()} steps and zeroed states"
            fix = "ignore state and inputs before a start, but not the input of its step."
            yield _same(found, expected, what, fix)

    def check_gradients(self) -> Claims:
        weights = torch.randn(self.T, self.B, self.size)
        own = yield from self.gradients((self.steps(self.input)[0] * weights).sum())
        single = yield from self.gradients((self._stepped(None)[0] * weights).sum())
        fix = "do not detach states, neither inside a sequence nor at its start."
        for name, x in single.items():
            error, scale = (own[name] - x).abs().max(), x.abs().max()  # rounding is amplified
            what = f"sequence and single steps: {name} differs by {error:.2g}, at most {scale:.2g}"
            yield error <= RTOL * scale + ATOL, what, fix
        first = self.input[:2].clone().requires_grad_()
        (reached,) = torch.autograd.grad(self.steps(first)[0][1].sum(), first)
        yield reached[0].any(), "no gradient reaches the first input from the second output", fix

    def _stepped(self, state: Any, starts: Tensor | None = None) -> tuple[Tensor, Any]:
        """Return outputs and state of single steps; zero states at starts [T, B]."""
        outputs = []
        for t in range(self.T):
            if starts is not None and state is not None:
                state = zeroed(state, starts[t])
            output, state = self.steps(self.input[t : t + 1], state)
            outputs.append(output)
        return torch.cat(outputs), state


def _same(found: Any, expected: Any, what: str, fix: str) -> tuple[object, str, str]:
    """Claim that outputs and states are equal except for rounding."""
    other = difference(tuple(found), tuple(expected), close=True)
    return not other, f"{what}: {other}", fix
