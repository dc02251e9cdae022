"""Vector environments whose observations and rewards are tensors that stay on their device.

Two protocols are read. In both, a step resets the rows whose episode it ends, and returns the first
observations of their next episodes:

- that of rsl_rl: ``step(actions)`` returns (observations, rewards, dones, extras), where
  ``extras["time_outs"]``, if it exists, marks episodes that a time limit has ended;
- that of Gymnasium in mode SAME_STEP: ``step(actions)`` returns (observations, rewards, terminated,
  truncated, info).

The true final observations of ended episodes are read from extras or info, if they are there: a
tree [n, ...] like the observations, under "final_observation", "terminal_observation" or
"final_obs"; rows that have not ended are ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.utils.dlpack
from gymnasium import spaces as gym_spaces
from gymnasium.vector import AutoresetMode
from torch import Tensor

from rlpyt.envs.base import Env, EnvSpaces, EnvStep
from rlpyt.envs.vector.base import UnsupportedVectorEnv, vector_info
from rlpyt.spaces.base import Space
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper, to_gym
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import own_containers
from rlpyt.utils.completion import takes

FINAL_KEYS = ("final_observation", "terminal_observation", "final_obs")


class TensorStep(NamedTuple):
    """Results of a step of n rows, on the device of the environments."""

    observation: list[Tensor]  # leaves [n, ...], of the next episode where one has ended
    reward: Tensor  # [n]
    done: Tensor  # [n], not zero where an episode has ended
    timeout: Tensor | None  # [n], not zero where it was truncated
    final: list[Tensor] | None  # leaves [n, ...], valid where an episode has ended


class TensorEnvs:
    """Environments of either protocol behind one interface.

    Spaces are the environment's ``single_observation_space`` and ``single_action_space``, or
    ``observation_space`` and ``action_space`` (of one row; Gymnasium's or rlpyt's). Without them,
    observations are unbounded arrays like the first ones, and actions unbounded vectors of
    ``num_actions`` numbers, as in rsl_rl.

    Tensors that the environment returns may be overwritten by its next call. Arrays of other
    libraries are read by DLPack; actions are tensors.

    Args:
        env: the environment, with ``num_envs``, ``step``, and ``reset`` or ``get_observations``.
        seed: seed of all rows, for ``reset(seed=...)`` or ``seed(...)``; without either, the
            environment's random numbers are its own business.

    Attributes:
        n: number of rows.
        device: device of the tensors.
        spaces: ``EnvSpaces`` of one row.
        observation: leaves [n, ...] of the first observation.

    Raises:
        TypeError, ValueError: the environment lacks a part of the protocol, or returns tensors of
            other shapes, dtypes or devices than its spaces and first observation.
        UnsupportedVectorEnv: it does not reset rows in the step that ends their episode.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self._name = env, type(env).__name__
        n = getattr(env, "num_envs", None)
        if not isinstance(n, int | np.integer) or n < 1:
            raise TypeError(
                f"{self._name}.num_envs must be the number of rows, got {n!r}. Set it in the "
                "constructor."
            )
        for method in ("step", "reset" if hasattr(env, "reset") else "get_observations"):
            if not callable(getattr(env, method, None)):
                raise TypeError(
                    f"{self._name} must have the methods step, and reset or get_observations, got "
                    f"no {method}. Define it."
                )
        self.n = int(n)
        observation = self._reset(seed)
        self.spaces = EnvSpaces(
            self._space("observation", lambda: _space_like(observation, "observation")),
            self._space("action", self._unbounded_actions),
        )
        if hasattr(self.spaces.action.shape, "_fields"):
            raise TypeError(
                f"the action space of {self._name} must be a Box, Discrete, MultiDiscrete or "
                f"MultiBinary space, got {self.spaces.action}. Concatenate the parts of actions."
            )
        self._paths = _paths_of(self.spaces.observation)
        examples = leaves_of(self.spaces.observation.null_value())
        self._shapes = [(self.n, *np.shape(x)) for x in examples]
        self._dtypes = [torch.from_numpy(np.empty(0, np.asarray(x).dtype)).dtype for x in examples]
        self.device = _tensor(_at(observation, self._paths[0]), "observation").device
        self._starts = [  # of categories that do not begin at 0
            (i, torch.as_tensor(leaf.start, device=self.device))
            for i, (_, leaf) in enumerate(leaf_spaces(self.spaces.observation))
            if np.any(getattr(leaf, "start", 0))
        ]
        self.observation = self._leaves(observation, "observation")
        self._read: Callable[[Any], TensorStep] = self._read_first

    def reset(self, seed: int | None = None) -> list[Tensor]:
        """Start an episode in every row; return the leaves of the observations, [n, ...].

        Raises:
            TypeError: the environment has no method ``reset``.
        """
        if not hasattr(self.env, "reset"):
            raise TypeError(
                f"{self._name} must have the method reset, to be evaluated. Define it, or set "
                "eval_n_envs=0."
            )
        return self._leaves(self._reset(seed), "observation")

    def step(self, action: Tensor) -> TensorStep:
        """Step every row.

        Args:
            action: [n, ...] in the environment's own form.
        """
        return self._read(self.env.step(action))

    def first_row(self, leaves: list[Tensor]) -> Any:
        """Return the observation of row 0 as numpy arrays, given leaves [n, ...]."""
        rows = iter(leaves)

        def first(null: Any) -> Any:
            leaf = next(rows)
            row = null if leaf.is_meta else leaf[0].to("cpu").numpy()
            return np.array(row, np.asarray(null).dtype)  # the environment may reuse its tensors

        return buffer_func(self.spaces.observation.null_value(), first)

    def _reset(self, seed: int | None) -> Any:
        reset = getattr(self.env, "reset", None) or self.env.get_observations
        if seed is not None and "seed" in inspect.signature(reset).parameters:
            result = reset(seed=seed)
        else:
            if seed is not None and callable(getattr(self.env, "seed", None)):
                self.env.seed(seed)
            result = reset()
        return result[0] if isinstance(result, tuple) else result  # else (observation, info)

    def _space(self, name: str, default: Callable[[], Any]) -> Any:
        for attribute in (f"single_{name}_space", f"{name}_space"):
            space = getattr(self.env, attribute, None)
            if space is not None:
                break
        else:
            space = default()
        return space if isinstance(space, Space) else GymSpaceWrapper(space, 0, name)

    def _unbounded_actions(self) -> gym_spaces.Box:
        size = getattr(self.env, "num_actions", None)
        if not isinstance(size, int | np.integer):
            raise TypeError(
                f"{self._name} must have action_space (of one row), or num_actions for unbounded "
                f"vectors, got num_actions={size!r}. Set it in the constructor."
            )
        return gym_spaces.Box(-np.inf, np.inf, (int(size),), np.float32)

    def _read_first(self, result: Any) -> TensorStep:
        """Read the first step, and choose the protocol for the next ones."""
        number = len(result) if isinstance(result, tuple | list) else None
        if number == 5:
            declared = (getattr(self.env, "metadata", None) or {}).get("autoreset_mode")
            if declared not in (AutoresetMode.SAME_STEP, AutoresetMode.SAME_STEP.value):
                raise UnsupportedVectorEnv(
                    f"metadata['autoreset_mode'] of {self._name} must be AutoresetMode.SAME_STEP: "
                    "rows are reset in the step that ends their episode, so that the host need not "
                    f"know which ones, got {declared}. Construct it in this mode."
                )
        elif number != 4:
            got = type(result).__name__ if number is None else f"{number} values"
            raise TypeError(
                f"step of {self._name} must return (observations, rewards, dones, extras) or "
                f"(observations, rewards, terminated, truncated, info), got {got}."
            )
        self._read = self._read_done if number == 4 else self._read_ended
        return self._read(result)

    def _read_done(self, result: Any) -> TensorStep:
        observation, reward, done, extras = result
        timeout = extras.get("time_outs")
        return TensorStep(
            self._leaves(observation, "observation"),
            self._checked(reward, (self.n,), torch.float32, "reward"),
            self._checked(done, (self.n,), None, "done"),
            None if timeout is None else self._checked(timeout, (self.n,), None, "time_outs"),
            self._final(extras),
        )

    def _read_ended(self, result: Any) -> TensorStep:
        observation, reward, terminated, truncated, info = result
        terminated = self._checked(terminated, (self.n,), None, "terminated")
        truncated = self._checked(truncated, (self.n,), None, "truncated")
        return TensorStep(
            self._leaves(observation, "observation"),
            self._checked(reward, (self.n,), torch.float32, "reward"),
            torch.logical_or(terminated, truncated),
            torch.logical_and(truncated, torch.logical_not(terminated)),
            self._final(info),
        )

    def _final(self, extras: Mapping[str, Any]) -> list[Tensor] | None:
        for key in FINAL_KEYS:
            if key in extras:
                return self._leaves(extras[key], key)
        return None

    def _leaves(self, tree: Any, what: str) -> list[Tensor]:
        parts = zip(self._paths, self._shapes, self._dtypes, strict=True)
        leaves = [
            self._checked(_at(tree, path), shape, dtype, ".".join((what, *path)))
            for path, shape, dtype in parts
        ]
        for i, start in self._starts:
            leaves[i] = leaves[i] - start
        return leaves

    def _checked(
        self, x: Any, shape: tuple[int, ...], dtype: torch.dtype | None, what: str
    ) -> Tensor:
        """Return an array as tensor.

        Args:
            x: the array.
            shape: shape that it must have.
            dtype: dtype in which it is recorded; ``None``: any.
            what: its name, for messages.
        """
        tensor = _tensor(x, what)
        if tensor.shape != shape:
            raise ValueError(
                f"{what} of {self._name} must have shape {list(shape)}, one row for each of "
                f"num_envs={self.n} environments, got {list(tensor.shape)}. Return this shape, or "
                "correct the space."
            )
        if tensor.device != self.device:
            raise ValueError(
                f"{what} of {self._name} must be on the device of the observations, {self.device}, "
                f"got {tensor.device}. Create it there: each step would copy it."
            )
        if dtype is not None and not torch.can_cast(tensor.dtype, dtype):
            raise TypeError(
                f"{what} of {self._name} must have a dtype that can be recorded as {dtype}, got "
                f"{tensor.dtype}. Convert it, or correct the space."
            )
        return tensor


