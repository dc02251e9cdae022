"""Gymnasium environments with rlpyt's interface.

``make(id)`` is the factory for samplers: ``EnvCls=make, env_kwargs=dict(id="CartPole-v1")``.
Environments of the old ``gym`` package are adapted by ``rlpyt.envs.legacy_gym`` first.
"""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import Wrapper
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike

from rlpyt.envs import gym_state
from rlpyt.envs.base import EnvLayer, EnvStep, is_gym_env, own_spaces
from rlpyt.envs.channels import ChannelsFirst, looks_channels_last
from rlpyt.envs.gym_info import InfoSchema, build_info_tuples, info_to_nt  # noqa: F401
from rlpyt.envs.gym_registry import make_registered
from rlpyt.envs.layers import SingleEnv, wrappers_of
from rlpyt.envs.legacy_gym import (
    TRUNCATED,
    LegacyGymEnv,
    adapt_wrapped,
    as_flag,
    as_info,
    convert_space,
    five_values,
    has_info,
    reset_with_seed,
)
from rlpyt.envs.masks import INT8, UnreadMasks, mask_reader, masked_space
from rlpyt.envs.normalizers import keys_of_statistics, with_raw_rewards
from rlpyt.spaces.action_mask import FIELD, has_mask, unwrapped
from rlpyt.spaces.base import Space
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.seed import saved_seed

_array = np.ndarray
_new_tuple = tuple.__new__  # twice as fast as calling the named tuple


