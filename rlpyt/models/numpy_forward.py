"""MLPs evaluated in numpy: for a few rows, several times faster than in torch.

A torch operation on eight rows costs more in dispatch than in arithmetic. `NumpyForward` copies the
weights once in the layout that is fastest for numpy (transposed) and evaluates all towers layer by
layer into preallocated buffers: one ``dot`` for each tower, then one addition of all biases and one
call of the nonlinearity for all towers.

CartPole's two towers of 64 x 64 with softmax take, on one core and for 4 / 8 / 32 rows, 12 / 13 /
20 us, and 6 to 9 more if the parameters are read in every call; plain numpy takes 24 / 28 / 43,
torch under inference_mode 73 / 77 / 86.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlpyt.models.mlp import MlpModel
from rlpyt.models.observation import flatten_numpy
from rlpyt.models.running_mean_std import RunningMeanStdModel

Array = NDArray[np.float32]
Activation = Callable[[Array, Array], Any]  # (input, output)
Finish = Callable[[], tuple[Array, ...]]
Outputs = Callable[[list[Array]], Finish]  # from the towers' output buffers
FEW = 4  # number of columns up to which a loop is faster than a reduction along rows

_ZERO = np.zeros((), np.float32)


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
    activation: Activation | None


Stages = list[list[tuple[int, Layer]]]  # by depth: (index of the input in the last depth, layer)


class NumpyForward:
    """A model's forward pass over numpy arrays, made by the model's ``numpy_forward``.

    Called with observations [B, ...], it returns the results of the model's ``forward`` (to 1e-6)
    as arrays that the next call overwrites. It belongs to one process: copies and pickles of it are
    ``None``.

    Attributes:
        live: read the parameters in every call, so that updates in place, or in shared memory, take
            effect at once. Otherwise only ``refresh`` reads them, which saves a third of the time;
            call it when they may have changed, e.g. once per batch.
    """

    def __init__(
        self,
        stages: Stages,
        outputs: Outputs,
        observation_shape: Any,
        normalize: tuple[RunningMeanStdModel, float, float] | None,
        live: bool,
    ) -> None:
        self.live = live
        self._outputs = outputs
        self._observation_shape = observation_shape
        self._is_vector = not hasattr(observation_shape, "_fields")
        self._normalize = normalize
        self._stages = stages
        self._weights = [
            [np.empty(layer.weight.shape[::-1], np.float32) for _, layer in stage]
            for stage in stages
        ]
        self._copies = [
            (own, layer.weight.T)
            for stage, weights in zip(stages, self._weights)
            for (_, layer), own in zip(stage, weights)
        ]
        self._programs: dict[int, tuple[list[Any], Finish]] = {}
        self.refresh()

    def __call__(self, observation: Any) -> tuple[Array, ...]:
        """Evaluate observations [B, *observation_shape], or a named tuple of them."""
        if self.live:
            self.refresh()
        x = observation
        if not self._is_vector or x.ndim != 2 or x.dtype != np.float32:
            x = flatten_numpy(x, self._observation_shape)
        if self._normalize is not None:
            x = (x - self._mean) / self._std
            np.clip(x, -self._normalize[1], self._normalize[1], out=x)
        program = self._programs.get(len(x))
        steps, finish = self._allocate(len(x)) if program is None else program
        for dots, flat, bias, activations in steps:
            for source, weight, out in dots:
                (x if source is None else source).dot(weight, out)
            np.add(flat, bias, flat)
            for function, region in activations:
                function(region, region)
        return finish()

    def refresh(self) -> None:
        """Read the parameters."""
        for own, parameter in self._copies:
            own[...] = parameter
        if self._normalize is not None:
            rms, _, min_var = self._normalize
            self._mean = rms.mean.numpy()
            self._std = rms.std(min_var).numpy()

    def _allocate(self, B: int) -> tuple[list[Any], Finish]:
        """Allocate buffers for B rows; return the steps (dots, outputs, biases, activations)."""
        steps = []
        regions: list[Any] = [None]  # outputs of the last stage; None is the input
        for stage, weights in zip(self._stages, self._weights):
            widths = [len(layer.bias) for _, layer in stage]
            flat, bias = (
                np.empty(B * sum(widths), np.float32),
                np.empty(B * sum(widths), np.float32),
            )
            outs, biases = _split(flat, B, widths), _split(bias, B, widths)
            self._copies += [(own, layer.bias) for own, (_, layer) in zip(biases, stage)]
            dots = [(regions[k], w, out) for (k, _), w, out in zip(stage, weights, outs)]
            steps.append((dots, flat, bias, _merge_activations(stage, outs, flat)))
            regions = list(outs)
        self._programs[B] = (steps, self._outputs(regions))
        self.refresh()
        return self._programs[B]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _split(flat: Array, B: int, widths: Sequence[int]) -> list[Array]:
    """Return views of one buffer as consecutive arrays [B, width]."""
    ends = np.cumsum([B * n for n in widths])
    return [flat[end - B * n : end].reshape(B, n) for n, end in zip(widths, ends)]


def _merge_activations(
    stage: list[tuple[int, Layer]], outs: list[Array], flat: Array
) -> list[tuple[Activation, Array]]:
    """Return the calls of nonlinearities, a single one if all towers have the same."""
    functions = [layer.activation for _, layer in stage]
    if all(f is functions[0] for f in functions):
        return [] if functions[0] is None else [(functions[0], flat)]
    return [(f, out) for f, out in zip(functions, outs) if f is not None]


class NumpyParts(NamedTuple):
    """The parts of a model of MLPs.

    Args:
        towers: of equal depth; each reads the trunk's output, or the observation.
        outputs: the operations on the towers' outputs, e.g. `categorical_outputs`.
        trunk: layers before the towers, if there are any.
    """

    towers: Sequence[nn.Module]
    outputs: Outputs
    trunk: nn.Module | None = None


def numpy_forward_of(
    model: nn.Module,
    evaluated: NumpyParts,
    observation_shape: Any,
    normalize: tuple[RunningMeanStdModel, float, float] | None = None,
    live: bool = True,
) -> NumpyForward | None:
    """Build the numpy function of a model of MLPs, or return the last one if it is still valid.

    Args:
        model: the model, on the CPU in float32; it keeps the function.
        evaluated: its parts.
        observation_shape: of one observation.
        normalize: running mean and variance of observations, clip and smallest variance.
        live: see `NumpyForward`.

    Returns:
        The function, refreshed; ``None`` for other devices or dtypes, hooks, or modules other than
        linear layers and known nonlinearities.
    """
    towers, outputs, trunk = evaluated
    roots = (trunk, *towers) if trunk else tuple(towers)
    kept = model.__dict__.setdefault("_numpy_forward", {})
    function, structure = kept.get(live, (None, None))
    if function is None or not structure.is_that_of(roots):
        parts = [_parts_of(module) for module in roots]
        stages = None if _unfit(model) else _plan(parts, with_trunk=trunk is not None)
        if stages is None:
            return None
        function = NumpyForward(stages, outputs, observation_shape, normalize, live)
        kept[live] = (function, _Structure(roots))
    elif not live:
        function.refresh()
    return function  # type: ignore[no-any-return]


class _Structure:
    """Modules and parameters at one time, to notice when one of them is replaced.

    Checked before every batch, so by a few calls. Like the function, it belongs to one process.

    Args:
        roots: modules; those inside are compared as well.
    """

    def __init__(self, roots: Sequence[nn.Module]) -> None:
        self._roots = tuple(roots)
        modules = [module for root in roots for module in root.modules()]
        self._tables = [table for m in modules for table in (m._modules, m._parameters)]
        self._hooks = [h for m in modules for h in (m._forward_hooks, m._forward_pre_hooks)]
        self._entries = self._entries_now()
        self._parameters = [p for m in modules for p in m._parameters.values() if p is not None]
        self._addresses = [p.data_ptr() for p in self._parameters]

    def is_that_of(self, roots: Sequence[nn.Module]) -> bool:
        """Return True if nothing was replaced, moved in memory, or given a hook."""
        return (
            _same(roots, self._roots)
            and _same(self._entries_now(), self._entries)
            and [p.data_ptr() for p in self._parameters] == self._addresses
            and not any(self._hooks)
        )

    def _entries_now(self) -> list[Any]:
        return [entry for table in self._tables for entry in table.values()]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _same(objects: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return True if two sequences have the same objects in the same order."""
    return len(objects) == len(others) and all(map(operator.is_, objects, others))


