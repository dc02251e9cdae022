"""Exported policies, to act without rlpyt: this file can be copied, and needs only numpy.

policy = load_policy("policy.npz")  # or policy.onnx, with onnxruntime; policy.pt2, with torch
action, state = policy.act(observation)  # first step of an episode
action, state = policy.act(observation, state, reward)
"""

import functools
import io
import json
import math
import operator
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

METADATA = "rlpyt"  # key of the metadata in a file
Array = np.ndarray[Any, Any]
Function = Callable[[Sequence[Array]], Sequence[Array]]  # inputs -> outputs, each [B, ...]


class Policy:
    """Exported deterministic policy.

    Args:
        function: maps the inputs to the outputs, in the order of the metadata.
        metadata: metadata of the file.

    Attributes:
        metadata: name of the run, spaces, and lists "inputs" and "outputs" with name, dtype and
            shape (without the batch dimension) of each array. Parts of nested observations and
            actions have a path, (key, index) at each level.
        initial_state: state at the start of an episode; empty for a policy without memory.
    """

    def __init__(self, function: Function, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata
        self._function = function
        self._inputs: list[dict[str, Any]] = metadata["inputs"]
        self._outputs = [entry["name"] for entry in metadata["outputs"]]
        parts = [x for x in metadata["outputs"] if x["name"].split(".")[0] == "action"]
        self._action_paths = [entry.get("path", []) for entry in parts]
        self.initial_state = tuple(
            np.broadcast_to(np.asarray(entry["initial"], entry["dtype"]), entry["shape"]).copy()
            for entry in self._inputs
            if "initial" in entry
        )

    def __repr__(self) -> str:
        return f"Policy({self.metadata['name']})"

    def act(
        self, observation: Any, state: Sequence[Array] | None = None, reward: float = 0.0
    ) -> tuple[Any, tuple[Array, ...]]:
        """Choose an action for one observation.

        Args:
            observation: observation as the environment returns it: an array or a number; a dict or
                tuple of them for Dict and Tuple spaces.
            state: state from the previous step; ``None`` at the start of an episode.
            reward: reward received with the observation; used only by policies with memory.

        Returns:
            The action for the environment's ``step`` (a dict or tuple for Dict and Tuple spaces),
            and the state for the next ``act``.
        """
        outputs = [x[0] for x in self._function(self.inputs(observation, state, reward))]
        n = len(self._action_paths)
        action = _nested(self._action_paths, outputs[:n])
        return action, tuple(outputs[n : n + len(self.initial_state)])

    def inputs(
        self, observation: Any, state: Sequence[Array] | None = None, reward: float = 0.0
    ) -> list[Array]:
        """Return the arguments of ``__call__``, [1, ...], for those of ``act``."""
        states = iter(self.initial_state if state is None else state)
        arrays = []
        for entry in self._inputs:
            if "path" in entry:
                try:
                    leaf = part_at(entry["path"], observation)
                except (KeyError, IndexError, TypeError):
                    raise ValueError(
                        f"the observation must have the part {entry['name']!r}, got "
                        f"{observation!r:.120}."
                    ) from None
            else:
                leaf = next(states) if "initial" in entry else reward
            array = np.asarray(leaf, entry["dtype"])
            if array.shape != tuple(entry["shape"]):
                raise ValueError(
                    f"{entry['name']} must have the shape {tuple(entry['shape'])}, got "
                    f"{array.shape}."
                )
            if entry["name"].endswith(".action_mask") and not array.any():
                raise ValueError(f"{entry['name']} must allow an action, but all entries are 0.")
            arrays.append(array[None])
        return arrays

    def __call__(self, *inputs: Array) -> dict[str, Array]:
        """Evaluate a batch.

        Args:
            *inputs: arrays [B, ...] in the order of ``metadata["inputs"]``.

        Returns:
            Outputs [B, ...] by name: "action"; "next_state..." of policies with memory; and the
            parameters of the distribution, whose mode is the action.
        """
        return dict(zip(self._outputs, self._function(inputs), strict=True))


def load_policy(path: str | Path) -> Policy:
    """Load a policy exported by ``rlpyt export`` or ``Run.export``.

    Args:
        path: file that ends in .npz (numpy), .onnx (requires onnxruntime) or .pt2 (requires torch,
            and is as trusted as a script).

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the suffix is unknown, or the file is damaged or not an exported policy.
        ImportError: the required package is not installed.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a regular file, not a directory, pipe or device.")
    return read_policy(path.read_bytes(), path)


def read_policy(content: bytes, path: str | Path) -> Policy:
    """Return the policy in the content of a file; arguments and errors are those of `load_policy`.

    Args:
        content: content of the file.
        path: name of the file, whose suffix is the format.
    """
    readers = {".npz": _read_numpy, ".onnx": _read_onnx, ".pt2": _read_torch}
    suffix = Path(path).suffix
    if suffix not in readers:
        raise ValueError(f"{path} must end in {', '.join(readers)}.")
    try:
        function, metadata = readers[suffix](content)
        policy = Policy(function, json.loads(metadata))
        _try_out(policy)
        return policy
    except ImportError:
        raise
    except Exception as error:  # each library raises its own types
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{path} is damaged, or not a policy exported by rlpyt ({type(error).__name__}: "
            f"{reason})."
        ) from error


def _try_out(policy: Policy) -> None:
    """Act once, and compare all outputs with the metadata.

    Raises:
        ValueError, ...: the file is damaged.
    """
    inputs = [
        np.full((1, *entry["shape"]), entry["name"].endswith(".action_mask"), entry["dtype"])
        for entry in policy.metadata["inputs"]
    ]
    with np.errstate(all="ignore"):
        outputs = policy(*inputs)
        leaves = [
            (e["path"], x[0]) for e, x in zip(policy.metadata["inputs"], inputs) if "path" in e
        ]
        policy.act(_nested(*zip(*leaves, strict=True)))
    for entry in policy.metadata["outputs"]:
        found = outputs[entry["name"]]
        if (list(found.shape), str(found.dtype)) != ([1, *entry["shape"]], entry["dtype"]):
            raise ValueError(f"{entry['name']} has shape {found.shape} and type {found.dtype}")


def _read_onnx(content: bytes) -> tuple[Function, str]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more do not help with single observations
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def function(inputs: Sequence[Array]) -> Sequence[Array]:
        outputs: Sequence[Array] = session.run(None, dict(zip(names, inputs, strict=True)))
        return outputs

    return function, session.get_modelmeta().custom_metadata_map[METADATA]


def _read_torch(content: bytes) -> tuple[Function, str]:
    import torch

    extra = {METADATA: ""}
    module = torch.export.load(io.BytesIO(content), extra_files=extra).module()

    def function(inputs: Sequence[Array]) -> Sequence[Array]:
        with torch.no_grad():
            outputs = module(*[torch.from_numpy(np.ascontiguousarray(x)) for x in inputs])
        return [x.numpy() for x in outputs]

    return function, extra[METADATA]


def _read_numpy(content: bytes) -> tuple[Function, str]:
    if any(item.compress_type for item in zipfile.ZipFile(io.BytesIO(content)).infolist()):
        raise ValueError(
            "its arrays are compressed; rlpyt writes them uncompressed. Export the policy again"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    program = json.loads(str(arrays.pop("program")))
    return functools.partial(_evaluate, program, arrays), str(arrays.pop(METADATA))


def part_at(path: Sequence[Any], nested: Any) -> Any:
    """Return a part of a nested observation or action, by its key in a dict or index in a tuple."""
    for key, index in path:
        if not isinstance(nested, Mapping | tuple | list):
            raise TypeError(f"{type(nested).__name__} has no parts")
        nested = nested[key] if isinstance(nested, Mapping) else nested[index]
    return nested


def _nested(paths: Sequence[Sequence[Any]], leaves: Sequence[Any]) -> Any:
    """Return leaves in a structure in which ``part_at`` finds them at these paths."""
    if not paths[0]:
        return leaves[0]
    groups: dict[Any, tuple[list[Any], list[Any]]] = {}
    for ((key, _), *rest), leaf in zip(paths, leaves, strict=True):
        inner = groups.setdefault(key, ([], []))
        inner[0].append(rest)
        inner[1].append(leaf)
    parts = {key: _nested(*inner) for key, inner in groups.items()}
    return parts if isinstance(paths[0][0][0], str) else tuple(parts.values())


# The format .npz: a list of torch's core ATen operations, evaluated in numpy.


def _evaluate(
    program: Mapping[str, Any], arrays: Mapping[str, Array], inputs: Sequence[Array]
) -> list[Array]:
    """Evaluate a program.

    Args:
        program: "inputs" and "outputs", lists of names; "nodes", a list of operations (name,
            operation, arguments, keyword arguments, dtype of the result or None). A name in an
            argument is {"node": name}.
        arrays: parameters and constants by name.
        inputs: values of the inputs.
    """
    values: dict[str, Any] = dict(arrays)
    values.update(zip(program["inputs"], inputs, strict=True))

    def value_of(argument: Any) -> Any:
        if isinstance(argument, list):
            return [value_of(part) for part in argument]
        return values[argument["node"]] if isinstance(argument, dict) else argument

    for name, operation, args, kwargs, dtype in program["nodes"]:
        keywords = {key: value_of(arg) for key, arg in kwargs.items()}
        try:
            result = OPERATIONS[operation](*map(value_of, args), **keywords)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(f"numpy cannot evaluate {operation} ({name}): {error}") from error
        # numpy has other rules than torch for the dtype of mixed operands.
        values[name] = result if dtype is None else np.asarray(result, dtype)
    return [values[name] for name in program["outputs"]]


def _same(x: Any, *args: Any) -> Any:
    return x


def _expand(x: Array, sizes: Sequence[int], implicit: bool = False) -> Array:
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    return np.broadcast_to(x, [n if size == -1 else size for n, size in zip(own, sizes)])


def _slice(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _squeeze(x: Array, dims: Any = None) -> Array:
    axes = range(x.ndim) if dims is None else np.atleast_1d(dims).tolist()
    return np.squeeze(x, tuple(axis for axis in axes if x.shape[axis] == 1))


def _scatter(x: Array, dim: int, index: Array, source: Any) -> Array:
    result = x.copy()
    np.put_along_axis(result, index, source, dim)
    return result


def _index(x: Array, indices: Sequence[Any]) -> Array:
    return x[tuple(slice(None) if index is None else index for index in indices)]


def _pad(x: Array, pad: Sequence[int], value: float = 0) -> Array:
    """Pad dimensions from the last one, each with (before, after); negative numbers crop."""
    widths = [(0, 0)] * (x.ndim - len(pad) // 2) + [*zip(pad[::2], pad[1::2])][::-1]
    kept = tuple(slice(max(-a, 0), n + min(b, 0)) for (a, b), n in zip(widths, x.shape))
    added = [(max(a, 0), max(b, 0)) for a, b in widths]
    return np.pad(x[kept], added, constant_values=value)


def _softmax(x: Array, dim: int, half_to_float: bool = False) -> Array:
    exp = np.exp(x - x.max(dim, keepdims=True))
    return exp / exp.sum(dim, keepdims=True)  # type: ignore[no-any-return]


def _log_softmax(x: Array, dim: int, half_to_float: bool = False) -> Array:
    shifted = x - x.max(dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))  # type: ignore[no-any-return]


def _reduction(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        axis = tuple(dim) if isinstance(dim, list) and dim else (None if dim == [] else dim)
        return reduce(x, axis=axis, keepdims=keepdim)

    return function


def _with_indices(reduce: Any, find: Any) -> Callable[..., Any]:
    """Return torch's ``max`` or ``min`` of one dimension: values and indices."""

    def function(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return reduce(x)
        return reduce(x, axis=dim, keepdims=keepdim), find(x, axis=dim, keepdims=keepdim)

    return function


def _variance(x: Array, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
    axis = tuple(dim) if isinstance(dim, list) else dim
    return np.var(x, axis=axis, ddof=correction, keepdims=keepdim)  # type: ignore[call-overload]


def _layer_norm(x: Array, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    centered = x - x.mean(axes, keepdims=True)
    normal = centered / np.sqrt(np.square(centered).mean(axes, keepdims=True) + eps)
    return (normal * (1 if weight is None else weight) + (0 if bias is None else bias),)


def _batch_norm(
    x: Array, weight: Any, bias: Any, mean: Array, var: Array, momentum: float, eps: float
) -> Any:
    def columns(array: Any, default: float) -> Any:
        return default if array is None else array.reshape(-1, *(1,) * (x.ndim - 2))

    normal = (x - columns(mean, 0)) / np.sqrt(columns(var, 1) + eps)
    return (normal * columns(weight, 1) + columns(bias, 0),)


def _windows(
    x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any, fill: float = 0
) -> Array:
    """Return the windows of a convolution or pooling, [B, C, *positions, *kernel]."""
    n = x.ndim - 2

    def each(numbers: Any) -> list[int]:
        return np.broadcast_to(numbers, n).tolist()  # type: ignore[no-any-return]

    padding, dilation = each(padding), each(dilation)
    extents = [(k - 1) * d + 1 for k, d in zip(each(kernel), dilation)]
    pads = [(0, 0), (0, 0), *((p, p) for p in padding)]
    padded = np.pad(x, pads, constant_values=fill)
    windows = sliding_window_view(padded, extents, axis=tuple(range(2, 2 + n)))  # type: ignore[call-overload]
    steps = [slice(None, None, step) for step in (*each(stride), *dilation)]
    return windows[(slice(None), slice(None), *steps)]  # type: ignore[no-any-return]


def _convolution(
    x: Array,
    weight: Array,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    if transposed:
        raise ValueError("transposed convolutions are not implemented")
    n = x.ndim - 2
    kernel_axes = [1, *range(2 + n, 2 + 2 * n)]
    parts = [
        np.tensordot(windows, w, (kernel_axes, range(1, w.ndim)))  # [B, *positions, C]
        for windows, w in zip(
            np.split(_windows(x, weight.shape[2:], stride, padding, dilation), groups, 1),
            np.split(weight, groups),
        )
    ]
    out = np.concatenate(parts, -1)
    return np.moveaxis(out if bias is None else out + bias, -1, 1)


def _max_pool(
    x: Array, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Any:
    if ceil:
        raise ValueError("ceil_mode is not implemented")
    windows = _windows(x, kernel, stride or kernel, padding, dilation, -np.inf)
    return (windows.max(tuple(range(x.ndim, windows.ndim))),)


def _avg_pool(x: Array, kernel: Any, stride: Any = (), padding: Any = 0, *options: Any) -> Array:
    if any(option not in (False, True, None) for option in options) or options[:1] == (True,):
        raise ValueError("ceil_mode and divisor_override are not implemented")
    if options[1:2] == (False,) and np.any(padding):
        raise ValueError("count_include_pad=False is not implemented")
    windows = _windows(x, kernel, stride or kernel, padding, 1)
    return windows.mean(tuple(range(x.ndim, windows.ndim)))  # type: ignore[no-any-return]


def _gelu(x: Array, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _elu(x: Array, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * input_scale))


_erf = np.vectorize(math.erf, otypes=[np.float64])

# torch's operations by name, without their overload ("add" for aten.add.Tensor and .Scalar).
OPERATIONS: dict[str, Callable[..., Any]] = {
    # products
    "mm": np.matmul,
    "bmm": np.matmul,
    "addmm": lambda bias, x, y, beta=1, alpha=1: beta * bias + alpha * (x @ y),
    "convolution": _convolution,
    # arithmetic
    "add": lambda x, y, alpha=1: x + (y if alpha == 1 else alpha * y),
    "sub": lambda x, y, alpha=1: x - (y if alpha == 1 else alpha * y),
    "rsub": lambda x, y, alpha=1: y - (x if alpha == 1 else alpha * x),
    "mul": operator.mul,
    "div": lambda x, y, rounding_mode=None: {"floor": np.floor, "trunc": np.trunc}.get(
        rounding_mode, _same
    )(x / y),
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),
    # functions
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
    "leaky_relu": lambda x, slope=0.01: np.where(x > 0, x, slope * x),
    "hardtanh": lambda x, low=-1, high=1: np.clip(x, low, high),
    "elu": _elu,
    "gelu": _gelu,
    "erf": _erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "neg": operator.neg,
    **{
        name: getattr(np, name)
        for name in (
            *("abs", "ceil", "cos", "cosh", "exp", "expm1", "floor", "isnan", "isinf", "log"),
            *("log10", "log1p", "log2", "reciprocal", "round", "sign", "sin", "sinh", "sqrt"),
            *("tan", "tanh", "trunc", "atan2", "asin", "acos", "atan"),
        )
    },
    # comparisons
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_not": np.invert,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "where": np.where,
    # reductions
    "sum": _reduction(np.sum),
    "mean": _reduction(np.mean),
    "amax": _reduction(np.max),
    "amin": _reduction(np.min),
    "prod": _reduction(np.prod),
    "any": _reduction(np.any),
    "argmax": _reduction(np.argmax),
    "argmin": _reduction(np.argmin),
    "max": _with_indices(np.max, np.argmax),
    "min": _with_indices(np.min, np.argmin),
    "var": _variance,
    "cumsum": np.cumsum,
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "native_layer_norm": _layer_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "max_pool2d_with_indices": _max_pool,
    "avg_pool2d": _avg_pool,
    # shapes
    "view": np.reshape,
    "reshape": np.reshape,
    "_unsafe_view": np.reshape,
    "permute": np.transpose,
    "transpose": np.swapaxes,
    "unsqueeze": np.expand_dims,
    "squeeze": _squeeze,
    "expand": _expand,
    "repeat": np.tile,
    "flip": np.flip,
    "cat": np.concatenate,
    "constant_pad_nd": _pad,
    "split_with_sizes": lambda x, sizes, dim=0: np.split(x, np.cumsum(sizes)[:-1], dim),
    "sym_size": lambda x, dim: x.shape[dim],
    # selection
    "getitem": operator.getitem,
    "select": lambda x, dim, index: np.take(x, index, dim),
    "slice": _slice,
    "index": _index,
    "index_select": lambda x, dim, index: np.take(x, index, dim),
    "gather": lambda x, dim, index, sparse_grad=False: np.take_along_axis(x, index, dim),
    "scatter": _scatter,
    "embedding": lambda weight, index, *options: weight[index],
    # creation
    "arange": np.arange,
    "full": np.full,
    "full_like": np.full_like,
    "scalar_tensor": np.asarray,
    # copies, and conversions to the dtype of the result
    "copy": lambda x, source, *options: np.broadcast_to(source, x.shape),
    **dict.fromkeys(("_to_copy", "alias", "clone", "detach", "lift_fresh_copy"), _same),
}