class TensorRow(Env):
    """A tensor environment of one row as a single environment, to play a trained agent in it.

    Args:
        EnvCls, env_kwargs: see `make_tensor_envs`.

    Raises:
        ValueError, TypeError: see `make_tensor_envs`.
    """

    def __init__(self, EnvCls: Callable[..., Any], env_kwargs: Mapping[str, Any]) -> None:
        self._envs = make_tensor_envs(EnvCls, env_kwargs, 1, seed=0)
        self._observation_space, self._action_space = self._envs.spaces
        self._info = vector_info()
        self._seed: int | None = None

    def seed(self, seed: int) -> None:
        """Seed both spaces now, and the environment in the next ``reset``."""
        super().seed(seed)
        self._seed = seed

    def reset(self) -> Any:
        """Start an episode and return its first observation."""
        seed, self._seed = self._seed, None
        return self._envs.first_row(self._envs.reset(seed))

    def step(self, action: Any) -> EnvStep:
        """Run one step; the observation after a done is that of the next episode."""
        value = torch.as_tensor(np.asarray(to_gym(self._action_space, action)))
        step = self._envs.step(value[None].to(self._envs.device))
        done = bool(step.done[0])
        info = self._info(np.bool_(step.timeout is not None and step.timeout[0]), np.bool_(done))
        return EnvStep(self._envs.first_row(step.observation), float(step.reward[0]), done, info)

    def close(self) -> None:
        """Close the environment, if it can be closed."""
        getattr(self._envs.env, "close", lambda: None)()


