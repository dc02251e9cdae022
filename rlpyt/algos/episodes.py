"""Training recurrent models across episode boundaries inside a batch.

PyTorch's recurrent layers cannot reset within a sequence. So a batch [T, B] is cut where
episodes begin into S sequences, padded to the longest, and each starts from its own state: the
recorded one at the batch's first row, zeros after a done. No sample is lost.
"""

import itertools
from typing import Any

import torch

from rlpyt.utils.buffer import buffer_func, leaves_of


class EpisodePacking:
    """Index arrays between [T, B] and padded sequences [L, S].

    Args:
        done: [T, B] bool; an episode begins in the row after a done.
    """

    def __init__(self, done: torch.Tensor) -> None:
        T, B = done.shape
        begins = torch.ones(T, B, dtype=torch.bool)
        begins[1:] = done[:-1].bool().cpu()
        flat = begins.t().reshape(-1)  # environment by environment
        starts = flat.nonzero().squeeze(1)  # [S]
        stops = torch.cat([starts[1:], torch.tensor([T * B])])
        length = stops - starts
        L = int(length.max())
        steps = torch.arange(L).unsqueeze(1)  # [L, 1]
        self.valid = (steps < length).to(done.device)  # [L, S]
        where = starts + torch.minimum(steps, length - 1)  # [L, S], padding repeats the last row
        self.B_idxs = (where // T).to(done.device)
        self.T_idxs = (where % T).to(done.device)
        self.first_B = (starts // T).to(done.device)  # [S], environment of each sequence
        self.from_zero = (starts % T != 0).to(done.device)  # [S]

    def pack(self, tree: Any) -> Any:
        """[T, B, ...] -> [L, S, ...]."""
        return buffer_func(tree, lambda leaf: leaf[self.T_idxs, self.B_idxs])

    def pack_state(self, state: Any) -> Any:
        """Initial states [N, B, H] -> [N, S, H], zeros where an episode begins within the batch."""

        def select(leaf: torch.Tensor) -> torch.Tensor:
            picked = leaf[:, self.first_B]
            picked[:, self.from_zero] = 0
            return picked

        return buffer_func(state, select)


def null_after_done(prev: Any, done: torch.Tensor, null: Any = 0) -> Any:
    """Previous actions or rewards as the agent saw them: null in the row after a done.

    Args:
        prev: tree of [T, B, ...], raw shifted values.
        done: [T, B].
        null: what is put there, one value or a tree of them.
    """
    begins = torch.zeros_like(done, dtype=torch.bool)
    begins[1:] = done[:-1].bool()
    if not begins.any():
        return prev

    nulls = iter(leaves_of(null)) if isinstance(null, tuple) else itertools.repeat(null)

    def select(leaf: torch.Tensor) -> torch.Tensor:
        mask = begins.reshape(begins.shape + (1,) * (leaf.dim() - 2))
        own = torch.as_tensor(next(nulls), dtype=leaf.dtype, device=leaf.device)
        return torch.where(mask, own, leaf)

    return buffer_func(prev, select)