def _unfit(model: nn.Module) -> bool:
    wrong = any(p.device.type != "cpu" or p.dtype is not torch.float32 for p in model.parameters())
    return wrong or _has_hooks(model)


def _plan(parts: list[list[nn.Module]], with_trunk: bool) -> Stages | None:
    """Return what each depth computes, and from which output of the last depth."""
    branches = [_layers_of(branch) for branch in parts]
    if any(not branch for branch in branches):
        return None
    trunk = branches.pop(0) if with_trunk else []
    if len({len(branch) for branch in branches}) != 1:  # type: ignore[arg-type]
        return None
    stages = [[(0, layer)] for layer in trunk]  # type: ignore[union-attr]
    for depth, layers in enumerate(zip(*branches)):  # type: ignore[arg-type]
        stages.append([(k if depth else 0, layer) for k, layer in enumerate(layers)])
    return stages


def _layers_of(parts: list[nn.Module]) -> list[Layer] | None:
    """Return linear layers with their nonlinearities; ``None`` if there is another module."""
    layers: list[Layer] = []
    for part in parts:
        if _has_hooks(part):
            return None
        if type(part) is nn.Linear:
            bias = torch.zeros(part.out_features) if part.bias is None else part.bias.detach()
            layers.append(Layer(part.weight.detach().numpy(), bias.numpy(), None))
        elif type(part) in ACTIVATIONS and layers and layers[-1].activation is None:
            layers[-1] = layers[-1]._replace(activation=ACTIVATIONS[type(part)])
        else:
            return None
    return layers


