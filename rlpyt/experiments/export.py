"""Export of trained policies to one file: ONNX or torch.export."""

import io
import json
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.export.graph_signature import InputKind

from rlpyt.experiments.policy import METADATA, Policy, part_at, read_policy
from rlpyt.models.observation import is_composite, seen_parts
from rlpyt.models.utils import unwrap_ddp
from rlpyt.samplers.env_batch import bounds_of
from rlpyt.samplers.environments import closing_quietly
from rlpyt.samplers.surroundings import Surroundings
from rlpyt.spaces.action_mask import unwrapped
from rlpyt.spaces.base import Space
from rlpyt.spaces.elements import strict_bounds
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper, to_gym
from rlpyt.utils.buffer import _named_leaves, buffer_func, leaves_of
from rlpyt.utils.checks import whole_number
from rlpyt.utils.extras import needing
from rlpyt.utils.files import atomic_write
from rlpyt.utils.processes import summary_of
from rlpyt.utils.seed import set_seed, undisturbed
from rlpyt.version import VERSION

SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
# Largest difference between agent and exported policy, relative above 1. It is 1e-7 to 1e-6 for
# small networks; the rounding of large ones with large outputs reached 2e-5.
TOLERANCE = 1e-4
CLOSE_CALLS = 0.02  # largest share of steps with another discrete action, after rounding
STEPS = 100  # number of steps that are compared
ROWS = 2  # batch size of the trace; torch treats sizes 0 and 1 in a special way


class GreedyPolicy:
    """Deterministic policy of an agent as a pure function of tensors [B, ...].

    Observations and actions have the form that the environment uses: discrete ones begin at the
    ``start`` of their space, continuous actions are clipped to the bounds. A policy that reads the
    previous reward and action, or is recurrent, takes them as further inputs and returns the next
    ones, with the batch dimension first. Parts of an observation that the policy does not read
    (``policy_observation``) are no inputs.

    Args:
        agent: initialized agent on the CPU.
        itr: iteration of its parameters.

    Attributes:
        inputs: name, dtype, shape, origin and bounds of each input; see `Policy`.
        outputs: name, dtype and shape of each output, and origin of each part of an action.
        action_paths: path of each part of an action; a single empty path for a space without parts.
    """

    def __init__(self, agent: Any, itr: int = 1) -> None:
        observation_space, action_space = agent.env_spaces
        agent.eval_mode(itr)
        agent.set_deterministic(True, itr)
        self.agent = agent
        self._observation = observation_space.null_value()
        leaves = _leaf_spaces(observation_space)
        self._is_read = [True] * len(leaves)  # whether the policy reads a part of the observation
        if agent.policy_observation is not None:
            self._is_read = seen_parts(agent.group_shape("policy_observation"))
        self._starts = [_start_of(space) for _, space in compress(leaves, self._is_read)]
        leaves = _leaf_spaces(action_space)
        self.action_paths = [path for path, _ in leaves]
        self._to_env = [_ActionForm(space) for _, space in leaves]
        self._state: Any = None
        null = buffer_func(action_space.null_value(), lambda x: torch.as_tensor(np.asarray(x)))
        with torch.no_grad():
            rows = buffer_func(self._observation, lambda leaf: _rows(torch.as_tensor(leaf)))
            action, state, _ = agent.greedy(
                rows, buffer_func(null, _rows), torch.zeros(ROWS, dtype=torch.float32)
            )
        dtypes = iter([leaf.dtype for leaf in leaves_of(action)])
        self._null_action = buffer_func(null, lambda leaf: leaf.to(next(dtypes)))
        self._state = buffer_func(state, lambda leaf: torch.zeros_like(leaf[:, :1]))
        self.reads_previous = not agent.observation_only
        self.inputs = self._describe_inputs(observation_space)
        with torch.no_grad():
            named = self.named_outputs(*self.example())
        self.outputs = [{"name": name, **_described(x[0])} for name, x in named]
        for entry, path in zip(self.outputs, self.action_paths):
            if path:
                entry["path"] = path

    def _describe_inputs(self, space: Space) -> list[dict[str, Any]]:
        leaves = compress(_leaf_spaces(space), self._is_read)
        named = compress(_named_leaves(self._observation, "observation"), self._is_read)
        inputs = [
            {"name": name, **_described(torch.as_tensor(leaf)), "path": path, **_bounds_in(part)}
            for (name, leaf), (path, part) in zip(named, leaves, strict=True)
        ]
        if self.reads_previous:
            inputs.append({"name": "reward", **_described(torch.zeros((), dtype=torch.float32))})
            for name, null in _named_leaves(self._null_action, "state.action"):
                inputs.append({"name": name, **_described(null), "initial": null.tolist()})
        for name, leaf in _named_leaves(self._state, "state"):
            inputs.append({"name": name, **_described(leaf[:, 0]), "initial": 0})
        return inputs

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs for a call: lower bounds and initial states, or zero."""
        inputs = []
        for entry in self.inputs:
            value = entry.get("low", entry.get("initial", 0))
            x = torch.tensor(value, dtype=getattr(torch, entry["dtype"]))
            inputs.append(_rows(x.expand(entry["shape"])))
        return tuple(inputs)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs [B, ...] for the inputs [B, ...]."""
        return tuple(x for _, x in self.named_outputs(*inputs))

    def named_outputs(self, *inputs: Tensor) -> list[tuple[str, Tensor]]:
        """Return pairs of name and output: action, next state, parameters of the distribution."""
        remaining = iter(inputs)
        leaves = [
            leaf if start is None else leaf - start for start, leaf in zip(self._starts, remaining)
        ]
        parts, is_read = iter(leaves), iter(self._is_read)

        def part(null: Any) -> Tensor:
            if next(is_read):
                return next(parts)
            return torch.as_tensor(null).expand(inputs[0].shape[0], *np.shape(null))

        observation = buffer_func(self._observation, part)
        if self.reads_previous:
            reward = next(remaining)
            prev_action = buffer_func(self._null_action, lambda _: next(remaining))
        else:
            B = inputs[0].shape[0]
            reward = torch.zeros(B, dtype=torch.float32)
            prev_action = buffer_func(self._null_action, lambda leaf: leaf.expand(B, *leaf.shape))
        state = buffer_func(self._state, lambda _: next(remaining).transpose(0, 1))
        action, state, dist_info = self.agent.greedy(observation, prev_action, reward, state)
        named = _named_leaves(action, "action")
        pairs = zip(named, self._to_env, strict=True)
        outputs = [(name, convert(leaf)) for (name, leaf), convert in pairs]
        if self.reads_previous:
            outputs += [(f"next_state.{name}", leaf) for name, leaf in named]
        for name, leaf in _named_leaves(state, "next_state"):
            outputs.append((name, leaf.transpose(0, 1)))
        return outputs + _named_leaves(dist_info, "distribution")


