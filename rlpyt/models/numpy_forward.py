"""MLPs evaluated in numpy: for a few rows, several times faster than in torch.

A torch operation on eight rows costs more in dispatch than in arithmetic. `numpy_forward_of` traces
the ``heads`` of a model of rlpyt by torch.fx, to find towers (MLPs of linear layers and
nonlinearities) and operations on their outputs. Custom ``heads`` act in torch: a trace would make
constants of whatever they read besides layers and parameters. `NumpyForward` copies the weights
once in the layout that is fastest for numpy (transposed) and evaluates all towers layer by layer
into preallocated buffers: one ``dot`` for each tower, then one addition of all biases and one call
of the nonlinearity for all towers. The operations follow, in place if nothing else reads their
input.

CartPole's two towers of 64 x 64 with softmax take, on one core and for 4 / 8 / 32 rows, 12 / 13 /
20 us, and 6 to 9 more if the parameters are read in every call; plain numpy takes 24 / 28 / 43,
torch under inference_mode 73 / 77 / 86.
"""

import operator
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn

from rlpyt.models.layers import Layers
from rlpyt.models.masking import mask_logits
from rlpyt.models.mlp import MlpModel
from rlpyt.models.normalization import BatchNorm1d
from rlpyt.models.observation import MARKED, Shape, flatten_numpy, is_composite, mask_size
from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.spaces.action_mask import FIELD
from rlpyt.utils.buffer import Arrays

Array = NDArray[np.float32]
Activation = Callable[[Array, Array], Any]  # (input, output)
Step = Callable[[], Any]
CONTAINERS = (MlpModel, Layers, nn.Sequential)
MAX_LOOP_COLUMNS = 4  # up to this number, a loop over columns is faster than a reduction

_ZERO = np.zeros((), np.float32)
_LOWEST = np.array(np.finfo(np.float32).min)


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, _ZERO, out=out)


def _sigmoid(x: Array, out: Array) -> None:
    np.multiply(x, 0.5, out=out)  # through tanh, which cannot overflow
    np.tanh(out, out)
    np.multiply(out, 0.5, out=out)
    np.add(out, 0.5, out=out)


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: np.tanh,
    nn.ReLU: _relu,
    nn.Sigmoid: _sigmoid,
}


class Layer(NamedTuple):
    """A linear layer and its nonlinearity; arrays are views of the parameters."""

    weight: Array  # [n_out, n_in]
    bias: Array  # [n_out]
    activation: Activation | None = None
    # Normalizations of the input and of the output, which become parts of weight and bias.
    norm_in: BatchNorm1d | None = None
    norm_out: BatchNorm1d | None = None

    def values(self) -> tuple[Array, Array]:
        """Return weight [n_in, n_out] and bias, with those of the normalizations."""
        weight, bias = self.weight.T, self.bias
        if self.norm_in is not None:
            scale, shift = _affine(self.norm_in)
            weight, bias = weight * scale[:, None], bias + shift @ weight
        if self.norm_out is not None:
            scale, shift = _affine(self.norm_out)
            weight, bias = weight * scale, bias * scale + shift
        return weight, bias


def _affine(norm: BatchNorm1d) -> tuple[Array, Array]:
    with torch.no_grad():
        scale, shift = norm.affine()
    return scale.numpy(), shift.numpy()


class Program(NamedTuple):
    """Result of tracing a model.

    Attributes:
        stages: layers to evaluate at once, by depth, each with the index of its tower.
        sources: index of the tower that each tower reads; -1: the features.
        tail: nodes of the graph that are not towers, in order; the output is the last.
        towers: index of the tower of each node that is one.
        parameters: arrays that the tail reads, by the names of their nodes.
        mask: node of the mask of actions, if ``heads`` takes one.
    """

    stages: list[list[tuple[int, Layer]]]
    sources: list[int]
    tail: list[fx.Node]
    towers: dict[fx.Node, int]
    parameters: dict[str, Array]
    mask: fx.Node | None