def make_tensor_envs(
    EnvCls: Callable[..., Any],
    env_kwargs: Mapping[str, Any],
    n: int,
    seed: int,
    device: torch.device | None = None,
) -> TensorEnvs:
    """Make environments of n rows.

    Args:
        EnvCls: class or function that makes the environment. It gets ``num_envs``, and ``device``
            if that is one of its parameters.
        env_kwargs: its arguments, which come first.
        n: number of rows.
        seed: seed of all rows.
        device: device of the run, ``None``: do not pass it.

    Raises:
        ValueError: the environment has another number of rows. See also `TensorEnvs`.
    """
    given: dict[str, Any] = {"num_envs": n} if takes(EnvCls, "num_envs") else {}
    if device is not None and "device" in inspect.signature(EnvCls).parameters:
        given["device"] = device
    env = EnvCls(**{**given, **own_containers(dict(env_kwargs))})
    envs = TensorEnvs(env, seed)
    if envs.n != n:
        raise ValueError(
            f"num_envs of {type(env).__name__} must be {n}, the sampler's number of environments, "
            f"got {envs.n}. Set batch_B={envs.n}, or let the environment take the argument "
            "num_envs."
        )
    return envs


def is_tensor_env(EnvCls: object) -> bool:
    """Return True for a class with rsl_rl's protocol: ``step`` and ``get_observations``.

    Other classes and functions declare ``tensors = True`` as an attribute.
    """
    ours = isinstance(EnvCls, type) and hasattr(EnvCls, "step")
    return bool(getattr(EnvCls, "tensors", ours and hasattr(EnvCls, "get_observations")))


