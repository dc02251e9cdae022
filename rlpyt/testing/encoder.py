"""``check_encoder``: check that the encoder of a part of observations keeps the contract."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.models.image_encoder import build_encoder
from rlpyt.models.observation import marked_shape, with_encoders
from rlpyt.spaces.base import Space
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing.report import Report, Stop
from rlpyt.utils import serialize

RTOL, ATOL = 1e-3, 1e-4
CHECKS = {
    "pickle": "can be sent to worker processes",
    "construction": "called with the shape, returns a module with output_size",
    "shapes": "features [*lead, output_size] float32, finite; [*lead]: [], [B] or [T, B]",
    "content": "features depend on the part",
    "rows": "the features of a row do not depend on the others",
    "gradients": "finite, for every parameter",
    "state-dict": "a copy that loads it computes the same",
}


def check_encoder(
    encoder: Any,
    space: Any,
    *,
    T: int = 5,
    B: int = 3,
    seed: int = 0,
    skip: Collection[str] = (),
) -> Report:
    """Check an encoder, as models take it: ``model_kwargs=dict(encoders={"camera": MyEncoder})``.

    >>> import gymnasium
    >>> from rlpyt.models.image_encoder import ImageEncoder
    >>> from rlpyt.testing import check_encoder
    >>> check_encoder(ImageEncoder, gymnasium.spaces.Box(0, 255, (9, 9, 3), "uint8")).ok
    True

    Args:
        encoder: class or function of the shape that returns the encoder, or a dictionary; see
            `rlpyt.models.image_encoder.build_encoder`.
        space: space of the part, of Gymnasium or of rlpyt.
        T, B: time steps and environments of the inputs.
        seed: seed of parameters and inputs.
        skip: names of checks (``rlpyt.testing.encoder.CHECKS``) whose findings to leave out.

    Returns:
        The report, if there are no errors.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        ValueError: ``skip`` has an unknown name.
    """
    report = Report(f"check_encoder({getattr(encoder, '__name__', encoder)})", CHECKS, skip)
    with torch.random.fork_rng(devices=[]):  # keep the caller's generator
        torch.default_generator.manual_seed(seed)
        case = _Case(encoder, space, report, (T, B), seed)
        if report.run("construction", case.check_construction) and report.run(
            "shapes", case.check_shapes
        ):
            for name in ("pickle", "content", "rows", "gradients"):
                report.run(name, getattr(case, f"check_{name}"))
            report.run("state-dict", case.check_state_dict)
    return report.conclude()


class _Case:
    """The encoder under test, and inputs [T, B, *shape]."""

    module: nn.Module

    def __init__(
        self, encoder: Any, space: Any, report: Report, lead: tuple[int, int], seed: int
    ) -> None:
        self.encoder, self.report = encoder, report
        own = space if isinstance(space, Space) else GymSpaceWrapper(space)
        own.seed(seed)
        self.shape = with_encoders(marked_shape(own), {"observation": encoder})
        T, B = lead
        rows = np.stack([np.asarray(own.sample()) for _ in range(T * B)])
        self.input = torch.from_numpy(rows).reshape(T, B, *rows.shape[1:])

    def check_construction(self) -> None:
        """Build the encoder."""
        self.module = build_encoder(self.shape, {})
        self.module.eval()
        ok = isinstance(self.module, nn.Module)
        what = f"it returned {type(self.module).__name__}, expected a torch.nn.Module"
        self.report.expect(ok, "construction", what, "derive it from nn.Module.", stop=True)

    def check_shapes(self) -> None:
        """Compare the features of inputs with different leading dimensions with the contract."""
        F = int(self.module.output_size)  # type: ignore[arg-type]
        for input in (self.input, self.input[0], self.input[0, 0]):
            lead = input.shape[: input.dim() - len(self.shape)]
            features: Tensor = self.module(input)
            expected = (*lead, F)
            what = f"features have shape {tuple(features.shape)}, expected {expected}, for leading "
            what += f"dimensions {tuple(lead)}"
            fix = "keep the leading dimensions: x.reshape(*lead, output_size)."
            self.report.expect(features.shape == expected, "shapes", what, fix, stop=True)
            ok = features.dtype == torch.float32
            what = f"features have dtype {features.dtype}, expected torch.float32"
            self.report.expect(ok, "shapes", what, "convert the input by .float().", stop=True)
            fix = "check divisions and logarithms, and scale the input."
            finite = bool(features.isfinite().all())
            self.report.expect(finite, "shapes", "features are not finite", fix, stop=True)

    def check_pickle(self) -> None:
        """Pickle what models are given."""
        try:
            serialize.dumps(self.encoder)
        except Exception as error:
            fix = "define the class or function at the top level of a module."
            self.report.error("pickle", f"{error}", fix)
            raise Stop from error

    def check_content(self) -> None:
        """Compare the features of different inputs."""
        features = self.module(self.input).flatten(0, 1)
        what = "all inputs have the same features"
        same = torch.allclose(features, features[:1])
        self.report.expect(not same, "content", what, "use the input in forward.")

    def check_rows(self) -> None:
        """Compare a row alone with the same row among others."""
        alone, among = self.module(self.input[:1, :1]), self.module(self.input)[:1, :1]
        ok = torch.allclose(alone, among, RTOL, ATOL)
        fix = "compute each row by itself, without statistics of the batch."
        self.report.expect(ok, "rows", "a row alone has other features than among others", fix)

    def check_gradients(self) -> None:
        """Differentiate the features by all parameters."""
        named = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        if not named:
            self.report.note("gradients", "no trained parameters")
            return
        loss = self.module(self.input).square().sum()
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        unused = [name for name, x in zip(named, found) if x is None]
        fix = "use every parameter in forward, without no_grad or detach."
        what = f"no gradient reaches {unused[:1]}"
        self.report.expect(not unused, "gradients", what, fix, stop=True)
        finite = all(x.isfinite().all() for x in found if x is not None)
        fix = "check logarithms, roots and divisions."
        self.report.expect(finite, "gradients", "gradients are not finite", fix)

    def check_state_dict(self) -> None:
        """Load the parameters into another encoder."""
        other = build_encoder(self.shape, {}).eval()
        other.load_state_dict(self.module.state_dict())
        ok = torch.allclose(other(self.input), self.module(self.input), RTOL, ATOL)
        fix = "keep everything that is needed in parameters and buffers."
        what = "a copy that loaded it computes other features"
        self.report.expect(ok, "state-dict", what, fix)