class NumpyForward:
    """A model's forward pass over numpy arrays, built by the model's ``numpy_forward``.

    Called with observations [B, ...], it returns the results of the model's ``forward`` (to 1e-6)
    as arrays that the next call overwrites. It belongs to one process: its copies and pickles are
    ``None``.

    Attributes:
        live: True to read the parameters in every call, so that updates in place, or in shared
            memory, take effect at once. Otherwise only ``refresh`` reads them, which saves a third
            of the time; call it when they may have changed, e.g. once per batch.
    """

    def __init__(
        self,
        program: Program,
        observation_shape: Shape,
        normalize: tuple[RunningMeanStdModel, float, float] | None,
        live: bool,
    ) -> None:
        self.live = live
        self._program = program
        self._observation_shape = observation_shape
        self._part: Any = None
        vector: Any = observation_shape
        if mask_size(observation_shape) is not None and len(observation_shape) == 2:
            # One part beside the mask is read as it is, without a loop over parts.
            (name,) = set(vector._fields) - {FIELD}
            self._part, vector = operator.attrgetter(name), getattr(observation_shape, name)
        self._is_vector = not is_composite(vector) and type(vector) not in MARKED
        self._normalize = normalize
        self._mask_size = None if program.mask is None else mask_size(observation_shape)
        self._weights = [
            [np.empty(layer.weight.shape[::-1], np.float32) for _, layer in stage]
            for stage in program.stages
        ]
        # (layer, copy of its weight, copies of its bias for each number of rows)
        self._copies: list[tuple[Layer, Array, list[Array]]] = [
            (layer, copy, [])
            for stage, weights in zip(program.stages, self._weights)
            for (_, layer), copy in zip(stage, weights)
        ]
        self._bound: dict[int, tuple[list[Any], list[Step], tuple[Array, ...], Any]] = {}
        self.refresh()

    def __call__(self, observation: Arrays) -> tuple[Array, ...]:
        """Evaluate observations [B, *observation_shape], or a named tuple of them."""
        if self.live:
            self.refresh()
        x: Any = observation if self._part is None else self._part(observation)
        if not self._is_vector or x.ndim != 2 or x.dtype != np.float32:
            x = flatten_numpy(observation, self._observation_shape)
        if self._normalize is not None:
            x = (x - self._mean) / self._std
            np.clip(x, -self._normalize[1], self._normalize[1], out=x)
        bound = self._bound.get(len(x))
        stages, tail, results, invalid = self._allocate(len(x)) if bound is None else bound
        if invalid is not None:
            np.logical_not(observation.action_mask, invalid)  # type: ignore[union-attr]
        for dots, flat, bias, activations in stages:
            for source, weight, out in dots:
                (x if source is None else source).dot(weight, out)
            np.add(flat, bias, flat)
            for function, region in activations:
                function(region, region)
        for step in tail:
            step()
        return results

    def refresh(self) -> None:
        """Read the parameters."""
        for layer, weight, biases in self._copies:
            weight[...], bias = layer.values()
            for copy in biases:
                copy[...] = bias
        if self._normalize is not None:
            rms, _, min_var = self._normalize
            self._mean = rms.mean.numpy()
            self._std = rms.std(min_var).numpy()

    def _allocate(self, B: int) -> tuple[list[Any], list[Step], tuple[Array, ...], Any]:
        """Allocate buffers for B rows.

        Returns:
            (stages, steps of the tail, results, mask of invalid actions or ``None``).
        """
        program, stages, copies = self._program, [], iter(self._copies)
        regions: list[Any] = [None] * len(program.sources)  # latest output of each tower
        for stage, weights in zip(program.stages, self._weights):
            widths = [len(layer.bias) for _, layer in stage]
            flat = np.empty(B * sum(widths), np.float32)
            bias = np.empty_like(flat)
            outs, biases = _split(flat, B, widths), _split(bias, B, widths)
            for own in biases:
                next(copies)[2].append(own)
            dots = []
            for (tower, _), weight, out in zip(stage, weights, outs):
                source, inputs = program.sources[tower], regions[tower]
                if inputs is None and source >= 0:  # the tower's first layer
                    inputs = regions[source]
                dots.append((inputs, weight, out))
            stages.append((dots, flat, bias, _merge_activations(stage, outs, flat)))
            for (tower, _), out in zip(stage, outs):
                regions[tower] = out
        invalid = None if self._mask_size is None else np.zeros((B, self._mask_size), np.bool_)
        self._bound[B] = (stages, *_bind_tail(program, regions, invalid), invalid)
        self.refresh()
        return self._bound[B]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _split(flat: Array, B: int, widths: Sequence[int]) -> list[Array]:
    """Return views of one buffer as consecutive arrays [B, width]."""
    ends = np.cumsum([B * n for n in widths])
    return [flat[end - B * n : end].reshape(B, n) for n, end in zip(widths, ends)]


