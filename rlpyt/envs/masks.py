"""Masks of valid actions of Gymnasium environments, as the part ``action_mask`` of observations.

Environments return them in ``info["action_mask"]`` of reset and of every step, or from a method
``action_masks()``. `rlpyt.envs.gym.GymEnvWrapper` and `rlpyt.envs.vector.base.adapt` detect them;
see `rlpyt.spaces.action_mask` for the form of a mask.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from rlpyt.envs.base import masks_expected
from rlpyt.envs.layers import EnvLike, SingleEnv, wrappers_of
from rlpyt.spaces.action_mask import FIELD, has_mask, mask_sizes, unwrapped
from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.collections import namedtuple_class
from rlpyt.utils.seed import undisturbed

Array = np.ndarray[Any, Any]
BYTES = tuple(map(np.dtype, (np.int8, np.bool_, np.uint8)))
INT8 = BYTES[0]
ALWAYS = "Return a mask from reset and from every step that does not terminate the episode"
LIBRARIES = ("gymnasium.", "ale_py.", "rlpyt.")  # whose code mentions the key if it returns masks


class MaskReader:
    """Reader of the masks of one environment.

    Args:
        env: the environment.
        action_space: its action space, in rlpyt's form.
        method: its method ``action_masks``; ``None``: masks are in info.

    Attributes:
        key: key of masks in info; ``None`` if the method returns them.
    """

    def __init__(
        self, env: SingleEnv, action_space: Space, method: Callable[[], Any] | None
    ) -> None:
        self._env, self._method, self._space = env, method, action_space
        self.key = FIELD if method is None else None
        self._sizes = mask_sizes(action_space)
        self._shape = (sum(self._sizes),)
        self._none = np.zeros(self._shape, np.int8)

    @property
    def space(self) -> gym_spaces.MultiBinary:
        """Return the space of the masks."""
        return gym_spaces.MultiBinary(self._shape[0])

    def read(self, info: Mapping[Any, Any] | None, terminated: bool = False) -> Array:
        """Return the mask [n] int8 of the next action; zeros if the episode has terminated.

        Raises:
            ValueError: there is no mask, or it does not have the right length or values.
            TypeError: its entries are not numbers or booleans.
        """
        if terminated:
            return self._none
        mask = (info or {}).get(self.key) if self._method is None else self._method()
        if type(mask) is np.ndarray and mask.shape == self._shape and mask.dtype in BYTES:
            return mask if mask.dtype is INT8 else mask.view(INT8)
        return self._converted(mask)

    def _converted(self, mask: object) -> Array:
        if mask is None:
            what = f"info[{FIELD!r}] is missing or" if self._method is None else "action_masks() is"
            raise ValueError(
                f"{self._env}: {what} None. {ALWAYS}; all ones if every action is valid."
            )
        array = np.asarray(_joined(mask, getattr(self._env, "action_space", None)))
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"{self._env}: {FIELD} must have entries 0 or 1, got {mask!r:.80}. Return booleans."
            )
        joined = len(self._sizes) > 1 and array.size == self._shape[0]
        if array.shape != self._shape and not joined:
            raise ValueError(
                f"{self._env}: {FIELD} must be a vector of {self._shape[0]} entries, one for "
                f"each choice of {unwrapped(self._space)}, got shape {array.shape}."
            )
        if not ((array == 0) | (array == 1)).all():
            raise ValueError(
                f"{self._env}: {FIELD} must have entries 0 or 1, got {mask!r:.80}. Return booleans."
            )
        return array.astype(np.int8).reshape(self._shape)


def _joined(mask: Any, space: object) -> Any:
    """Join the masks of components, in tuples, lists and dictionaries, in the space's order."""
    if isinstance(mask, Mapping):
        keys = getattr(space, "spaces", mask)
        mask = [_joined(mask.get(key), keys[key]) for key in keys]
    if not isinstance(mask, tuple | list):
        return mask
    parts = getattr(space, "spaces", [None] * len(mask))
    joined = [_joined(m, part) for m, part in zip(mask, parts) if m is not None]
    return np.concatenate([np.ravel(part) for part in joined]) if joined else np.zeros(0)


