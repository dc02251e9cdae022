"""Shapes of observations, from which models are built, and conversion of observations to vectors.

A model takes the shape of an observation: a tuple of integers, or, for nested (Dict, Tuple) spaces,
a named tuple of shapes. `marked_shape` returns subclasses of tuple for images and category numbers,
by which models choose an encoder, and for masks of valid actions, which they leave out. They are
equal to plain tuples.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.spaces.action_mask import FIELD, has_mask
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Arrays, Tensors, leaves_of

Shape = tuple[Any, ...]  # sizes of dimensions, or a named tuple of the parts' shapes
IMAGE_DIM = 3
MAX_CATEGORIES = 10_000  # maximum for one-hot encoding; larger category numbers are not encoded


class ImageShape(tuple[int, ...]):
    """Shape of an image observation, (C, H, W) or (H, W, C).

    Attributes:
        channels_last: True if the shape is (H, W, C).
        scale: factor that maps pixels to [0, 1].
    """

    channels_last: bool
    scale: float

    def __new__(
        cls, shape: Iterable[int], channels_last: bool = False, scale: float = 1 / 255
    ) -> "ImageShape":
        """Create from a plain tuple."""
        new = super().__new__(cls, shape)
        new.channels_last, new.scale = channels_last, scale
        return new

    @property
    def chw(self) -> tuple[int, int, int]:
        """Return (C, H, W)."""
        return (self[2], self[0], self[1]) if self.channels_last else (self[0], self[1], self[2])


class CategoryShape(tuple[int, ...]):
    """Shape of category numbers, () or (k,).

    Attributes:
        sizes: number of categories of each number, [k].
        low: smallest category number.
    """

    sizes: tuple[int, ...]
    low: int

    def __new__(
        cls, shape: Iterable[int], sizes: Iterable[int] = (), low: int = 0
    ) -> "CategoryShape":
        """Create from a plain tuple."""
        new = super().__new__(cls, shape)
        new.sizes, new.low = tuple(int(n) for n in sizes), int(low)
        return new


class MaskShape(tuple[int, ...]):
    """Shape (n,) of a mask of valid actions, see `rlpyt.spaces.action_mask`."""


MARKED = (ImageShape, CategoryShape, MaskShape)  # all others are vectors


def marked_shape(space: Space) -> Any:
    """Return the shape of an observation space, with images, category numbers and mask marked.

    An image is a Box of three dimensions; its channels are last if that is the shortest. Category
    numbers are Discrete and MultiDiscrete spaces, and an ``IntBox`` of shape (). The mask is the
    part ``action_mask``.
    """
    shape = _marked_shape(space)
    if has_mask(space):
        shape = shape._replace(**{FIELD: MaskShape(getattr(shape, FIELD))})
    return shape


def _marked_shape(space: Space) -> Any:
    unwrapped: Any = getattr(space, "space", space)  # the gymnasium space, if it is wrapped
    if is_composite(space.shape):
        return type(space.shape)(*map(_marked_shape, unwrapped.spaces))
    shape = tuple(space.shape)
    sizes = _category_sizes(space, unwrapped)
    if sizes and max(sizes) <= MAX_CATEGORIES:
        low = 0 if unwrapped is not space else getattr(space, "low", 0)
        return CategoryShape(shape, sizes, low)
    if len(shape) == IMAGE_DIM:
        return ImageShape(shape, channels_are_last(shape), _pixel_scale(space))
    return space.shape


def channels_are_last(shape: Shape) -> bool:
    """Return True if the last of an image's three dimensions is the shortest, as in (H, W, C)."""
    return bool(shape[2] < min(shape[:2]))


def _category_sizes(space: Space, unwrapped: Any) -> tuple[int, ...]:
    kind = type(unwrapped).__name__
    if kind == "Discrete" or (kind == "IntBox" and space.shape == ()):
        return (int(unwrapped.n),)
    return tuple(unwrapped.nvec.ravel().tolist()) if kind == "MultiDiscrete" else ()


def _pixel_scale(space: Space) -> float:
    dtype = np.dtype(space.dtype)
    if dtype == np.uint8:
        return 1 / 255
    high = float(np.max(np.asarray(getattr(space, "high", 1), np.float64)))
    return 1 / high if np.isfinite(high) and high > 1 else 1.0


def is_composite(shape: Shape) -> bool:
    """Return True for the shape of a nested space, a named tuple of shapes."""
    return hasattr(shape, "_fields")


def leaf_shapes(shape: Shape) -> list[Any]:
    """Return the shapes of all parts of an observation, in order."""
    if is_composite(shape):
        return [leaf for part in tuple(shape) for leaf in leaf_shapes(part)]
    return [shape]


def images_of(shape: Shape) -> list[ImageShape]:
    """Return the shapes of all images among the parts of an observation."""
    return [leaf for leaf in leaf_shapes(shape) if isinstance(leaf, ImageShape)]


