"""Acting in calls of a fixed number of rows, so that results do not depend on the layout.

Rounding in a matrix product depends on the number of rows, the alignment and the number of threads,
so the results of an agent that acts for 16 environments at once differ in the last bits from those
of one that acts for 2 in each of 8 workers. ``TiledAgent`` removes the difference: the result for
environment ``r`` is that of row ``r % TILE`` in a call with exactly ``TILE`` rows, on one thread,
with inputs copied to aligned memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent, FastPolicy
from rlpyt.utils.blas import use_one_blas_thread
from rlpyt.utils.buffer import (
    NumpyArrays,
    Tensors,
    buffer_func,
    concatenated,
    leaves_of,
    numpify_buffer,
)
from rlpyt.utils.seed import undisturbed

if TYPE_CHECKING:
    from rlpyt.agents.memory import RecurrentMemory

Array = np.ndarray[Any, Any]
Noise = torch.Tensor | Array | None  # action noise, for torch or numpy

TILE = 8  # number of rows of a call
STATE_NOTE = (
    f"(raised by deterministic_acting, which calls the agent with {TILE} rows. An agent with state "
    "for each environment must set recurrent = True in its class; it then acts without tiles.)"
)


class Tile(NamedTuple):
    """One call of the agent, for some of the environments.

    Attributes:
        env_idxs: [m] int64, environment of each row of the call; padding repeats one.
        kept_rows: [k] int64, rows of the call whose results are used, in the order of environments.
        whole: True if the rows of the call are all environments in order.
        rows: [m], ``env_idxs`` among all environments of the process, see ``BaseAgent.rows``.
    """

    env_idxs: torch.Tensor
    kept_rows: torch.Tensor
    whole: bool
    rows: tuple[int, ...]


def can_be_tiled(agent: BaseAgent) -> bool:
    """Return True if the agent can act in tiles, and needs to.

    A recurrent agent can if its state is in ``agent.memory``, which can be divided by environment.
    An agent whose rows are independent gives the same bits without tiles.
    """
    custom_reset = type(agent).reset_one is not BaseAgent.reset_one
    opaque = custom_reset and agent.recurrent and agent.memory is None
    return not agent.rows_are_independent and not opaque


def warn_if_untiled(agent: BaseAgent) -> None:
    """Warn that ``deterministic_acting`` has no effect for this agent."""
    if not can_be_tiled(agent) and not agent.rows_are_independent:
        warnings.warn(
            f"deterministic_acting has no effect for {type(agent).__name__}, which stores "
            "recurrent state itself. Keep the state in rlpyt's RecurrentAgentMixin."
        )


def tiled(agent: BaseAgent, env_ranks: Sequence[int], first_row: int = 0) -> ActingAgent:
    """Return a ``TiledAgent`` around the agent, or the agent itself if it cannot be tiled."""
    return TiledAgent(agent, env_ranks, first_row) if can_be_tiled(agent) else agent


class TiledAgent:
    """Wrapper of an agent whose ``step``, ``value`` and ``fast_policy`` act in tiles.

    Args:
        agent: agent for which ``can_be_tiled`` returns True.
        env_ranks: global ranks of the environments [n] to act for.
        first_row: index of the first of them among the ``env_ranks`` of ``collector_initialize``.
    """

    def __init__(self, agent: BaseAgent, env_ranks: Sequence[int], first_row: int = 0) -> None:
        self.agent = agent
        self._n = len(env_ranks)
        self._tiles = tiles_of(env_ranks, first_row)
        self._checked: set[str] = set()  # methods
        self._noise: torch.Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "agent" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.agent, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the agent with all inputs at once, without tiles, as in training."""
        return self.agent(*args, **kwargs)

    def reset_one(self, idx: int) -> None:
        """Forget the recurrent state of one environment."""
        self.agent.reset_one(idx)

    def set_noise(self, noise: torch.Tensor | None) -> None:
        """Set the noise of the next ``step``, [n, ...]."""
        self._noise = noise

    def step(self, *inputs: Tensors) -> Any:
        """Return the agent's step for inputs [n, ...], computed in tiles."""
        noise, self._noise = self._noise, None
        return self._act("step", inputs, noise)

    def value(self, *inputs: Tensors) -> Any:
        """Return the agent's value for inputs [n, ...], computed in tiles."""
        return self._act("value", inputs, None)

    def fast_policy(self) -> FastPolicy | None:
        """Return the agent's numpy policy in tiles.

        ``None`` if the agent has no numpy policy, or if numpy's number of threads cannot be set.
        """
        if self.agent.fast_policy() is None or not use_one_blas_thread():
            return None
        parts: list[tuple[Tile, Any]] = []
        try:
            for tile in self._tiles:
                self.agent.rows = tile.rows
                parts.append((tile, self.agent.fast_policy()))
        finally:
            self.agent.rows = None
        return partial(_call_fast, parts)

    def _act(self, method: str, inputs: tuple[Any, ...], noise: torch.Tensor | None) -> Any:
        if len(inputs[-1]) != self._n:  # a custom collector acts for some of the rows
            if noise is not None:
                self.agent.set_noise(noise)
            return getattr(self.agent, method)(*inputs)
        threads = torch.get_num_threads()
        if threads > 1:
            torch.set_num_threads(1)
        try:
            if method not in self._checked:
                self._checked.add(method)
                self._check_independence(method, inputs, noise)
            return self._call(method, inputs, noise)
        finally:
            if threads > 1:
                torch.set_num_threads(threads)

    def _call(self, method: str, inputs: tuple[Any, ...], noise: torch.Tensor | None) -> Any:
        """Call the agent tile by tile; update the recurrent state of all rows."""
        agent, memory = self.agent, self.agent.memory
        before = None if memory is None else memory.state
        outputs, states = [], []
        try:
            for tile in self._tiles:
                agent.rows = tile.rows
                if memory is not None:
                    _set_state(memory, buffer_func(before, _rows, 1, tile.env_idxs))
                if noise is not None:
                    agent.set_noise(_rows(noise, 0, tile.env_idxs))
                output = getattr(agent, method)(*buffer_func(inputs, _rows, 0, tile.env_idxs))
                outputs.append(buffer_func(output, _rows, 0, tile.kept_rows))
                if memory is not None:
                    states.append(buffer_func(memory.state, _rows, 1, tile.kept_rows))
        finally:
            agent.rows = None
            if memory is not None:
                _set_state(memory, before)
        if memory is not None and method == "step":
            _set_state(memory, concatenated(states, 1))
        return concatenated(outputs)

    def _check_independence(
        self, method: str, inputs: tuple[Any, ...], noise: torch.Tensor | None
    ) -> None:
        """Raise ValueError if results change when every second row of the inputs is replaced."""
        with undisturbed():
            try:
                expected = self._tried(method, inputs, noise)
            except Exception as error:
                error.add_note(STATE_NOTE)
                raise
            for parity in range(min(2, self._n)):
                others = buffer_func(inputs, _mixed, parity)
                for x, y in zip(expected, self._tried(method, others, noise)):
                    if x[parity::2].tobytes() != y[parity::2].tobytes():
                        raise ValueError(
                            "deterministic_acting needs an agent whose results for an environment "
                            "do not depend on other environments, but those of "
                            f"{type(self.agent).__name__} do. Remove layers that mix rows, such as "
                            "batch normalization in training mode, from its model, or do not set "
                            "deterministic_acting."
                        )

    def _tried(
        self, method: str, inputs: tuple[Any, ...], noise: torch.Tensor | None
    ) -> list[Array]:
        """Return the results of a call, leaves [n, ...], and leave the recurrent state as it is."""
        memory = self.agent.memory
        before = None if memory is None else memory.state
        output = self._call(method, inputs, noise)
        if memory is not None:
            _set_state(memory, before)
        if method == "step" and noise is None:
            output = output[1:]  # actions are drawn from torch's generator
        return [np.asarray(leaf) for leaf in leaves_of(numpify_buffer(output))]