class GymEnvWrapper(EnvLayer):
    """Gymnasium environment as an rlpyt ``Env``; other attributes are forwarded to it.

    ``done`` is terminated or truncated; ``env_info`` has the numeric entries of the first step's
    info dict (see ``InfoSchema``) followed by ``timeout``, truncated and not terminated.
    Observations are passed through unchanged, except that those of Dict and Tuple spaces become
    named tuples, and floating-point numbers are converted to the dtype of their space. Masks of
    valid actions (``info["action_mask"]`` or ``env.action_masks()``) become the part
    ``action_mask`` of observations; an observation without parts then is the part ``observation``.

    Both interfaces are supported: ``reset`` returns (observation, info) or the observation,
    ``step`` five values or (observation, reward, done, info), where
    ``info["TimeLimit.truncated"]`` or a bool ``info["timeout"]`` means that a time limit ended the
    episode.

    Args:
        env: environment of ``gymnasium``, of the old ``gym``, or any object with ``reset``,
            ``step`` and two spaces, which may be rlpyt spaces.
        act_null_value: placeholder for the previous action before an episode's first step.
        obs_null_value: the same for observations.
        force_float32: report (and so store) float64 spaces as float32.

    Raises:
        TypeError: ``env`` is a class, or not an environment.
        AttributeError: ``env`` has no ``observation_space`` or no ``action_space``.
        ValueError: in ``reset`` and ``step``, a mask of actions is missing or invalid.
    """

    _action_space: Any  # a `GymSpaceWrapper`, or the environment's own space of rlpyt

    def __init__(
        self,
        env: SingleEnv,
        act_null_value: ArrayLike = 0,
        obs_null_value: ArrayLike = 0,
        force_float32: bool = True,
    ) -> None:
        env = _checked(env)
        own_spaces(env)
        self.env = env
        self._declared_space = env.action_space
        self._action_space = _wrapped(env.action_space, act_null_value, "act", force_float32, True)
        space = _wrapped(env.observation_space, obs_null_value, "obs", force_float32)
        self._observation_space = self._unmasked_space = space
        self._masks = mask_reader(env, space, self._action_space)
        self._read_mask = None
        if self._masks is not None:
            self._observation_space, self._nested = masked_space(space, self._masks.space)
            self._MaskedCls = type(self._observation_space.shape)
            self._read_mask, self._mask_key = self._masks.read, self._masks.key
            self._mask_shape = self._masks.space.shape
        has_none = self._masks is None and not has_mask(space)
        self._check_masks = UnreadMasks(env, self._action_space if has_none else None).check
        self.env, _ = with_raw_rewards(self.env)
        self._force_float32 = force_float32
        self._next_seed: int | None = None
        self._info_schema: InfoSchema | None = None
        self._bind()

    def _bind(self) -> None:
        """Select conversions once, to keep branches out of ``step``."""
        self._env_step = self.env.step
        action, observation = self._action_space, self._unmasked_space
        discrete = isinstance(unwrapped(action), gymnasium.spaces.Discrete)
        unchanged = getattr(action, "revert_identity", True) or (
            discrete and action.start == 0 and action.dtype == np.int64  # a row is a numpy integer
        )
        self._revert = None if unchanged else action.revert
        identity = getattr(observation, "identity", True)
        self._convert = None if identity else observation.convert
        # In a Tuple space, a pair may be an observation.
        space = convert_space(self.env.observation_space, "observation_space")
        self._pair_has_info = not isinstance(space, gymnasium.spaces.Tuple)
        self._always_info = True  # until the first step shows whether there is any
        self._only_mask = False  # True if info has a mask of actions and nothing else
        self._info_if_not_timeout = self._info_if_timeout = None

    def replaced_space(self) -> str | None:
        """Return a warning if the environment has another action space than when it was wrapped."""
        now, first = self.env.action_space, self._declared_space
        if now is first or convert_space(now, "action_space") == convert_space(first, "first"):
            return None
        return (
            f"{self.env}.action_space was {first} before reset and is {now} after it. The agent "
            "acts in the former. Make the space in the constructor; if some choices are only valid "
            "at times, declare an action mask."
        )

    def step(self, action: Any) -> EnvStep:
        """Step the inner environment.

        Raises:
            TypeError: the environment did not return observation, number, bool, bool, dict.
        """
        result = self._env_step(action if self._revert is None else self._revert(action))
        try:
            observation, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            observation, reward, terminated, truncated, info = five_values(result, self.env)
            self._adapt_legacy()
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = as_flag("terminated", terminated, self.env)
            truncated = as_flag("truncated", truncated, self.env)
        if self._always_info or (info and (not self._only_mask or len(info) > 1)):
            if self._info_schema is None:
                self._select_conversion(observation)
            env_info = self._convert_info(info, truncated and not terminated)
        elif truncated and not terminated:
            env_info = self._info_if_timeout
        else:
            env_info = self._info_if_not_timeout
        if self._convert is not None:
            observation = self._convert(observation)
        if self._read_mask is not None:
            mask = info.get(self._mask_key) if info else None
            # The usual mask is read without a call, which saves 0.1 of 14 us per step of CartPole.
            usual = type(mask) is _array and mask.dtype is INT8 and mask.shape == self._mask_shape
            if terminated or not usual:
                mask = self._read_mask(info, terminated)
            parts = (*observation, mask) if self._nested else (observation, mask)
            observation = _new_tuple(self._MaskedCls, parts)
        if type(reward) is not float:
            reward = _as_float(reward, self.env)
        return _new_tuple(EnvStep, (observation, reward, terminated or truncated, env_info))

    def reset(self) -> Any:
        """Reset the inner environment, with the pending seed if any; return the observation.

        Raises:
            TypeError: the environment returned ``None``.
        """
        seed, self._next_seed = self._next_seed, None
        result = self.env.reset() if seed is None else reset_with_seed(self.env, seed)
        usual = type(result) is tuple and len(result) == 2 and type(result[1]) is dict
        observation, info = result if usual and self._pair_has_info else self._split(result)
        if self._info_schema is None:
            self._select_conversion(observation)
        if self._convert is not None:
            observation = self._convert(observation)
        if self._read_mask is not None:
            mask = self._read_mask(info)
            parts = (*observation, mask) if self._nested else (observation, mask)
            return _new_tuple(self._MaskedCls, parts)
        self._check_masks(info, "reset")
        return observation

    def _split(self, result: object) -> tuple[Any, Mapping[Any, Any]]:
        """Return observation and info of what ``reset`` returned, in either interface."""
        if has_info(result, self.env.observation_space):
            return result[0], as_info(result[1], self.env, "reset")
        if result is None:
            raise TypeError(f"{self.env}.reset() returned None, expected (observation, info dict).")
        self._adapt_legacy()  # the observation alone
        return result, {}

    def _adapt_legacy(self) -> None:
        """Translate return values of the old interface from now on."""
        if not isinstance(self.env, LegacyGymEnv):
            self.env = LegacyGymEnv(self.env)
            self._env_step = self.env.step

    def _select_conversion(self, observation: object) -> None:
        """Convert observations from now on if this one does not have its space's dtype."""
        dtype = getattr(self._unmasked_space, "dtype", None)
        own = getattr(observation, "dtype", None)
        narrower = self._force_float32 and own == np.float64 and dtype == np.float32
        listed = own is None and isinstance(observation, list | tuple | float | int)
        if self._convert is None and isinstance(dtype, np.dtype) and (narrower or listed):
            self._convert = partial(np.asarray, dtype=dtype)
            if listed and isinstance(self._unmasked_space, GymSpaceWrapper):
                self._convert = self._unmasked_space.convert  # truncates no numbers

    def _convert_info(self, info: object, timeout: bool) -> Any:
        if not isinstance(info, dict):
            info = as_info(info, self.env)
        if self._info_schema is None:
            self._check_masks(info)
            ignored = () if self._masks is None else (FIELD,)
            ignored = (*ignored, *keys_of_statistics(self.env))
            if TRUNCATED not in info:  # `five_values` reads it where it comes later
                ignored = (*ignored, TRUNCATED)
            schema = InfoSchema(info, "info", ("timeout",), ignored, self._check_masks)
            self._info_schema = schema
            self._always_info = bool(schema.fields)
            self._only_mask = FIELD in ignored and FIELD in info and not schema.fields
            self._info_if_timeout = schema.convert({}, True)
            self._info_if_not_timeout = schema.convert({}, False)
        return self._info_schema.convert(info, timeout)

    def seed(self, seed: int) -> None:
        """Seed both spaces now, and the inner environment at the next ``reset``."""
        super().seed(seed)
        self._next_seed = int(seed)

    def get_state(self) -> dict[str, Any] | None:
        """Return the exact state if ``gym_state`` supports the environment, else ``None``."""
        state = gym_state.get_state(self.env)
        return None if state is None else {**state, "next_seed": self._next_seed}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of an equally constructed environment; see ``gym_state.set_state``."""
        gym_state.set_state(self.env, state)
        self._next_seed = saved_seed(state)

    @property
    def horizon(self) -> int | None:
        """Steps after which an episode is truncated; ``None`` without a time limit."""
        layers = [layer for layer in wrappers_of(self.env) if isinstance(layer, TimeLimit)]
        registered = getattr(getattr(self.env, "spec", None), "max_episode_steps", None)
        return min((layer._max_episode_steps for layer in layers), default=registered)


class EnvInfoWrapper(Wrapper[Any, Any, Any, Any]):
    """Gymnasium wrapper that fills missing entries of info dicts from an example.

    For keys that an environment reports only at some steps.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], info_example: Mapping[Any, Any]) -> None:
        super().__init__(env)
        self._sometimes_info = info_example

    def step(self, action: Any) -> Any:
        """Step the environment, also one of the old interface, and fill missing entries of info."""
        *step, info = self.env.step(action)
        return (*step, infill_info(info, self._sometimes_info))


