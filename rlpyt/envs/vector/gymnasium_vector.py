"""Adapter of Gymnasium's vector environments in any autoreset mode.

=========== =============================================== ========================================
mode        source at an episode's end                      adapter
=========== =============================================== ========================================
NEXT_STEP   returns the final observation, and resets at    resets rows by a mask in `reset_rows`,
            the next step, ignoring its action              so that no step is lost
SAME_STEP   resets at once; the final observation is in     returns the final observation; caches
            ``info["final_obs"]``                           the first one for `reset_rows`
DISABLED    returns the final observation, and waits        as NEXT_STEP; resets waiting rows before
                                                            they are stepped
=========== =============================================== ========================================
"""

import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array
from gymnasium.wrappers import vector as gym_wrappers

from rlpyt.envs.base import own_spaces
from rlpyt.envs.layers import wrappers_of
from rlpyt.envs.masks import UnreadMasks, add_vector_masks
from rlpyt.envs.normalizers import RAW_REWARD, with_raw_rewards
from rlpyt.envs.vector.base import Elements, Native, Rows, UnsupportedVectorEnv
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.envs.vector.partial_reset import (
    masked_reset,
    resets_by_known_code,
    try_partial_reset,
)
from rlpyt.envs.vector.reset_cache import ResetCache, put_rows, take_rows
from rlpyt.envs.vector.source import Array, SourceAdapter
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.buffer import buffer_func, keeps_numbers, leaves_of

SAME_STEP = AutoresetMode.SAME_STEP
FLOAT = np.float32(0)  # example of an entry of info
_OURS = "rlpyt.envs.vector.wrappers"
REPLACEMENTS = {  # these fail when single rows are reset
    "NormalizeObservation": f"{_OURS}.StandardizeObservation",
    "NormalizeReward": f"{_OURS}.StandardizeReward",
    "RecordEpisodeStatistics": f"{_OURS}.EpisodeMonitor",
}