def mask_reader(env: SingleEnv, observation_space: Space, action_space: Space) -> MaskReader | None:
    """Return a reader of an environment's masks; ``None`` if it has none, or they are observed.

    To see whether info has masks, the environment is reset once, except in `built_like`.
    """
    if has_mask(observation_space) or not mask_sizes(action_space):
        return None
    method = _mask_method(env)
    if method is None and not _returns_masks(_layer_to_reset(env)):
        return None
    return MaskReader(env, action_space, method)


def _returns_masks(layer: EnvLike | None) -> bool:
    """Return True if info of a layer, or vector environments, has masks; None has none."""
    expected = masks_expected.get()
    if expected is not None:
        return expected
    return layer is not None and FIELD in _info_of_reset(layer)


def _mask_method(env: object) -> Callable[[], Any] | None:
    methods = (getattr(layer, "action_masks", None) for layer in wrappers_of(env))
    return next(filter(callable, methods), None)


def _layer_to_reset(env: object) -> Any:
    """Return the outermost layer whose info may have masks, or ``None``.

    Layers of libraries are left out, so that their wrappers record neither episode nor video of
    the reset.
    """
    return next((layer for layer in wrappers_of(env) if _may_return_masks(type(layer))), None)


def _may_return_masks(cls: type) -> bool:
    if not cls.__module__.startswith(LIBRARIES):
        return True
    codes = [getattr(x, "__code__", None) for c in cls.__mro__ for x in vars(c).values()]
    return any(FIELD in repr(code.co_consts) for code in codes if code is not None)


def _info_of_reset(env: EnvLike) -> Mapping[Any, Any]:
    """Reset an environment and return its info, empty if there is none or an error is raised.

    The next reset reports the error.
    """
    with undisturbed():
        try:
            result = env.reset()
        except Exception:
            return {}
    info = result[1] if isinstance(result, tuple) and len(result) == 2 else None
    return info if isinstance(info, Mapping) else {}


def masked_space(space: Space, mask_space: gym_spaces.MultiBinary) -> tuple[Composite, bool]:
    """Add the part ``action_mask`` to an observation space.

    Returns:
        The space, and True if the observation was composite before; a single one becomes the part
        ``observation``.
    """
    nested = hasattr(space.shape, "_fields")
    names = space.shape._fields if nested else ("observation",)
    parts = unwrapped(space).spaces if nested else (space,)
    mask = GymSpaceWrapper(mask_space, name=f"obs.{FIELD}")
    return Composite([*parts, mask], namedtuple_class("obs", (*names, FIELD))), nested


class ActionMaskObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium wrapper that adds the mask of valid actions to observations.

    The observation becomes a dict with the keys "observation" and "action_mask"; one that is a dict
    already gets the second key.

    Raises:
        ValueError: actions have no discrete component, or observations have the key
            "action_mask"; in ``reset`` and ``step``, the mask is missing or invalid.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        observation = GymSpaceWrapper(env.observation_space)
        action = GymSpaceWrapper(env.action_space)
        if has_mask(observation) or not mask_sizes(action):
            raise ValueError(
                f"{env} must have discrete actions, and observations without {FIELD!r}, got "
                f"{env.action_space} and {env.observation_space}. Remove ActionMaskObservation."
            )
        self._reader = MaskReader(env, action, _mask_method(env))
        self.observation_space = _masked_dict(env.observation_space, self._reader.space)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        return _with_mask(observation, self._reader.read(info).copy()), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        # A copy, since Gymnasium keeps final observations while the environment is reset.
        observation = _with_mask(observation, self._reader.read(info, terminated).copy())
        return observation, reward, terminated, truncated, info


def add_action_mask(env: gymnasium.Env[Any, Any]) -> Any:
    """Return the environment in `ActionMaskObservation` if it has masks, else unchanged."""
    spaces = env.observation_space, env.action_space
    try:
        observation, action = (GymSpaceWrapper(space) for space in spaces)
    except ValueError:  # an unsupported space, reported later
        return env
    return env if mask_reader(env, observation, action) is None else ActionMaskObservation(env)


def _masked_dict(
    space: gym_spaces.Space[Any], mask_space: gym_spaces.MultiBinary
) -> gym_spaces.Dict:
    parts = space.spaces if isinstance(space, gym_spaces.Dict) else {"observation": space}
    return gym_spaces.Dict({**parts, FIELD: mask_space})