class _ActionForm:
    """Conversion of actions of one space, tensors [B, ...], to the environment's form."""

    def __init__(self, space: Space) -> None:
        inner = unwrapped(space)  # in the environment's form
        dtype, self._shape = np.dtype(inner.dtype).newbyteorder("="), inner.shape
        self._dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        self._start = _start_of(space)
        if self._start is not None:
            self._start = self._start.reshape(self._shape)
        self._bounds = None
        if bounds_of(space) is not None:
            low, high = (np.array(bound, dtype) for bound in (inner.low, inner.high))
            self._bounds = torch.from_numpy(low), torch.from_numpy(high)

    def __call__(self, action: Tensor) -> Tensor:
        action = action.to(self._dtype).reshape(-1, *self._shape)
        if self._bounds is not None:
            low, high = self._bounds
            action = torch.minimum(torch.maximum(action, low), high)
        return action if self._start is None else action + self._start


class _Module(torch.nn.Module):
    """A policy as a module, for torch.export."""

    def __init__(self, policy: GreedyPolicy) -> None:
        super().__init__()
        self.model = unwrap_ddp(policy.agent.model)
        self._policy = policy

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return self._policy(*inputs)


@undisturbed()
def export_policy(run: Any, path: str | Path, to: str | None = None, steps: int = STEPS) -> float:
    """Export the policy of a run; arguments and errors are those of ``Run.export``."""
    path = Path(path).absolute()
    to = format_of(path, to)
    whole_number("steps", steps, 1)
    with run.apart():
        policy = GreedyPolicy(run.agent, run.itr)
        observation_space, action_space = map(unwrapped, run.agent.env_spaces)
        about = {
            "name": run.name,
            "rlpyt": VERSION,
            "agent": type(run.agent).__name__,
            "iteration": run.itr,
            "observation_space": str(observation_space),
            "action_space": str(action_space),
            "inputs": policy.inputs,
            "outputs": policy.outputs,
        }
        content = WRITERS[to](_traced(policy), policy, json.dumps(about))
        difference = _check(run, policy, read_policy(content, path), steps)
    with atomic_write(path) as file:
        file.write(content)
    return difference


