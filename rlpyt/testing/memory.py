"""``check_memory``: check that a recurrent layer keeps the contract with models and agents."""

from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.algos.episodes import zeroed
from rlpyt.models.recurrent import Memory, StateAndStarts, add_memory, run_layer
from rlpyt.testing.report import Report, Stop
from rlpyt.testing.trees import difference
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_func, leaves_of

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
        ValueError: ``skip`` has an unknown name.
    """
    report = Report(f"check_memory({getattr(memory, '__name__', memory)})", CHECKS, skip)
    with torch.random.fork_rng(devices=[]):  # keep the caller's generator
        torch.default_generator.manual_seed(seed)
        case = _Case(memory, report, (input_size, size, T, B))
        if report.run("construction", case.check_construction) and report.run(
            "shapes", case.check_shapes
        ):
            for name in ("pickle", "zeros", "memory", "steps", "rows", "starts", "gradients"):
                report.run(name, getattr(case, f"check_{name}"))
            report.run("state-dict", case.check_state_dict)
    return report.conclude()


class _Case:
    """The layer under test, and inputs [T, B, input_size]."""

    layer: Any

    def __init__(self, memory: Memory, report: Report, sizes: tuple[int, int, int, int]) -> None:
        self.memory, self.report = memory, report
        self.input_size, self.size, self.T, self.B = sizes
        self.input = torch.randn(self.T, self.B, self.input_size)

    def run(self, input: Tensor, state: Any = None, starts: Tensor | None = None) -> Any:
        """Return (outputs, next state), as models do."""
        given = state if starts is None else StateAndStarts(state, starts)
        return run_layer(self.layer, input, given)

    def built(self) -> Any:
        """Return a new layer."""
        parent = nn.Module()
        return getattr(parent, add_memory(parent, self.memory, self.input_size, self.size))

    def check_construction(self) -> None:
        """Build the layer."""
        self.layer = self.built()
        ok = any(p.requires_grad for p in self.layer.parameters())
        fix = "register layers as attributes of the module, lists of them as nn.ModuleList."
        self.report.expect(ok, "construction", "it has no parameters", fix)

    def check_shapes(self) -> None:
        """Compare output and state with the documented shapes, of a sequence and of one step."""
        expect = partial(self.report.expect, check="shapes", stop=True)
        output, state = self.run(self.input)
        expected = (self.T, self.B, self.size)
        what = f"the output has shape {tuple(output.shape)}, expected [T, B, H] = {expected}"
        expect(output.shape == expected, what=what, fix="return the output of every step.")
        fix = "return a tensor [N, B, ...], or a named tuple of such tensors, as the state."
        for leaf in leaves_of(state):
            ok = isinstance(leaf, Tensor) and leaf.dim() > 1 and leaf.shape[1] == self.B
            what = (
                f"the state has a leaf of shape {getattr(leaf, 'shape', leaf)}, with B = {self.B}"
            )
            expect(ok and leaf.dtype == torch.float32, what=what, fix=fix)
        expect(leaves_of(state), what="there is no state", fix=fix)
        fix = "return a state of the same structure and shapes, whatever T and the state are."
        for t in range(self.T):
            _, next_state = self.run(self.input[t : t + 1], state)
            shapes = [[x.shape for x in leaves_of(tree)] for tree in (state, next_state)]
            what = f"after one more step the shapes are {shapes[1]}, before {shapes[0]}"
            expect(shapes[0] == shapes[1], what=what, fix=fix)
            state = next_state

    def check_pickle(self) -> None:
        """Pickle what models are given."""
        try:
            serialize.dumps(self.memory)
        except Exception as error:
            fix = "define the class or function at the top level of a module."
            self.report.error("pickle", f"{error}", fix)
            raise Stop from error

    def check_zeros(self) -> None:
        """Compare a state of zeros with none."""
        expected = self.run(self.input)
        zeros = buffer_func(expected[1], torch.zeros_like)
        fix = "agents reset an environment by zeroing its state; store what zeros should mean."
        self._expect_same(self.run(self.input, zeros), expected, "zeros", "zeros: ", fix)

    def check_memory(self) -> None:
        """Change the first input, and compare the last outputs."""
        other = self.input.clone()
        other[0] += 1
        second = self.run(self.input[:2])[0][1], self.run(other[:2])[0][1]
        what = "the output of the second step does not depend on the first input"
        fix = "use the state."
        self.report.expect(not torch.equal(*second), "memory", what, fix)

    def check_steps(self) -> None:
        """Compare a sequence with single steps, from the start and from a state."""
        for state in (None, self.run(self.input.flip(0))[1]):
            expected = self._stepped(state)
            what = "sequence and single steps: "
            fix = "start from the given state, and read no inputs but those up to the step."
            self._expect_same(self.run(self.input, state), expected, "steps", what, fix)

    def check_rows(self) -> None:
        """Compare the first environment alone with all of them."""
        output, state = self.run(self.input)
        alone = self.run(self.input[:, :1])
        first = output[:, :1], buffer_func(state, lambda leaf: leaf[:, :1])
        fix = "compute each environment by itself, without statistics of the batch."
        self._expect_same(alone, first, "rows", "environment 0 alone and with others: ", fix)

    def check_starts(self) -> None:
        """Compare a sequence in which episodes start with single steps and zeroed states."""
        if not getattr(self.layer, "takes_starts", False):
            self.report.note("starts", "no takes_starts: batches are cut into episodes")
            return
        state = self.run(self.input.flip(0))[1]
        for share in (0.0, 0.3, 1.0):
            starts = torch.rand(self.T, self.B) < share
            expected = self._stepped(state, starts)
            what = f"starts at {int(starts.sum())} of {starts.numel()} steps and zeroed states: "
            fix = "ignore state and inputs before a start, but not the input of its step."
            given = self.run(self.input, state, starts)
            self._expect_same(given, expected, "starts", what, fix)

    def check_gradients(self) -> None:
        """Compare the gradients of a sequence with those of single steps."""
        expect = partial(self.report.expect, check="gradients", stop=True)
        weights = torch.randn(self.T, self.B, self.size)

        def gradients(output: Tensor) -> dict[str, Tensor]:
            wanted = {n: p for n, p in self.layer.named_parameters() if p.requires_grad}
            loss = (output * weights).sum()
            found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
            got = dict(zip(wanted, found, strict=True))
            unused = [name for name, x in got.items() if x is None]
            fix = "use every parameter in forward, without no_grad or detach."
            expect(not unused, what=f"no gradient reaches {unused[:1]}", fix=fix)
            return got

        own = gradients(self.run(self.input)[0])
        finite = all(x.isfinite().all() for x in own.values())
        expect(finite, what="not finite", fix="check logarithms, roots and divisions.")
        fix = "do not detach states, neither inside a sequence nor at its start."
        for name, x in gradients(self._stepped(None)[0]).items():
            error, scale = (own[name] - x).abs().max(), x.abs().max()  # rounding is amplified
            what = f"sequence and single steps: {name} differs by {error:.2g}, at most {scale:.2g}"
            expect(error <= RTOL * scale + ATOL, what=what, fix=fix)
        first = self.input[:2].clone().requires_grad_()
        (reached,) = torch.autograd.grad(self.run(first)[0][1].sum(), first)
        what = "no gradient reaches the first input from the second output"
        expect(reached[0].any(), what=what, fix=fix)

    def check_state_dict(self) -> None:
        """Load the parameters into another layer."""
        other = self.built()
        other.load_state_dict(self.layer.state_dict())
        fix = "keep everything that is needed in parameters and buffers."
        pair = run_layer(other, self.input, None), self.run(self.input)
        self._expect_same(*pair, "state-dict", "a copy that loaded it: ", fix)

    def _stepped(self, state: Any, starts: Tensor | None = None) -> tuple[Tensor, Any]:
        """Return outputs and state of single steps; zero states at starts [T, B]."""
        outputs = []
        for t in range(self.T):
            if starts is not None and state is not None:
                state = zeroed(state, starts[t])
            output, state = self.run(self.input[t : t + 1], state)
            outputs.append(output)
        return torch.cat(outputs), state

    def _expect_same(self, own: Any, other: Any, check: str, what: str, fix: str) -> None:
        found = difference(tuple(own), tuple(other), close=True)
        self.report.expect(not found, check, f"{what}{found}", fix)
