"""Replayed sequences whose episodes were cut off: what would have followed, and for whom."""

from typing import Any

import torch

from rlpyt.agents.base import AgentInputs
from rlpyt.utils.buffer import buffer_func


def tails_behind(samples: Any, warmup_T: int) -> tuple[Any, Any]:
    """What episodes that were cut off behind the burn-in would have gone on from, and where.

    Args:
        samples: a batch of sequences from the replay.
        warmup_T: rows of burn-in.

    Returns:
        ``AgentInputs`` [K, ...], and (T_idxs, B_idxs) [K] among the rows behind the burn-in;
        ``None`` twice, where there are none.
    """
    final = samples.final
    kept = None if final is None else (final.T_idxs >= warmup_T).nonzero().squeeze(1)
    if kept is None or not len(kept):
        return None, None
    T_idxs, B_idxs = final.T_idxs[kept], final.B_idxs[kept]
    after = (T_idxs + 1, B_idxs)  # the action and reward of the last step
    tails = AgentInputs(
        buffer_func(final.observation, lambda leaf: leaf[kept]),
        buffer_func(samples.all_action, lambda leaf: leaf[after]),
        samples.all_reward[after],
    )
    return tails, (T_idxs - warmup_T, B_idxs)


def cross_truncations(
    next_value: torch.Tensor,
    final_value: torch.Tensor,
    at: tuple[torch.Tensor, torch.Tensor],
    done: torch.Tensor,
    n: int,
) -> None:
    """Let n-step windows that meet a truncation be followed by what was cut off there.

    Args:
        next_value: [T, B], what follows each row's window of n; changed in place.
        final_value: [K], values of final observations.
        at: (T_idxs, B_idxs) of the steps that they followed.
        done: [T + n, B].
        n: rewards in a window.
    """
    T_idxs, B_idxs = at
    alive = torch.ones_like(T_idxs, dtype=torch.bool)  # no other end between the row and this one
    for k in range(n):
        rows = T_idxs - k
        alive = alive & (rows >= 0)
        if k:
            alive = alive & ~done[rows.clamp(min=0), B_idxs].bool()
        chosen = alive & (rows < len(next_value))
        next_value[rows[chosen], B_idxs[chosen]] = final_value[chosen]
