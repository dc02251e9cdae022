"""``check_encoder``: check that the encoder of a part of observations keeps the contract."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpyt.models.image_encoder import build_encoder
from rlpyt.models.observation import marked_shape, with_encoders
from rlpyt.spaces.base import Space
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing.case import Case, Claims
from rlpyt.testing.report import Report
from rlpyt.utils.checks import whole_number

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
        ValueError: ``skip`` has an unknown name, or T or B is too small.
    """
    T, B = whole_number("T", T, 1), whole_number("B", B, 2)
    return _Case(encoder, space, (T, B), seed, skip).run(seed).conclude()


class _Case(Case):
    """The encoder under test, and inputs [T, B, *shape]."""

    checks = CHECKS

    def __init__(
        self, encoder: Any, space: Any, lead: tuple[int, int], seed: int, skip: Collection[str]
    ) -> None:
        super().__init__(f"check_encoder({getattr(encoder, '__name__', encoder)})", encoder, skip)
        own = space if isinstance(space, Space) else GymSpaceWrapper(space)
        own.seed(seed)
        self.shape = with_encoders(marked_shape(own), {"observation": encoder})
        rows = np.stack([np.asarray(own.sample()) for _ in range(lead[0] * lead[1])])
        self.input = torch.from_numpy(rows).reshape(*lead, *rows.shape[1:])

    def built(self) -> nn.Module:
        return build_encoder(self.shape, {})

    def outputs(self, module: nn.Module) -> Any:
        return module.eval()(self.input)

    def check_construction(self) -> Claims:
        self.module = self.built()
        what = f"it returned {type(self.module).__name__}, expected a torch.nn.Module"
        yield isinstance(self.module, nn.Module), what, "derive it from nn.Module."
        self.module.eval()

    def check_shapes(self) -> Claims:
        for input in (self.input, self.input[0], self.input[0, 0]):
            lead = tuple(input.shape[: input.dim() - len(self.shape)])
            features, expected = self.module(input), (*lead, int(self.module.output_size))
            what = f"features have shape {tuple(features.shape)}, expected {expected}, for leading "
            what += f"dimensions {lead}"
            fix = "keep the leading dimensions: x.reshape(*lead, output_size)."
            yield features.shape == expected, what, fix
            what = f"features have dtype {features.dtype}, expected torch.float32"
            yield features.dtype == torch.float32, what, "convert the input by .float()."
            fix = "check divisions and logarithms, and scale the input."
            yield features.isfinite().all(), "features are not finite", fix

    def check_content(self) -> Claims:
        features = self.module(self.input).flatten(0, 1)
        same = torch.allclose(features, features[:1])
        yield not same, "all inputs have the same features", "use the input in forward."

    def check_rows(self) -> Claims:
        features = self.module(self.input)
        what = "a row alone has other features than among others"
        fix = "compute each row by itself, without statistics of the batch."
        for one in (slice(1), slice(-1, None)):
            alone = self.module(self.input[one, one])
            yield torch.allclose(alone, features[one, one], RTOL, ATOL), what, fix

    def check_gradients(self) -> Claims:
        if any(p.requires_grad for p in self.module.parameters()):
            yield from self.gradients(self.module(self.input).square().sum())
        else:
            self.report.note("no trained parameters")
