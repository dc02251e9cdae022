"""Observations of any space as one float vector: the shapes that models are built from.

A model takes the shape of an observation: a tuple of integers, or, for nested (Dict, Tuple) spaces,
a named tuple of shapes. `marked_shape` gives the shapes of images and category numbers a type of
their own, by which models choose an encoder. They are equal to plain tuples.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Arrays, Tensors, leaves_of

Shape = tuple[Any, ...]  # sizes of dimensions, or a namedtuple of the parts' shapes
IMAGE_DIM = 3
MAX_CATEGORIES = 10_000  # of a number that is encoded one-hot; others are read as they are


class ImageShape(tuple[int, ...]):
    """Shape of an image observation, (C, H, W) or (H, W, C).

    Attributes:
        channels_last: the shape is (H, W, C).
        scale: factor that maps pixels to [0, 1].
    """

    channels_last: bool
    scale: float

    def __new__(
        cls, shape: Iterable[int], channels_last: bool = False, scale: float = 1 / 255
    ) -> "ImageShape":
        """Make one from a plain tuple."""
        new = super().__new__(cls, shape)
        new.channels_last, new.scale = channels_last, scale
        return new


class CategoryShape(tuple[int, ...]):
    """Shape of category numbers, () or (k,).

    Attributes:
        sizes: number of values of each, [k].
        low: smallest value.
    """

    sizes: tuple[int, ...]
    low: int

    def __new__(
        cls, shape: Iterable[int], sizes: Iterable[int] = (), low: int = 0
    ) -> "CategoryShape":
        """Make one from a plain tuple."""
        new = super().__new__(cls, shape)
        new.sizes, new.low = tuple(int(n) for n in sizes), int(low)
        return new


def marked_shape(space: Space) -> Any:
    """Return the shape of an observation space, with images and category numbers marked.

    An image is a Box of three dimensions; its channels are last if H > C in (H, W, C). Category
    numbers are Discrete and MultiDiscrete spaces, and an ``IntBox`` of shape ().
    """
    own: Any = getattr(space, "space", space)  # gymnasium's own, if it is wrapped
    if is_composite(space.shape):
        return type(space.shape)(*map(marked_shape, own.spaces))
    shape = tuple(space.shape)
    sizes = _category_sizes(space, own)
    if sizes and max(sizes) <= MAX_CATEGORIES:
        return CategoryShape(shape, sizes, 0 if own is not space else getattr(space, "low", 0))
    if len(shape) == IMAGE_DIM:
        return ImageShape(shape, shape[2] < shape[0], _pixel_scale(space))
    return space.shape


def _category_sizes(space: Space, own: Any) -> tuple[int, ...]:
    kind = type(own).__name__
    if kind == "Discrete" or (kind == "IntBox" and space.shape == ()):
        return (int(own.n),)
    return tuple(own.nvec.ravel().tolist()) if kind == "MultiDiscrete" else ()


def _pixel_scale(space: Space) -> float:
    dtype = np.dtype(space.dtype)
    if dtype == np.uint8:
        return 1 / 255
    high = float(np.max(np.asarray(getattr(space, "high", 1), np.float64)))
    return 1 / high if np.isfinite(high) and high > 1 else 1.0


def is_composite(shape: Shape) -> bool:
    """Return True for the shape of a space of several parts, a namedtuple of their shapes."""
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
    """Return the number of components of an observation without its images, categories one-hot."""
    return vector_size(shape) + sum(
        sum(leaf.sizes) for leaf in leaf_shapes(shape) if isinstance(leaf, CategoryShape)
    )


def vector_size(shape: Shape) -> int:
    """Return the number of components of an observation's vectors."""
    marked = (ImageShape, CategoryShape)
    vectors = [leaf for leaf in leaf_shapes(shape) if not isinstance(leaf, marked)]
    return sum(int(np.prod(leaf, dtype=np.int64)) for leaf in vectors)


def split_observation(
    observation: Tensors, shape: Shape
) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    """Divide an observation by kinds of parts.

    Args:
        observation: tensor [*lead, *shape] of any number type, or a named tuple of them.
        shape: see the module.

    Returns:
        vectors [*lead, size] float32, category numbers as one-hot vectors [*lead, size] float32,
        and images as they are, each in order.

    Raises:
        ValueError: the observation does not end with ``shape``.
    """
    vectors, categories, images = [], [], []
    for leaf, own in zip(leaves_of(observation), leaf_shapes(shape), strict=True):
        if isinstance(own, ImageShape):
            images.append(leaf)
        elif isinstance(own, CategoryShape):
            columns = (leaf.long() - own.low).reshape(*leaf.shape[: leaf.dim() - len(own)], -1)
            categories += [
                torch.nn.functional.one_hot(columns[..., i], n).float()
                for i, n in enumerate(own.sizes)
            ]
        else:
            vectors.append(_as_vector(leaf, own))
    return vectors, categories, images


def _as_vector(leaf: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return [*lead, *shape] as [*lead, size] float32."""
    if len(shape) == 1:
        return leaf.float()
    lead = leaf.shape[: leaf.dim() - len(shape)]
    _check(leaf, tuple(shape), lead)
    return leaf.reshape(*lead, -1).float()


def flatten_observation(observation: Tensors, shape: Shape) -> Tensor:
    """Concatenate all components of an observation without images; category numbers come last.

    Args and errors: see `split_observation`.

    Returns:
        [*lead, size] float32.
    """
    if type(shape) is tuple and len(shape) == 1:
        return observation.float()  # type: ignore[no-any-return]
    vectors, categories, _ = split_observation(observation, shape)
    return joined(vectors + categories)


def joined(parts: list[Tensor]) -> Tensor:
    """Concatenate along the last dimension; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def flatten_numpy(observation: Arrays, shape: Shape) -> NDArray[np.float32]:
    """Do the same with numpy arrays [B, *shape]; without a copy if possible."""
    vectors, categories = [], []
    for leaf, own in zip(leaves_of(observation), leaf_shapes(shape), strict=True):
        if isinstance(own, CategoryShape):
            columns = (leaf.astype(np.int64) - own.low).reshape(len(leaf), -1)
            categories += [
                np.eye(n, dtype=np.float32)[columns[:, i]] for i, n in enumerate(own.sizes)
            ]
        else:
            vectors.append(leaf.reshape(len(leaf), -1).astype(np.float32, copy=False))
    parts = vectors + categories
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def check_normalized(models: Iterable[Any], observation_space: Space) -> None:
    """Check that models normalize floating-point vectors only.

    Running statistics of switches and integers are not meaningful.

    Raises:
        ValueError: a model has ``normalize_observation``, and observations have no vectors, or
            vectors that are not floating point.
    """
    if not any(getattr(model, "normalize_observation", False) for model in models):
        return
    leaves = [np.asarray(x) for x in leaves_of(observation_space.null_value())]
    shapes = leaf_shapes(marked_shape(observation_space))
    marked = (ImageShape, CategoryShape)
    vectors = [x for x, shape in zip(leaves, shapes) if not isinstance(shape, marked)]
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