def _merge_activations(
    stage: list[tuple[int, Layer]], outs: list[Array], flat: Array
) -> list[tuple[Activation, Array]]:
    """Return the calls of nonlinearities, only one if all towers have the same."""
    functions = [layer.activation for _, layer in stage]
    if all(f is functions[0] for f in functions):
        return [] if functions[0] is None else [(functions[0], flat)]
    return [(f, out) for f, out in zip(functions, outs) if f is not None]


def numpy_forward_of(
    model: nn.Module,
    observation_shape: Shape,
    normalize: tuple[RunningMeanStdModel, float, float] | None = None,
    live: bool = True,
) -> NumpyForward | None:
    """Build the numpy function of a model's ``heads``, or return a cached one if it is still valid.

    Args:
        model: the model, on the CPU in float32; the function is cached in it.
        observation_shape: shape of one observation.
        normalize: running mean and variance of observations, clip and minimum variance.
        live: see `NumpyForward`.

    Returns:
        The function, refreshed; ``None`` for other devices or dtypes, hooks, methods that are not
        rlpyt's, or operations that are not in ``OPERATIONS``.
    """
    cache = model.__dict__.setdefault("_numpy_forward", {})
    function, structure = cache.get(live, (None, None))
    if structure is None or not structure.is_current():
        program = _trace(model) if is_supported(model) else None
        if program is not None:
            function = NumpyForward(program, observation_shape, normalize, live)
        else:
            function = None
        cache[live] = (function, _Structure(model))
    elif function is not None and not live:
        function.refresh()
    return function  # type: ignore[no-any-return]


class _Structure:
    """Modules, parameters and settings of a model at one time, to detect replaced ones.

    It is checked before every batch, so the check is fast. It belongs to one process.
    """

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        # A trace may depend on the attributes of modules other than torch's.
        traced = [m for m in modules if not type(m).__module__.startswith("torch.nn.")]
        attributes = [vars(m) for m in traced if type(m) not in CONTAINERS]
        self._tables: list[dict[str, Any]] = [
            table for m in modules for table in (m._modules, m._parameters)
        ]
        self._tables += attributes
        self._hooks = [h for m in modules for h in (m._forward_hooks, m._forward_pre_hooks)]
        self._own = [*map(vars, modules)]
        self._was_changed = self._is_changed()
        self._entries = [*chain.from_iterable(map(dict.values, self._tables))]
        self._parameters = [p for m in modules for p in m._parameters.values() if p is not None]
        self._addresses = [*map(torch.Tensor.data_ptr, self._parameters)]

    def is_current(self) -> bool:
        """Return True if nothing was replaced, moved in memory, or given a hook or method."""
        entries = [*chain.from_iterable(map(dict.values, self._tables))]
        return (
            len(entries) == len(self._entries)
            and all(map(operator.is_, entries, self._entries))
            and [*map(torch.Tensor.data_ptr, self._parameters)] == self._addresses
            and not self._was_changed
            and not self._is_changed()
        )

    def _is_changed(self) -> bool:
        return any(self._hooks) or any("forward" in own for own in self._own)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def is_supported(model: nn.Module) -> bool:
    """Return True for a model on the CPU in float32 without hooks, whose methods are rlpyt's."""
    methods = [getattr(model, name) for name in ("read", "encode", "heads")]
    methods += [x for m in model.modules() for x in (m.forward, m.__call__)]
    known = (str(getattr(x, "__module__", "")).startswith(("rlpyt.", "torch.")) for x in methods)
    right = all(p.device.type == "cpu" and p.dtype is torch.float32 for p in model.parameters())
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    return right and not hooked and all(known)


class _HeadsTracer(fx.Tracer):
    """Tracer of ``heads`` instead of ``forward``; towers are single nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.traced_func_name = "heads"

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return True for towers, and for torch's own modules."""
        return type(m) in CONTAINERS or super().is_leaf_module(m, module_qualified_name)


