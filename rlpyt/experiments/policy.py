"""Exported policies, to act without rlpyt: this file can be copied.

policy = load_policy("policy.onnx")  # with onnxruntime or onnx; or policy.pt2, with torch
action, state = policy.act(observation)  # first step of an episode
action, state = policy.act(observation, state, reward)
"""

import io
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

METADATA = "rlpyt"  # key of the metadata in a file
MISSING_REWARD = (
    "act must get the reward of the previous step after the first step of an episode, since the "
    "agent reads it. Without it 0 is read, and other actions are chosen. Call "
    "act(..., reward=reward), or start an episode."
)
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
            actions have a path, (key, index) at each level; categories and images of integers have
            bounds, low and high.
        initial_state: state at the start of an episode; empty for a policy without memory.
    """

    def __init__(self, function: Function, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata
        self._function = function
        self._warned = False  # of a missing reward
        self._inputs: list[dict[str, Any]] = metadata["inputs"]
        self._outputs = [entry["name"] for entry in metadata["outputs"]]
        parts = [x for x in metadata["outputs"] if x["name"].split(".")[0] == "action"]
        self._action_paths = [entry.get("path", []) for entry in parts]
        self.initial_state = tuple(
            np.broadcast_to(np.asarray(entry["initial"], entry["dtype"]), entry["shape"]).copy()
            for entry in self._inputs
            if "initial" in entry
        )
        if not all(np.isfinite(x).all() for x in self.initial_state):
            raise ValueError("the initial state must be finite")

    def __repr__(self) -> str:
        return f"Policy({self.metadata['name']})"

    def act(
        self, observation: Any, state: Sequence[Array] | None = None, reward: float | None = None
    ) -> tuple[Any, tuple[Array, ...]]:
        """Choose an action for one observation.

        Args:
            observation: observation as the environment returns it: an array or a number; a dict or
                tuple of them for Dict and Tuple spaces.
            state: state from the previous step; ``None`` at the start of an episode.
            reward: reward received with the observation, 0 at the start of an episode; used only by
                policies with memory, which warn if it is missing later.

        Returns:
            The action for the environment's ``step`` (a dict or tuple for Dict and Tuple spaces),
            and the state for the next ``act``.

        Raises:
            TypeError: a part of the observation is not an array of numbers.
            ValueError: a part is missing or has another shape, is a floating-point number where the
                policy reads integers or is outside of their bounds, or a mask allows no action; or
                the state has another number of arrays, or of other shapes.
        """
        outputs = [x[0] for x in self._function(self.inputs(observation, state, reward))]
        n = len(self._action_paths)
        action = _nested(self._action_paths, outputs[:n])
        return action, tuple(outputs[n : n + len(self.initial_state)])

    def inputs(
        self, observation: Any, state: Sequence[Array] | None = None, reward: float | None = None
    ) -> list[Array]:
        """Return the arguments of ``__call__``, [1, ...], for those of ``act``."""
        states = iter(self.initial_state if state is None else self._checked(state))
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
                leaf = next(states) if "initial" in entry else self._reward(reward, state)
            array = _as_declared(leaf, entry)
            if entry["name"].endswith(".action_mask"):
                if not np.isin(array, (0, 1)).all():
                    raise ValueError(f"{entry['name']} must have entries 0 or 1, got {leaf!r:.60}.")
                if not array.any():
                    raise ValueError(
                        f"{entry['name']} must allow an action, but all entries are 0."
                    )
            arrays.append(array[None])
        return arrays

    def _reward(self, reward: float | None, state: object) -> float:
        """Return the reward to read; warn once if it is missing after the first step."""
        if reward is None and state is not None and not self._warned:
            self._warned = True
            warnings.warn(MISSING_REWARD)
        return reward or 0.0

    def _checked(self, state: Any) -> tuple[Array, ...]:
        """Return a state with its number of arrays checked; `inputs` checks each of them."""
        n, given = len(self.initial_state), tuple(state) if np.iterable(state) else (state,)
        if len(given) != n:
            names = ", ".join(x["name"] for x in self._inputs if "initial" in x)
            expected = f"{n} arrays ({names})" if n else "no arrays, since the policy has no memory"
            raise ValueError(
                f"the state must have {expected}, as act returned it, got {len(given)} arrays. At "
                "the start of an episode give None."
            )
        return given

    def __call__(self, *inputs: Array) -> dict[str, Array]:
        """Evaluate a batch.

        Args:
            *inputs: arrays [B, ...] in the order of ``metadata["inputs"]``.

        Returns:
            Outputs [B, ...] by name: "action"; "next_state..." of policies with memory; and the
            parameters of the distribution, whose mode is the action.

        Raises:
            ValueError: the number of arrays is another.
        """
        if len(inputs) != len(self._inputs):
            names = ", ".join(entry["name"] for entry in self._inputs)
            raise ValueError(
                f"the policy takes {len(self._inputs)} arrays ({names}), got {len(inputs)}."
            )
        return dict(zip(self._outputs, self._function(inputs), strict=True))


def load_policy(path: str | Path) -> Policy:
    """Load a policy exported by ``rlpyt export`` or ``Run.export``.

    Args:
        path: file that ends in .onnx (requires onnxruntime, or onnx, which evaluates it in numpy
            and is slower) or .pt2 (requires torch, and is as trusted as a script).

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
    readers = {".onnx": _read_onnx, ".pt2": _read_torch}
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
    """Act once, and compare all outputs with the metadata; any error means a damaged file."""
    repr(policy)  # reads the name
    inputs = []
    for entry in policy.metadata["inputs"]:
        is_mask = entry["name"].endswith(".action_mask")
        value = True if is_mask else entry.get("low", 0)
        inputs.append(np.full((1, *entry["shape"]), value, entry["dtype"]))
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
    try:
        import onnxruntime
    except ImportError:
        return _read_onnx_in_numpy(content)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more do not help with single observations
    # Weights in other files, which no export has, would be looked for in the working directory.
    folder = "session.model_external_initializers_file_folder_path"
    options.add_session_config_entry(folder, os.devnull)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def function(inputs: Sequence[Array]) -> Sequence[Array]:
        outputs: Sequence[Array] = session.run(None, dict(zip(names, inputs, strict=True)))
        return outputs

    return function, session.get_modelmeta().custom_metadata_map[METADATA]


