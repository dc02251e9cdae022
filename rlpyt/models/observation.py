"""Shapes of observations, from which models are built, and conversion of observations to vectors.

A model takes the shape of an observation: a tuple of integers, or, for nested (Dict, Tuple) spaces,
a named tuple of shapes. `marked_shape` returns subclasses of tuple for images and category numbers,
by which models choose an encoder, and for masks of valid actions, which they leave out, like the
parts that `shape_of_group` marks as unseen. They are equal to plain tuples.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.spaces.action_mask import FIELD, has_mask
from rlpyt.spaces.base import Space
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import Arrays, Tensors, leaves_of
from rlpyt.utils.names import UnknownName

Shape = tuple[Any, ...]  # sizes of dimensions, or a named tuple of the parts' shapes
IMAGE_DIM = 3
MAX_CATEGORIES = 10_000  # maximum for one-hot encoding; larger category numbers are not encoded


class ImageShape(tuple[int, ...]):
    """Shape of an image observation, (C, H, W) or (H, W, C), or of a stack of them, (K, C, H, W).

    Attributes:
        channels_last: True if the shape is (H, W, C) or (K, H, W, C).
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
        """Return (C, H, W), with the channels of all images of a stack."""
        *stack, a, b, c = self
        C, H, W = (c, a, b) if self.channels_last else (a, b, c)
        return int(np.prod(stack, dtype=np.int64)) * C, H, W


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


class IntegerShape(tuple[int, ...]):
    """Shape of a vector of integers or booleans, which is not normalized."""


class EncodedShape(tuple[int, ...]):
    """Shape of a part that an encoder of the user reads, see `with_encoders`.

    Attributes:
        part: shape of the part, with its kind marked.
        encoder: value of `with_encoders` for this part.
    """

    part: Any
    encoder: Any

    def __new__(cls, shape: Any, encoder: Any = None) -> "EncodedShape":
        """Create from the shape of the part."""
        new = super().__new__(cls, shape)
        new.part, new.encoder = shape, encoder
        return new


class UnseenShape(tuple[int, ...]):
    """Shape of a part that a network does not read, see `shape_of_group`.

    Attributes:
        seen: the shape of the part for networks that read it.
    """

    seen: tuple[int, ...]

    def __new__(cls, shape: tuple[int, ...]) -> "UnseenShape":
        """Create from the shape of the part."""
        new = super().__new__(cls, shape)
        new.seen = shape
        return new


ENCODED = (ImageShape, EncodedShape)  # parts that are read by a network of their own
PLAIN = (tuple, IntegerShape)  # vectors
LEFT_OUT = (MaskShape, UnseenShape)  # parts without features
MARKED = (*ENCODED, CategoryShape, *LEFT_OUT)  # all others are vectors


def marked_shape(space: Space) -> Any:
    """Return the shape of an observation space, with images, category numbers and mask marked.

    An image is a Box of three dimensions, or of four, a stack of images; its channels are last if
    that is the shortest of the last three. Category numbers are Discrete and MultiDiscrete spaces,
    and an ``IntBox`` of shape (). The mask is the part ``action_mask``.
    """
    shape = _marked_shape(space)
    if has_mask(space):
        shape = shape._replace(**{FIELD: MaskShape(getattr(shape, FIELD))})
    return shape


def shape_of_group(shape: Shape, parts: Sequence[str] | None, group: str) -> Any:
    """Return the shape of an observation in which parts that a network does not read are marked.

    Args:
        shape: shape of an observation, from `marked_shape` or for another group.
        parts: names of the parts that the network reads: "camera", or "camera.depth" for a part of
            a part; ``None``: all. The mask of actions is not among them, and always applies.
        group: name of the setting, for error messages.

    Raises:
        TypeError: ``parts`` is not a list of names.
        ValueError: ``parts`` is empty or has an unknown name, or observations have no parts.
    """
    if parts is None:
        return shape
    if isinstance(parts, str) or not all(isinstance(name, str) for name in parts):
        raise TypeError(f"{group} must be a list of names, got {parts!r}. Pass [{parts!r}].")
    known = _part_names(shape)
    if not known:
        raise ValueError(
            f"{group}={list(parts)} must select parts of a Dict or Tuple observation, but "
            f"observations have the shape {tuple(shape)} and no parts. Leave it out, or return a "
            "Dict."
        )
    for name in parts:
        if name not in known:
            raise UnknownName(f"part of observations in {group}", name, known)
    if not parts:
        raise ValueError(
            f"{group} must name at least one part of observations, got an empty list. Known: "
            f"{', '.join(known)}."
        )

    def mark(shape: Shape, name: str, seen: bool) -> Any:
        seen = seen or name in parts
        if is_composite(shape):
            inner = zip(_named_parts(shape, name), tuple(shape), strict=True)
            return type(shape)(*(mark(part, path, seen) for path, part in inner))
        if isinstance(shape, UnseenShape):
            shape = shape.seen
        return shape if seen or isinstance(shape, MaskShape) else UnseenShape(shape)

    return mark(shape, "", False)


