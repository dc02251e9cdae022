"""A whole update as one compiled function: losses, gradients, clipping, optimizer and targets."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW
from torch.utils._pytree import tree_map

from rlpyt.algos.optim import CLIP_EPS, GradientStep, ParameterGroup
from rlpyt.errors import NonFiniteError
from rlpyt.models.utils import hooks_of
from rlpyt.utils.logging import logger

if TYPE_CHECKING:
    from rlpyt.algos.replay import ReplayAlgo

CACHE = "TORCHINDUCTOR_CACHE_DIR"  # environment variable with the directory of compiled code
SETTINGS = ("betas", "eps", "weight_decay", "decoupled_weight_decay", "maximize")
REASONS = "Run with TORCH_LOGS=recompiles to see why."


def compiled_function(function: Callable[..., Any], device: str = "cpu") -> Callable[..., Any]:
    """Return a function compiled by ``torch.compile``, or as it is if that fails, with a warning.

    Compiled code is kept in ``TORCHINDUCTOR_CACHE_DIR``, by default in the user's cache, so that
    the next run starts sooner.

    Args:
        function: function of tensors.
        device: type of the device; on "cuda" calls are captured as a CUDA graph.
    """
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    dynamo: Any = torch._dynamo
    dynamo.config.skip_nnmodule_hook_guards = False  # notice hooks that are registered later
    if os.environ.get(CACHE) in (None, default_cache_dir()):  # the latter is set by torch itself
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ[CACHE] = str(Path(cache) / "rlpyt" / "inductor")
    # Use eager random numbers: compiled CPU code draws them one by one. The assertions test torch's
    # own code at every call.
    options: dict[str, Any] = {"fallback_random": True, "size_asserts": False}
    if device == "cuda":
        options["triton.cudagraphs"] = True
    chosen = torch.compile(function, options=options)

    def call(*args: Any) -> Any:
        nonlocal chosen
        try:
            return chosen(*args)
        except Exception as error:
            if chosen is function or not isinstance(error, dynamo.exc.TorchDynamoException):
                raise
            reason = " ".join(str(error).split("\n\n")[0].split())
            # The function was traced, and the code made of it could not be compiled.
            traced = isinstance(error, dynamo.exc.BackendCompilerFailed)
            install = "Install a C++ compiler such as g++ (on a GPU also triton), or set"
            remedy = install if traced else "To leave out the attempt, set"
            warnings.warn(
                f"torch.compile failed, so the run continues without it: {reason:.300}. {remedy} "
                "compile=None.",
                stacklevel=2,
            )
            chosen = function
            return function(*args)

    return call


class TracedStep(GradientStep):
    """Gradient step of Adam or AdamW that ``torch.compile`` can trace as part of an update.

    When traced, nothing is read from the device: if a loss or gradient is not finite, ``failed``
    becomes True and parameters and the optimizer's state keep their values, in this step and in
    all later ones. Otherwise it is an ordinary `GradientStep`.

    Attributes:
        failed: bool []; steps of one update have it in common.
        rates: learning rates of the optimizer's parameter groups, float32 [] each.
        limit: largest gradient norm, float32 [].

    Raises:
        ValueError: the optimizer is not Adam or AdamW, or has ``amsgrad``.
    """

    failed: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        groups = self.optimizer.param_groups
        if type(self.optimizer) not in (Adam, AdamW) or any(g["amsgrad"] for g in groups):
            name = type(self.optimizer).__name__
            raise ValueError(
                'compile="update" takes the optimizers Adam and AdamW without amsgrad, got '
                f'{name}. Use one of them, or compile="loss".'
            )
        device = self.parameters[0].device
        self.limit = torch.zeros((), device=device)
        self.rates = [torch.zeros((), device=device) for _ in groups]
        group_of = {p: i for i, group in enumerate(groups) for p in group["params"]}
        self._group_of = [[group_of[p] for p in n.parameters] for n in self.networks]
        for p in self.parameters:
            self.optimizer.state[p] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(p, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(p, memory_format=torch.preserve_format),
            }
        self._states = [[self.optimizer.state[p] for p in n.parameters] for n in self.networks]
        self._settings: list[dict[str, Any]] = [{} for _ in groups]
        self.read_settings()

    def read_settings(self) -> None:
        """Copy the optimizer's settings without its learning rates, which may change."""
        for own, group in zip(self._settings, self.optimizer.param_groups):
            own.update({k: group[k] for k in SETTINGS})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the optimizer's state into the tensors that are in use."""
        super().load_state_dict(state)
        self.adopt_states()

    def adopt_states(self) -> None:
        """Copy replaced states of the optimizer to those in use; cleared ones become zero."""
        for network, states in zip(self.networks, self._states):
            for p, own in zip(network.parameters, states):
                given = self.optimizer.state.get(p, {})
                if given is not own:
                    for name, tensor in own.items():
                        tensor.copy_(given[name]) if name in given else tensor.zero_()
                    self.optimizer.state[p] = own

    def __call__(self, losses: Tensor | Mapping[str, Tensor]) -> Any:
        """Take one step; see `GradientStep`."""
        if not torch.compiler.is_compiling():
            return super().__call__(losses)
        loss: Any = sum(losses.values()) if isinstance(losses, Mapping) else losses
        found = iter(torch.autograd.grad(loss, self.parameters, allow_unused=True))
        gradients = [[next(found) for _ in network.parameters] for network in self.networks]
        with torch.no_grad():
            pairs = list(zip(self.networks, gradients))
            norms = [norms_of(n, [g for g in own if g is not None]) for n, own in pairs]
            total = torch.stack([x.sum() for x in norms if x is not None]).sum() + loss.detach()
            self.failed.logical_or_(torch.isfinite(total).logical_not_())
            for i, norm in enumerate(norms):
                if norm is not None:
                    self._adam(i, gradients[i], (self.limit / (norm + CLIP_EPS)).clamp(max=1))
            for vectors in self.vectors:
                scale = torch.where(self.failed, 1.0, vectors.scale())
                for tensor in vectors.tensors:
                    tensor.mul_(scale)
        return self.by_network(norms, loss)

    def _adam(self, network: int, gradients: Sequence[Tensor | None], scale: Tensor) -> None:
        """Update a network with its gradients times a scale, [1] or [E], unless a step failed."""
        of: ParameterGroup = self.networks[network]
        states, groups = self._states[network], self._group_of[network]
        for p, gradient, state, i in zip(of.parameters, gradients, states, groups):
            if gradient is None:
                continue
            own, rate, step = self._settings[i], self.rates[i], state["step"] + 1
            beta1, beta2 = own["betas"]
            shape = (-1, *[1] * (p.dim() - 1)) if p.dim() else ()
            g, value = gradient * scale.reshape(shape), p
            if own["maximize"]:
                g = -g
            if own["decoupled_weight_decay"]:
                value = p * (1 - rate * own["weight_decay"])
            elif own["weight_decay"]:
                g = g + own["weight_decay"] * p
            mean = torch.lerp(state["exp_avg"], g, 1 - beta1)
            square = state["exp_avg_sq"] * beta2 + (1 - beta2) * g * g
            size = rate / (1 - beta1**step)
            value = value - size * mean / ((square / (1 - beta2**step)).sqrt() + own["eps"])
            news = ((p, value), (state["exp_avg"], mean), (state["exp_avg_sq"], square))
            for old, new in (*news, (state["step"], step)):
                old.copy_(torch.where(self.failed, old, new))


