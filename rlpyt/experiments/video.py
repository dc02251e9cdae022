"""Films of agents: one episode after the other, or several side by side."""

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt.envs.base import build_env
from rlpyt.experiments.build import env_recipe
from rlpyt.experiments.run import Run
from rlpyt.samplers.env_batch import bounds_of
from rlpyt.utils.buffer import buffer_from_example, buffer_func, numpify_buffer, torchify_buffer
from rlpyt.utils.checks import whole_number
from rlpyt.vis.images import Image, captioned, picture_of, shrunk, tile
from rlpyt.vis.progress import PathLike
from rlpyt.vis.style import short_number

MAX_STEPS = 1_500
SMALLEST_SIDE = 160  # pixels; MinAtar's pictures are 10 x 10
LARGEST_WIDTH = 1280  # pixels of a film; pictures in a grid are shrunk to keep to it
SUFFIXES = (".mp4", ".gif")
GIF_FPS = 50  # at the most: viewers show faster ones slowly


def record_video(
    run: Run,
    path: PathLike,
    episodes: int = 1,
    max_steps: int = MAX_STEPS,
    seed: int = 0,
    grid: tuple[int, int] = (1, 1),
) -> int:
    """Film a trained agent; arguments and result as of ``record_agent``."""
    env = partial(run.env, render=True)
    return record_agent(run.agent, env, path, episodes, max_steps, seed, grid, itr=run.itr)


def record_agent(
    agent: Any,
    env: Any,
    path: PathLike,
    episodes: int = 1,
    max_steps: int = MAX_STEPS,
    seed: int = 0,
    grid: tuple[int, int] = (1, 1),
    deterministic: bool = True,
    captions: bool = True,
    fps: int | None = None,
    itr: int = 1,
) -> int:
    """Film any agent in any environment, as MP4 or GIF.

    In a grid several episodes go on at once, each in an environment of its own; where one ends,
    the next that has not begun yet follows, and where none is left the last picture stays, dimmed.

    Args:
        agent: an agent of ours, initialized or not (then with random parameters), or a function
            of one observation that returns an action.
        env: the environment's name, as of ``rlpyt train``; a class or function that makes one; or
            an environment, which is not closed. One of gymnasium must be made with
            ``render_mode="rgb_array"``; what a name stands for is.
        path: of the film; ``.mp4`` or ``.gif``.
        episodes: how many to film in all.
        max_steps: the film ends after so many pictures at the latest. An episode of n steps has
            n + 1: one more for its beginning.
        seed: of the first episode; the others follow.
        grid: rows and columns of environments side by side.
        deterministic: take the likeliest action instead of drawing one.
        captions: write the number of the episode, its steps and its return above each picture.
        fps: pictures per second; by default what the environment says, or 30.
        itr: iteration that the agent's exploration is of.

    Returns:
        The number of pictures.

    Raises:
        ImportError: imageio with imageio-ffmpeg is missing; says what to install.
        TypeError, ValueError: an argument is out of range, or the environment has no pictures.
    """
    if not isinstance(grid, tuple | list) or len(grid) != 2:
        raise TypeError(f"grid={grid!r} must be (rows, columns).")
    output, n_tiles = Path(path), grid[0] * grid[1]
    if output.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{output} must end in one of {', '.join(SUFFIXES)}.")
    if fps is not None:
        fps = whole_number("fps", fps, 1)
    if min(*grid, episodes, max_steps) < 1:
        raise ValueError(f"grid={grid}, episodes={episodes}, max_steps={max_steps}: at least 1.")
    with _without_window(), _environments(env, min(n_tiles, episodes)) as envs:
        actor = _actor(agent, envs, deterministic, itr)
        shots = _play(envs, actor, episodes, seed)
        first = next(shots)  # whether there are pictures at all, before a file is begun
        pace = fps or _fps(envs[0])
        with _writer(output, min(pace, GIF_FPS) if output.suffix == ".gif" else pace) as film:
            n = 0
            for shot in itertools.islice(itertools.chain([first], shots), max_steps):
                film.append_data(_assemble(shot, n_tiles, grid[1], captions))
                n += 1
    return n


@dataclass
class _Episode:
    """One environment's share of a picture."""

    number: int
    picture: Image
    steps: int = 0
    return_: float = 0.0
    done: bool = False
    resting: bool = False  # there is no episode left for this environment

    @property
    def caption(self) -> str:
        end = "  end" if self.done else ""
        return (
            f"#{self.number}  step {self.steps}  return {short_number(round(self.return_, 1))}{end}"
        )


def _play(envs: Sequence[Any], act: "_Act", episodes: int, seed: int) -> Iterator[list[_Episode]]:
    """Play episodes side by side; yields all environments' newest pictures, once per step."""
    rows: list[_Episode] = []
    begun = 0

    def begin(b: int) -> _Episode:
        nonlocal begun
        if hasattr(envs[b], "seed"):
            envs[b].seed(seed + begun)
        act.begin(b, envs[b].reset())
        begun += 1
        return _Episode(begun, enlarged(picture_of(envs[b])))

    rows = [begin(b) for b in range(len(envs))]
    yield rows
    while True:
        going = [b for b, row in enumerate(rows) if not row.done]
        for b, action in zip(going, act(going), strict=True):
            observation, reward, done, info = envs[b].step(action)
            row = rows[b]
            row.steps, row.return_ = row.steps + 1, row.return_ + float(reward)
            row.done = bool(getattr(info, "traj_done", done))
            row.picture = enlarged(picture_of(envs[b]))
            act.note(b, observation, reward, bool(done))
        for b in set(range(len(envs))) - set(going):
            if begun < episodes:
                rows[b] = begin(b)
            else:
                rows[b].resting = True
        if all(row.resting for row in rows):
            return
        yield rows