def _trace(model: nn.Module) -> Program | None:
    """Trace a model's ``heads``; return ``None`` if they cannot be translated."""
    try:
        with torch.no_grad():
            graph = _HeadsTracer().trace(model)
    except Exception:  # a part that cannot be called with proxies, such as a compiled one
        return None
    program = Program([], [], [], {}, {}, None)
    depths: list[int] = []  # depth of each tower's last layer
    for node in graph.nodes:
        if node.op == "placeholder" and node.target == "mask":
            program = program._replace(mask=node)
        elif node.op == "placeholder":
            features = node
        elif node.op == "call_module":
            source = node.args[0] if len(node.args) == 1 and not node.kwargs else None
            module = model.get_submodule(str(node.target))
            if type(module) is nn.Identity:
                node.replace_all_uses_with(source)  # type: ignore[arg-type]
                continue
            layers = _layers_of(_parts_of(module))
            if layers is None or (source is not features and source not in program.towers):
                return None
            tower = program.towers[node] = len(depths)
            program.sources.append(program.towers.get(source, -1))
            first = 0 if source is features else depths[program.sources[tower]] + 1
            depths.append(first + len(layers) - 1)
            program.stages.extend([] for _ in range(depths[tower] + 1 - len(program.stages)))
            for depth, layer in enumerate(layers, first):
                program.stages[depth].append((tower, layer))
        else:
            program.tail.append(node)
            if node.op == "get_attr":
                parameter = operator.attrgetter(str(node.target))(model)
                program.parameters[node.name] = parameter.detach().numpy()
            elif node.op != "output" and node.target not in OPERATIONS:
                return None
    return program


def _layers_of(parts: list[nn.Module]) -> list[Layer] | None:
    """Return linear layers with their nonlinearities; ``None`` if there are other modules."""
    layers: list[Layer] = []
    norm: BatchNorm1d | None = None
    for part in parts:
        ends = bool(layers) and layers[-1].activation is None  # without a nonlinearity so far
        if type(part) is nn.Linear:
            bias = torch.zeros(part.out_features) if part.bias is None else part.bias.detach()
            layers.append(Layer(part.weight.detach().numpy(), bias.numpy(), norm_in=norm))
            norm = None
        elif isinstance(part, BatchNorm1d) and ends and layers[-1].norm_out is None:
            layers[-1] = layers[-1]._replace(norm_out=part)
        elif isinstance(part, BatchNorm1d) and not ends and norm is None:
            norm = part
        elif type(part) in ACTIVATIONS and ends and norm is None:
            layers[-1] = layers[-1]._replace(activation=ACTIVATIONS[type(part)])
        else:
            return None
    return layers if norm is None and layers else None


def _parts_of(module: nn.Module) -> list[nn.Module]:
    """Return a module's parts that are not containers, in order."""
    if type(module) in CONTAINERS:
        children: Any = module._modules.values()
        return [part for child in children for part in _parts_of(child)]
    return [module]


# Operations on the towers' outputs. Each takes a flag for each argument, True if it may overwrite
# it, and the arguments of torch's operation as arrays. It returns (result, step): an array, the
# same in all calls, and a function that computes it, or None if the result is a view.

Bound = tuple[Any, Step | None]


def _bind_tail(
    program: Program, regions: list[Any], invalid: NDArray[np.bool_] | None = None
) -> tuple[list[Step], tuple[Array, ...]]:
    """Return the functions that compute a tail from the towers' outputs, and the results.

    Args:
        program: the traced model.
        regions: outputs of the towers.
        invalid: [B, n], buffer of the mask of invalid actions; ``None``: there is no mask.
    """
    values: dict[fx.Node, Any] = {node: regions[k] for node, k in program.towers.items()}
    if program.mask is not None:
        values[program.mask] = invalid
    steps: list[Step] = []
    for node in program.tail:
        if node.op == "get_attr":
            values[node] = program.parameters[node.name]
            continue
        args = fx.node.map_arg(node.args, values.__getitem__)
        if node.op == "output":
            results: Any = args[0] if isinstance(args[0], tuple) else args
            break
        kwargs = fx.node.map_arg(node.kwargs, values.__getitem__)
        free = tuple(isinstance(arg, fx.Node) and _is_free(arg) for arg in node.args)
        values[node], step = OPERATIONS[node.target](free, *args, **kwargs)
        if step is not None:
            steps.append(step)
    return steps, results


def _is_free(node: fx.Node) -> bool:
    """Return True if only one node reads this node's array, which it may then overwrite."""
    if node.op == "call_module":
        return len(node.users) == 1
    if node.op == "get_attr" or node.target == "expand_as":
        return False
    parts = [user.args[1] for user in node.users if user.target is operator.getitem]
    divided = len(parts) == len(node.users) == len(set(map(str, parts)))
    alone = len(node.users) == 1 or (divided and node.target is torch.split)
    source = node.args[0]
    if node.target not in COMPUTED and isinstance(source, fx.Node):  # a view
        return alone and _is_free(source)
    return alone


def _view(function: Callable[..., Array]) -> Callable[..., Bound]:
    def bind(free: Any, x: Any, *args: Any) -> Bound:
        result = function(x, *args)
        assert np.shares_memory(result, x)  # or it would keep its first values
        return result, None

    return bind


