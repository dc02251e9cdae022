"""Images of environments: rendering, grids, captions, and a window that shows them."""

import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import ArrayLike, NDArray

from rlpyt.utils.extras import missing_extra, needing
from rlpyt.utils.files import temporary_of
from rlpyt.vis.progress import PathLike

Image = NDArray[np.uint8]

CAPTION_HEIGHT = 18  # pixels
CAPTION_INK = (235, 235, 235)
CAPTION_GROUND = (32, 32, 32)
REMEDY = (
    "Let render return an array [H, W, 3] uint8, and let the constructor of a gymnasium "
    'environment take render_mode="rgb_array".'
)
OPENGL = (
    "MuJoCo cannot render with MUJOCO_GL={}: {}. Without a display use MUJOCO_GL=egl, which needs "
    "a GPU's driver or Mesa (Debian, Ubuntu: apt install libegl1 libgl1-mesa-dri), or "
    "MUJOCO_GL=osmesa (libosmesa6)."
)


def tile(images: Sequence[Image], ncol: int = 8, padding: int = 2, pad_value: int = 0) -> Image:
    """Arrange images in a grid, row by row, with padding around each.

    Args:
        images: N images [H, W, C] of equal shape, with values as for ``as_bytes``.
        ncol: images per row; fewer images make one row of N.
        padding: pixels between and around images.
        pad_value: value of padding and empty cells, 0 (black) to 255 (white).

    Returns:
        [rows * (H + padding) + padding, columns * (W + padding) + padding, C] uint8.

    Raises:
        ValueError: ``images`` is empty, shapes differ, or a number is out of range.
    """
    _check_grid(ncol, padding, pad_value)
    images = [as_bytes(image) for image in images]
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise ValueError(f"images must have equal shapes, got {sorted(shapes) or 'no image'}.")
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
    """Grid of images that are added one by one or in batches.

    Example::

        grid = GridImage(ncol=8, padding=5)
        grid.add(np.random.randint(0, 256, size=[10, 3, 64, 64]))
        image = grid()  # [2 rows, 8 columns]: [143, 557, 3]

    Args:
        ncol, padding, pad_value: see ``tile``.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, ncol: int = 8, padding: int = 2, pad_value: int = 0) -> None:
        _check_grid(ncol, padding, pad_value)
        self.ncol, self.padding, self.pad_value = ncol, padding, pad_value
        self._images: list[Image] = []

    def add(self, x: ArrayLike) -> None:
        """Add images, channels first as in model inputs.

        Args:
            x: [H, W], [C, H, W] or [N, C, H, W] with values in [0, 255]; C is 1 (gray) or 3.

        Raises:
            ValueError: ``x`` has another shape, or values are out of range (see ``as_bytes``).
        """
        array = np.asarray(x)
        batch = array.reshape((1,) * max(0, 4 - array.ndim) + array.shape)
        if array.ndim < 2 or batch.ndim != 4 or batch.shape[1] not in (1, 3):
            raise ValueError(
                "images must have shape [H, W], [C, H, W] or [N, C, H, W], with C of 1 or 3, got "
                f"{list(array.shape)}."
            )
        images = as_bytes(batch).transpose(0, 2, 3, 1)  # channels last
        self._images += list(np.broadcast_to(images, (*images.shape[:3], 3)))

    def __call__(self, **settings: int) -> Image:
        """Return the grid of all images added so far, [H, W, 3] uint8.

        Args:
            settings: ``ncol``, ``padding`` or ``pad_value``, to override them in this call.

        Raises:
            ValueError: no image has been added, or images have different sizes.
        """
        own = {"ncol": self.ncol, "padding": self.padding, "pad_value": self.pad_value}
        return tile(self._images, **{**own, **settings})


class ImageViewer:
    """Viewer of successive images, in a window or, without a display, in a file.

    The file always contains the newest image; many image viewers reload it automatically.

    Args:
        max_width: maximum width in pixels; wider images are scaled down.
        path: path of the file, used without a display.

    Attributes:
        window: True if there is a window; None until the first image is shown.
    """

    def __init__(self, max_width: int = 500, path: PathLike = "picture.png") -> None:
        if max_width < 1:
            raise ValueError(f"max_width={max_width} must be at least 1.")
        self.max_width, self.path = max_width, Path(path)
        self.window: bool | None = None
        self._figure: Any = None
        self._shown: Any = None

    def __call__(self, x: ArrayLike) -> None:
        """Show an image.

        Args:
            x: [H, W, 3], or [H, W] for gray, with values as for ``as_bytes``.

        Raises:
            ValueError: ``x`` has another shape, or values are out of range.
            ImportError: matplotlib is not installed.
        """
        image = np.asarray(x)
        image = np.repeat(image[..., None], 3, -1) if image.ndim == 2 else image
        if image.ndim != 3 or image.shape[2] != 3:
            raise ValueError(f"image must have shape [H, W, 3] or [H, W], got {list(image.shape)}.")
        if self.window is None:
            self.window = _open_windows()
            if not self.window:
                print(f"No display: the newest image is in {self.path}.")
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
        """Close the window and keep the file. May be called again."""
        if self._figure is not None:
            import matplotlib.pyplot as plt

            plt.close(self._figure)
            self._figure = self._shown = None


def picture_of(env: Any) -> Image:
    """Render an environment as an RGB image [H, W, 3] uint8.

    Gymnasium environments must be created with ``render_mode="rgb_array"``. Floats in [0, 1], as
    returned by MinAtar, are converted to bytes.

    Raises:
        ImportError: rendering needs a package that is not installed; the message says which.
        ValueError: the environment cannot render RGB images.
    """
    render, name = getattr(env, "render", None), type(getattr(env, "unwrapped", env)).__name__
    if render is None:
        raise ValueError(f"{name} cannot render images: it has no method render. {REMEDY}")
    with_mode = "mode" in inspect.signature(render).parameters
    try:
        rendered = render(mode="rgb_array") if with_mode else render()
    except NotImplementedError as error:
        what = "render is not implemented"
        raise ValueError(f"{name} cannot render images: {what}. {REMEDY}") from error
    except DependencyNotInstalled as error:
        missing = getattr(error.__cause__, "name", None)
        if missing == "pygame":
            raise missing_extra(f"Rendering {name}", "plot", missing) from error
        raise ImportError(f"{name} cannot render images: {error}") from error
    except Exception as error:
        if not hasattr(getattr(env, "unwrapped", env), "mujoco_renderer"):
            raise
        reason = (str(error) or type(error).__name__).rstrip(".")
        backend = os.environ.get("MUJOCO_GL", "(not set)")
        raise ValueError(OPENGL.format(backend, reason)) from error
    shape = getattr(rendered, "shape", None)
    if shape is None or len(shape) != 3 or shape[2] not in (3, 4):
        what = f"{type(rendered)}" if shape is None else f"an array of shape {shape}"
        raise ValueError(
            f"{env}.render() must return an RGB image, got {what}. Create gymnasium environments "
            'with render_mode="rgb_array".'
        )
    image: Image = rendered[..., :3]  # without opacity
    if image.dtype.kind == "f":
        if not (image.min() >= 0 and image.max() <= 1):
            raise ValueError(
                f"{env}.render() must return bytes, or floats in [0, 1], got {image.min():g} to "
                f"{image.max():g}. Round them to numpy.uint8."
            )
        image = np.round(255 * image)
    return image.astype(np.uint8, copy=False)


def as_bytes(values: ArrayLike) -> Image:
    """Return values from 0 (black) to 255 (white) rounded to bytes.

    Raises:
        ValueError: values are out of this range, or seem to be in [0, 1], as in model inputs.
    """
    x = np.asarray(values)
    if x.dtype == np.uint8 or not x.size:
        return x.astype(np.uint8, copy=False)
    low, high = x.min(), x.max()
    if not (low >= 0 and high <= 255):
        raise ValueError(f"values must be in [0, 255], got {low} to {high}. Scale them first.")
    if high <= 1 and (x % 1).any():
        raise ValueError(
            f"values must be in [0, 255], got {low:g} to {high:g}, which is all black. Multiply by "
            "255."
        )
    return np.round(x).astype(np.uint8)


def shrunk(image: Image, max_width: int) -> Image:
    """Return an image [H, W, 3] scaled down to at most this width, with the same proportions."""
    height, width = image.shape[:2]
    if width <= max_width:
        return image
    from PIL import Image as pillow

    size = (max_width, max(1, round(height * max_width / width)))
    return np.asarray(pillow.fromarray(image).resize(size, pillow.Resampling.BOX))


def captioned(image: Image, text: str) -> Image:
    """Return an image [H, W, 3] with a line of text above it, [CAPTION_HEIGHT + H, W, 3].

    Text wider than the image is cut off.
    """
    from PIL import Image as pillow
    from PIL import ImageDraw, ImageFont

    line = pillow.new("RGB", (image.shape[1], CAPTION_HEIGHT), CAPTION_GROUND)
    ImageDraw.Draw(line).text((4, 2), text, CAPTION_INK, font=ImageFont.load_default(12))
    return np.concatenate([np.asarray(line), image])


def write_png(image: Image, path: PathLike) -> None:
    """Write an image [H, W, 3] atomically."""
    from PIL import Image as pillow

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_of(target)
    pillow.fromarray(image).save(temporary, "PNG")
    temporary.replace(target)


def _open_windows() -> bool:
    """Return True if matplotlib can show images in windows."""
    linux = sys.platform.startswith("linux")
    if linux and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    with needing("A window", "plot"):
        import matplotlib
        import matplotlib.pyplot as plt
    try:
        plt.close(plt.figure())  # selects a backend
    except Exception:  # the display cannot be reached; the error depends on the toolkit
        return False
    return matplotlib.get_backend().lower() not in ("agg", "pdf", "svg", "ps", "template")


def _check_grid(ncol: int, padding: int, pad_value: int) -> None:
    if ncol < 1 or padding < 0 or not 0 <= pad_value <= 255:
        raise ValueError(
            "ncol must be at least 1, padding at least 0 and pad_value in [0, 255], got "
            f"ncol={ncol}, padding={padding}, pad_value={pad_value}."
        )
