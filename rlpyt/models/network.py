"""Bases of models, which consist of an encoder, an optional recurrent layer, and heads."""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.image_encoder import Encoder, build_encoder, default_convolutions, is_custom
from rlpyt.models.impala import build_convolutions
from rlpyt.models.numpy_forward import NumpyForward, numpy_forward_of
from rlpyt.models.observation import (
    IMAGE_DIM,
    ImageShape,
    Shape,
    UnseenShape,
    as_vector,
    encoded_parts,
    flatten_observation,
    is_composite,
    is_real,
    is_vector,
    joined,
    leaf_shapes,
    observation_size,
    real_parts,
    split_observation,
    vector_size,
    with_encoders,
)
from rlpyt.models.recurrent import HeadInputs, Memory, MlpMemory, add_memory, run_recurrent
from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.models.utils import Nonlinearity, conv2d_output_shape
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.checks import warn_without
from rlpyt.utils.old_names import AssignableProperty
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

Lead = tuple[int, int, int]  # number of leading dimensions, T, B


class Network(nn.Module):
    """Base of all models: ``heads(recurrent_layer(encode(observation)))``.

    `VectorModel` and `ImageModel` implement ``encode``; a model implements ``heads``, and
    ``recurrent_layer`` if it is recurrent.
    """

    _takes_mask: ClassVar[bool] = False  # True if ``heads`` takes a mask of actions
    uses_remember: ClassVar[bool] = False  # True if an overridden ``forward`` calls ``remember``
    _is_plain = False  # True if ``forward`` is ``heads(observation.float())``

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._takes_mask = "mask" in inspect.signature(cls.heads).parameters

    @property
    def recurrent_layer(self) -> Any:
        """Return the memory, a module with the interface of an LSTM; ``None``: not recurrent.

        ``encode`` of a recurrent model must return features [T * B, F].
        """
        return None

    @property
    def observation_only(self) -> bool:
        """Return True if the previous action and reward are not read."""
        return self.recurrent_layer is None

    @property
    def takes_starts(self) -> bool:
        """Return True if ``init_rnn_state`` may be a ``StateAndStarts``."""
        passed_on = self.uses_remember or type(self).forward is Network.forward
        return passed_on and getattr(self.recurrent_layer, "takes_starts", False)

    @property
    def attention_window(self) -> int | None:
        """Return how many earlier steps the memory attends to; ``None``: it has no attention."""
        return getattr(self.recurrent_layer, "attention_window", None)

    def encode(self, observation: Tensors) -> tuple[Tensor, Lead | None]:
        """Return features [T * B, F] with the leading dimensions, or [*lead, F] with ``None``."""
        raise NotImplementedError

    def heads(self, features: Tensor) -> Any:
        """Return the outputs for features [.., F]: a tensor [.., ...], or a tuple of them.

        Models of policies may take a second argument ``mask``, valid actions [.., n], or ``None``.
        """
        raise NotImplementedError

    @property
    def masks_actions(self) -> bool:
        """Return True if ``heads`` gives invalid actions the probability zero."""
        return self._takes_mask

    def _heads_of(self, features: Tensor, observation: Tensors) -> Any:
        return self._masked_heads(features, action_mask_of(observation))

    def _masked_heads(self, features: Tensor, mask: Tensor | None) -> Any:
        if mask is None or not self._takes_mask:
            return self.heads(features)
        mask = mask.reshape(*features.shape[:-1], mask.shape[-1])
        return self.heads(features, mask)  # type: ignore[call-arg]

    def forward(
        self,
        observation: Tensors,
        prev_action: Tensors | None = None,
        prev_reward: Tensor | None = None,
        init_rnn_state: Tensors | None = None,
    ) -> Any:
        """Evaluate the model.

        Args:
            observation: [*lead, *observation_shape] of any number type, leading dimensions [],
                [B] or [T, B]; or a named tuple of such tensors; of recurrent models also
                ``HeadInputs``.
            prev_action: [*lead, A], one-hot if discrete; read by recurrent models only.
            prev_reward: [*lead]; read by recurrent models only.
            init_rnn_state: of recurrent models, the state before the first step, leaves [N, B, H],
                see `run_recurrent`; ``None``: zeros.

        Returns:
            The model's outputs, float32 [*lead, ...]. Recurrent models also return the recurrent
            state after the last step (B is 1 without leading dimensions), except for
            ``HeadInputs``.
        """
        if self._is_plain:
            features = observation.float()  # type: ignore[union-attr]
            return self.heads(features)
        if self.recurrent_layer is None:
            features, lead = self.encode(observation)
            outputs = self._heads_of(features, observation)
            return outputs if lead is None else restore_leading_dims(outputs, *lead)
        if isinstance(observation, HeadInputs):
            return self._masked_heads(observation.features, observation.mask)
        features, lead = self.encode(observation)
        assert lead is not None
        features, rnn_state = self.remember(
            features, lead, prev_action, prev_reward, init_rnn_state
        )
        outputs = restore_leading_dims(self._heads_of(features, observation), *lead)
        return (*outputs, rnn_state) if isinstance(outputs, tuple) else (outputs, rnn_state)

    def head_inputs(
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        init_rnn_state: Tensors | None = None,
    ) -> tuple[Any, Any]:
        """Run encoder and memory of a recurrent model, without its heads.

        Args:
            observation, prev_action, prev_reward, init_rnn_state: arguments of ``forward``.

        Returns:
            ``HeadInputs`` [*lead, ...], which ``forward`` takes in place of the observation; and
            the state after the last step.
        """
        features, lead = self.encode(observation)
        assert lead is not None
        features, rnn_state = self.remember(
            features, lead, prev_action, prev_reward, init_rnn_state
        )
        features = restore_leading_dims(features, *lead)
        return HeadInputs(features, action_mask_of(observation)), rnn_state

    def remember(
        self,
        features: Tensor,
        lead: Lead,
        prev_action: Tensors | None,
        prev_reward: Tensor | None,
        init_rnn_state: Tensors | None,
    ) -> tuple[Tensor, Any]:
        """Run the memory over features [T * B, F] from ``encode``; see ``forward``.

        Returns:
            Features [T * B, H] for the heads, and the state after the last step.
        """
        assert isinstance(prev_action, Tensor) and prev_reward is not None
        inputs = (features, prev_action, prev_reward, init_rnn_state)
        return run_recurrent(self.recurrent_layer, *inputs, *lead[1:])