def _same(free: Any, x: Any) -> Bound:
    return x, None  # no copy is needed, since the next call overwrites all results


def _item(free: Any, x: Any, index: Any) -> Bound:
    return None if x is None else x[index], None  # there may be no mask


def _split_view(free: Any, x: Any, sizes: Any, dim: int) -> Bound:
    if isinstance(sizes, int):
        sizes = [sizes] * (x.shape[dim] // sizes)
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=dim)), None


def _unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def _flatten(x: Array, start_dim: int) -> Array:
    start_dim %= x.ndim
    return x.reshape(*x.shape[:start_dim], -1)


def _elementwise(ufunc: Any) -> Callable[..., Bound]:
    def bind(free: Any, *args: Any) -> Bound:
        shape = np.broadcast_shapes(*map(np.shape, args))
        fitting = [x for x, is_free in zip(args, free) if is_free and np.shape(x) == shape]
        out = fitting[0] if fitting else np.empty(shape, np.float32)
        return out, partial(ufunc, *args, out)

    return bind


def _mean(free: Any, x: Array, dim: int, keepdim: bool) -> Bound:
    n = np.float32(x.shape[dim])
    reduce: Any = np.add.reduce
    out = np.empty(reduce(np.zeros_like(x), dim, keepdims=keepdim).shape, np.float32)

    def mean() -> None:
        reduce(x, dim, None, out, keepdim)
        np.divide(out, n, out)

    return out, mean


def _softmax(free: Any, x: Array, dim: int, dtype: torch.dtype) -> Bound:
    out = x if free[0] and (x.ndim == 2 or x.flags.c_contiguous) else np.empty(x.shape, np.float32)
    rows = out if out.ndim == 2 else out.reshape(-1, out.shape[-1])  # a view
    softmax = softmax_in_place(rows)
    if out is x:
        return out, softmax

    def copy_and_softmax() -> None:
        out[...] = x
        softmax()

    return out, copy_and_softmax


def _mask_logits(free: Any, x: Array, invalid: NDArray[np.bool_] | None) -> Bound:
    if invalid is None:
        return x, None
    out = x if free[0] else np.empty_like(x)

    def mask() -> None:
        if out is not x:
            out[...] = x
        out[invalid] = _LOWEST

    return out, mask


def _concatenate(free: Any, parts: Sequence[Array], dim: int) -> Bound:
    out = np.concatenate(parts, dim)
    return out, lambda: np.concatenate(parts, dim, out=out)


def softmax_in_place(x: Array) -> Callable[[], None]:
    """Return a function that replaces each row of ``x`` [N, A] by its softmax."""
    columns = list(x.T)
    peak = np.empty((len(x), 1), np.float32)
    peak_1d = peak[:, 0]
    ones = np.ones((x.shape[1], x.shape[1]), np.float32)
    total = np.empty(x.shape, np.float32)

    def softmax() -> None:
        if 1 < len(columns) <= MAX_LOOP_COLUMNS:
            np.maximum(columns[0], columns[1], out=peak_1d)
            for column in columns[2:]:
                np.maximum(peak_1d, column, out=peak_1d)
        else:
            np.maximum.reduce(x, 1, out=peak_1d)
        np.subtract(x, peak, x)
        np.exp(x, x)
        x.dot(ones, total)  # the row's sum in every column; faster than reducing and broadcasting
        np.divide(x, total, x)

    return softmax


OPERATIONS: dict[Any, Callable[..., Bound]] = {  # of the ``heads`` of rlpyt's models
    torch.softmax: _softmax,
    torch.tanh: _elementwise(np.tanh),
    operator.add: _elementwise(np.add),
    operator.sub: _elementwise(np.subtract),
    operator.mul: _elementwise(np.multiply),
    "mean": _mean,
    torch.cat: _concatenate,
    torch.split: _split_view,
    operator.getitem: _item,
    "squeeze": _view(np.squeeze),
    "unsqueeze": _view(np.expand_dims),
    **dict.fromkeys((torch.unflatten, "unflatten"), _view(_unflatten)),
    "flatten": _view(_flatten),
    "expand_as": _view(lambda x, other: np.broadcast_to(x, other.shape)),
    **dict.fromkeys(("clone", "float"), _same),
    mask_logits: _mask_logits,
}
COMPUTED = (torch.softmax, torch.tanh, operator.add, operator.sub, operator.mul, "mean", torch.cat)