def _with_mask(observation: object, mask: Array) -> dict[str, Any]:
    if isinstance(observation, Mapping):
        return {**observation, FIELD: mask}
    return {"observation": observation, FIELD: mask}


class VectorActionMask(VectorWrapper):
    """Wrapper of vector environments that adds masks of valid actions [n, ...] to observations.

    They are in ``info["action_mask"]``, in any autoreset mode; SAME_STEP has the mask of a final
    observation in ``info["final_info"]``. Or they come from a method ``action_masks()`` of the
    vector environment, or of the environments of Gymnasium's ``SyncVectorEnv`` and
    ``AsyncVectorEnv``. After the termination of an episode masks are zero.

    Raises:
        ValueError: the mode is SAME_STEP, in which a method does not return the mask of a final
            observation.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._method = _vector_method(env)
        mode = env.metadata.get("autoreset_mode")
        if self._method is not None and mode is AutoresetMode.SAME_STEP:
            raise ValueError(
                f"{env}: action_masks() returns no masks of final observations, which SAME_STEP "
                "needs. Return masks in info, wrap each environment in "
                "rlpyt.envs.masks.ActionMaskObservation, or use AutoresetMode.NEXT_STEP."
            )
        n = sum(mask_sizes(GymSpaceWrapper(env.single_action_space)))
        mask_space = gym_spaces.MultiBinary(n)
        self.single_observation_space = _masked_dict(env.single_observation_space, mask_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._size = n
        self._shown: Array = np.zeros((self.num_envs, n), np.int8)  # of the newest observations

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset the environments."""
        others = ~np.asarray((options or {}).get("reset_mask", True))  # sources remove it
        observation, info = self.env.reset(seed=seed, options=options)
        masks = self._masks(info, others)
        self._shown = np.where(others[..., None], self._shown, masks)
        return _with_mask(observation, self._shown), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments."""
        observation, reward, terminated, truncated, info = self.env.step(actions)
        final = info.get("final_obs")
        over = np.asarray(terminated, np.bool_)
        if final is None:
            self._shown = np.where(over[:, None], np.int8(0), self._masks(info, over))
            observation = _with_mask(observation, self._shown)
        else:  # the observations, and their masks, are already those of the next episodes
            self._shown = self._masks(info, np.zeros_like(over))
            observation = _with_mask(observation, self._shown)
            masks = self._masks(info.get("final_info", {}), ~np.asarray(truncated) | over)
            masks = np.where(over[:, None], np.int8(0), masks)
            if isinstance(final, np.ndarray) and final.dtype == object:
                rows = [x if x is None else _with_mask(x, m) for x, m in zip(final, masks)]
                final = np.empty(self.num_envs, object)
                final[:] = rows
            else:
                final = _with_mask(final, masks)
            info = {**info, "final_obs": final}
        return observation, reward, terminated, truncated, info

    def _masks(self, info: Mapping[str, Any], may_lack: Array) -> Array:
        """Return masks [n, size] int8, zero in rows without one that ``may_lack`` it.

        Raises:
            ValueError: a row lacks its mask, or masks do not have the right shape or values.
        """
        masks = info.get(FIELD) if self._method is None else self._method()
        if masks is None:
            masks, present = np.zeros((self.num_envs, self._size), np.int8), False
        else:
            present = True if self._method is not None else info.get(f"_{FIELD}", True)
            masks = _rows_of(masks, self.env.single_action_space, self.num_envs)
        if masks.shape != (self.num_envs, self._size) or masks.dtype.kind not in "biuf":
            raise ValueError(
                f"{self.env}: info[{FIELD!r}] must have shape {(self.num_envs, self._size)} and "
                f"entries 0 or 1, got shape {masks.shape} and dtype {masks.dtype}."
            )
        lacking = np.broadcast_to(~(np.asarray(present) | may_lack), self.num_envs)
        if lacking.any():
            row = int(np.flatnonzero(lacking)[0])
            raise ValueError(f"{self.env}: info has no {FIELD!r} of row {row}. {ALWAYS}.")
        if masks.dtype in BYTES:
            return masks.view(np.int8)
        whole = masks.astype(np.int8)
        if not np.array_equal(whole, masks):  # values of bytes are checked once per batch
            raise ValueError(
                f"{self.env}: info[{FIELD!r}] must have entries 0 or 1, got "
                f"{masks[whole != masks][0]}. Return booleans."
            )
        return whole


def _rows_of(masks: object, space: object, n: int) -> Array:
    """Join the masks of components [n, ...] to [n, size], in the order of a single action space.

    Masks that cannot be joined are returned as an array of another shape or dtype.
    """
    if isinstance(masks, Mapping):
        keys = getattr(space, "spaces", masks)
        return np.concatenate([_rows_of(masks[k], keys[k], n) for k in keys if k in masks], -1)
    array = np.asarray(masks)
    if array.dtype == object and len(array) == n:  # one object per row, None if it has no mask
        array = _stacked([None if row is None else _joined(row, space) for row in array])
    return array.reshape(n, -1) if array.ndim > 2 and len(array) == n else array


def _stacked(rows: list[Any]) -> Array:
    """Return flattened rows as one array, zero where they are None; objects if sizes differ."""
    flat = [None if row is None else np.ravel(row) for row in rows]
    first = next((row for row in flat if row is not None), np.zeros(0, np.int8))
    if any(row is not None and row.shape != first.shape for row in flat):
        return np.empty(len(rows), object)
    return np.stack([np.zeros_like(first) if row is None else row for row in flat])


def _vector_method(envs: VectorEnv[Any, Any, Any]) -> Callable[[], Any] | None:
    """Return ``action_masks`` of vector environments, or a call of that of each environment."""
    method, inner = _mask_method(envs), getattr(envs, "unwrapped", None)
    if method is not None or not isinstance(inner, SyncVectorEnv | AsyncVectorEnv):
        return method
    if not all(inner.call("has_wrapper_attr", "action_masks")):
        return None
    space = envs.single_action_space
    return lambda: _stacked([_joined(row, space) for row in inner.call("action_masks")])


def add_vector_masks(envs: VectorEnv[Any, Any, Any]) -> Any:
    """Return vector environments in `VectorActionMask` if they have masks, else unchanged.

    Raises:
        ValueError: info has masks, but actions have no discrete component.
    """
    space, action_space = envs.single_observation_space, envs.single_action_space
    observed = isinstance(space, gym_spaces.Dict) and FIELD in space.spaces
    if observed:
        return envs
    try:
        sizes = mask_sizes(GymSpaceWrapper(action_space))
    except ValueError:  # an unsupported space, reported later
        return envs
    method = _vector_method(envs) if sizes else None
    if method is None and not _returns_masks(envs if _resets_with_masks(envs) else None):
        return envs
    if not sizes:
        raise ValueError(no_choices(envs, action_space))
    return VectorActionMask(envs)


def no_choices(env: object, action_space: object) -> str:
    """Return the message for a mask in info where actions have no discrete component."""
    return (
        f"{env} must have discrete actions to return info['action_mask'], got {action_space}. "
        "Remove the mask from info: continuous actions have none."
    )


def _resets_with_masks(envs: VectorEnv[Any, Any, Any]) -> bool:
    """Return True if info of vector environments may have masks."""
    inner = getattr(envs, "unwrapped", None)
    singles = getattr(inner, "envs", None) or ()
    layers = [_layer_to_reset(env) for env in (envs, *singles[:1])]
    return isinstance(inner, AsyncVectorEnv) or layers.count(None) < len(layers)


class UnreadMasks:
    """Check of an environment without masks: it must not return one later.

    Args:
        env: the environment, or vector environment, in whose first info no mask was found.
        action_space: its action space, in rlpyt's form; ``None``: masks are read, or observed, so
            that nothing is checked.
    """

    def __init__(self, env: object, action_space: Space | None) -> None:
        self._env, self._action_space = env, action_space

    def check(self, info: Mapping[Any, Any], method: str = "step") -> None:
        """Check that info of a step, or of a later reset, has no mask.

        Raises:
            ValueError: it has one, but that of the first reset had none; or, in ``reset``, actions
                have no discrete component.
        """
        if self._action_space is None or not info or FIELD not in info:
            return
        if mask_sizes(self._action_space):
            raise ValueError(
                f"{self._env}: info of {method} has {FIELD!r}, but that of the first reset had "
                f"none. {ALWAYS}; all ones if every action is valid."
            )
        if method == "reset":
            raise ValueError(no_choices(self._env, unwrapped(self._action_space)))