class GymnasiumVectorEnv(SourceAdapter):
    """Adapter of a gymnasium ``VectorEnv``, wrapped or not.

    Masks of valid actions in ``info["action_mask"]`` become a part of observations.

    Args:
        envs: the environments, which may have wrappers of ``gymnasium.wrappers.vector``.
        info_keys: entries of info to keep, see `InfoReader`.
        partial_reset: set to True if ``reset(options={"reset_mask": mask})`` resets only the rows
            of the mask. ``None``: known for gymnasium's own classes, tested for others.

    Raises:
        UnsupportedVectorEnv: the autoreset mode is not declared or unknown, single rows cannot be
            reset, or a wrapper does not support it.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        info_keys: InfoKeys = (),
        partial_reset: bool | None = None,
    ) -> None:
        self.mode = autoreset_mode(envs)
        self._partial = partial_reset
        if self._partial is None and resets_by_known_code(envs):
            self._partial = True
        if self.mode is not SAME_STEP:
            _check_wrappers(envs, self.mode)
            if self._partial is None:
                self._partial = try_partial_reset(envs)
            if not self._partial:
                known = self._partial is False
                self._raise_no_partial_reset(
                    envs, "does not support" if known else "is not known to support"
                )
        self._rows = getattr(envs.unwrapped, "envs", ())  # of SyncVectorEnv
        for env in self._rows:
            own_spaces(env)
        envs, has_raw_reward = with_raw_rewards(add_vector_masks(envs))
        if has_raw_reward and RAW_REWARD not in info_keys:
            keys = info_keys if isinstance(info_keys, Mapping) else dict.fromkeys(info_keys, FLOAT)
            info_keys = {**keys, RAW_REWARD: FLOAT}
        space = envs.single_observation_space
        super().__init__(envs, envs.num_envs, space, envs.single_action_space, info_keys)
        self._check_masks = UnreadMasks(envs, None if self._masked else self.action_space).check
        self._over = np.zeros(self.n, bool)  # DISABLED: rows that the source cannot step
        self._reset_cache = ResetCache(self.n)  # SAME_STEP
        self._seed_list = True
        self._final_differs = False  # SAME_STEP: from the first observation of the next episode

    def _raise_no_partial_reset(self, envs: object, problem: str) -> None:
        remedy = "use AutoresetMode.SAME_STEP,"
        if self.mode is SAME_STEP:
            remedy = "take no random steps at the start (max_decorrelation_steps=0 of the sampler),"
        raise UnsupportedVectorEnv(
            f'{envs} {problem} reset(options={{"reset_mask": mask}}), so single rows cannot be '
            "reset. Support the mask (and pass partial_reset=True to GymnasiumVectorEnv), "
            f"{remedy} or batch single environments: "
            "rlpyt.envs.vector.make_vec(id, vectorization_mode='sync')."
        )

    @property
    def horizon(self) -> int | None:
        """Registered time limit of the environments; ``None`` if unknown."""
        envs = getattr(self.source.unwrapped, "envs", None)
        spec = getattr(envs[0] if envs else self.source, "spec", None)
        limit: int | None = getattr(spec, "max_episode_steps", None)
        settings = getattr(spec, "kwargs", {})
        return settings.get("max_episode_steps", limit)

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        self._reset_cache.clear()
        self._over[:] = False
        if seeds is None:
            result = self._call(self.source.reset)
        else:
            result = self._call(self._reset_with, seeds)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise UnsupportedVectorEnv(
                f"{self.source}.reset() returned {type(result).__name__}, expected (observation, "
                "info). Vector environments of the old gym package are not supported."
            )
        self._check_masks(result[1], "reset")
        return result

    def _reset_with(self, seeds: list[int]) -> Any:
        """Reset with a seed per row; sources that accept only one number get the first."""
        for env, seed in zip(self._rows, seeds):
            env.action_space.seed(seed)
            env.observation_space.seed(seed)
        if self._seed_list:
            try:
                return self.source.reset(seed=seeds)
            except Exception as error:  # its kind depends on the class
                if resets_by_known_code(self.source):
                    raise
                self._seed_list = False
                with suppress(Exception):
                    return self.source.reset(seed=seeds[0])
                raise error from None
        return self.source.reset(seed=seeds[0])

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        first = self._reset_cache.take(rows)
        if first is not None:
            return first, {}
        if not self._partial and len(rows) == self.n:
            observation, info = self._source_reset(None)
            return take_rows(self._checked_observation(observation, "reset"), rows), info
        if not self._partial:
            self._raise_no_partial_reset(self.source, "is not known to support")
        mask = self._reset_cache.missing(rows)  # the source has just reset the others
        observation, info = self._call(masked_reset, self.source, mask)
        self._check_masks(info, "reset")
        self._over[rows] = False
        return take_rows(self._checked_observation(observation, "reset"), rows), info

    def _source_step(self, action: Native) -> Any:
        self._reset_cache.clear()
        return self._call(self.source.step, action)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the environments; name the one whose observation it cannot stack."""
        try:
            return function(*args)
        except Exception as error:
            _raise_cause(self.source, error)
            raise

    def _before_waiting_step(self) -> None:
        if self.mode is AutoresetMode.DISABLED and self._over.any():
            observation, _ = masked_reset(self.source, self._over.copy())
            if self._masked:
                first = self._checked_observation(observation, "reset")
                self._source_masks = np.array(action_mask_of(first))
            self._over[:] = False

    def _check_first_step(self, observation: object, *others: Any) -> None:
        super()._check_first_step(observation, *others)
        self._check_masks(others[-1])

    def _with_final_observations(
        self, observation: Elements, ended: Array, info: Mapping[str, Any]
    ) -> Any:
        self._check_masks(info)
        if self.mode is not SAME_STEP:
            if "final_obs" in info:
                raise UnsupportedVectorEnv(
                    f"{self.source} declares {self.mode}, but its info has final_obs at an "
                    "episode's end, as only SAME_STEP does. Correct metadata['autoreset_mode']."
                )
            self._over = ended.copy()
            return observation
        if not ended.any():
            return observation
        if "final_obs" not in info:
            raise UnsupportedVectorEnv(
                f"{self.source} declares {self.mode}, but its info has no final_obs at an "
                "episode's end. Correct metadata['autoreset_mode']."
            )
        rows = np.flatnonzero(ended)
        self._reset_cache.store(observation, rows)
        result = buffer_func(observation, np.copy)
        final = info["final_obs"]
        if isinstance(final, np.ndarray) and final.dtype == object:
            for i in rows:
                one = final[i] if self._convert is None else self._convert(final[i])
                self._check_final(one, take_rows(result, int(i)))
                put_rows(result, i, one)
        else:
            of_ended = take_rows(self._checked_observation(final, "final_obs of step"), rows)
            self._check_final(of_ended, take_rows(result, rows))
            put_rows(result, rows, of_ended)
        if not self._final_differs:
            self._compare_final(take_rows(result, rows), take_rows(observation, rows))
        return result

    def _check_final(self, final: Elements, like: Elements) -> None:
        """Refuse final observations unlike others, as None, or a category of 1.5."""
        if isinstance(like, tuple):
            for part, other in zip(tuple(final), tuple(like), strict=True):
                self._check_final(part, other)
            return
        new, dtype = np.asarray(final), like.dtype
        if new.dtype.kind not in "biuf" or new.shape != like.shape:
            got = "None" if final is None else f"{new.dtype} of shape {new.shape}"
            raise UnsupportedVectorEnv(
                f"final_obs of {self.source} is {got}, expected {dtype} of shape {like.shape}."
            )
        if not keeps_numbers(new, dtype):
            raise UnsupportedVectorEnv(
                f"final_obs of {self.source} has {new.dtype} in place of {dtype}; the conversion "
                "would lose digits."
            )

    def _compare_final(self, final: Elements, first: Elements) -> None:
        """Warn if the first final observations are the first ones of the next episodes."""
        self._final_differs = True
        if all(map(np.array_equal, leaves_of(final), leaves_of(first))):
            warnings.warn(
                f"info['final_obs'] of {self.source} is the first observation of the next episode. "
                "If the environments return the same array at every step, SAME_STEP overwrites the "
                "final observation: return copies, or use AutoresetMode.NEXT_STEP."
            )


