"""Videos of agents: one episode after the other, or several in a grid."""

import contextlib
import io
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
from rlpyt.envs.traj_info import raw_reward
from rlpyt.experiments.build import env_recipe
from rlpyt.experiments.run import Run
from rlpyt.samplers.env_batch import bounds_of, clipped
from rlpyt.samplers.environments import closing_quietly
from rlpyt.samplers.surroundings import Surroundings
from rlpyt.spaces.action_mask import action_mask_of, mask_error, mask_sizes
from rlpyt.utils.buffer import buffer_from_example, buffer_func, numpify_buffer, torchify_buffer
from rlpyt.utils.checks import whole_number
from rlpyt.utils.extras import needing
from rlpyt.utils.files import atomic_write
from rlpyt.vis.images import Image, captioned, picture_of, shrunk, tile
from rlpyt.vis.progress import PathLike
from rlpyt.vis.style import short_number

MAX_STEPS = 1_500
MIN_SIDE = 160  # pixels; MinAtar's images are 10 x 10
MAX_WIDTH = 1280  # pixels of a video; images in a grid are shrunk to fit
SUFFIXES = (".mp4", ".gif")
MAX_GIF_FPS = 50  # viewers play faster GIFs slowly


def record_video(
    run: Run,
    path: PathLike,
    episodes: int = 1,
    max_steps: int = MAX_STEPS,
    seed: int = 0,
    grid: tuple[int, int] = (1, 1),
) -> int:
    """Record a video of a trained agent; arguments and result are those of ``record_agent``."""
    env = partial(run.env, render=True)
    with run.apart():
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
    """Record a video of any agent in any environment, as MP4 or GIF.

    In a grid, episodes run in parallel, one per environment. When an episode ends, the next one
    starts in its cell; when none is left, the cell keeps its last image, dimmed.

    Args:
        agent: an rlpyt agent, initialized or not (then with random parameters), or a function that
            maps an observation to an action.
        env: name of the environment, as in ``rlpyt train``; a class or function that makes one; or
            an environment, which is not closed. A gymnasium environment must have been made with
            ``render_mode="rgb_array"``; named environments are.
        path: path of the video; ``.mp4`` or ``.gif``.
        episodes: total number of episodes.
        max_steps: maximum number of frames. An episode of n steps has n + 1 frames, including its
            initial one.
        seed: seed of the first episode, incremented for each further one.
        grid: rows and columns of environments.
        deterministic: take the most likely action instead of a sample.
        captions: write episode number, steps and return above each image.
        fps: frames per second; by default those of the environment, or 30.
        itr: iteration of the agent, which determines its exploration.

    Returns:
        The number of frames.

    Raises:
        ImportError: imageio or imageio-ffmpeg is missing; the message says what to install.
        TypeError, ValueError: an argument is invalid, or the environment does not render images.
    """
    if not isinstance(grid, tuple | list) or len(grid) != 2:
        raise TypeError(f"grid={grid!r} must be (rows, columns).")
    grid = whole_number("grid", grid[0], 1), whole_number("grid", grid[1], 1)
    episodes = whole_number("episodes", episodes, 1)
    max_steps = whole_number("max_steps", max_steps, 1)
    output, n_tiles = Path(path).absolute(), grid[0] * grid[1]
    if output.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{output} must end in one of {', '.join(SUFFIXES)}.")
    if fps is not None:
        fps = whole_number("fps", fps, 1)
    with (
        Surroundings().checked(),
        _without_window(),
        _environments(env, min(n_tiles, episodes)) as envs,
    ):
        actor = _actor(agent, envs, deterministic, itr)
        frames = _play(envs, actor, episodes, seed)
        first = next(frames)  # raises before a file is opened if the environment cannot render
        own = (getattr(envs[0], "metadata", None) or {}).get("render_fps") or 30
        rate = fps or max(1, round(own))
        if output.suffix.lower() == ".gif":
            rate = min(rate, MAX_GIF_FPS)
        with _writer(output, rate) as writer:
            n = 0
            for frame in itertools.islice(itertools.chain([first], frames), max_steps):
                writer.append_data(_assemble(frame, n_tiles, grid[1], captions))
                n += 1
    return n