def _named_parts(shape: Any, name: str) -> list[str]:
    return [f"{name}.{field}" if name else field for field in shape._fields]


def _part_names(shape: Any, name: str = "") -> list[str]:
    """Return the names of all parts of an observation, of nested ones too, without the mask."""
    if not is_composite(shape):
        return []
    found = []
    for path, part in zip(_named_parts(shape, name), tuple(shape), strict=True):
        if not isinstance(part, MaskShape):
            found += [path, *_part_names(part, path)]
    return found


def seen_parts(shape: Shape) -> list[bool]:
    """Return for each part of an observation, in order, whether a network reads it."""
    return [not isinstance(leaf, UnseenShape) for leaf in leaf_shapes(shape)]


def _marked_shape(space: Space) -> Any:
    unwrapped: Any = getattr(space, "space", space)  # the gymnasium space, if it is wrapped
    if is_composite(space.shape):
        return type(space.shape)(*map(_marked_shape, unwrapped.spaces))
    shape = tuple(space.shape)
    sizes = _category_sizes(space, unwrapped)
    if sizes and max(sizes) <= MAX_CATEGORIES:
        low = 0 if unwrapped is not space else getattr(space, "low", 0)
        return CategoryShape(shape, sizes, low)
    if len(shape) in (IMAGE_DIM, IMAGE_DIM + 1):
        return ImageShape(shape, channels_are_last(shape[-IMAGE_DIM:]), _pixel_scale(space))
    return space.shape if np.dtype(space.dtype).kind == "f" else IntegerShape(shape)


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
    no_bound = 255 if dtype == np.uint8 else 1
    high = float(np.max(np.asarray(getattr(space, "high", no_bound), np.float64)))
    high -= isinstance(space, IntBox)  # whose bound is exclusive
    wide = dtype.kind in "iu" and dtype.itemsize > 2
    if wide and high >= np.iinfo(dtype).max:  # it has no upper bound
        return 1 / 255
    return 1 / high if np.isfinite(high) and high > 1 else 1.0


def is_composite(shape: Shape) -> bool:
    """Return True for the shape of a nested space, a named tuple of shapes."""
    return hasattr(shape, "_fields")


def leaf_shapes(shape: Shape) -> list[Any]:
    """Return the shapes of all parts of an observation, in order."""
    if is_composite(shape):
        return [leaf for part in tuple(shape) for leaf in leaf_shapes(part)]
    return [shape]


def with_encoders(shape: Shape, encoders: Mapping[str, Any]) -> Any:
    """Return the shape of an observation with parts marked that have an encoder of the user.

    Args:
        shape: shape of an observation, from `marked_shape`.
        encoders: encoder by the name of the part, "camera.left"; "observation" if observations
            have no parts.

    Raises:
        ValueError: there is no such part, or it has parts itself.
    """
    if not encoders:
        return shape
    known = {}

    def mark(shape: Shape, name: str) -> Any:
        if is_composite(shape):
            inner = zip(_named_parts(shape, name), tuple(shape), strict=True)
            return type(shape)(*(mark(part, path) for path, part in inner))
        if isinstance(shape, MaskShape):
            return shape
        name = name or "observation"
        known[name] = shape
        has_one = name in encoders and not isinstance(shape, UnseenShape)
        return EncodedShape(shape, encoders[name]) if has_one else shape

    marked = mark(shape, "")
    for name in encoders:
        if name not in known:
            raise UnknownName("part of observations in encoders", name, known)
    return marked


def images_of(shape: Shape) -> list[ImageShape]:
    """Return the shapes of all images among the parts of an observation."""
    return [leaf for leaf in leaf_shapes(shape) if isinstance(leaf, ImageShape)]


def encoded_parts(shape: Shape) -> list[Any]:
    """Return the shapes of all parts of an observation that are read by a network of their own."""
    return [leaf for leaf in leaf_shapes(shape) if isinstance(leaf, ENCODED)]


