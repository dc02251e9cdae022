"""Training recurrent models across episode boundaries inside a batch.

PyTorch's recurrent layers cannot reset their state within a sequence. Therefore a batch [T, B] is
cut into S sequences, one per episode, padded to the same length. A sequence starts from the
recorded state in the first row of the batch, and from zeros after a done. All samples are used.

Layers that reset their state themselves (``takes_starts``, such as minGRU) get the batch as it is,
with the rows at which episodes start.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.models.recurrent import StateAndStarts
from rlpyt.utils.buffer import buffer_func, leaves_of


class EpisodePacking:
    """Index arrays between batches [T, B] and padded sequences [L, S].

    Args:
        done: [T, B] bool; an episode begins in the row after a done.
        tails: (T_idxs, B_idxs) [K] of done steps whose sequences get an additional row, for the
            final observation of the truncated episode.
        takes_starts: the model resets its state within sequences, so that nothing has to be cut if
            there are no tails.

    Attributes:
        valid: [L, S] bool, false in padding and tails.
        trivial: True if nothing is cut, so that the sequences are the unchanged batch.
    """

    def __init__(
        self,
        done: torch.Tensor,
        tails: tuple[torch.Tensor, torch.Tensor] | None = None,
        takes_starts: bool = False,
    ) -> None:
        T, B = done.shape
        device = done.device
        self.starts: torch.Tensor | None = None
        self.tails: tuple[torch.Tensor, torch.Tensor] | None = None  # (rows, sequences) [K]
        if takes_starts and tails is None:
            self.starts = starts_of(done)
            self.trivial = True
            self.valid = torch.ones_like(self.starts)
            return
        begins = torch.ones(T, B, dtype=torch.bool)
        begins[1:] = done[:-1].bool().cpu()
        flat = begins.t().reshape(-1)  # environment by environment
        starts = flat.nonzero().squeeze(1)  # [S]
        stops = torch.cat([starts[1:], torch.tensor([T * B])])
        length = stops - starts
        L = int(length.max())
        if tails is not None:
            where = tails[1].cpu() * T + tails[0].cpu()
            sequence = torch.searchsorted(starts, where, right=True) - 1
            L = max(L, int(length[sequence].max()) + 1)
            self.tails = length[sequence].to(device), sequence.to(device)
        self.trivial = tails is None and len(starts) == B
        steps = torch.arange(L).unsqueeze(1)  # [L, 1]
        self.valid = (steps < length).to(device)  # [L, S]
        where = starts + torch.minimum(steps, length - 1)  # [L, S], padding repeats the last row
        self.B_idxs = (where // T).to(device)
        self.T_idxs = (where % T).to(device)
        self.first_B = (starts // T).to(device)  # [S], environment of each sequence
        self.from_zero = (starts % T != 0).to(device)  # [S]
        sequence_of = torch.cumsum(flat, 0) - 1  # [B * T]
        row_of = torch.arange(T * B) - starts[sequence_of]
        self._back = tuple(x.reshape(B, T).t().to(device) for x in (row_of, sequence_of))

    def pack(self, tree: Any, tails: Any = None) -> Any:
        """Pack [T, B, ...] into [L, S, ...].

        Args:
            tree: tree of [T, B, ...].
            tails: tree of [K, ...], values of the tails.
        """
        if self.trivial:
            return tree
        packed = buffer_func(tree, lambda leaf: leaf[self.T_idxs, self.B_idxs])
        if self.tails is not None:
            for leaf, tail in zip(leaves_of(packed), leaves_of(tails), strict=True):
                leaf[self.tails] = tail.to(leaf.dtype)
        return packed

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """Unpack [L, S, ...] into [T, B, ...]."""
        return packed if self.trivial else packed[self._back]

    def pack_state(self, state: Any) -> Any:
        """Pack initial states [N, B, H] into [N, S, H], zero where an episode begins."""
        if self.starts is not None:
            return StateAndStarts(state, self.starts)
        if self.trivial:
            return state

        def select(leaf: torch.Tensor) -> torch.Tensor:
            selected = leaf[:, self.first_B]
            selected[:, self.from_zero] = 0
            return selected

        return buffer_func(state, select)


def state_after(
    run: Callable[[Any, Any], Any],
    inputs: Any,
    done: torch.Tensor,
    state: Any,
    takes_starts: bool = False,
) -> Any:
    """Return the recurrent state after the last row of a batch.

    Only the last episode of each environment matters. The batch is run in one piece for each
    different row at which these begin, or in one piece with ``takes_starts``.

    Args:
        run: function (inputs [t, B, ...], state) -> state after the inputs.
        inputs: tree of [T, B, ...].
        done: [T, B].
        state: state before the first row, leaves [N, B, H]; ``None``: zeros.
        takes_starts: the model resets its state within sequences.

    Returns:
        State with leaves [N, B, H], zero where the next row begins an episode.
    """
    T = len(done)
    if takes_starts:
        return zeroed(run(inputs, StateAndStarts(state, starts_of(done))), done[-1].bool())
    rows = torch.arange(1, T, device=done.device).unsqueeze(1)
    begins = torch.zeros_like(done[0], dtype=torch.long)  # [B], first row of the last episode
    if T > 1:
        begins = (rows * done[:-1].bool()).amax(0)
    cuts = sorted(set(begins.tolist()))
    for first, stop in zip(cuts, [*cuts[1:], T]):
        if first > 0:
            state = zeroed(state, begins == first)
        state = run(buffer_func(inputs, lambda leaf, a=first, b=stop: leaf[a:b]), state)
    return zeroed(state, done[-1].bool())


def starts_of(done: torch.Tensor) -> torch.Tensor:
    """Return the rows [T, B] after a done, at which episodes start within a batch."""
    starts = torch.zeros_like(done, dtype=torch.bool)
    starts[1:] = done[:-1].bool()
    return starts


def zeroed(state: Any, where: torch.Tensor) -> Any:
    """Return recurrent states, leaves [N, B, ...], with zeros in the columns ``where`` [B]."""
    if state is None or not where.any():
        return state
    return buffer_func(
        state, lambda leaf: leaf.masked_fill(where.view(-1, *[1] * (leaf.dim() - 2)), 0)
    )


def check_window(agent: BaseAgent, T: int, name: str) -> None:
    """Check that an agent's attention does not read further back than it is trained.

    Args:
        agent: an initialized agent.
        T: length of the training sequences.
        name: settings that determine it, for the error message.

    Raises:
        ValueError: the window of attention is longer than a sequence.
    """
    window = agent.attention_window
    if window is not None and window > T:
        raise ValueError(
            f"the memory's window={window} must be at most the length of a training sequence, "
            f"{name} = {T}: gradients end there. Take longer sequences, or a window "
            f"of at most {T}: --agent.memory-args '{{\"window\": {T}}}', or in Python "
            f"memory=dict(kind='gtrxl', window={T})."
        )


def null_action_of(agent: BaseAgent) -> Any:
    """Return the previous action at the first step of an episode."""
    action_space = getattr(agent.env_spaces, "action", None)
    null = getattr(action_space, "null_value", None)
    return null() if callable(null) else 0


def null_after_done(prev: Any, done: torch.Tensor, null: Any = 0) -> Any:
    """Set previous actions or rewards to null in rows after a done, as in acting.

    Args:
        prev: tree of [T, B, ...], values of the previous row.
        done: [T, B].
        null: null value, or a tree of null values.
    """
    begins = starts_of(done)
    if not begins.any():
        return prev

    nulls = iter(leaves_of(null)) if isinstance(null, tuple) else itertools.repeat(null)

    def select(leaf: torch.Tensor) -> torch.Tensor:
        mask = begins.reshape(begins.shape + (1,) * (leaf.dim() - 2))
        null_leaf = torch.as_tensor(next(nulls), dtype=leaf.dtype, device=leaf.device)
        return torch.where(mask, null_leaf, leaf)

    return buffer_func(prev, select)