@dataclass
class _Episode:
    """Current episode of one environment, with its latest image."""

    number: int
    image: Image
    steps: int = 0
    return_: float = 0.0
    done: bool = False
    idle: bool = False  # no episode is left for this environment

    @property
    def caption(self) -> str:
        end = "  end" if self.done else ""
        return (
            f"#{self.number}  step {self.steps}  return {short_number(round(self.return_, 1))}{end}"
        )


def _play(
    envs: Sequence[Any], actor: "_FunctionActor | _AgentActor", episodes: int, seed: int
) -> Iterator[list[_Episode]]:
    """Play episodes in parallel; yield the current episodes of all environments at each step."""
    rows: list[_Episode] = []
    n_started = 0

    def start(b: int) -> _Episode:
        nonlocal n_started
        follow_agent(envs[b])
        if hasattr(envs[b], "seed"):
            envs[b].seed(seed + n_started)
        actor.observe(b, envs[b].reset(), 0.0, True)
        n_started += 1
        return _Episode(n_started, enlarged(picture_of(envs[b])))

    rows = [start(b) for b in range(len(envs))]
    yield rows
    while True:
        active = [b for b, row in enumerate(rows) if not row.done]
        for b, action in zip(active, actor(active), strict=True):
            observation, reward, done, info = envs[b].step(action)
            row = rows[b]
            score = getattr(info, "game_score", raw_reward(reward, info))  # of Atari
            row.steps, row.return_ = row.steps + 1, row.return_ + float(score)
            row.done = bool(getattr(info, "traj_done", done))
            row.image = enlarged(picture_of(envs[b]))
            actor.observe(b, observation, reward, bool(done))
        for b in set(range(len(envs))) - set(active):
            if n_started < episodes:
                rows[b] = start(b)
            else:
                rows[b].idle = True
        if all(row.idle for row in rows):
            return
        yield rows


def follow_agent(env: Any) -> None:
    """Use the camera "track" of a MuJoCo model, unless another one is chosen.

    Gymnasium 1.4 has a free camera by default, which in HalfCheetah, Ant and Swimmer stays where
    the episode starts, so that the agent runs out of the picture.
    """
    base = getattr(env, "unwrapped", env)
    renderer: Any = getattr(base, "mujoco_renderer", None)
    chosen = [getattr(base, name, None) for name in ("camera_id", "camera_name")]
    if chosen != [None, None] or getattr(renderer, "camera_id", None) != -1:
        return
    if "trackbodyid" not in (getattr(renderer, "default_cam_config", None) or {}):
        import mujoco

        camera = mujoco.mjtObj.mjOBJ_CAMERA
        renderer.camera_id = mujoco.mj_name2id(renderer.model, camera, "track")  # or -1


class _FunctionActor:
    """Actor that calls a function of an observation for each row."""

    def __init__(self, function: Callable[[Any], Any], n: int) -> None:
        self._function = function
        self._observation: list[Any] = [None] * n

    def observe(self, b: int, observation: Any, reward: float, done: bool) -> None:
        self._observation[b] = observation

    def __call__(self, rows: list[int]) -> list[Any]:
        return [self._function(self._observation[b]) for b in rows]


class _AgentActor:
    """Actor that steps an agent for all rows at once, as samplers do; it keeps state per row."""

    def __init__(self, agent: Any, spaces: Any, n: int) -> None:
        self._agent = agent
        self._null = buffer_func(spaces.action.null_value(), np.asarray)
        self._bounds = bounds_of(spaces.action)
        self._action_space = spaces.action
        self._observation = buffer_from_example(spaces.observation.null_value(), n)
        self._action = buffer_from_example(self._null, n)
        self._reward = np.zeros(n, np.float32)

    def observe(self, b: int, observation: Any, reward: float, done: bool) -> None:
        self._observation[b] = observation
        self._reward[b] = reward
        if done:  # also after a lost life, as in training, and before the first step
            self._action[b] = self._null
            self._reward[b] = 0
            self._agent.reset_one(b)

    def __call__(self, rows: list[int]) -> list[Any]:
        masks = action_mask_of(self._observation)
        if masks is not None:
            invalid = mask_error(masks[rows], mask_sizes(self._action_space))
            if invalid is not None:
                (i,), message = invalid
                raise ValueError(f"environment {rows[i]}: {message}")
        inputs = (self._observation, self._action, self._reward)
        with torch.no_grad():
            action, _ = self._agent.step(*(torchify_buffer(part) for part in inputs))
        actions = numpify_buffer(action)
        self._action[:] = actions
        if self._bounds is not None:
            actions = clipped(actions, self._bounds)
        return [actions[b] for b in rows]