def _read_onnx_in_numpy(content: bytes) -> tuple[Function, str]:
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise ImportError(
            "A policy in ONNX requires onnxruntime, or onnx, which is slower and evaluates it in "
            "numpy. Run: pip install onnxruntime"
        ) from error
    model = onnx.load_from_string(content)
    evaluator = ReferenceEvaluator(model)

    def function(inputs: Sequence[Array]) -> Sequence[Array]:
        outputs = evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True)))
        return [np.asarray(x) for x in outputs]

    return function, {entry.key: entry.value for entry in model.metadata_props}[METADATA]


def _read_torch(content: bytes) -> tuple[Function, str]:
    import torch

    extra = {METADATA: ""}
    module = torch.export.load(io.BytesIO(content), extra_files=extra).module()

    def function(inputs: Sequence[Array]) -> Sequence[Array]:
        with torch.no_grad():
            outputs = module(*[torch.from_numpy(np.ascontiguousarray(x)) for x in inputs])
        return [x.numpy() for x in outputs]

    return function, extra[METADATA]


def _as_declared(leaf: Any, entry: Mapping[str, Any]) -> Array:
    """Return an input as an array of its declared shape and dtype; raises as ``act`` does."""
    name, given, dtype = entry["name"], np.asarray(leaf), np.dtype(entry["dtype"])
    if given.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} is a {type(leaf).__name__} ({leaf!r:.60}). Give a numpy array of numbers."
        )
    if given.shape != tuple(entry["shape"]):
        raise ValueError(f"{name} must have the shape {tuple(entry['shape'])}, got {given.shape}.")
    with np.errstate(invalid="ignore"):  # NaN as an integer, see below
        array = np.asarray(given, dtype)
    if dtype.kind not in "biu":
        return array
    if given.dtype.kind == "f" and ("low" in entry or (given != array).any()):
        raise ValueError(
            f"{name} is {given.dtype}, its space is {dtype}. Give integers, of an image in [0, 1]: "
            "(255 * x).astype(np.uint8)."
        )
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = entry.get("low", limits[0]), entry.get("high", limits[1])
    if ((given < low) | (given > high)).any():
        raise ValueError(
            f"{name} is outside the bounds [{np.min(low)}, {np.max(high)}] of its space: "
            f"{given!r:.120}. Give observations as the environment returns them."
        )
    return array


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
