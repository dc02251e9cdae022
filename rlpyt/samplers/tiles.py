"""Acting in calls of a fixed number of rows, so that results do not depend on the layout.

A matrix product rounds differently for another number of rows, another alignment or another
number of threads, so an agent that acts for 16 environments at once gives other last bits than one
that acts for 2 in each of 8 workers. ``TiledAgent`` removes the difference. It defines the
result for an environment as that of a call with exactly ``TILE`` rows, in which environment ``r``
is row ``r % TILE``, on one thread, with inputs copied to aligned memory. All layouts
give those bits.

Cheaper calls that give the same bits are used where they are found: before its first step the agent
is tried on random inputs and parameters, for all rows at once and with a few rows of padding. This
takes milliseconds.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent, FastPolicy
from rlpyt.models.utils import unwrap_ddp
from rlpyt.utils.blas import use_one_blas_thread
from rlpyt.utils.buffer import (
    NumpyArrays,
    Tensors,
    buffer_func,
    leaves_of,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.seed import undisturbed

if TYPE_CHECKING:
    from rlpyt.agents.memory import RecurrentMemory

Array = np.ndarray[Any, Any]
Noise = torch.Tensor | Array | None  # of actions, for torch or numpy

TILE = 8  # rows of a call
STATE_NOTE = (
    "(raised by deterministic_acting, which tries the agent on other numbers of rows. An agent "
    "with state for each environment needs recurrent = True in its class; it acts without tiles.)"
)
TRIALS = 16  # random inputs on which a cheaper call must give the same bits


class Tile(NamedTuple):
    """One call of the agent, made for some of the environments.

    Attributes:
        source: [m] int64, the environment of each row of the call; padding repeats one.
        places: [k] int64, rows of the call that are kept, in the order of the environments.
        whole: the rows of the call are all environments in order.
        rows: [m], ``source`` among all environments of the process, for the agent to read.
    """

    source: torch.Tensor
    places: torch.Tensor
    whole: bool
    rows: tuple[int, ...]


def can_be_tiled(agent: BaseAgent) -> bool:
    """Return True if the agent can act for any of its environments alone.

    A recurrent agent can if its state is in ``agent.memory``, which can be divided by environment.
    """
    own_reset = type(agent).reset_one is not BaseAgent.reset_one
    opaque = own_reset and agent.recurrent and agent.memory is None
    return not agent.acts_by_row and not opaque


def warn_if_untiled(agent: BaseAgent) -> None:
    """Warn that ``deterministic_acting`` has no effect for this agent."""
    if not can_be_tiled(agent) and not agent.acts_by_row:
        warnings.warn(
            f"deterministic_acting has no effect for {type(agent).__name__}, which has recurrent "
            "state of its own. Keep the state in rlpyt's RecurrentAgentMixin."
        )


def tiled(agent: BaseAgent, env_ranks: Sequence[int], first_row: int = 0) -> ActingAgent:
    """Return a ``TiledAgent`` around the agent, or the agent itself if it cannot be tiled."""
    return TiledAgent(agent, env_ranks, first_row) if can_be_tiled(agent) else agent


class TiledAgent:
    """An agent whose ``step``, ``value`` and ``fast_policy`` act in tiles; otherwise the agent.

    Args:
        agent: any agent for which ``can_be_tiled``.
        env_ranks: global ranks of the environments that it is asked for, [n].
        first_row: the index of the first of them among those that ``collector_initialize`` named.
    """

    def __init__(self, agent: BaseAgent, env_ranks: Sequence[int], first_row: int = 0) -> None:
        self.agent = agent
        self._n = len(env_ranks)
        self._reference = _reference_tiles(env_ranks, first_row)
        self._candidates = [[_padded(self._n, m, first_row)] for m in _sizes(self._n)]
        self._plans: dict[str, list[Tile]] = {}
        self._noise: torch.Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "agent" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.agent, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the agent with all inputs at once, without tiles, as training does."""
        return self.agent(*args, **kwargs)

    def reset_one(self, idx: int) -> None:
        """Forget the recurrent state of one environment."""
        self.agent.reset_one(idx)

    def set_noise(self, noise: torch.Tensor | None) -> None:
        """Give the randomness of the next ``step``, [n, ...]."""
        self._noise = noise

    def step(self, *inputs: Tensors) -> Any:
        """Return the agent's step for inputs [n, ...], computed in tiles."""
        noise, self._noise = self._noise, None
        return self._act("step", inputs, noise)

    def value(self, *inputs: Tensors) -> Any:
        """Return the agent's value for inputs [n, ...], computed in tiles."""
        return self._act("value", inputs, None)

    def fast_policy(self) -> FastPolicy | None:
        """Return the agent's numpy policy in tiles, or ``None``.

        It is ``None`` if the agent has none, or if numpy's number of threads cannot be set.
        """
        if self.agent.fast_policy() is None or not use_one_blas_thread():
            return None
        group = self.agent.group
        parts: list[tuple[Tile, Any]] = []

        def policy(observation: NumpyArrays, noise: Array) -> Any:
            if not parts:  # parameters are as they were when the policy was asked for
                self.agent.set_group(group)
                tiles = self._plan("fast", torchify_buffer((observation,)), noise)
                parts.extend(self._fast_parts(tiles))
            return _call_fast(parts, observation, noise)

        return policy

    def _fast_parts(self, tiles: list[Tile]) -> list[tuple[Tile, Any]]:
        try:
            parts = []
            for tile in tiles:
                self.agent.rows = tile.rows
                parts.append((tile, self.agent.fast_policy()))
            return parts
        finally:
            self.agent.rows = None

    def _act(self, method: str, inputs: tuple[Any, ...], noise: torch.Tensor | None) -> Any:
        if len(inputs[-1]) != self._n:  # a custom collector that asks for some rows
            if noise is not None:
                self.agent.set_noise(noise)
            return getattr(self.agent, method)(*inputs)
        threads = torch.get_num_threads()
        if threads > 1:
            torch.set_num_threads(1)
        try:
            return self._call(method, self._plan(method, inputs, noise), inputs, noise)
        finally:
            if threads > 1:
                torch.set_num_threads(threads)

    def _call(self, method: str, tiles: list[Tile], inputs: tuple[Any, ...], noise: Noise) -> Any:
        """Call the agent tile by tile; its recurrent state before and after is that of all rows."""
        if method == "fast":
            assert isinstance(noise, np.ndarray)
            return _call_fast(self._fast_parts(tiles), numpify_buffer(inputs)[0], noise)
        agent, memory = self.agent, self.agent.memory
        before = None if memory is None else memory.state
        outputs, states = [], []
        try:
            for tile in tiles:
                agent.rows = tile.rows
                if memory is not None:
                    _set_state(memory, buffer_func(before, _rows, 1, tile.source))
                if isinstance(noise, torch.Tensor):
                    agent.set_noise(_rows(noise, 0, tile.source))
                output = getattr(agent, method)(*buffer_func(inputs, _rows, 0, tile.source))
                outputs.append(buffer_func(output, _rows, 0, tile.places))
                if memory is not None:
                    states.append(buffer_func(memory.state, _rows, 1, tile.places))
        finally:
            agent.rows = None
            if memory is not None:
                _set_state(memory, before)
        if memory is not None and method == "step":
            _set_state(memory, _joined(states, 1))
        return _joined(outputs, 0)

    def _plan(self, method: str, inputs: tuple[Any, ...], noise: Noise) -> list[Tile]:
        """Return the calls to make, found by trial when first asked for."""
        if method not in self._plans:
            memory = self.agent.memory
            before = None if memory is None else memory.state
            with undisturbed(), _random_parameters(self.agent):
                try:
                    self._plans[method] = self._cheapest(method, inputs, noise)
                except Exception as error:
                    error.add_note(STATE_NOTE)
                    raise
            if memory is not None:
                _set_state(memory, before)
        return self._plans[method]

    def _cheapest(self, method: str, inputs: tuple[Any, ...], noise: Noise) -> list[Tile]:
        """Return the cheapest calls that give the bits of the reference tiles.

        Raises:
            ValueError: the agent's results for one row depend on the contents of others.
        """
        rng = np.random.default_rng(0)
        trials = []
        for _ in range(TRIALS):
            drawn = self._draw(inputs, noise, rng)
            given = (*drawn, self._draw_state(*drawn))
            trials.append((given, self._outcome(method, self._reference, *given)))
        self._check_independence(method, *trials[0], self._draw(inputs, noise, rng))
        for tiles in self._candidates:
            if all(self._outcome(method, tiles, *given) == found for given, found in trials):
                return tiles
        return self._reference

    def _check_independence(
        self, method: str, given: tuple[Any, ...], expected: list[bytes], others: tuple[Any, ...]
    ) -> None:
        """Raise ValueError if results change when every second row of the inputs is replaced."""
        *drawn, state = given
        for parity in range(min(2, self._n)):
            inputs, noise = (_mixed(a, b, parity) for a, b in zip(drawn, others))
            found = self._outcome(method, self._reference, inputs, noise, state)
            if found[parity::2] != expected[parity::2]:
                raise ValueError(
                    "deterministic_acting needs an agent whose results for an environment do not "
                    f"depend on other environments; those of {type(self.agent).__name__} do. "
                    "Remove what mixes rows from its model (batch normalization in training mode "
                    "does), or leave deterministic_acting out."
                )

    def _draw(
        self, inputs: tuple[Any, ...], noise: Noise, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        """Draw random inputs and noise: floats from a normal distribution, others from spaces."""
        spaces = self.agent.env_spaces or (None, None)
        drawn = []
        for tree, space in zip(inputs, (*spaces, None)):
            own = buffer_func(tree, lambda leaf: leaf.numpy().copy())
            if space is not None:
                for b in range(self._n):
                    own[b] = space.sample()
            for leaf in leaves_of(own):
                if leaf.dtype.kind == "f":
                    leaf[...] = rng.standard_normal(leaf.shape)
            drawn.append(torchify_buffer(own))
        if noise is None:
            return tuple(drawn), None
        drawn_noise = rng.random(tuple(noise.shape), np.float32)
        is_torch = isinstance(noise, torch.Tensor)
        return tuple(drawn), torch.from_numpy(drawn_noise) if is_torch else drawn_noise

    def _draw_state(self, inputs: tuple[Any, ...], noise: Noise) -> Any:
        """Return a recurrent state [N, n, H] after one step, so that it is not zero."""
        memory = self.agent.memory
        if memory is None or len(inputs) == 1:
            return None
        memory.clear()
        self._call("step", self._reference, inputs, noise)
        return memory.state

    def _outcome(
        self,
        method: str,
        tiles: list[Tile],
        inputs: tuple[Any, ...],
        noise: Noise,
        state: Tensors | None,
    ) -> list[bytes]:
        """Return all results of a call for each environment, with the next recurrent state."""
        memory = self.agent.memory
        if memory is not None:
            _set_state(memory, buffer_func(state, torch.clone))
        output = self._call(method, tiles, inputs, noise)
        if method == "step" and noise is None:
            output = output[1:]  # actions are drawn from torch's generator
        given = [np.asarray(leaf) for leaf in leaves_of(numpify_buffer(output))]
        if memory is not None:
            given += [leaf.swapaxes(0, 1) for leaf in leaves_of(numpify_buffer(memory.state))]
        return [b"".join(leaf[b].tobytes() for leaf in given) for b in range(self._n)]


ActingAgent = BaseAgent | TiledAgent  # of collectors and action servers


def _reference_tiles(env_ranks: Sequence[int], first_row: int) -> list[Tile]:
    """Return tiles of TILE rows in which environment ``rank`` is row ``rank % TILE``."""
    ranks = np.asarray(env_ranks)
    if (np.diff(ranks) != 1).any():  # unusual: take them in the order in which they are given
        ranks = np.arange(len(ranks))
    tiles = []
    for tile in range(ranks[0] // TILE, ranks[-1] // TILE + 1):
        wanted = np.clip(np.arange(tile * TILE, (tile + 1) * TILE), ranks[0], ranks[-1])
        own = ranks[ranks // TILE == tile]
        whole = len(ranks) == len(own) == TILE
        tiles.append(_tile(wanted - ranks[0], own % TILE, whole, first_row))
    return tiles


def _padded(n: int, m: int, first_row: int) -> Tile:
    """Return one call of m rows for all n environments."""
    return _tile(np.arange(m).clip(max=n - 1), np.arange(n), n == m, first_row)


def _tile(index: Array, places: Array, whole: bool, first_row: int) -> Tile:
    rows = tuple((index + first_row).tolist())
    return Tile(torch.from_numpy(index), torch.from_numpy(places), whole, rows)


def _sizes(n: int) -> list[int]:
    """Return the numbers of rows to try for n environments, the cheapest first."""
    up = -(-n // TILE) * TILE
    return sorted({n, up, *(m for m in (2, 4) if m > n)})


def _rows(leaf: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    """Copy these rows to memory of their own, which torch aligns."""
    return leaf.index_select(dim, index.to(leaf.device))


def _joined(parts: list[Any], dim: int) -> Any:
    """Join trees of tensors along a dimension."""
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if not isinstance(parts[0], tuple):
        return torch.cat(parts, dim)
    rests = [iter(leaves_of(part)) for part in parts]
    return buffer_func(parts[0], lambda _: torch.cat([next(rest) for rest in rests], dim))


def _set_state(memory: RecurrentMemory, state: Tensors | None) -> None:
    if state is None:
        memory.clear()
    else:
        memory.advance(state)


def _mixed(a: object, b: object, parity: int) -> Any:
    """Return the rows of ``a`` whose index has this parity, and the other rows of ``b``."""
    others = iter(leaves_of(b))

    def mix(leaf: Any) -> Any:
        other = next(others)
        mixed = other.clone() if isinstance(other, torch.Tensor) else other.copy()
        mixed[parity::2] = leaf[parity::2]
        return mixed

    return buffer_func(a, mix)


def _call_fast(parts: list[tuple[Tile, Any]], observation: NumpyArrays, noise: Array) -> Any:
    """Call the numpy policies of tiles; return the result of one for all rows."""
    if parts[0][0].whole:
        return parts[0][1](observation, noise)
    results = []
    for tile, policy in parts:
        part = buffer_func(observation, np.take, tile.source.numpy(), 0)
        action, parameters, last = policy(part, noise[tile.source.numpy()])
        results.append([leaf[tile.places.numpy()] for leaf in (action, *parameters, last)])
    joined = [np.concatenate(leaves) if len(parts) > 1 else leaves[0] for leaves in zip(*results)]
    return joined[0], tuple(joined[1:-1]), joined[-1]


@contextmanager
def _random_parameters(agent: BaseAgent) -> Iterator[None]:
    """Act by a copy of the model with random parameters, as initial ones may be zero."""
    model = agent.model
    if not isinstance(model, torch.nn.Module):
        yield
        return
    own = copy.deepcopy(unwrap_ddp(model))
    generator = torch.Generator().manual_seed(0)
    for parameter in own.parameters():
        if parameter.is_floating_point():
            drawn = torch.randn(parameter.shape, generator=generator)
            scale = 0.1 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
            new = drawn * scale + (parameter.detach().cpu() if parameter.dim() < 2 else 0)
            parameter.data.copy_(new)
    agent.model = own
    try:
        yield
    finally:
        agent.model = model
