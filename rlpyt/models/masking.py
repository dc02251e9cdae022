"""Masks of invalid discrete actions in policies; see `rlpyt.spaces.action_mask`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from rlpyt.models.utils import unwrap_ddp
from rlpyt.spaces.action_mask import valid_or_all

SMALL = 1e-30  # probability below which valid actions of an unmasked model are equally likely


def masks_actions(model: nn.Module) -> bool:
    """Return True if a model gives invalid actions the probability zero."""
    return getattr(unwrap_ddp(model), "masks_actions", False)


def mask_logits(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Replace the logits of invalid actions by the lowest number.

    A softmax then gives them the probability zero exactly, and they get no gradient. In rows
    without a valid action all become equally likely.

    Args:
        logits: [*lead, n].
        mask: [*lead, n], not zero where actions are valid; ``None``: all are.
    """
    if mask is None:
        return logits
    if isinstance(mask, fx.Proxy):  # one operation in the traces of `numpy_forward`
        args = (logits, mask)
        return mask.tracer.create_proxy("call_function", mask_logits, args, {})  # type: ignore
    return logits.masked_fill(mask == 0, torch.finfo(logits.dtype).min)


def mask_probabilities(prob: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """Set the probabilities of invalid actions to zero, and rescale the others to sum to one.

    For models that do not mask logits. If all valid actions have vanishing probabilities, they
    become equally likely.

    Args:
        prob: [*lead, sum(sizes)].
        mask: [*lead, sum(sizes)], not zero where actions are valid.
        sizes: number of choices of each component.
    """
    parts = []
    pairs = zip(torch.split(prob, list(sizes), -1), torch.split(mask, list(sizes), -1), strict=True)
    for p, m in pairs:
        masked = (p + SMALL) * valid_or_all(m)
        parts.append(masked / masked.sum(-1, keepdim=True))
    return torch.cat(parts, -1)


def mask_parts(outputs: Sequence[Tensor], mask: Tensor, parts: Sequence[Any]) -> list[Tensor]:
    """Apply `mask_probabilities` to all discrete parts of an action.

    Args:
        outputs: parameters of the parts in order, one tensor for a discrete part, two for a Box.
        mask: [*lead, n], valid choices of all discrete parts.
        parts: number of choices of each component of discrete parts, a tuple, or of components of
            a Box, an integer.
    """
    masked, first, index = list(outputs), 0, 0
    for part in parts:
        if isinstance(part, int):
            index += 2
            continue
        own = mask[..., first : first + sum(part)]
        masked[index] = mask_probabilities(masked[index], own, part)
        first, index = first + sum(part), index + 1
    return masked