def _actor(
    agent: Any, envs: Sequence[Any], deterministic: bool, itr: int
) -> "_FunctionActor | _AgentActor":
    if not hasattr(agent, "step"):
        if not callable(agent):
            raise ValueError(
                f"agent={agent!r:.100} must be an agent, or a function of an observation."
            )
        return _FunctionActor(agent, len(envs))
    if agent.model is None:
        agent.initialize(envs[0].spaces)
    agent.eval_mode(itr)
    agent.set_deterministic(deterministic, itr)
    agent.reset()
    return _AgentActor(agent, envs[0].spaces, len(envs))


@contextlib.contextmanager
def _environments(env: Any, n: int) -> Iterator[list[Any]]:
    """Provide n environments, and close them afterwards if they were made here."""
    make: Any
    if isinstance(env, str):
        make = partial(env_recipe(env).make, render=True)
    elif isinstance(env, type) or not hasattr(env, "step"):
        make = partial(build_env, env, {})
    elif n > 1:
        raise ValueError("A grid needs several environments. Give a function that makes them.")
    else:
        yield [build_env(lambda: env, {})]
        return
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(closing_quietly(make())) for _ in range(n)]


def enlarged(image: Image) -> Image:
    """Return an image [H, W, 3], with pixels repeated if it is too small.

    MinAtar's [10, 10, 3] becomes [160, 160, 3]; large images are returned unchanged.
    """
    times = -(-MIN_SIDE // min(image.shape[:2]))
    return image.repeat(times, axis=0).repeat(times, axis=1) if times > 1 else image


def _assemble(rows: list[_Episode], n_tiles: int, ncol: int, captions: bool) -> Image:
    """Return one frame of the video, with even sides as encoders require."""
    padding = 0 if n_tiles == 1 else 2 * (ncol + 1)  # pixels, added by ``tile``
    max_width = max(MIN_SIDE, (MAX_WIDTH - padding) // ncol)
    images = [shrunk(row.image // 2 if row.idle else row.image, max_width) for row in rows]
    if captions:
        images = [captioned(image, row.caption) for image, row in zip(images, rows, strict=True)]
    images += [np.zeros_like(images[0])] * (n_tiles - len(images))
    image = images[0] if n_tiles == 1 else tile(images, ncol)
    height, width = image.shape[:2]
    return np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)))


@contextlib.contextmanager
def _writer(path: Path, fps: int) -> Iterator[Any]:
    """Open a video writer; the file gets its name only when it is complete."""
    with needing("A video", "plot"):
        import imageio.v2 as imageio
        import imageio_ffmpeg
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, gif = path.with_name(f".new-{path.name}"), io.BytesIO()
    target: Any = temporary  # ffmpeg writes to a file
    settings: dict[str, Any] = {"fps": fps, "macro_block_size": 2}
    if is_gif := path.suffix.lower() == ".gif":
        target = gif
        settings = {"format": "GIF", "mode": "I", "duration": 1000 / fps, "loop": 0}
    try:
        with imageio.get_writer(target, **settings) as writer:
            yield writer
        if is_gif:
            with atomic_write(path) as file:
                file.write(gif.getbuffer())
            return
        # imageio does not tell that ffmpeg has failed at the end.
        with contextlib.closing(imageio_ffmpeg.read_frames(temporary)) as frames:
            next(frames)
        temporary.replace(path)
    except OSError as error:
        if "ffmpeg" not in str(error).lower():
            raise
        reason = "Is the disk full, or the directory not writable?"
        raise OSError(f"ffmpeg could not write {path}. {reason}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _without_window() -> Iterator[None]:
    """Let pygame and MuJoCo render into memory, without a display."""
    # Of SDL's own handler, which pygame would install, SIGTERM does not end the process.
    settings = {"SDL_VIDEODRIVER": "dummy", "SDL_NO_SIGNAL_HANDLERS": "1"}
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
