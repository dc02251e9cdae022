"""Base class of the checks of one part: an encoder, a memory or a distribution."""

from collections.abc import Collection, Generator, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlpyt.testing.report import Report
from rlpyt.testing.trees import difference
from rlpyt.utils import serialize

# A check yields: True if all is well, what is wrong otherwise, and what to do about it.
Claims = Generator[tuple[object, str, str], None, None]


class Case:
    """A part under test, with a method ``check_<name>`` for each of its ``checks``.

    A check ends at its first claim that is false. Parts that are modules define `built` and
    `outputs`.
    """

    checks: ClassVar[Mapping[str, str]]  # names and descriptions, in the order of execution
    needed: ClassVar[Collection[str]] = ("construction", "shapes")  # by the checks after them
    optional: ClassVar[Collection[str]] = ()  # may raise NotImplementedError
    module: Any  # assigned by check_construction

    def __init__(self, name: str, part: Any, skip: Collection[str]) -> None:
        self.part, self.report = part, Report(name, self.checks, skip)

    def run(self, seed: int) -> Report:
        """Run the checks with this seed of torch's generator, and return the report."""
        with torch.random.fork_rng(devices=[]):  # keep the caller's generator
            torch.default_generator.manual_seed(seed)
            for name in self.checks:
                refusal = NotImplementedError if name in self.optional else None
                needed = name in self.needed
                passed = self.report.run(name, partial(self._check, name), refusal, needed)
                if needed and not passed:
                    break
        return self.report

    def _check(self, name: str) -> None:
        for ok, what, fix in getattr(self, f"check_{name.replace('-', '_')}")():
            self.report.expect(ok, what, fix, stop=True)

    def built(self) -> Any:
        """Return a new module."""
        raise NotImplementedError

    def outputs(self, module: Any) -> Any:
        """Return what a module computes from the inputs."""
        raise NotImplementedError

    def check_pickle(self) -> Claims:
        """Pickle what the user gave."""
        try:
            serialize.dumps(self.part)
        except Exception as error:
            fix = "define it at the top level of a module, and store settings only."
            yield False, f"{error}", fix

    def check_state_dict(self) -> Claims:
        """Load the parameters into another module."""
        other = self.built()
        other.load_state_dict(self.module.state_dict())
        found = difference(self.outputs(other), self.outputs(self.module), close=True)
        fix = "keep everything that is needed in parameters and buffers."
        yield not found, f"a copy that loaded it computes something else: {found}", fix

    def gradients(
        self, loss: Tensor
    ) -> Generator[tuple[object, str, str], None, dict[str, Tensor]]:
        """Return the gradients of the trained parameters, which must exist and be finite."""
        named = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        gradients = dict(zip(named, found, strict=True))
        unused = [name for name, x in gradients.items() if x is None]
        fix = "use every parameter in forward, without no_grad or detach."
        yield not unused, f"no gradient reaches {unused[:1]}", fix
        finite = all(x.isfinite().all() for x in found)
        yield finite, "gradients are not finite", "check logarithms, roots and divisions."
        return gradients