class _Act:
    """Asks an agent, or a function, for the actions of some environments."""

    def begin(self, b: int, observation: Any) -> None:
        """An episode begins in environment b."""

    def note(self, b: int, observation: Any, reward: float, done: bool) -> None:
        """What environment b gave in reply to its action."""

    def __call__(self, rows: list[int]) -> list[Any]:
        """Actions of these environments."""
        raise NotImplementedError


class _AskFunction(_Act):
    def __init__(self, function: Callable[[Any], Any], n: int) -> None:
        self._function = function
        self._observation: list[Any] = [None] * n

    def begin(self, b: int, observation: Any) -> None:
        self._observation[b] = observation

    def note(self, b: int, observation: Any, reward: float, done: bool) -> None:
        self._observation[b] = observation

    def __call__(self, rows: list[int]) -> list[Any]:
        return [self._function(self._observation[b]) for b in rows]


class _AskAgent(_Act):
    """Asks the agent for all rows at once, as samplers do; it remembers each row's episode."""

    def __init__(self, agent: Any, spaces: Any, n: int) -> None:
        self._agent = agent
        self._null = buffer_func(spaces.action.null_value(), np.asarray)
        self._bounds = bounds_of(spaces.action)
        self._observation = buffer_from_example(spaces.observation.null_value(), n)
        self._action = buffer_from_example(self._null, n)
        self._reward = np.zeros(n, np.float32)

    def begin(self, b: int, observation: Any) -> None:
        self._observation[b] = observation
        self._forget(b)

    def note(self, b: int, observation: Any, reward: float, done: bool) -> None:
        self._observation[b] = observation
        self._reward[b] = reward
        if done:  # a lost life counts, as in training
            self._forget(b)

    def _forget(self, b: int) -> None:
        self._action[b] = self._null
        self._reward[b] = 0
        self._agent.reset_one(b)

    def __call__(self, rows: list[int]) -> list[Any]:
        inputs = (self._observation, self._action, self._reward)
        with torch.no_grad():
            action, _ = self._agent.step(*(torchify_buffer(part) for part in inputs))
        taken = numpify_buffer(action)
        self._action[:] = taken
        if self._bounds is not None:
            taken = np.clip(taken, *self._bounds)
        return [taken[b] for b in rows]


def _actor(agent: Any, envs: Sequence[Any], deterministic: bool, itr: int) -> _Act:
    if not hasattr(agent, "step"):
        if not callable(agent):
            raise ValueError(f"agent={agent!r:.100} must be an agent, or a function that acts.")
        return _AskFunction(agent, len(envs))
    if agent.model is None:
        agent.initialize(envs[0].spaces)
    agent.eval_mode(itr)
    agent.set_deterministic(deterministic, itr)
    agent.reset()
    return _AskAgent(agent, envs[0].spaces, len(envs))


@contextlib.contextmanager
def _environments(env: Any, n: int) -> Iterator[list[Any]]:
    """So many environments, closed afterwards if they were made here."""
    make: Any
    if isinstance(env, str):
        make = partial(env_recipe(env).make, render=True)
    elif isinstance(env, type) or not hasattr(env, "step"):
        make = partial(build_env, env, {})
    elif n > 1:
        raise ValueError("a grid needs several environments: give a function that makes them.")
    else:
        yield [build_env(lambda: env, {})]
        return
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(make())) for _ in range(n)]


def enlarged(picture: Image) -> Image:
    """A picture [H, W, 3] with each pixel drawn as a square, where it is too small to be seen.

    MinAtar's [10, 10, 3] becomes [160, 160, 3]; what is large enough is returned itself.
    """
    times = -(-SMALLEST_SIDE // min(picture.shape[:2]))
    return picture.repeat(times, axis=0).repeat(times, axis=1) if times > 1 else picture


def _assemble(rows: list[_Episode], n_tiles: int, ncol: int, captions: bool) -> Image:
    """One picture of the film, its sides even as encoders need them."""
    frames = 0 if n_tiles == 1 else 2 * (ncol + 1)  # pixels of ``tile``'s padding
    widest = max(SMALLEST_SIDE, (LARGEST_WIDTH - frames) // ncol)
    pictures = [shrunk(row.picture // 2 if row.resting else row.picture, widest) for row in rows]
    if captions:
        pictures = [captioned(p, row.caption) for p, row in zip(pictures, rows, strict=True)]
    pictures += [np.zeros_like(pictures[0])] * (n_tiles - len(pictures))
    image = pictures[0] if n_tiles == 1 else tile(pictures, ncol)
    height, width = image.shape[:2]
    return np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)))


@contextlib.contextmanager
def _writer(path: Path, fps: int) -> Iterator[Any]:
    """A film is under its name only once it is whole."""
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error.name} is missing: pip install 'rlpyt[plot]'.") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".new-{path.name}")
    settings: dict[str, Any] = {"fps": fps, "macro_block_size": 2}
    if path.suffix.lower() == ".gif":
        settings = {"mode": "I", "duration": 1000 / fps, "loop": 0}
    try:
        with imageio.get_writer(beside, **settings) as film:
            yield film
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _without_window() -> Iterator[None]:
    """Let pygame and MuJoCo draw into memory, rather than look for a display and complain."""
    settings = {"SDL_VIDEODRIVER": "dummy"}
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        settings["MUJOCO_GL"] = os.environ.get("MUJOCO_GL", "egl")
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _fps(env: Any) -> int:
    return int(getattr(env, "metadata", {}).get("render_fps") or 30)
