"""Gymnasium's vector environments behind the contract, whatever their autoreset mode.

=========== =============================================== ========================================
mode        at an episode's end the source                  here
=========== =============================================== ========================================
NEXT_STEP   shows the final observation, and resets at the  rows are reset through a mask when asked
            next step, whose action it ignores              for, so that no step is lost
SAME_STEP   resets at once; the final observation is in     the two are put back in order; what the
            ``info["final_obs"]``                           reset showed is kept for `reset_rows`
DISABLED    shows the final observation, and waits          as NEXT_STEP; waiting rows are reset
                                                            before they are stepped
=========== =============================================== ========================================
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers import vector as gym_wrappers

from rlpyt.envs.vector.base import Rows, UnsupportedVectorEnv
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.envs.vector.partial_reset import (
    layers_of,
    masked_reset,
    resets_by_known_code,
    try_partial_reset,
)
from rlpyt.envs.vector.source import Array, SourceAdapter
from rlpyt.envs.vector.stash import ResetStash, put_rows, take_rows
from rlpyt.utils.buffer import buffer_func

NEXT_STEP, SAME_STEP, DISABLED = (
    AutoresetMode.NEXT_STEP,
    AutoresetMode.SAME_STEP,
    AutoresetMode.DISABLED,
)
_OURS = "rlpyt.envs.vector.wrappers"
WRAPPERS_BY_OURS = {  # they lose count, or refuse, where single rows are reset
    "NormalizeObservation": f"{_OURS}.StandardizeObservation",
    "NormalizeReward": f"{_OURS}.StandardizeReward",
    "RecordEpisodeStatistics": f"{_OURS}.EpisodeMonitor",
}


class GymnasiumVectorEnv(SourceAdapter):
    """A gymnasium ``VectorEnv``, wrapped or not.

    Args:
        envs: the environments. Wrappers of ``gymnasium.wrappers.vector`` are stepped through.
        info_keys: entries of info to keep, see `InfoReader`.
        partial_reset: whether ``reset(options={"reset_mask": mask})`` resets the rows of the mask
            and no others. ``None``: known for gymnasium's own classes, tried out on others.

    Raises:
        UnsupportedVectorEnv: the autoreset mode is not declared or unknown; rows cannot be reset
            alone; a wrapper would go wrong when they are.
    """

    def __init__(
        self, envs: Any, info_keys: InfoKeys = (), partial_reset: bool | None = None
    ) -> None:
        self.mode = autoreset_mode(envs)
        self._partial = partial_reset
        if self._partial is None and resets_by_known_code(envs):
            self._partial = True
        if self.mode is not SAME_STEP:
            _refuse_what_goes_wrong(envs, self.mode)
            if self._partial is None:
                self._partial = try_partial_reset(envs)
            if not self._partial:
                known = self._partial is False
                self._refuse_partial_reset(
                    envs, "ignores or refuses" if known else "does not show whether it honours"
                )
        space = envs.single_observation_space
        super().__init__(envs, envs.num_envs, space, envs.single_action_space, info_keys)
        self._over = np.zeros(self.n, bool)  # DISABLED: what the source cannot step
        self._stash = ResetStash(self.n)  # SAME_STEP
        self._seed_list = True

    def _refuse_partial_reset(self, envs: Any, what: str) -> None:
        raise UnsupportedVectorEnv(
            f'{envs} {what} reset(options={{"reset_mask": mask}}), so single rows cannot be '
            "started anew. Let it honour the mask (and say so: GymnasiumVectorEnv(envs, "
            "partial_reset=True)), use AutoresetMode.SAME_STEP, or batch single environments: "
            "rlpyt.envs.vector.make_vec(id, vectorization_mode='sync')."
        )

    @property
    def horizon(self) -> int | None:
        """The registered time limit, if the environments tell."""
        envs = getattr(self.source.unwrapped, "envs", None)
        spec = getattr(envs[0] if envs else self.source, "spec", None)
        limit: int | None = getattr(spec, "max_episode_steps", None)
        settings = getattr(spec, "kwargs", {})
        return settings.get("max_episode_steps", limit)

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        self._stash.forget()
        self._over[:] = False
        if seeds is None:
            result = self.source.reset()
        else:
            result = self._reset_with(seeds)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise UnsupportedVectorEnv(
                f"{self.source}.reset() returned {type(result).__name__}, expected (observation, "
                "info): this is the interface of the old gym package."
            )
        return result

    def _reset_with(self, seeds: list[int]) -> Any:
        """Give each row its seed; sources that take one number only get the first."""
        if self._seed_list:
            try:
                return self.source.reset(seed=seeds)
            except Exception:  # each class says no in its own way
                if resets_by_known_code(self.source):
                    raise
                self._seed_list = False
        return self.source.reset(seed=seeds[0])

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        first = self._stash.take(rows)
        if first is not None:
            return first, {}
        if not self._partial and len(rows) == self.n:
            observation, info = self._source_reset(None)
            return take_rows(self._as_ours(observation, "reset"), rows), info
        if not self._partial:
            self._refuse_partial_reset(self.source, "is not known to honour")
        mask = np.zeros(self.n, bool)
        mask[self._stash.missing(rows)] = True  # the others have just been reset, and show it
        observation, info = masked_reset(self.source, mask)
        self._over[rows] = False
        return take_rows(self._as_ours(observation, "reset"), rows), info

    def _source_step(self, action: Any) -> Any:
        self._stash.forget()
        return self.source.step(action)

    def _before_waiting_step(self) -> None:
        if self.mode is DISABLED and self._over.any():
            masked_reset(self.source, self._over.copy())
            self._over[:] = False

    def _final(self, observation: Any, ended: Array, info: Mapping[str, Any]) -> Any:
        if self.mode is not SAME_STEP:
            if "final_obs" in info:
                raise UnsupportedVectorEnv(
                    f"{self.source} declares {self.mode}, yet its info has final_obs at an "
                    "episode's end, as only SAME_STEP has: correct metadata['autoreset_mode']."
                )
            self._over = ended.copy()
            return observation
        if not ended.any():
            return observation
        if "final_obs" not in info:
            raise UnsupportedVectorEnv(
                f"{self.source} declares {self.mode}, yet its info has no final_obs at an "
                "episode's end: correct metadata['autoreset_mode']."
            )
        rows = np.flatnonzero(ended)
        self._stash.keep(observation, rows)
        shown = buffer_func(observation, np.copy)
        final = info["final_obs"]
        if isinstance(final, np.ndarray) and final.dtype == object:
            for i in rows:
                put_rows(shown, i, final[i] if self._convert is None else self._convert(final[i]))
        else:
            put_rows(shown, rows, take_rows(self._as_ours(final, "final_obs of step"), rows))
        return shown


def autoreset_mode(envs: Any) -> AutoresetMode:
    """Return the declared mode.

    Raises:
        UnsupportedVectorEnv: there is none, or an unknown one; nothing is guessed.
    """
    declared = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    try:
        return declared if isinstance(declared, AutoresetMode) else AutoresetMode(declared)
    except ValueError:
        what = "declares no" if declared is None else f"declares the unknown {declared!r} as its"
        raise UnsupportedVectorEnv(
            f"{envs} {what} autoreset mode, so what its steps return at an episode's end would be "
            "a guess. Set metadata['autoreset_mode'] to the gymnasium.vector.AutoresetMode that "
            "it follows: NEXT_STEP, SAME_STEP or DISABLED."
        ) from None


def _refuse_what_goes_wrong(envs: Any, mode: AutoresetMode) -> None:
    """Raise where rows that are reset alone would be handled wrongly."""
    *wrappers, base = layers_of(envs)
    for wrapper in wrappers:
        name = type(wrapper).__name__
        if isinstance(wrapper, tuple(getattr(gym_wrappers, w) for w in WRAPPERS_BY_OURS)):
            raise UnsupportedVectorEnv(
                f"gymnasium.wrappers.vector.{name} goes wrong when rows are reset one by one; "
                f"put {WRAPPERS_BY_OURS.get(name, _OURS)} around the adapted environments instead."
            )
    if isinstance(base, AsyncVectorEnv) and not base.shared_memory and mode is NEXT_STEP:
        raise UnsupportedVectorEnv(
            "AsyncVectorEnv(shared_memory=False) in mode NEXT_STEP ignores the first action after "
            "an explicit reset (a fault of gymnasium 1.4); use shared_memory=True, or "
            "autoreset_mode=AutoresetMode.SAME_STEP."
        )