class VectorModel(Network):
    """Base of models that encode vectors, or nested spaces of vectors, categories and images.

    The features are all vectors, then one-hot category numbers, then the features of each image
    from an `ImageEncoder`; see `rlpyt.models.observation`. Agents mark the shapes. Any part may
    have a custom encoder instead, whose features follow in the order of the parts, like those of
    images. With normalization, vectors of integers and booleans follow those of real numbers.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        normalize_observation: subtract the running mean of vectors of real numbers, divide by their
            running standard deviation; also before custom encoders.
        norm_obs_clip: maximum absolute value of normalized observations.
        norm_obs_var_clip: minimum variance in normalization.
        encoder: arguments of `ImageEncoder`, for example ``dict(feature_size=128)``; or "impala"
            (`ImpalaModel`); or a custom encoder, of images or of an observation without parts.
        encoders: custom encoders by the name of a part, for example
            ``{"camera.left": MyEncoder, "camera.right": dict(feature_size=64)}``; "observation" for
            observations without parts. See `rlpyt.models.image_encoder.build_encoder`.

    Attributes:
        obs_rms: running statistics, if observations are normalized; algorithms update them through
            ``update_obs_rms``.
        images: encoders of the images of an observation, and custom ones, if there are any.
        core: an MLP and a memory, after ``add_core``.
        memory_size: H, size of the memory's output, after ``add_core``.
    """

    _has_core = False

    def __init__(
        self,
        observation_shape: Shape,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        encoder: Encoder | None = None,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if is_custom(encoder) and not is_composite(observation_shape):
            encoders = encoders or {"observation": encoder}
        self._observation_shape = observation_shape = with_encoders(
            observation_shape, encoders or {}
        )
        self.normalize_observation = normalize_observation
        self.norm_obs_clip = norm_obs_clip
        self.norm_obs_var_clip = norm_obs_var_clip
        # Statistics are in the order of the parts, whether these have an encoder or not.
        self._real_parts = real_parts(observation_shape)
        self._encodes_reals = any(i is not None for i, _ in self._real_parts)
        self._real_sizes = [math.prod(part) for _, part in self._real_parts]
        if normalize_observation:
            self.obs_rms = RunningMeanStdModel((sum(self._real_sizes),))
        else:
            warn_without(
                "normalize_observation",
                norm_obs_clip=(norm_obs_clip, 10),
                norm_obs_var_clip=(norm_obs_var_clip, 1e-6),
            )
        self._is_real = is_real(observation_shape)
        images: list[Any] = [
            build_encoder(part, encoder or {}) for part in encoded_parts(observation_shape)
        ]
        self._has_images = bool(images)
        leaves = leaf_shapes(observation_shape)
        if encoder and not images and not any(isinstance(x, UnseenShape) for x in leaves):
            warnings.warn(
                f"encoder={encoder!r} has no effect: the observation has no images. Name the parts "
                "that it reads: encoders={'PART': ...}.",
                stacklevel=2,
            )
        if images:
            self.images = nn.ModuleList(images)
        n_encoded = sum(int(x.output_size) for x in images)
        self._n_features = observation_size(observation_shape) + n_encoded
        # Observations of vectors alone, and of one vector, the most common ones, use a shortcut.
        only_reals = all(self._is_real) or not normalize_observation
        self._only_vectors = only_reals and vector_size(observation_shape) == self._n_features
        self._is_vector = is_vector(observation_shape) and not normalize_observation
        cls, base = type(self), VectorModel
        reads = cls.encode is base.encode and cls.read is base.read
        self._is_plain = self._is_vector and reads and cls.recurrent_layer is base.recurrent_layer

    @AssignableProperty
    def _obs_ndim(self) -> int:
        """Return the number of dimensions of an observation."""
        return len(self._observation_shape)

    _obs_n_dim = _obs_ndim

    @property
    def observation_size(self) -> int:
        """Return the number of features from ``read``."""
        return self._n_features

    def read(self, observation: Tensors) -> Tensor:
        """Return features [*lead, observation_size] float32 of observations [*lead, ...]."""
        if self._is_vector:
            return observation.float()  # type: ignore[union-attr]
        if self._only_vectors:
            return self._normalized(flatten_observation(observation, self._observation_shape))
        vectors, features, images = split_observation(observation, self._observation_shape)
        if self.normalize_observation:
            integers = [x for x, real in zip(vectors, self._is_real, strict=True) if not real]
            features = integers + features
            vectors = self._normalize_parts(vectors, images)
        if vectors:
            features.insert(0, joined(vectors))
        if images:
            features += [encode(image) for encode, image in zip(self.images, images, strict=True)]
        return joined(features)

    def _reals(self, vectors: list[Tensor], encoded: list[Any]) -> list[Tensor]:
        """Return all parts that are vectors of real numbers, [*lead, size], in order."""
        own = (x for x, real in zip(vectors, self._is_real, strict=True) if real)
        return [
            next(own) if i is None else as_vector(encoded[i], shape)
            for i, shape in self._real_parts
        ]

    def _normalize_parts(self, vectors: list[Tensor], encoded: list[Any]) -> list[Tensor]:
        """Return normalized vectors of real numbers; replace those in ``encoded``."""
        if not self._real_parts:
            return []
        numbers = self._normalized(joined(self._reals(vectors, encoded)))
        if not self._encodes_reals:
            return [numbers]
        own, parts = [], torch.split(numbers, self._real_sizes, -1)
        for (i, shape), part in zip(self._real_parts, parts, strict=True):
            if i is None:
                own.append(part)
            else:
                encoded[i] = part.reshape(*part.shape[:-1], *shape)
        return own

    def _normalized(self, x: Tensor) -> Tensor:
        if not self.normalize_observation:
            return x
        return self.obs_rms.normalize(x, self.norm_obs_clip, self.norm_obs_var_clip)

    def add_core(
        self,
        action_size: int,
        hidden_sizes: int | Sequence[int],
        size: int,
        nonlinearity: Nonlinearity,
        memory: Memory,
    ) -> None:
        """Add an MLP and a memory between the features and the heads; see `MlpMemory`."""
        sizes = (self.observation_size, action_size, hidden_sizes, size)
        self.core = MlpMemory(*sizes, nonlinearity, memory)
        self.memory_size = int(size)
        self._has_core, self._is_plain = True, False

    @property
    def recurrent_layer(self) -> Any:
        """Return the memory, or ``None``."""
        return self.core.layer if self._has_core else None

    def encode(self, observation: Tensors) -> tuple[Tensor, Lead | None]:
        """Return the features: [*lead, observation_size], or [T * B, F] with a memory."""
        features = self.read(observation)
        return encode_rows(self.core.mlp, features) if self._has_core else (features, None)

    def update_obs_rms(self, observation: Tensors) -> None:
        """Update the running statistics with a batch of observations [*lead, ...]."""
        if self.normalize_observation:
            vectors, _, encoded = split_observation(observation, self._observation_shape)
            self.obs_rms.update(joined(self._reals(vectors, encoded)))

    def numpy_forward(self, live: bool = True) -> NumpyForward | None:
        """Return ``forward`` over numpy arrays [B, ...]; see `rlpyt.models.numpy_forward`.

        ``None`` if the model has a memory, ``heads`` cannot be translated, a subclass overrides
        methods that it calls, or ``reads_in_numpy`` is False.
        """
        if self._has_core or not self.reads_in_numpy:
            return None
        normalization = self.normalization if self.normalize_observation else None
        return numpy_forward_of(self, self._observation_shape, normalization, live)

    @property
    def reads_in_numpy(self) -> bool:
        """Return False for images, and for normalized vectors together with other parts."""
        return self._only_vectors or not (self._has_images or self.normalize_observation)

    @property
    def normalization(self) -> tuple[RunningMeanStdModel, float, float] | None:
        """Return (statistics, clip, minimum variance); ``None`` without normalization."""
        if not self.normalize_observation:
            return None
        return self.obs_rms, self.norm_obs_clip, self.norm_obs_var_clip


class LstmVectorModel(VectorModel):
    """Base of recurrent models that encode observations by an MLP.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        action_size: number of components of a previous action, one-hot if discrete.
        hidden_sizes: sizes of the MLP's hidden layers.
        lstm_size: H, size of the recurrent layer.
        nonlinearity: class or name of the MLP's nonlinearity.
        memory: "lstm", "gru" etc., see `add_memory`.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        action_size: int,
        hidden_sizes: int | Sequence[int] = (64,),
        lstm_size: int = 64,
        nonlinearity: Nonlinearity = nn.Tanh,
        memory: Memory = "lstm",
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.add_core(action_size, hidden_sizes, lstm_size, nonlinearity, memory)


def encode_rows(mlp: nn.Module, x: Tensor) -> tuple[Tensor, Lead]:
    """Return an MLP's features [T * B, F] of vectors [*lead, D], and the leading dimensions."""
    lead_dim, T, B, _ = infer_leading_dims(x, 1)
    return mlp(x.reshape(T * B, -1)), (lead_dim, T, B)


class ImageModel(Network):
    """Base of models that encode images by convolutions and, optionally, hidden layers.

    Args:
        image_shape: (C, H, W), or (H, W, C) as an `ImageShape` that says so.
        hidden_sizes: hidden layer(s) after the convolutions; ``None``: none.
        use_maxpool: downsample by max-pooling instead of strides.
        channels, kernel_sizes, strides, paddings: settings of the convolutions; ``None``: the class
            attribute ``convolutions``, or, if the image is too small for them and none is given,
            those of `ImageEncoder`.
        encoder: "impala", or a dictionary, see `build_convolutions`; or a class, in place of the
            convolutions and hidden layers, see `build_encoder`. No other setting of these is read.
    """

    convolutions: ClassVar[dict[str, Sequence[int]]]
    _memory: str | None = None  # name of the recurrent layer

    def __init__(
        self,
        image_shape: Sequence[int],
        hidden_sizes: int | Sequence[int] | None = None,
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__()
        shape = image_shape if isinstance(image_shape, ImageShape) else ImageShape(image_shape)
        self._reads_pixels = is_custom(encoder)
        self._prepare: Callable[[Tensor], Tensor] = _as_it_is
        if encoder is not None and self._reads_pixels:
            self.conv: Any = build_encoder(shape, encoder)
            return
        self._prepare = partial(_to_convolutions, shape=shape)
        if isinstance(image_shape, ImageShape):
            image_shape = image_shape.chw
        default: Mapping[str, Sequence[int]] = self.convolutions
        given = (channels, kernel_sizes, strides, paddings)
        if not any(given) and not use_maxpool and _too_small(image_shape, default):
            default = default_convolutions(image_shape)
        self.conv = Conv2dHeadModel(
            image_shape=image_shape,
            channels=channels or default["channels"],
            kernel_sizes=kernel_sizes or default["kernel_sizes"],
            strides=strides or default["strides"],
            paddings=paddings or default["paddings"],
            use_maxpool=use_maxpool,
            hidden_sizes=hidden_sizes,
            conv=None if encoder is None else build_convolutions(encoder, image_shape),  # type: ignore[arg-type]
        )

    def add_memory(self, memory: Memory, action_size: int, size: int) -> None:
        """Add a memory between the features and the heads; see `rlpyt.models.recurrent`."""
        self._memory = add_memory(self, memory, self.conv.output_size + action_size + 1, size)

    @property
    def recurrent_layer(self) -> Any:
        """Return the memory, or ``None``."""
        return None if self._memory is None else getattr(self, self._memory)

    def encode(self, observation: Any) -> tuple[Tensor, Lead | None]:
        """Return features [T * B, F] of images [*lead, *image_shape], usually uint8."""
        lead_dim, T, B, shape = infer_leading_dims(observation, IMAGE_DIM)
        return self.conv(self._prepare(observation.reshape(T * B, *shape))), (lead_dim, T, B)


def _to_convolutions(image: Tensor, shape: ImageShape) -> Tensor:
    x = to_unit_floats(image, shape.scale)
    return x.movedim(-1, 1) if shape.channels_last else x


def _as_it_is(image: Tensor) -> Tensor:
    return image


def _too_small(image_shape: Sequence[int], convolutions: Mapping[str, Sequence[int]]) -> bool:
    """Return True if an image (C, H, W) has no pixel left after these convolutions."""
    if len(image_shape) != IMAGE_DIM:
        return False  # Conv2dHeadModel refuses it
    _, h, w = image_shape
    names = ("kernel_sizes", "strides", "paddings")
    for layer in zip(*(convolutions[name] for name in names), strict=True):
        h, w = conv2d_output_shape(h, w, *layer)
    return min(h, w) < 1


def to_unit_floats(image: Tensor, scale: float = 1.0 / 255) -> Tensor:
    """Multiply images by ``scale``, in a new float32 tensor; booleans become 0 and 1."""
    if image.dtype == torch.bool:
        return image.float()
    if image.dtype == torch.float32:
        return image * scale
    return image.float().mul_(scale)