ActingAgent = BaseAgent | TiledAgent  # agent of a collector or action server


def tiles_of(env_ranks: Sequence[int], first_row: int) -> list[Tile]:
    """Return tiles of TILE rows in which environment ``rank`` is row ``rank % TILE``."""
    ranks = np.asarray(env_ranks)
    if (np.diff(ranks) != 1).any():  # unusual: number them in their order
        ranks = np.arange(len(ranks))
    tiles = []
    for tile in range(ranks[0] // TILE, ranks[-1] // TILE + 1):
        padded = np.clip(np.arange(tile * TILE, (tile + 1) * TILE), ranks[0], ranks[-1])
        in_tile = ranks[ranks // TILE == tile]
        idxs, kept = map(torch.from_numpy, (padded - ranks[0], in_tile % TILE))
        whole = len(ranks) == len(in_tile) == TILE
        tiles.append(Tile(idxs, kept, whole, tuple((idxs + first_row).tolist())))
    return tiles


def _rows(leaf: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    """Copy these rows to new memory, which torch aligns."""
    return leaf.index_select(dim, index.to(leaf.device))


def _set_state(memory: RecurrentMemory, state: Tensors | None) -> None:
    if state is None:
        memory.clear()
    else:
        memory.advance(state)


def _mixed(leaf: torch.Tensor, parity: int) -> torch.Tensor:
    """Return the rows whose index has this parity, and others in place of the rest."""
    mixed = leaf.roll(1, 0)
    if leaf.is_floating_point():
        mixed += torch.randn(leaf.shape)
    mixed[parity::2] = leaf[parity::2]
    return mixed


def _call_fast(parts: list[tuple[Tile, Any]], observation: NumpyArrays, noise: Array) -> Any:
    """Call the numpy policies of all tiles; return the joined results."""
    if parts[0][0].whole:
        return parts[0][1](observation, noise)
    results = []
    for tile, policy in parts:
        part = buffer_func(observation, np.take, tile.env_idxs.numpy(), 0)
        result = policy(part, noise[tile.env_idxs.numpy()])
        results.append(buffer_func(result, lambda leaf, rows: leaf[rows], tile.kept_rows.numpy()))
    return concatenated(results)