def format_of(path: Path, to: str | None) -> str:
    """Return the format of a file: "onnx" or "torch".

    Raises:
        ValueError: the format is unknown, or the suffix of the file is not that of the format.
    """
    if to is not None and to not in SUFFIXES:
        raise ValueError(f"to={to!r} must be one of {', '.join(SUFFIXES)}.")
    formats = {suffix: name for name, suffix in SUFFIXES.items()}
    expected = ", ".join(formats) if to is None else SUFFIXES[to]
    if path.suffix not in expected.split(", "):
        raise ValueError(f"the exported file must end in {expected}, got {path}.")
    return formats[path.suffix]


# Tracing.


def _traced(policy: GreedyPolicy) -> Any:
    """Return the policy as an ``ExportedProgram`` of core ATen operations."""
    inputs = policy.example()
    shapes = {"inputs": tuple({0: torch.export.Dim("B")} for _ in inputs)}
    with _quiet(), torch.no_grad():
        try:
            # With mkldnn, an LSTM is an operation that is not in core ATen.
            with torch.backends.mkldnn.flags(enabled=False):
                program = torch.export.export(_Module(policy), inputs, dynamic_shapes=shapes)
                program = program.run_decompositions()
        except Exception as error:  # torch raises many types
            reason = f"torch.export cannot trace {_origin(error)} ({_one_line(error)})."
            if "specialized it to be a constant" in str(error):
                reason = (
                    "it uses the batch size as a Python number. Replace len(x) and int(x.shape[0]) "
                    "by x.shape[0]."
                )
            raise ValueError(
                f"{type(policy.agent).__name__} cannot be exported: {reason}"
            ) from error
    _remove_unused(program)
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise ValueError(
                f"{type(policy.agent).__name__} cannot be exported: it draws random numbers in "
                f"deterministic evaluation, {_named(node)}."
            )
    return program


def _remove_unused(program: Any) -> None:
    """Remove what the action does not depend on: a value function, checks of dtypes."""
    for node in reversed(program.graph.nodes):
        if node.op == "call_function" and not node.users:
            program.graph.erase_node(node)
    specs = program.graph_signature.input_specs
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for spec in list(specs):
        node = nodes[spec.arg.name]
        if spec.kind is not InputKind.USER_INPUT and not node.users:
            specs.remove(spec)
            program.graph.erase_node(node)
            program.state_dict.pop(spec.target, None)
            program.constants.pop(spec.target, None)
    program.graph_module.recompile()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of torch's exporters, such as that torchvision is missing."""
    disabled = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(disabled)


def _origin(error: BaseException) -> str:
    """Return the last line of a traceback that is not torch's: code and place."""
    frames = traceback.extract_tb(error.__traceback__)
    torch_root = str(Path(torch.__file__).parent)
    own = [frame for frame in frames if not frame.filename.startswith(torch_root)]
    return f"`{own[-1].line}` ({own[-1].filename}:{own[-1].lineno})"