def _raise_cause(envs: VectorEnv[Any, Any, Any], error: Exception) -> None:
    """Name the environment whose observation `SyncVectorEnv` could not stack with the others.

    Raises:
        UnsupportedVectorEnv: this is the cause of the error.
    """
    frames = traceback.walk_tb(error.__traceback__)
    if any(frame.f_globals.get("__name__") == concatenate.__module__ for frame, _ in frames):
        space = envs.unwrapped.single_observation_space
        for i, one in enumerate(getattr(envs.unwrapped, "_env_obs", ())):
            try:
                empty: Any = create_empty_array(space, 1)
                concatenate(space, [one], empty)
            except Exception:
                got = "None" if one is None else f"{one!r:.80}"
                raise UnsupportedVectorEnv(
                    f"environment {i} of {envs} returned the observation {got}, expected an "
                    f"element of {space}."
                ) from error


def autoreset_mode(envs: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return the declared autoreset mode.

    Raises:
        UnsupportedVectorEnv: the mode is not declared or unknown.
    """
    declared = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    try:
        return declared if isinstance(declared, AutoresetMode) else AutoresetMode(declared)
    except ValueError:
        problem = "declares no" if declared is None else f"declares {declared!r} as its"
        raise UnsupportedVectorEnv(
            f"{envs} {problem} autoreset mode, so the meaning of its steps at an episode's end is "
            "unknown. Set metadata['autoreset_mode'] to the gymnasium.vector.AutoresetMode that "
            "it implements: NEXT_STEP, SAME_STEP or DISABLED."
        ) from None


def _check_wrappers(envs: VectorEnv[Any, Any, Any], mode: AutoresetMode) -> None:
    """Raise an error for wrappers and modes that do not support resets of single rows."""
    *wrappers, base = wrappers_of(envs, VectorWrapper)
    for wrapper in wrappers:
        name = type(wrapper).__name__
        if isinstance(wrapper, tuple(getattr(gym_wrappers, w) for w in REPLACEMENTS)):
            raise UnsupportedVectorEnv(
                f"gymnasium.wrappers.vector.{name} does not support resets of single rows. "
                f"Put {REPLACEMENTS.get(name, _OURS)} around the adapted environments instead."
            )
    if (
        isinstance(base, AsyncVectorEnv)
        and not base.shared_memory
        and mode is AutoresetMode.NEXT_STEP
    ):
        raise UnsupportedVectorEnv(
            "AsyncVectorEnv(shared_memory=False) in mode NEXT_STEP ignores the first action after "
            "an explicit reset (a bug of gymnasium 1.4). Use shared_memory=True, or "
            "autoreset_mode=AutoresetMode.SAME_STEP."
        )
