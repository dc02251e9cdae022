"""Record return, length and time of complete episodes without changing them."""

import csv
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.envs.vector.base import Elements, Rows
from rlpyt.envs.vector.wrappers.base import VectorWrapper
from rlpyt.utils.checks import whole_number

COLUMNS = ("return", "length", "seconds", "row")


class EpisodeMonitor(VectorWrapper):
    """Wrapper that keeps the statistics of recent episodes and optionally writes them to a file.

    Place it inside reward wrappers to record the environment's own rewards. An episode ends with
    ``traj_done``: a game, not a life.

    Args:
        env: as for `VectorWrapper`.
        keep: number of episodes to keep.
        filename: CSV file to append to; a new file gets a header. Several processes may write to
            the same file.
        info_keys: fields of ``env_info`` whose values at the end are kept as well.

    Attributes:
        episodes: the last ``keep`` episodes, oldest first: dicts with "return", "length" (steps),
            "seconds" (wall time from first to last observation), "row", and the info keys.
        n_episodes: number of episodes that have ended.

    Raises:
        ValueError: the file has other columns.
    """

    def __init__(
        self,
        env: EnvLike,
        keep: int = 100,
        filename: str | Path | None = None,
        info_keys: Sequence[str] = (),
    ) -> None:
        super().__init__(env)
        self.episodes: deque[dict[str, float]] = deque(maxlen=whole_number("keep", keep, least=1))
        self.filename = None if filename is None else Path(filename)
        self.info_keys = tuple(info_keys)
        self._check_columns()
        self.n_episodes = 0
        self._return, self._length = np.zeros(self.n), np.zeros(self.n, np.int64)
        self._start = np.zeros(self.n)

    def _check_columns(self) -> None:
        if self.filename is None or not self.filename.exists():
            return
        with self.filename.open(newline="") as file:
            found = next(csv.reader(file), None)
        if found not in (None, [*COLUMNS, *self.info_keys]):
            raise ValueError(
                f"{self.filename} must have the columns {[*COLUMNS, *self.info_keys]} of this "
                f"monitor, got {found}. Give another filename, or the same info_keys."
            )

    def _begin(self, observation: Elements, rows: Rows) -> Any:
        self._return[rows] = 0.0
        self._length[rows] = 0
        self._start[rows] = time.perf_counter()
        return observation

    def _follow(self, step: EnvStep) -> EnvStep:
        self._return += step.reward
        self._length += 1
        ended = step.env_info.traj_done
        if np.count_nonzero(ended):
            self._record(np.flatnonzero(ended & ~self._waiting.mask), step.env_info)
        return step

    def _record(self, rows: Rows, info: tuple[Any, ...]) -> None:
        now = time.perf_counter()
        new = []
        for i in rows:
            episode = {
                "return": float(self._return[i]),
                "length": int(self._length[i]),
                "seconds": round(now - self._start[i], 6),
                "row": int(i),
            }
            new.append({**episode, **{key: getattr(info, key)[i].item() for key in self.info_keys}})
        self.episodes.extend(new)
        self.n_episodes += len(new)
        if self.filename is not None and new:
            self._write(new)

    def _write(self, episodes: list[dict[str, float]]) -> None:
        assert self.filename is not None
        self.filename.parent.mkdir(parents=True, exist_ok=True)
        with self.filename.open("a", newline="") as file:
            writer = csv.DictWriter(file, (*COLUMNS, *self.info_keys))
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(episodes)

    def _get_own(self) -> dict[str, Any]:
        return {
            "return": self._return.copy(),
            "length": self._length.copy(),
            "seconds": time.perf_counter() - self._start,
            "episodes": list(self.episodes),
            "n_episodes": self.n_episodes,
        }

    def _set_own(self, state: Mapping[str, Any]) -> None:
        self._return[...] = state["return"]
        self._length[...] = state["length"]
        self._start = time.perf_counter() - np.asarray(state["seconds"])
        self.episodes.clear()
        self.episodes.extend(dict(episode) for episode in state["episodes"])
        self.n_episodes = int(state["n_episodes"])
