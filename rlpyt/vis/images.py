"""Pictures of environments: grids of them, lines of text above them, a window to see them in."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.vis.progress import PathLike

Image = NDArray[np.uint8]

CAPTION_HEIGHT = 18  # pixels
CAPTION_INK = (235, 235, 235)
CAPTION_GROUND = (32, 32, 32)


def tile(images: Sequence[Image], ncol: int = 8, padding: int = 2, pad_value: int = 0) -> Image:
    """Put pictures into one, row by row, with a frame around each.

    Args:
        images: N pictures [H, W, C], all of one shape, with values as of ``as_bytes``.
        ncol: pictures in a row; with fewer than that there is one row of N.
        padding: pixels between pictures and around all.
        pad_value: of these pixels, 0 (black) to 255 (white); also of places left over.

    Returns:
        [rows * (H + padding) + padding, columns * (W + padding) + padding, C] uint8.

    Raises:
        ValueError: there are no pictures, they differ in shape, or a number is out of range.
    """
    _check_grid(ncol, padding, pad_value)
    images = [as_bytes(image) for image in images]
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise ValueError(f"a grid needs pictures of one shape, got {sorted(shapes) or 'none'}.")
    ((H, W, C),) = shapes
    ncol = min(ncol, len(images))
    nrow = -(-len(images) // ncol)
    size = (nrow * (H + padding) + padding, ncol * (W + padding) + padding, C)
    grid = np.full(size, pad_value, np.uint8)
    for i, image in enumerate(images):
        top = padding + i // ncol * (H + padding)
        left = padding + i % ncol * (W + padding)
        grid[top : top + H, left : left + W] = image
    return grid


class GridImage:
    """Collects pictures and puts them into a grid.

    Example::

        grid = GridImage(ncol=8, padding=5)
        grid.add(np.random.randint(0, 256, size=[10, 3, 64, 64]))
        image = grid()  # [2 rows, 8 columns]: [143, 557, 3]

    Args:
        ncol, padding, pad_value: as of ``tile``.

    Raises:
        ValueError: one is out of range.
    """

    def __init__(self, ncol: int = 8, padding: int = 2, pad_value: int = 0) -> None:
        _check_grid(ncol, padding, pad_value)
        self.ncol, self.padding, self.pad_value = ncol, padding, pad_value
        self._images: list[Image] = []

    def add(self, x: ArrayLike) -> None:
        """Add pictures, channels first as models see them.

        Args:
            x: [H, W], [C, H, W] or [N, C, H, W] with values in [0, 255]; C is 1 (gray) or 3.

        Raises:
            ValueError: it is of another shape, or values are out of range (see ``as_bytes``).
        """
        array = np.asarray(x)
        batch = array.reshape((1,) * max(0, 4 - array.ndim) + array.shape)
        if array.ndim < 2 or batch.ndim != 4 or batch.shape[1] not in (1, 3):
            raise ValueError(
                f"shape {list(array.shape)} is that of no picture: expected [H, W], [C, H, W] or "
                "[N, C, H, W], with C of 1 or 3."
            )
        images = as_bytes(batch).transpose(0, 2, 3, 1)  # channels last
        self._images += list(np.broadcast_to(images, (*images.shape[:3], 3)))

    def __call__(self, **settings: int) -> Image:
        """The grid of all pictures added so far, [H, W, 3] uint8.

        Args:
            settings: ``ncol``, ``padding`` or ``pad_value`` to use this time instead.

        Raises:
            ValueError: nothing was added, or the pictures are of several sizes.
        """
        own = {"ncol": self.ncol, "padding": self.padding, "pad_value": self.pad_value}
        return tile(self._images, **{**own, **settings})


class ImageViewer:
    """Shows pictures one after the other: in a window where there is a display, else in a file.

    The file always holds the newest picture, so a viewer that follows files shows them, too.

    Args:
        max_width: pixels; wider pictures are shrunk.
        path: of the file, where there is no display.

    Attributes:
        window: whether there is one; known once something was shown.
    """

    def __init__(self, max_width: int = 500, path: PathLike = "picture.png") -> None:
        if max_width < 1:
            raise ValueError(f"max_width={max_width} must be at least 1.")
        self.max_width, self.path = max_width, Path(path)
        self.window: bool | None = None
        self._figure: Any = None
        self._shown: Any = None

    def __call__(self, x: ArrayLike) -> None:
        """Show a picture.

        Args:
            x: [H, W, 3], or [H, W] for gray, with values as of ``as_bytes``.

        Raises:
            ValueError: it is of another shape, or values are out of range.
            ImportError: matplotlib is not installed.
        """
        image = np.asarray(x)
        image = np.repeat(image[..., None], 3, -1) if image.ndim == 2 else image
        if image.ndim != 3 or image.shape[2] != 3:
            raise ValueError(f"expected a picture [H, W, 3] or [H, W], got {list(image.shape)}.")
        if self.window is None:
            self.window = _open_windows()
            if not self.window:
                print(f"No display: pictures are in {self.path}, the newest at any time.")
        image = shrunk(as_bytes(image), self.max_width)
        if self.window:
            self._draw(image)
        else:
            write_png(image, self.path)

    def _draw(self, image: Image) -> None:
        import matplotlib.pyplot as plt

        if self._figure is None or not plt.fignum_exists(self._figure.number):
            height, width = image.shape[:2]
            self._figure = plt.figure(figsize=(width / 100, height / 100), dpi=100)
            axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
            axes.set_axis_off()
            self._shown = axes.imshow(image, interpolation="nearest")
            plt.show(block=False)
        self._shown.set_data(image)
        self._figure.canvas.draw_idle()
        self._figure.canvas.flush_events()

    def close(self) -> None:
        """Close the window; the file stays. Can be called again."""
        if self._figure is not None:
            import matplotlib.pyplot as plt

            plt.close(self._figure)
            self._figure = self._shown = None


def picture_of(env: Any) -> Image:
    """What an environment that can draw shows now, [H, W, 3] uint8.

    One of gymnasium must have been made with ``render_mode="rgb_array"``. Floats in [0, 1], as
    MinAtar gives them, become bytes.

    Raises:
        ValueError: it has no such picture to give.
    """
    render, name = getattr(env, "render", None), type(getattr(env, "unwrapped", env)).__name__
    if render is None:
        raise ValueError(f"{name} draws no pictures: it has no method render.")
    with_mode = "mode" in inspect.signature(render).parameters
    try:
        picture = render(mode="rgb_array") if with_mode else render()
    except NotImplementedError as error:
        raise ValueError(f"{name} draws no pictures: it does not implement render.") from error
    if getattr(picture, "ndim", 0) != 3:
        raise ValueError(
            f"{env} gives no RGB picture: render() returned {type(picture)}; environments of "
            'gymnasium want render_mode="rgb_array".'
        )
    image: Image = picture if picture.dtype.kind != "f" else np.round(255 * picture)
    return image.astype(np.uint8, copy=False)


def as_bytes(values: ArrayLike) -> Image:
    """Values from 0 (black) to 255 (white) as bytes, rounded.

    Raises:
        ValueError: values are out of this range, or seem to be in [0, 1], as models have them.
    """
    x = np.asarray(values)
    if x.dtype == np.uint8 or not x.size:
        return x.astype(np.uint8, copy=False)
    low, high = x.min(), x.max()
    if not (low >= 0 and high <= 255):
        raise ValueError(f"values from {low} to {high} are out of [0, 255]; scale them first.")
    if high <= 1 and (x % 1).any():
        raise ValueError(
            f"values from {low:g} to {high:g} would all be black, as 255 is white; multiply by 255."
        )
    return np.round(x).astype(np.uint8)


def shrunk(image: Image, max_width: int) -> Image:
    """A picture [H, W, 3] no wider than this, with the same proportions."""
    height, width = image.shape[:2]
    if width <= max_width:
        return image
    from PIL import Image as pillow

    size = (max_width, max(1, round(height * max_width / width)))
    return np.asarray(pillow.fromarray(image).resize(size, pillow.Resampling.BOX))


def captioned(image: Image, text: str) -> Image:
    """A picture [H, W, 3] with a line of text above it, [CAPTION_HEIGHT + H, W, 3].

    What is too long for the width is cut off.
    """
    from PIL import Image as pillow
    from PIL import ImageDraw, ImageFont

    line = pillow.new("RGB", (image.shape[1], CAPTION_HEIGHT), CAPTION_GROUND)
    ImageDraw.Draw(line).text((4, 2), text, CAPTION_INK, font=ImageFont.load_default(12))
    return np.concatenate([np.asarray(line), image])


def write_png(image: Image, path: PathLike) -> None:
    """Write a picture [H, W, 3]; whoever reads meanwhile sees the old one or the new one."""
    from PIL import Image as pillow

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.new")
    pillow.fromarray(image).save(beside, "PNG")
    beside.replace(target)


def _open_windows() -> bool:
    """Whether pictures can be shown in windows; matplotlib then does."""
    linux = sys.platform.startswith("linux")
    if linux and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        import matplotlib
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("A window needs matplotlib: pip install 'rlpyt[plot]'.") from error
    try:
        plt.close(plt.figure())  # decides on a backend
    except Exception:  # the display cannot be reached; each toolkit has an error of its own
        return False
    return matplotlib.get_backend().lower() not in ("agg", "pdf", "svg", "ps", "template")


def _check_grid(ncol: int, padding: int, pad_value: int) -> None:
    if ncol < 1 or padding < 0 or not 0 <= pad_value <= 255:
        raise ValueError(
            f"ncol={ncol} must be at least 1, padding={padding} at least 0, pad_value={pad_value} "
            "in [0, 255]."
        )