def takes_rows(EnvCls: Callable[..., Any]) -> bool:
    """Return True for what makes no single environments: of this kind, or with ``num_envs``."""
    return is_tensor_env(EnvCls) or "num_envs" in inspect.signature(EnvCls).parameters


def _tensor(x: Any, what: str) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()  # of a differentiable simulator
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"{what} must be a tensor, or an array that supports DLPack, got "
            f"{type(x).__name__}. For numbers and lists use the other samplers."
        )
    return torch.utils.dlpack.from_dlpack(x)


def _space_like(value: Any, what: str) -> gym_spaces.Space[Any]:
    """Return the unbounded space of one row of a tensor, or of a (nested) dict of them."""
    if hasattr(value, "keys"):  # also a TensorDict, which is no Mapping
        keys = list(value.keys())
        return gym_spaces.Dict({key: _space_like(value[key], f"{what}.{key}") for key in keys})
    x = _tensor(value, what)
    shape = tuple(x.shape[1:])
    if x.dtype == torch.bool:
        return gym_spaces.MultiBinary(shape)
    if x.is_floating_point():
        return gym_spaces.Box(-np.inf, np.inf, shape, np.float32)
    dtype: Any = torch.empty(0, dtype=x.dtype).numpy().dtype
    limits = np.iinfo(dtype)
    return gym_spaces.Box(limits.min, limits.max, shape, dtype)


def _paths_of(space: Any) -> list[tuple[str, ...]]:
    """Return the keys that lead to each leaf of an element of a space, in order."""
    if not hasattr(space.shape, "_fields"):
        return [()]
    inner = getattr(space, "space", space)
    keys = space.keys if isinstance(space, GymSpaceWrapper) else space.names
    parts = zip(keys, inner.spaces, strict=True)
    return [(key, *path) for key, part in parts for path in _paths_of(part)]


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for i, key in enumerate(path):
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            keys = list(tree.keys()) if hasattr(tree, "keys") else type(tree).__name__
            raise ValueError(
                f"an observation must have the key {'.'.join(map(str, path[: i + 1]))!r}, as in "
                f"its space and the first observation, got {keys}. Return all parts at every step."
            ) from None
    return tree
