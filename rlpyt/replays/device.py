"""Uniform replay in the memory of a device, beside the simulator and the network."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import AgentInputs
from rlpyt.replays.batch import Transitions
from rlpyt.replays.buffer import BaseReplayBuffer
from rlpyt.replays.memory import Memory, ReplayTooLarge
from rlpyt.replays.ring import Ring
from rlpyt.replays.selection import UniformSelection, not_ready_error
from rlpyt.replays.storage import check_example
from rlpyt.replays.targets import NStep
from rlpyt.replays.window import TransitionWindow, null_leaves
from rlpyt.utils.buffer import buffer_from_example, buffer_func, leaves_of
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import NamedArrayTuple, with_fields, without_fields
from rlpyt.utils.seed import env_seed, get_seed, make_seed
from rlpyt.utils.tensor import generator_on, load_generator


class DeviceReplayBuffer(BaseReplayBuffer):
    """Replay of the newest ``size`` transitions of B environments, whose rows stay on a device.

    Its batches are those of `rlpyt.replays.non_sequence.uniform.UniformReplayBuffer` for the same
    rows. Rows are drawn by a torch generator of the device, and nothing is copied to the host. Each
    row has a final observation, which is read where an episode was truncated, so that observations
    take twice the memory.

    Args:
        example, size, B, discount, n_step_return, null_action: as for ``ReplayBuffer``.
        device: device of the rows; ``None``: the CPU.

    Raises:
        TypeError, ValueError: as for ``ReplayBuffer``.
        ReplayTooLarge: the rows do not fit into the memory of the device.
    """

    Selection, Window = UniformSelection, TransitionWindow  # what it is like, for algorithms

    def __init__(
        self,
        example: NamedArrayTuple,
        size: int,
        B: int,
        discount: float = 1,
        n_step_return: int = 1,
        *,
        null_action: Any = 0,
        device: torch.device | None = None,
    ) -> None:
        check_example(example)
        self.device = torch.device("cpu") if device is None else device
        self.B = whole_number("B", B, 1)
        self.T = math.ceil(whole_number("size", size, 1) / B)
        self.size = self.T * B
        targets = NStep(n_step_return, discount, time_limits=False)
        self.n, self.discount = targets.n, targets.discount
        self.min_rows = need = self.n + 2
        if need > self.T:
            raise ValueError(
                f"size must be at least {need * B:,} ({need} rows of {B} environments), got "
                f"{self.size:,}: a sample needs 1 row before and {self.n} after its first row."
            )
        memory = Memory()
        self.ring = Ring(self.T, B, memory)
        memory.commit(force=True)
        example = with_fields(example, done=np.bool_(False), truncated=np.bool_(False))
        stored = example, example.observation
        self.nbytes = self.size * sum(np.asarray(x).nbytes for x in leaves_of(stored))
        try:
            self.rows, self.final = (
                buffer_from_example(part, (self.size,), self.device) for part in stored
            )
        except RuntimeError as error:  # torch's, out of memory
            raise ReplayTooLarge(
                f"the replay needs {self.nbytes / 1e6:,.0f} MB for {self.size:,} transitions, more "
                f"than {self.device} has. Lower replay_size, or keep the replay in host memory "
                "(ReplayBufferCls=UniformReplayBuffer)."
            ) from error
        nulls = null_leaves(example.action, null_action)
        self._nulls = [torch.as_tensor(null, device=self.device) for null in nulls]
        self.set_seed(get_seed())

    def set_seed(self, seed: int | None, rank: int = 0) -> None:
        """Start a new random stream; ``None``: seed it from the operating system."""
        seed = make_seed() if seed is None else seed
        self.generator = generator_on(self.device, env_seed(seed, rank, "replay"))

    @property
    def samples(self) -> Any:
        """Return the stored fields, a named tuple [T, B, ...]."""
        return buffer_func(self.rows, lambda leaf: leaf.unflatten(0, (self.T, self.B)))

    def with_finals(self, samples: NamedArrayTuple, batch: Any) -> Any:
        """Add the final observations of truncated episodes, and where they are, if recorded."""
        recorded = getattr(batch.env, "final_observation", None)
        timeout = getattr(batch.env.env_info, "timeout", None)
        if recorded is None or timeout is None:
            return samples
        return with_fields(samples, final=recorded, truncated=timeout & batch.env.done)

    def append_samples(self, samples: NamedArrayTuple) -> None:
        """Add samples [T, B] on the device, replacing the oldest ones if the replay is full.

        Args:
            samples: named tuple like the example. Optional fields: ``truncated``, [T, B] bool, and
                ``final``, final observations [T, B, ...], which are read where it is true.

        Raises:
            ValueError: ``samples`` are not [T, B], or have more rows than the replay.
        """
        T, B = samples.reward.shape[:2]
        if B != self.B or not 0 < T <= self.T:
            raise ValueError(
                f"samples must be [T, B={self.B}] with at most {self.T} rows, the rows of the "
                f"replay, got {[T, B]}."
            )
        final = getattr(samples, "final", None)
        if "truncated" not in samples._fields:
            samples = with_fields(samples, truncated=torch.zeros_like(samples.done))
        start = self.ring.written
        self._write(self.rows, without_fields(samples, "final"), start, T)
        if final is not None:
            self._write(self.final, final, start, T)
        self.ring.set_written(start + T)

    def _write(self, rows: Any, values: Any, start: int, T: int) -> None:
        for stored, given in self.ring.slices(start, T):
            first, n = stored.start * self.B, given.stop - given.start
            for row, value in zip(leaves_of(rows), leaves_of(values), strict=True):
                new = value.narrow(0, given.start, n).flatten(0, 1)
                row.narrow(0, first, n * self.B).copy_(new)

    def interrupt(self) -> int:
        """End all open episodes as truncated, as in ``ReplayBuffer``; return the rows dropped."""
        ring, rows, newest = self.ring, self.rows, self._row(self.ring.written - 1)
        if not ring.written or rows.done[newest].all():
            return 0
        if ring.written - 1 > ring.oldest:
            before = self._row(ring.written - 2)
            is_open = ~rows.done[before]
            for final, leaf in zip(leaves_of(self.final), leaves_of(rows.observation)):
                final[before][is_open] = leaf[newest][is_open]
            rows.done[before] = True
            rows.truncated[before] |= is_open
        ring.set_written(ring.written - 1)
        return 1

    def _row(self, row: int) -> slice:
        """Return the B elements of an absolute row."""
        return slice(row % self.T * self.B, (row % self.T + 1) * self.B)

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw rows and return ``Transitions`` [batch_B] on the device.

        Raises:
            ReplayNotReady: too few rows have been written.
        """
        oldest, written = self.ring.bounds
        low, high = oldest + 1, written - self.n
        if high <= low:
            raise not_ready_error(self.ring)
        count = (high - low) * self.B
        drawn = torch.randint(count, (batch_B,), generator=self.generator, device=self.device)
        return self.extract_batch((drawn + low * self.B) % self.size)

    def extract_batch(self, idxs: Tensor) -> Any:
        """Return the batch of the windows that start at these elements [N], t * B + b."""
        rows, gamma = self.rows, self.discount
        alive = torch.ones_like(idxs, dtype=torch.bool)
        cut = done_n = torch.zeros_like(alive)
        return_ = discount_n = torch.zeros_like(idxs, dtype=rows.reward.dtype)
        last = idxs  # the last step of each window
        for k in range(self.n):
            here = (idxs + k * self.B) % self.size
            reward, done, truncated = _select((rows.reward, rows.done, rows.truncated), here)
            last = torch.where(alive, here, last)
            return_ = torch.where(alive, return_ + gamma**k * reward, return_)
            discount_n = torch.where(alive, gamma ** (k + 1), discount_n)
            ends = alive & done
            cut, done_n = cut | ends & truncated, done_n | (ends > truncated)
            alive = alive > ends
        before, after = (idxs - self.B) % self.size, (idxs + self.n * self.B) % self.size
        prev_action, prev_reward, begins = _select((rows.action, rows.reward, rows.done), before)
        for leaf, null in zip(leaves_of(prev_action), self._nulls, strict=True):
            leaf.copy_(torch.where(_like(begins, leaf), null, leaf))
        observation, action, done = _select((rows.observation, rows.action, rows.done), idxs)
        inputs = AgentInputs(observation, prev_action, prev_reward.masked_fill(begins, 0))
        target = _select(rows.observation, after)
        for leaf, final in zip(leaves_of(target), leaves_of(_select(self.final, last))):
            leaf.copy_(torch.where(_like(cut, leaf), final, leaf))
        target = AgentInputs(target, *_select((rows.action, rows.reward), last))
        batch = Transitions(inputs, action, return_, done, done_n, target)
        batch.discount_n, batch.ticket = discount_n.masked_fill(done_n, 0), None
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with rows as arrays on the host."""
        n = min(self.ring.written, self.T) * self.B

        def saved(tree: Any) -> list[Any]:
            return [leaf[:n].cpu().numpy() for leaf in leaves_of(tree)]

        return {
            "kind": "device",
            "made": self._settings(),
            "written": self.ring.written,
            "oldest": self.ring.oldest,
            "rows": saved(self.rows),
            "final": saved(self.final),
            "generator": None if self.generator is None else self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``, to continue exactly.

        Raises:
            ValueError: the saved replay has different settings.
        """
        if state["made"] != self._settings():
            raise ValueError(
                f"the settings must be those of the saved replay, {state['made']}, got "
                f"{self._settings()}. Construct the replay with the saved settings."
            )
        kept = (self.rows, state["rows"]), (self.final, state["final"])
        n = min(whole_number("written", state["written"], 0), self.T) * self.B
        for tree, arrays in kept:
            for leaf, array in zip(leaves_of(tree), arrays, strict=True):
                if np.shape(array) != (n, *leaf.shape[1:]):
                    raise ValueError(
                        f"rows of the saved replay must be {[n, *leaf.shape[1:]]}, got "
                        f"{list(np.shape(array))}."
                    )
                leaf[:n] = torch.as_tensor(array)
        load_generator(self.generator, state["generator"])
        self.ring.load(state["written"], state["oldest"])

    def _settings(self) -> dict[str, Any]:
        shapes = [[*leaf.shape[1:], str(leaf.dtype)] for leaf in leaves_of(self.rows)]
        return {"rows": f"{self.T} rows of {self.B}", "fields": shapes}


def _select(tree: Any, idxs: Tensor) -> Any:
    """Return the elements ``idxs`` of a tree of tensors, or of several."""
    if type(tree) is tuple:
        return [_select(part, idxs) for part in tree]
    return buffer_func(tree, torch.index_select, 0, idxs)


def _like(mask: Tensor, leaf: Tensor) -> Tensor:
    """Return a mask [N] with the dimensions of a leaf [N, ...]."""
    return mask.view(-1, *[1] * (leaf.dim() - 1))