def observation_size(shape: Shape) -> int:
    """Return the number of components of an observation without images, with one-hot categories."""
    return vector_size(shape) + sum(
        sum(leaf.sizes) for leaf in leaf_shapes(shape) if isinstance(leaf, CategoryShape)
    )


def vector_size(shape: Shape) -> int:
    """Return the number of components of an observation's vectors."""
    vectors = [leaf for leaf in leaf_shapes(shape) if not isinstance(leaf, MARKED)]
    return sum(int(np.prod(leaf, dtype=np.int64)) for leaf in vectors)


def mask_size(shape: Shape) -> int | None:
    """Return the number of entries of the mask of actions; ``None``: there is none."""
    mask = getattr(shape, FIELD, None)
    return int(mask[0]) if isinstance(mask, MaskShape) else None


def split_observation(
    observation: Tensors, shape: Shape
) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    """Split an observation into vectors, categories and images.

    Args:
        observation: tensor [*lead, *shape] of any number type, or a named tuple of them.
        shape: shape of an observation, from `marked_shape`.

    Returns:
        Vectors [*lead, size] float32, category numbers as one-hot vectors [*lead, size] float32,
        and unchanged images, each in order. A mask of actions is left out.

    Raises:
        ValueError: the observation does not end with ``shape``.
    """
    vectors, categories, images = [], [], []
    for leaf, leaf_shape in zip(leaves_of(observation), leaf_shapes(shape), strict=True):
        if isinstance(leaf_shape, ImageShape):
            images.append(leaf)
        elif isinstance(leaf_shape, CategoryShape):
            lead = leaf.shape[: leaf.dim() - len(leaf_shape)]
            columns = (leaf.long() - leaf_shape.low).reshape(*lead, -1)
            categories += [
                torch.nn.functional.one_hot(columns[..., i], n).float()
                for i, n in enumerate(leaf_shape.sizes)
            ]
        elif not isinstance(leaf_shape, MaskShape):
            vectors.append(_as_vector(leaf, leaf_shape))
    return vectors, categories, images


def _as_vector(leaf: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Flatten [*lead, *shape] to [*lead, size] float32."""
    if len(shape) == 1:
        return leaf.float()
    lead = leaf.shape[: leaf.dim() - len(shape)]
    _check(leaf, tuple(shape), lead)
    return leaf.reshape(*lead, -1).float()


def flatten_observation(observation: Tensors, shape: Shape) -> Tensor:
    """Concatenate an observation without images to [*lead, size] float32; categories come last.

    See `split_observation` for arguments and errors.
    """
    if type(shape) is tuple and len(shape) == 1:
        return observation.float()  # type: ignore[no-any-return]
    vectors, categories, _ = split_observation(observation, shape)
    return joined(vectors + categories)


def joined(parts: list[Tensor]) -> Tensor:
    """Concatenate along the last dimension; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def flatten_numpy(observation: Arrays, shape: Shape) -> NDArray[np.float32]:
    """Do the same as ``flatten_observation`` for numpy arrays [B, *shape]; avoid copies."""
    vectors, categories = [], []
    for leaf, leaf_shape in zip(leaves_of(observation), leaf_shapes(shape), strict=True):
        if isinstance(leaf_shape, CategoryShape):
            columns = (leaf.astype(np.int64) - leaf_shape.low).reshape(len(leaf), -1)
            categories += [
                np.eye(n, dtype=np.float32)[columns[:, i]] for i, n in enumerate(leaf_shape.sizes)
            ]
        elif not isinstance(leaf_shape, MaskShape):
            vectors.append(leaf.reshape(len(leaf), -1).astype(np.float32, copy=False))
    parts = vectors + categories
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def check_normalized(models: Iterable[Any], observation_space: Space) -> None:
    """Check that models normalize only floating-point vectors.

    Running statistics of booleans and integers are not meaningful.

    Raises:
        ValueError: a model has ``normalize_observation``, and observations have no vectors, or
            vectors that are not floating point.
    """
    if not any(getattr(model, "normalize_observation", False) for model in models):
        return
    leaves = [np.asarray(x) for x in leaves_of(observation_space.null_value())]
    shapes = leaf_shapes(marked_shape(observation_space))
    vectors = [x for x, shape in zip(leaves, shapes) if not isinstance(shape, MARKED)]
    others = sorted({str(x.dtype) for x in vectors if x.dtype.kind != "f"})
    if others or not vectors:
        found = f"entries of {', '.join(others)}" if others else "no vectors"
        raise ValueError(
            f"normalize_observation is for real numbers, but observations, {observation_space}, "
            f"have {found}. Turn it off (normalize_observation=False, or "
            "--agent.no-normalize-observation)."
        )


def _check(observation: Tensor, shape: tuple[int, ...], lead: tuple[int, ...]) -> None:
    if observation.shape[len(lead) :] != shape:
        raise ValueError(
            f"observation of shape {tuple(observation.shape)} must end with the shape of the "
            f"observation space, {shape}."
        )
