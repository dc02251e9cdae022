"""Acting in calls of a fixed number of rows, so that results do not depend on the layout.

Rounding in a matrix product depends on the number of rows, the alignment and the number of threads,
so the results of an agent that acts for 16 environments at once differ in the last bits from those
of one that acts for 2 in each of 8 workers. ``TiledAgent`` removes the difference. It defines the
result for environment ``r`` as that of row ``r % TILE`` in a call with exactly ``TILE`` rows, on
one thread, with inputs copied to aligned memory. All layouts give these bits.

Cheaper calls are used if they give the same bits: before its first step the agent is tried on
random inputs and parameters, for all rows at once and with a few rows of padding. This takes from
0.03 s (an MLP) to a second (convolutions and an LSTM).
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent, FastPolicy
from rlpyt.models.utils import unwrap_ddp
from rlpyt.spaces.action_mask import action_mask_of
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
Noise = torch.Tensor | Array | None  # action noise, for torch or numpy

TILE = 8  # number of rows of a call
STATE_NOTE = (
    "(raised by deterministic_acting, which tries the agent on different numbers of rows. An agent "
    "with state for each environment must set recurrent = True in its class; it then acts without "
    "tiles.)"
)
TRIALS, TRIED_ROWS = 16, 128  # least numbers of random inputs for which bits must be the same


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
        self._reference = _reference_tiles(env_ranks, first_row)
        self._candidates = [[_padded(self._n, m, first_row)] for m in _sizes(self._n)]
        self._plans: dict[str, list[Tile]] = {}
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
        group = self.agent.group
        parts: list[tuple[Tile, Any]] = []

        def policy(observation: NumpyArrays, noise: Array) -> Any:
            if not parts:  # at the first call, before the parameters change
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
        if len(inputs[-1]) != self._n:  # a custom collector acts for some of the rows
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
        """Call the agent tile by tile; update the recurrent state of all rows."""
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
                    _set_state(memory, buffer_func(before, _rows, 1, tile.env_idxs))
                if isinstance(noise, torch.Tensor):
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
            _set_state(memory, _joined(states, 1))
        return _joined(outputs, 0)

    def _plan(self, method: str, inputs: tuple[Any, ...], noise: Noise) -> list[Tile]:
        """Return the calls to make, found by trial at the first call."""
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
        spaces = copy.deepcopy(self.agent.env_spaces or (None, None))
        for space in filter(None, spaces):
            space.seed(0)
        trials = []
        for _ in range(max(TRIALS, math.ceil(TRIED_ROWS / self._n))):
            drawn = self._draw(inputs, noise, rng, spaces)
            args = (*drawn, self._draw_state(*drawn))
            trials.append((args, self._outcome(method, self._reference, *args)))
        self._check_independence(method, *trials[0], self._draw(inputs, noise, rng, spaces))
        for tiles in self._candidates:
            if all(self._outcome(method, tiles, *args) == expected for args, expected in trials):
                return tiles
        return self._reference

    def _check_independence(
        self, method: str, args: tuple[Any, ...], expected: list[bytes], others: tuple[Any, ...]
    ) -> None:
        """Raise ValueError if results change when every second row of the inputs is replaced."""
        *drawn, state = args
        for parity in range(min(2, self._n)):
            inputs, noise = (_mixed(a, b, parity) for a, b in zip(drawn, others))
            found = self._outcome(method, self._reference, inputs, noise, state)
            if found[parity::2] != expected[parity::2]:
                raise ValueError(
                    "deterministic_acting needs an agent whose results for an environment do not "
                    f"depend on other environments, but those of {type(self.agent).__name__} do. "
                    "Remove layers that mix rows, such as batch normalization in training mode, "
                    "from its model, or do not set deterministic_acting."
                )

    def _draw(
        self, inputs: tuple[Any, ...], noise: Noise, rng: np.random.Generator, spaces: Any
    ) -> tuple[Any, Any]:
        """Draw random inputs and noise: floats from a normal distribution, others from spaces.

        All actions are valid, since a mask that allows one hides differences of probabilities.
        """
        drawn = []
        for tree, space in zip(inputs, (*spaces, None)):
            random = buffer_func(tree, lambda leaf: leaf.numpy().copy())
            if space is not None:
                for b in range(self._n):
                    random[b] = space.sample()
            for leaf in leaves_of(random):
                if leaf.dtype.kind == "f":
                    leaf[...] = rng.standard_normal(leaf.shape)
            mask = action_mask_of(random)
            if mask is not None:
                mask[...] = 1
            drawn.append(torchify_buffer(random))
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
        leaves = [np.asarray(leaf) for leaf in leaves_of(numpify_buffer(output))]
        if memory is not None:
            leaves += [leaf.swapaxes(0, 1) for leaf in leaves_of(numpify_buffer(memory.state))]
        return [b"".join(leaf[b].tobytes() for leaf in leaves) for b in range(self._n)]


ActingAgent = BaseAgent | TiledAgent  # agent of a collector or action server


def _reference_tiles(env_ranks: Sequence[int], first_row: int) -> list[Tile]:
    """Return tiles of TILE rows in which environment ``rank`` is row ``rank % TILE``."""
    ranks = np.asarray(env_ranks)
    if (np.diff(ranks) != 1).any():  # unusual: number them in their order
        ranks = np.arange(len(ranks))
    tiles = []
    for tile in range(ranks[0] // TILE, ranks[-1] // TILE + 1):
        padded = np.clip(np.arange(tile * TILE, (tile + 1) * TILE), ranks[0], ranks[-1])
        in_tile = ranks[ranks // TILE == tile]
        whole = len(ranks) == len(in_tile) == TILE
        tiles.append(_tile(padded - ranks[0], in_tile % TILE, whole, first_row))
    return tiles


def _padded(n: int, m: int, first_row: int) -> Tile:
    """Return one call of m rows for all n environments."""
    return _tile(np.arange(m).clip(max=n - 1), np.arange(n), n == m, first_row)


def _tile(env_idxs: Array, kept_rows: Array, whole: bool, first_row: int) -> Tile:
    rows = tuple((env_idxs + first_row).tolist())
    return Tile(torch.from_numpy(env_idxs), torch.from_numpy(kept_rows), whole, rows)


def _sizes(n: int) -> list[int]:
    """Return the numbers of rows to try for n environments, the cheapest first."""
    rounded_up = -(-n // TILE) * TILE
    return sorted({n, rounded_up, *(m for m in (2, 4) if m > n)})


def _rows(leaf: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    """Copy these rows to new memory, which torch aligns."""
    return leaf.index_select(dim, index.to(leaf.device))


def _joined(parts: list[Any], dim: int) -> Any:
    """Join trees of tensors along a dimension."""
    if len(parts) == 1:
        return parts[0]
    leaves = [iter(leaves_of(part)) for part in parts]
    return buffer_func(parts[0], lambda _: torch.cat([next(leaf) for leaf in leaves], dim))


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
    """Call the numpy policies of all tiles; return the joined results."""
    if parts[0][0].whole:
        return parts[0][1](observation, noise)
    results = []
    for tile, policy in parts:
        part = buffer_func(observation, np.take, tile.env_idxs.numpy(), 0)
        action, parameters, last = policy(part, noise[tile.env_idxs.numpy()])
        leaves = (*leaves_of(action), *parameters, last)
        results.append([leaf[tile.kept_rows.numpy()] for leaf in leaves])
    joined = [np.concatenate(leaves) if len(parts) > 1 else leaves[0] for leaves in zip(*results)]
    n = len(parameters) + 1
    actions = iter(joined)
    return buffer_func(action, lambda _: next(actions)), tuple(joined[-n:-1]), joined[-1]


@contextmanager
def _random_parameters(agent: BaseAgent) -> Iterator[None]:
    """Act with a copy of the model that has random parameters, since initial ones may be zero."""
    model = agent.model
    if not isinstance(model, torch.nn.Module):
        yield
        return
    random_model = copy.deepcopy(unwrap_ddp(model))
    generator = torch.Generator().manual_seed(0)
    for parameter in random_model.parameters():
        if parameter.is_floating_point():
            drawn = torch.randn(parameter.shape, generator=generator)
            scale = 0.1 if parameter.dim() < 2 else parameter[0].numel() ** -0.5
            new = drawn * scale + (parameter.detach().cpu() if parameter.dim() < 2 else 0)
            parameter.data.copy_(new)
    for module in random_model.modules():
        if isinstance(module, torch.nn.RNNBase):
            module.flatten_parameters()  # a copy's weights are apart, of which cuDNN warns
    agent.model = random_model
    try:
        yield
    finally:
        agent.model = model