def _parts_of(module: nn.Module) -> list[nn.Module]:
    """Return a module's parts that are not containers, in order."""
    if type(module) in (MlpModel, nn.Sequential) and not _has_hooks(module):
        children: Any = module._modules.values()
        return [part for child in children for part in _parts_of(child)]
    return [module]


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def categorical_outputs(dims: Sequence[int]) -> Outputs:
    """Return (pi [B, sum(dims)], value [B]) from logits and value, with a softmax for each part."""

    def bind(regions: list[Array]) -> Finish:
        logits, value = regions
        if len(set(dims)) == 1:
            parts = [logits.reshape(-1, dims[0])]
        else:
            parts = np.split(logits, np.cumsum(dims)[:-1], axis=1)
        softmaxes = [softmax_in_place(part) for part in parts]
        result = (logits, value[:, 0])

        def finish() -> tuple[Array, ...]:
            for softmax in softmaxes:
                softmax()
            return result

        return finish

    return bind


def gaussian_outputs(log_std: Tensor) -> Outputs:
    """Return (mu [B, A], log_std [B, A], value [B]) from mean, value and a free ``log_std`` [A]."""

    def bind(regions: list[Array]) -> Finish:
        mu, value = regions
        result = (mu, np.broadcast_to(log_std.detach().numpy(), mu.shape), value[:, 0])
        return lambda: result

    return bind


def tanh_outputs(scale: float) -> Outputs:
    """Return (scale * tanh(x) [B, A],) from one tower."""

    def bind(regions: list[Array]) -> Finish:
        (x,) = regions

        def finish() -> tuple[Array, ...]:
            np.tanh(x, x)
            if scale != 1:
                np.multiply(x, np.float32(scale), x)
            return (x,)

        return finish

    return bind


def mean_and_log_std_outputs(size: int) -> Outputs:
    """Return (mean [B, A], log_std [B, A]) from one tower of 2 A outputs."""

    def bind(regions: list[Array]) -> Finish:
        result = (regions[0][:, :size], regions[0][:, size:])
        return lambda: result

    return bind


def softmax_in_place(x: Array) -> Callable[[], None]:
    """Return a function that replaces each row of ``x`` [N, A] by its softmax."""
    columns = list(x.T)
    peak = np.empty((len(x), 1), np.float32)
    peak_1d = peak[:, 0]
    ones = np.ones((x.shape[1], x.shape[1]), np.float32)
    total = np.empty(x.shape, np.float32)

    def softmax() -> None:
        if 1 < len(columns) <= FEW:
            np.maximum(columns[0], columns[1], out=peak_1d)
            for column in columns[2:]:
                np.maximum(peak_1d, column, out=peak_1d)
        else:
            np.maximum.reduce(x, 1, out=peak_1d)
        np.subtract(x, peak, x)
        np.exp(x, x)
        x.dot(ones, total)  # each row's sum in every column: faster than reducing and broadcasting
        np.divide(x, total, x)

    return softmax