def _named(node: Any) -> str:
    """Return the name of an operation in a graph, and the line of code that it comes from."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    return f"{node.target}" + (f" in `{lines[-1].strip()}`" if lines else "")


def _one_line(error: BaseException) -> str:
    return " ".join(summary_of(error, 200).split())


# Formats.


def _write_torch(program: Any, policy: GreedyPolicy, metadata: str) -> bytes:
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # has paths of this machine
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={METADATA: metadata})
    return file.getvalue()


def _write_onnx(program: Any, policy: GreedyPolicy, metadata: str) -> bytes:
    with needing("Export to ONNX", "onnx"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    inputs, outputs = ([x["name"] for x in end] for end in (policy.inputs, policy.outputs))
    with _quiet():
        try:
            converted = torch.onnx.export(
                program, input_names=inputs, output_names=outputs, verbose=False
            )
        except torch.onnx.OnnxExporterError as error:
            reason = _one_line(error.__cause__ or error)
            raise ValueError(
                f"{type(policy.agent).__name__} cannot be exported to ONNX: {reason}. Export to "
                "torch instead."
            ) from error
    assert converted is not None
    for node in converted.model.graph.all_nodes():
        node.metadata_props.clear()  # has paths of this machine
    converted.model.metadata_props[METADATA] = metadata
    content: bytes = converted.model_proto.SerializeToString()
    return content


WRITERS: Mapping[str, Callable[[Any, GreedyPolicy, str], bytes]] = {
    "onnx": _write_onnx,
    "torch": _write_torch,
}


# Comparison with the agent.


def _check(run: Any, policy: GreedyPolicy, exported: Policy, steps: int) -> float:
    """Compare an exported policy with the agent while it plays; return the largest difference."""
    inputs, actions = _record(run, policy, exported, steps)
    with torch.no_grad():
        expected = policy(*(torch.from_numpy(np.ascontiguousarray(x)) for x in inputs))
    names = [entry["name"] for entry in policy.outputs]
    pairs = [
        (name, x, y.numpy(), "the agent's step") for name, x, y in zip(names, actions, expected)
    ]
    for rows in (slice(None), slice(1)):  # all steps as one batch, and a batch of one
        found = exported(*[x[rows] for x in inputs])
        pairs += [
            (name, found[name], x[rows].numpy(), "the exported policy")
            for name, x in zip(names, expected, strict=True)
        ]
    largest = 0.0
    for name, x, y, source in pairs:
        is_float = y.dtype.kind == "f"
        difference = _relative(x, y) if is_float else float(np.mean(x != y))
        if not difference <= (TOLERANCE if is_float else CLOSE_CALLS):  # also if it is NaN
            kind = "a difference of" if is_float else "a share of different values of"
            raise ValueError(
                f"{type(run.agent).__name__} cannot be exported: {name} from {source} has {kind} "
                f"{difference:.2g}. Its actions must depend only on the observation, the previous "
                "action and reward, and a recurrent state of zeros at the start of an episode."
            )
        largest = max(largest, difference if is_float else 0.0)
    return largest


def _relative(x: Any, y: Any) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return float(np.max(np.abs(x - y) / np.maximum(1, np.abs(y)), initial=0.0))


def _record(
    run: Any, policy: GreedyPolicy, exported: Policy, steps: int
) -> tuple[list[Any], list[Any]]:
    """Play a run's agent; return the inputs of the policy and the agent's actions, [steps, ...]."""
    rows: list[list[Any]] = []
    actions = []
    n_states, first_state = len(exported.initial_state), len(policy.action_paths)
    with Surroundings().checked(), closing_quietly(run.env()) as env, torch.no_grad():
        set_seed(0)
        env.seed(0)
        done = True
        while len(rows) < steps:
            if done:
                observation, reward, state = env.reset(), 0.0, exported.initial_state
                run.reset()
            own = to_gym(env.spaces.observation, observation)
            inputs = exported.inputs(own, state, reward)
            outputs = policy(*(torch.from_numpy(np.ascontiguousarray(x)) for x in inputs))
            state = tuple(x[0].numpy() for x in outputs[first_state : first_state + n_states])
            action = run.act(observation, reward)
            rows.append([x.copy() for x in inputs])  # the environment may reuse its arrays
            taken = to_gym(env.spaces.action, action)
            actions.append([part_at(path, taken) for path in policy.action_paths])
            observation, reward, done, info = env.step(action)
            done = done and bool(getattr(info, "traj_done", True))
    return [np.concatenate(columns) for columns in zip(*rows)], [*map(np.stack, zip(*actions))]


# Spaces.


def _leaf_spaces(space: Any, path: tuple[Any, ...] = ()) -> list[tuple[list[Any], Space]]:
    """Return the parts of a nested space, with their paths: (key, index) at each level."""
    if not is_composite(space.shape):
        return [([*path], space)]
    inner = unwrapped(space)
    keys = space.keys if isinstance(space, GymSpaceWrapper) else inner.names
    return [
        leaf
        for index, (key, part) in enumerate(zip(keys, inner.spaces, strict=True))
        for leaf in _leaf_spaces(part, (*path, (key, index)))
    ]


def _start_of(space: Space) -> Tensor | None:
    """Return the smallest value in the environment's form of integers that begin at 0 in ours."""
    if not isinstance(space, GymSpaceWrapper) or not np.any(space.start):
        return None
    return torch.as_tensor(np.asarray(space.start, space.dtype))


def _bounds_in(space: Space) -> dict[str, Any]:
    """Return the entries "low" and "high" of an input: numbers, or lists of them if they differ."""
    bounds = strict_bounds(space)
    if bounds is None:
        return {}
    arrays = [np.broadcast_to(bound, space.shape) for bound in bounds]
    short = [x.flat[0] if (x == x.flat[0]).all() else x for x in arrays]
    return dict(zip(("low", "high"), [x.tolist() for x in short], strict=True))


def _described(x: Tensor) -> dict[str, Any]:
    return {"dtype": str(x.dtype).removeprefix("torch."), "shape": list(x.shape)}


def _rows(x: Tensor) -> Tensor:
    return x.expand(ROWS, *x.shape).clone()
