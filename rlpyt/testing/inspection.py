"""Looks at every value that an environment returns: structure, shapes, dtypes, bounds, memory."""

import time
from typing import Any

import numpy as np

from rlpyt.testing.report import Stop
from rlpyt.testing.trees import copied, difference, layout_of, shares_memory
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_from_example

_REUSE = "Env allows it; whoever keeps observations must copy them, as samplers do."


def composite_of(space: Any) -> Any:
    """The named parts of a space; ``None`` if it is not composed of others."""
    inner = space if hasattr(space, "names") else getattr(space, "space", None)
    return inner if hasattr(inner, "names") else None


def leaf_spaces(space: Any, path: str) -> list[tuple[str, Any]]:
    """(path, space) of every part that is not composed of others."""
    composite = composite_of(space)
    if composite is None:
        return [(path, space)]
    pairs = zip(composite.names, composite.spaces, strict=True)
    return [leaf for name, part in pairs for leaf in leaf_spaces(part, f"{path}.{name}")]


class Inspector:
    """Common to single environments and batches.

    Args:
        bench: where findings and the kind of the environment are.
        env: the environment.
    """

    def __init__(self, bench: Any, env: Any) -> None:
        self.bench, self.report = bench, bench.report
        self.space = env.observation_space
        self.leaf_spaces = leaf_spaces(self.space, "observation")
        self.t = -1
        self.where = "reset"
        self._info_layout: Any = None
        self._last: Any = None  # the array last returned, and a copy
        self._copy: Any = None
        self._action: Any = None
        self.reused = False

    def check_observation(self, observation: Any, lead: tuple[int, ...]) -> None:
        """Compare an observation [*lead, ...] with its space."""
        for (path, space), leaf in zip(
            self.leaf_spaces, self._parts(self.space, observation, "observation"), strict=True
        ):
            self._check_leaf(path, space, leaf, lead)
        self._keep(observation)

    def _parts(self, space: Any, value: Any, path: str) -> list[Any]:
        composite = composite_of(space)
        if composite is None:
            return [value]
        if getattr(value, "_fields", None) != tuple(composite.names):
            self.report.error(
                "observation",
                f"{self.where}: {path} is a {type(value).__name__} with fields "
                f"{getattr(value, '_fields', None)}; the space has {tuple(composite.names)}",
                "return a named tuple with the fields of the space, in order.",
            )
            raise Stop
        pairs = zip(composite.names, composite.spaces, tuple(value), strict=True)
        return [x for n, part, v in pairs for x in self._parts(part, v, f"{path}.{n}")]

    def _check_leaf(self, path: str, space: Any, leaf: Any, lead: tuple[int, ...]) -> None:
        numeric = isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biuf"
        number = isinstance(leaf, bool | int | float) and not lead
        if not numeric and not number:
            self.report.error(
                "observation",
                f"{self.where}: {path} is a {type(leaf).__name__} ({leaf!r:.60})",
                "return a numpy array of numbers (np.asarray(x, space.dtype)).",
            )
            raise Stop
        array = np.asarray(leaf)
        shape, dtype = (*lead, *space.shape), np.dtype(space.dtype)
        if array.shape != shape:
            self.report.error(
                "observation",
                f"{self.where}: {path} has shape {array.shape}; expected {shape}",
                "make observation_space and what reset and step return agree in shape.",
            )
        elif array.dtype != dtype and not number:
            self.report.error(
                "observation",
                f"{self.where}: {path} is {array.dtype}, its space is {dtype}; samplers lay out "
                "memory for what comes first, and models compute in it",
                "convert with x.astype(space.dtype), or declare the dtype that comes.",
            )
        else:
            self._check_bounds(path, space, array, lead)

    def _check_bounds(self, path: str, space: Any, array: Any, lead: tuple[int, ...]) -> None:
        rows = array if lead else [array]
        bad = next((row for row in rows if not space.contains(row)), None)
        if bad is None:
            return
        floats = array.dtype.kind == "f"
        if floats and not np.isfinite(bad).all():
            self.report.error(
                "observation",
                f"{self.where}: {path} is not finite: {bad!r:.80}",
                "find where NaN or infinity arises; it spreads to every weight at the next update.",
            )
            return
        low, high = getattr(space, "low", None), getattr(space, "high", None)
        bounds = f" [{np.min(low)}, {np.max(high)}]" if low is not None and high is not None else ""
        self.report.error(
            "observation",
            f"{self.where}: {path} lies outside the bounds{bounds} of its space: {bad!r:.120}",
            "widen the space's bounds, or clip.",
        )

    def check_info(self, info: Any, lead: tuple[int, ...]) -> None:
        """Check that env_info is a record of numbers, laid out as it was first."""
        if not hasattr(info, "_fields"):
            self.report.error(
                "env-info",
                f"{self.where}: env_info is a {type(info).__name__} ({info!r:.60})",
                'return a named tuple: EnvInfo = namedtuple("EnvInfo", ["timeout"]) at the top of '
                "a module; without entries, rlpyt.envs.base.EnvInfo().",
            )
            raise Stop
        layout = (tuple(info._fields), layout_of(info))
        if self._info_layout is None:
            self._info_layout = layout
            self._check_first_info(info)
        elif layout != self._info_layout:
            self.report.error(
                "env-info",
                f"{self.where}: env_info is {described(layout)}; at the first step it was "
                f"{described(self._info_layout)}",
                "give every field at every step, in one dtype and shape (zeros where there is "
                "nothing to say): memory is laid out once, after one example step.",
            )

    def _check_first_info(self, info: Any) -> None:
        for path, _, dtype in layout_of(info):
            if dtype.kind not in "biuf":
                self.report.error(
                    "env-info",
                    f"{self.where}: env_info.{path} has dtype {dtype}, not numbers",
                    "leave texts and objects out of env_info.",
                )
                raise Stop
        try:
            buffer_from_example(info, 2)
            again = serialize.loads(serialize.dumps(info))
            if difference(again, info):
                raise ValueError(difference(again, info))
        except (TypeError, ValueError) as error:
            self.report.error(
                "env-info",
                f"env_info cannot be recorded or sent to another process: {error}",
                "use a named tuple type defined at the top of a module, its fields not called "
                "'get' or 'items'.",
            )

    def check_flags(self, timeout: Any, traj_done: Any, done: Any) -> None:
        """Check what the two flags imply; all [B] or single bools."""
        if np.any(np.logical_and(timeout, np.logical_not(done))):
            self.report.error(
                "time-limit",
                f"{self.where}: env_info.timeout is true, done is not",
                "timeout means that this step ended the episode: done must be true as well.",
            )
        if np.any(np.logical_and(traj_done, np.logical_not(done))):
            self.report.error(
                "time-limit",
                f"{self.where}: env_info.traj_done is true, done is not",
                "an episode that must be reset is done: set done too, or the return would go on "
                "over the reset.",
            )

    def check_action_unchanged(self, action: Any, sent: Any) -> None:
        """Check that the environment only read its action; it is the recorded one."""
        changed = difference(action, sent)
        if changed:
            self.report.error(
                "actions",
                f"{self.where}: step wrote into the action it was given ({changed})",
                "copy the action before scaling or clipping it in place: it is the one that is "
                "recorded.",
            )

    def _keep(self, observation: Any) -> None:
        """Remember what was returned, after a look at what became of its predecessor."""
        if self._last is not None:
            self.reused |= difference(self._last, self._copy) is not None
            self.reused |= shares_memory(self._last, observation)
        self._last, self._copy = observation, copied(observation)

    def look_back(self) -> None:
        """Before the next call: is the array still what was returned?"""
        if self._last is not None and difference(self._last, self._copy):
            self.report.error(
                "buffers",
                f"{self.where}: the observation changed after it was returned, without a call",
                "a thread, or another environment, writes into it: return memory of this "
                "environment's own.",
            )

    def conclude(self) -> None:
        """After the run: what is worth saying about memory."""
        time.sleep(0.01)  # threads of a native library would write by now
        self.look_back()
        if not self.reused:
            return
        what = "observations are written into the same memory at every step"
        if self.bench.gym:
            self.report.warning(
                "buffers",
                what,
                "Gymnasium's users expect an array of their own: return a copy.",
            )
        else:
            self.report.note("buffers", what, _REUSE)


def described(layout: Any) -> str:
    """Names, dtypes and shapes of (fields, ``layout_of``) in one line."""
    fields, leaves = layout
    said = ", ".join(f"{path}: {dtype}{list(shape) or ''}" for path, shape, dtype in leaves)
    return f"({said})" if said else f"fields {fields}"