def observation_size(shape: Shape) -> int:
    """Return the number of components of an observation without images, with one-hot categories."""
    return vector_size(shape) + sum(
        sum(leaf.sizes) for leaf in leaf_shapes(shape) if isinstance(leaf, CategoryShape)
    )


def vector_size(shape: Shape) -> int:
    """Return the number of components of an observation's vectors."""
    vectors = [leaf for leaf in leaf_shapes(shape) if not isinstance(leaf, MARKED)]
    return sum(int(np.prod(leaf, dtype=np.int64)) for leaf in vectors)


def is_real(shape: Shape) -> list[bool]:
    """Return for each vector of an observation, in order, whether it has real numbers."""
    vectors = [leaf for leaf in leaf_shapes(shape) if not isinstance(leaf, MARKED)]
    return [not isinstance(leaf, IntegerShape) for leaf in vectors]


def real_parts(shape: Shape) -> list[tuple[int | None, tuple[int, ...]]]:
    """Return all parts that are vectors of real numbers, in order.

    Returns:
        For each part, its index among the ``encoded_parts`` if it has an encoder of the user, else
        ``None``; and its shape.
    """
    found, n_encoded = [], 0
    for leaf in leaf_shapes(shape):
        part = leaf.part if isinstance(leaf, EncodedShape) else leaf
        if not isinstance(part, (*MARKED, IntegerShape)):
            found.append((n_encoded if part is not leaf else None, tuple(part)))
        n_encoded += isinstance(leaf, ENCODED)
    return found


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
        and unchanged parts that have a network of their own, such as images, each in order. A mask
        of actions and unseen parts are left out.

    Raises:
        ValueError: the observation does not end with ``shape``.
    """
    vectors, categories, encoded = [], [], []
    for leaf, leaf_shape in zip(leaves_of(observation), leaf_shapes(shape), strict=True):
        if isinstance(leaf_shape, ENCODED):
            encoded.append(leaf)
        elif isinstance(leaf_shape, CategoryShape):
            lead = leaf.shape[: leaf.dim() - len(leaf_shape)]
            columns = (leaf.long() - leaf_shape.low).reshape(*lead, -1)
            categories += [
                torch.nn.functional.one_hot(columns[..., i], n).float()
                for i, n in enumerate(leaf_shape.sizes)
            ]
        elif not isinstance(leaf_shape, LEFT_OUT):
            vectors.append(as_vector(leaf, leaf_shape))
    return vectors, categories, encoded


def as_vector(leaf: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Flatten [*lead, *shape] to [*lead, size] float32."""
    if len(shape) == 1:
        return leaf.float()
    lead = leaf.shape[: leaf.dim() - len(shape)]
    if leaf.shape[len(lead) :] != tuple(shape):
        raise ValueError(
            f"observation of shape {tuple(leaf.shape)} must end with the shape of the observation "
            f"space, {tuple(shape)}."
        )
    return leaf.reshape(*lead, -1).float()


def is_vector(shape: Shape) -> bool:
    """Return True if observations are one vector, without parts."""
    return type(shape) in PLAIN and len(shape) == 1


def flatten_observation(observation: Tensors, shape: Shape) -> Tensor:
    """Concatenate an observation without images to [*lead, size] float32; categories come last.

    See `split_observation` for arguments and errors.
    """
    if is_vector(shape):
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
        elif not isinstance(leaf_shape, LEFT_OUT):
            vectors.append(leaf.reshape(len(leaf), -1).astype(np.float32, copy=False))
    parts = vectors + categories
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def check_normalized(models: Iterable[Any], observation_space: Space) -> None:
    """Check that models that normalize observations read vectors of real numbers.

    Other parts are not normalized: running statistics of booleans and integers are not meaningful.

    Raises:
        ValueError: a model has ``normalize_observation``, and reads no floating-point vectors.
    """
    for model in models:
        if not getattr(model, "normalize_observation", False):
            continue
        shape = getattr(model, "_observation_shape", None)  # a custom model may not have it
        if shape is None:
            shape = marked_shape(observation_space)
        if real_parts(shape):
            continue
        leaves = [np.asarray(x) for x in leaves_of(observation_space.null_value())]
        parts = zip(leaves, leaf_shapes(shape), strict=True)
        vectors = [x for x, leaf in parts if not isinstance(leaf, MARKED)]
        others = sorted({str(x.dtype) for x in vectors})
        found = f"entries of {', '.join(others)}" if others else "no vectors"
        raise ValueError(
            f"normalize_observation is for real numbers, but observations, {observation_space}, "
            f"have {found}. Turn it off (normalize_observation=False, or "
            "--agent.no-normalize-observation)."
        )
