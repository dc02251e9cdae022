"""Films of trained agents."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.experiments.run import Run

MAX_STEPS = 1_500
SMALLEST_SIDE = 160  # pixels; MinAtar's pictures are 10 x 10


def record_video(
    run: Run, path: Path, episodes: int = 1, max_steps: int = MAX_STEPS, seed: int = 0
) -> int:
    """Film a trained agent as MP4.

    Args:
        run: the trained agent.
        path: of the file to write.
        episodes: how many to film, one after the other.
        max_steps: the film ends after this many environment steps at the latest.
        seed: of the first episode; the others follow.

    Returns:
        The number of frames.

    Raises:
        ImportError: imageio with imageio-ffmpeg is missing; says what to install.
        ValueError: the environment has no pictures to give.
    """
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{error.name} is missing: pip install 'rlpyt[plot]'.") from error
    frames = 0
    with _without_window(), contextlib.closing(run.env(render=True)) as env:
        # macro_block_size: even sizes are all that the encoder needs; 16 would resize the picture.
        film: Any
        with imageio.get_writer(path, fps=_fps(env), macro_block_size=2) as film:

            def shoot() -> bool:
                nonlocal frames
                film.append_data(enlarged(run.recipe.picture(env)))
                frames += 1
                return frames < max_steps

            for episode in range(episodes):
                run.play(env, seed=seed + episode, on_step=shoot)
                if frames >= max_steps:
                    break
    return frames


def enlarged(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture [H, W, 3] with each pixel drawn as a square, where it is too small to be seen.

    MinAtar's [10, 10, 3] becomes [160, 160, 3]; what is large enough is returned itself.
    """
    times = -(-SMALLEST_SIDE // min(picture.shape[:2]))
    return picture.repeat(times, axis=0).repeat(times, axis=1) if times > 1 else picture


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