def infill_info(info: Mapping[Any, Any], sometimes_info: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return ``info`` with missing entries taken from ``sometimes_info``, also in nested dicts."""
    filled = dict(info)
    for key, value in sometimes_info.items():
        if key not in filled:
            filled[key] = value
        elif isinstance(value, Mapping) and isinstance(filled[key], Mapping):
            filled[key] = infill_info(filled[key], value)
    return filled


def make(
    *args: Any,
    info_example: Mapping[Any, Any] | None = None,
    channels_first: bool | None = False,
    **kwargs: Any,
) -> GymEnvWrapper:
    """Make a Gymnasium environment for rlpyt; arguments are those of ``gymnasium.make``.

    Ids ``ALE/...`` register Atari first; outdated ids are replaced by the current version, with
    a warning. Gymnasium's environment checker is disabled by default.

    Args:
        info_example: entries that the info dict may contain at any step; missing ones are filled
            from it. Needed only if the first step after reset does not have all keys.
        channels_first: convert images [H, W, C] to [C, H, W], as convolutional models expect;
            ``None``: if they look channels-last, with the last of three axes the shortest.

    Raises:
        ValueError: the id is unknown (the message lists the nearest ones), or ``channels_first``
            is set and observations are not images.
        ImportError: the environment's package is missing; the message says what to install.
    """
    env_id = args[0] if args else kwargs.pop("id", None)
    if env_id is None:
        raise TypeError("make() needs the id of an environment, e.g. make('CartPole-v1').")
    env = make_registered(env_id, *args[1:], **kwargs)
    if channels_first or (channels_first is None and looks_channels_last(env.observation_space)):
        env = ChannelsFirst(env)
    return GymEnvWrapper(env if info_example is None else EnvInfoWrapper(env, info_example))


def _checked(env: SingleEnv) -> Any:
    if isinstance(env, type) or not (hasattr(env, "step") and hasattr(env, "reset")):
        raise TypeError(
            f"GymEnvWrapper requires an environment, got {env!r}. Build it first: "
            "GymEnvWrapper(MyEnv()), or make('CartPole-v1') for an id."
        )
    if is_gym_env(env, ("gym",)):
        warnings.warn(
            f"{type(env).__name__} uses the old gym package and runs through an adapter. Port it "
            "to gymnasium; the package shimmy adapts more kinds of environments.",
            stacklevel=3,
        )
        return LegacyGymEnv(env)
    adapt_wrapped(env)
    for attribute in ("observation_space", "action_space"):
        if getattr(env, attribute, None) is None:
            raise AttributeError(
                f"{type(env).__name__} has no {attribute}: set it to a gymnasium space in its "
                "constructor."
            )
    return env


def _as_float(reward: SupportsFloat, env: object) -> float:
    try:
        if isinstance(reward, str):
            raise TypeError
        return float(reward)
    except OverflowError:
        raise TypeError(
            f"{env}.step() returned a reward ({type(reward).__name__}) beyond the range of floats. "
            "Return float(reward), of moderate size."
        ) from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{env}.step() returned reward {reward!r:.80} ({type(reward).__name__}), expected a "
            "number. Return float(reward); sum several rewards."
        ) from None


def _wrapped(
    space: Space | gymnasium.Space[Any],
    null_value: ArrayLike,
    name: str,
    force_float32: bool,
    flat: bool = False,
) -> Any:
    """Return a space as an rlpyt space; rlpyt spaces are returned unchanged."""
    space = convert_space(space, name)
    return (
        space
        if isinstance(space, Space)
        else GymSpaceWrapper(space, null_value, name, force_float32, flat)
    )