class CompiledUpdate:
    """Update of an algorithm, and that of its target networks, as one compiled function.

    The first update of each network is not compiled, so that its warnings and errors are the
    ordinary ones. So is an update that is repeated because it failed.

    Args:
        algo: algorithm whose steps are `TracedStep`.
        steps: its steps.

    Attributes:
        n_compilations: number of compilations; the first of each kind of update is expected.
    """

    def __init__(self, algo: ReplayAlgo, steps: Sequence[TracedStep]) -> None:
        self.algo, self.steps, self.plain = algo, steps, algo.update
        device = algo.agent.device
        self.failed = torch.zeros((), dtype=torch.bool, device=device)
        self.tau = torch.zeros((), device=device)
        for step in steps:
            step.failed = self.failed
        self._numbers = [x for step in steps for x in (step.limit, *step.rates)] + [self.tau]
        self._values: list[float] = []
        self._first = getattr(algo, "policy_update_interval", 1)
        self._kinds: set[Any] = set()
        self._moved = False  # True if the last update has updated the targets
        # A CUDA graph returns the same memory at each call, and statistics are read later.
        self._copies = device.type == "cuda"
        self.n_compilations = 0
        networks = [x for x in vars(algo.agent).values() if isinstance(x, torch.nn.Module)]
        modules = {m: None for network in networks for m in network.modules()}
        self._hooks = [hooks for m in modules for hooks in hooks_of(m)]
        self._warned_of_hooks = False
        self.function = algo.recorded.isolated(compiled_function(self.traced, device.type))
        dynamo: Any = torch._dynamo
        dynamo.config.trace_autograd_ops = True  # otherwise the backward pass is a graph of its own
        states = [s for step in steps for s in step.optimizer.state.values()]
        adam = [x for state in states for x in state.values()]
        for tensor in (self.failed, *self._numbers, *adam):
            dynamo.mark_static_address(tensor, guard=False)
        algo.update_targets = self.update_targets  # type: ignore[method-assign]

    def __call__(self, batch: Any) -> Any:
        """Take the steps of one update; see `ReplayAlgo.update`."""
        algo = self.algo
        self._moved = False
        early = algo.update_counter < self._first
        if early or torch.is_inference_mode_enabled() or self._has_hooks():
            return self.plain(batch)
        due = (algo.update_counter + 1) % algo.target_update_interval == 0
        moves = due and algo.target_update_tau < 1  # a copy is rare and not worth a kind of update
        self._set_numbers()
        compiled = torch._dynamo.utils.counters["stats"]  # type: ignore[attr-defined]
        before, start = compiled["unique_graphs"], time.perf_counter()
        result = self.function(batch, moves)
        if self._copies:
            result = tree_map(_copy, result)
            algo.recorded.current = tree_map(_copy, algo.recorded.current)
        if compiled["unique_graphs"] > before:
            self._count_compilation((moves, getattr(algo, "skips_policy", False)), start)
        if self.failed.item():
            self.failed.fill_(False)
            self.plain(batch)  # raises with its message
            raise NonFiniteError("the loss or its gradient is not finite.")
        self._moved = moves
        return result

    def traced(self, batch: Any, moves: bool) -> Any:
        """Update the networks, and the targets if they are to move."""
        result = self.plain(batch)
        if moves:
            with torch.no_grad():
                weight = torch.where(self.failed, 0.0, self.tau)
                for target, model in self.algo.agent.targets:
                    for old, new in zip(state_of(target), state_of(model), strict=True):
                        if old.is_floating_point():
                            old.lerp_(new, weight)
                        else:
                            old.copy_(torch.where(self.failed, old, new))
        return tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, result)

    def _has_hooks(self) -> bool:
        """Return True if users' hooks, which compiled code does not call, are registered."""
        own = [
            p._backward_hooks or p._post_accumulate_grad_hooks
            for step in self.steps
            for p in step.parameters
        ]
        of_steps = any(step.has_step_hooks for step in self.steps)
        if not (of_steps or any(own) or any(self._hooks)):
            return False
        if not self._warned_of_hooks:
            self._warned_of_hooks = True
            warnings.warn(
                "Updates are not compiled while hooks are registered with parameters or modules of "
                "the agent or steps of its optimizer, since compiled code does not call them.",
                stacklevel=4,
            )
        return True

    def update_targets(self) -> None:
        """Update the targets if the last update has not done so."""
        if not self._moved:
            self.algo.agent.update_target(self.algo.target_update_tau)

    def _set_numbers(self) -> None:
        """Write settings that may change into tensors, since other numbers would be compiled."""
        values = []
        for step in self.steps:
            step.read_settings()  # if one has changed, the update is compiled again
            step.adopt_states()
            limit = step.clip_grad_norm
            values.append(math.inf if limit is None else limit)
            values += [group["lr"] for group in step.optimizer.param_groups]
        values.append(self.algo.target_update_tau)
        if values != self._values:
            self._values = values
            for tensor, value in zip(self._numbers, values, strict=True):
                tensor.fill_(value)

    def _count_compilation(self, kind: Any, start: float) -> None:
        self.n_compilations += 1
        seconds = time.perf_counter() - start
        logger.log(f"Compiled the update in {seconds:.0f} s (compilation {self.n_compilations}).")
        if kind in self._kinds:
            warnings.warn(
                f"The update was compiled again (compilation {self.n_compilations}, {seconds:.0f} "
                "s), because a setting or the shape of a batch has changed. Change only learning "
                f"rates, clip_grad_norm and target_update_tau. {REASONS}",
                stacklevel=3,
            )
        self._kinds.add(kind)


def _copy(x: Any) -> Any:
    return x.clone() if isinstance(x, Tensor) else x


def norms_of(network: ParameterGroup, gradients: list[Tensor]) -> Tensor | None:
    """Return the norms of a network's gradients, [1] or [E], or ``None`` if it has none."""
    if not gradients:
        return None
    flat = [g.reshape(network.n_members or 1, -1) for g in gradients]
    norms = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in flat])
    return torch.linalg.vector_norm(norms, dim=0)  # type: ignore[no-any-return]


def state_of(module: torch.nn.Module) -> list[Tensor]:
    """Return the parameters and saved buffers of a module, in order."""
    buffers = [
        m._buffers[name]
        for m in module.modules()
        for name in m._buffers
        if name not in m._non_persistent_buffers_set
    ]
    return [*module.parameters(), *(b for b in buffers if b is not None)]
