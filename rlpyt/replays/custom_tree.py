"""Selection by a custom priority tree, with the methods of rlpyt's (2019) sum tree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.replays.batch import with_is_weights
from rlpyt.replays.selection import Array, PrioritizedSelection, multiples
from rlpyt.utils.buffer import Arrays


class CustomTreeSelection(PrioritizedSelection):
    """Selection by a tree that has ``advance``, ``sample`` and ``update_batch_priorities``.

    The tree knows which rows can be drawn. Its priorities are those of the latest ``sample``, and
    checkpoints do not hold it.

    Args:
        selection: selection of the replay, whose other settings are kept.
        tree: the custom tree.
    """

    bytes_per_row = 0.0

    def __init__(self, selection: PrioritizedSelection, tree: Any) -> None:
        self.ring, self.row_stride = selection.ring, selection.row_stride
        self.settings, self.beta, self.tree = selection.settings, selection.beta, tree

    def advance(
        self, valid: Callable[[], tuple[int, int]], n: int, priorities: Arrays | None
    ) -> None:
        """Account for ``n`` written rows."""
        low, high = multiples((self.ring.written - n, self.ring.written), self.row_stride)
        self.tree.advance(high - low, **({} if priorities is None else {"priorities": priorities}))

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """Do nothing: these trees only advance."""

    def drop(self, rows: Array, b: int) -> None:
        """Do nothing: these trees do not know void rows."""

    def draw(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``n`` rows, [n] integers t * B + b."""
        (T_idxs, B_idxs), self._drawn = self.tree.sample(n, unique=self.settings.unique)
        rows = np.asarray(T_idxs) * self.row_stride
        return np.asarray(rows * self.ring.B + np.asarray(B_idxs))

    def weigh(self, batch: Any, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the batch of the latest draw with importance weights."""
        priorities = np.asarray(self._drawn)
        weights = (priorities / priorities.min()) ** -self.beta
        return with_is_weights(batch, torch.from_numpy(weights.astype(np.float32)), None)

    def update(self, priorities: Arrays | None, ticket: Any) -> None:
        """Set the priorities [B] of the latest draw."""
        self.tree.update_batch_priorities(self._leaves(priorities))

    def state(self) -> dict[str, Any]:
        """Return beta."""
        return {"beta": self.beta}

    def load(self, state: dict[str, Any]) -> None:
        """Load beta."""
        self.beta = state["beta"]
