"""Check every value that an environment returns: structure, shapes, dtypes, bounds and memory."""

import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.spaces.action_mask import action_mask_of, mask_error, mask_sizes
from rlpyt.spaces.elements import composite_of, find_difference, leaf_spaces
from rlpyt.testing.report import Stop
from rlpyt.testing.trees import copied, described, difference, layout_of, same_layout, shares_memory
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_from_example, buffer_func, leaves_of
from rlpyt.utils.collections import is_namedarraytuple

if TYPE_CHECKING:
    from rlpyt.testing.env_runs import EnvCase


class ValueInspector:
    """Checker of the values that an environment returns, called before they are used.

    Args:
        case: the environment's kind, its actions and the report.
        env: the environment.
    """

    def __init__(self, case: "EnvCase", env: Any) -> None:
        self.case, self.report = case, case.report
        self.lead = (case.n,) if case.batched else ()
        self.space = env.observation_space
        self.leaf_spaces = leaf_spaces(self.space, "observation")
        self.t = -1
        self.where = "reset"
        self.reused = False
        self._first_info: Any = None
        self._last: Any = None  # the observation last returned
        self._copy: Any = None

    def reset(self, observation: Any, n: int) -> None:
        """Check what ``reset`` or ``reset_rows`` returned for n rows."""
        self.where = f"reset before step {self.t + 1}"
        pair = isinstance(observation, tuple) and len(tuple(observation)) == 2
        if not self.case.batched and pair and isinstance(tuple(observation)[1], dict):
            self._stop(
                "structure",
                "it returned (observation, info), as Gymnasium does",
                "return the observation alone; a gymnasium.Env is adapted by GymEnvWrapper.",
            )
        self._check_observation(observation, (n,) if self.case.batched else ())
        self._check_mask(observation, np.zeros(n if self.case.batched else (), np.bool_))

    def step(self, result: Any, action: Any, sent: list[Any]) -> None:
        """Check what ``step`` returned, and that it did not change the actions ``sent``."""
        self.t += 1
        self.where = f"step {self.t}"
        self._check_structure(result)
        observation, reward, done, info = tuple(result)
        self._check_observation(observation, self.lead)
        if self.case.batched:
            self._check_column("reward", reward, np.dtype(np.float32))
            self._check_column("done", done, np.dtype(np.bool_))
        else:
            self._check_reward(reward)
            self._check_done(done)
        timeout = np.asarray(getattr(info, "timeout", False), np.bool_)
        self._check_mask(observation, np.asarray(done, np.bool_) & ~timeout)
        if not np.isfinite(reward).all():
            self._error("reward", f"reward is {reward}", "find where it stops being finite.")
        self._check_info(info)
        self._check_flags(info, done)
        actions = [action]
        if self.case.batched:
            actions = [buffer_func(action, lambda leaf, b=b: leaf[b]) for b in range(self.case.n)]
        for given, original in zip(actions, sent, strict=True):
            changed = difference(given, original)
            if changed:
                fix = "copy the action before scaling or clipping it: it is recorded afterwards."
                self._error("actions", f"step wrote into the action it was given ({changed})", fix)

    def _error(self, check: str, what: str, fix: str) -> None:
        self.report.error(f"{self.where}: {what}", fix, check=check)

    def _stop(self, check: str, what: str, fix: str) -> NoReturn:
        self._error(check, what, fix)
        raise Stop

    def _check_structure(self, result: Any) -> None:
        batched = self.case.batched
        named = hasattr(result, "_fields")
        if not isinstance(result, tuple) or len(tuple(result)) != 4 or (batched and not named):
            five = isinstance(result, tuple) and len(tuple(result)) == 5
            hint = " (Gymnasium's five values)" if five else ""
            fix = "return EnvStep(observation, reward, done, env_info), "
            fix += (
                "or adapt the batch by rlpyt.envs.vector.base.adapt (Gymnasium, ale_py, EnvPool)."
                if batched
                else "with done = terminated or truncated, and a named tuple env_info."
            )
            self._stop("structure", f"returned {type(result).__name__} {result!r:.100}{hint}", fix)
        if not named:
            self.report.warning(
                "step() returned a plain tuple",
                f"return rlpyt.envs.base.EnvStep{EnvStep._fields}.",
                check="structure",
            )

    def _check_observation(self, observation: Any, lead: tuple[int, ...]) -> None:
        parts = self._parts(self.space, observation, "observation")
        for (path, space), leaf in zip(self.leaf_spaces, parts, strict=True):
            found = find_difference(path, space, leaf, lead)
            if found is not None:
                report = self._stop if found.kind == "structure" else self._error
                report("observation", found.what, found.fix)
        if self._last is not None:
            self.reused |= difference(self._last, self._copy) is not None
            self.reused |= shares_memory(self._last, observation)
        self._last, self._copy = observation, copied(observation)

    def _check_mask(self, observation: Any, terminated: Any) -> None:
        """Check that the mask of actions, if there is one, allows one where not terminated."""
        mask = action_mask_of(observation)
        if mask is None:
            return
        found = mask_error(np.asarray(mask), mask_sizes(self.case.action_space), ~terminated)
        if found is not None:
            self._error("action-mask", found[1], "correct the mask of this observation.")

    def _parts(self, space: Any, value: Any, path: str) -> list[Any]:
        composite = composite_of(space)
        if composite is None:
            return [value]
        fields = getattr(value, "_fields", None)
        if fields != tuple(composite.names):
            what = f"{path} is a {type(value).__name__} with fields {fields}; expected "
            fix = "return a named tuple with the fields of the space, in order."
            self._stop("observation", f"{what}{tuple(composite.names)}", fix)
        pairs = zip(composite.names, composite.spaces, tuple(value), strict=True)
        return [x for n, part, v in pairs for x in self._parts(part, v, f"{path}.{n}")]

    def _check_column(self, name: str, value: Any, dtype: np.dtype[Any]) -> None:
        if not isinstance(value, np.ndarray) or value.shape != self.lead:
            what = f"{name} is {type(value).__name__} {value!r:.60}"
            self._stop(name, what, f"return a numpy array of shape {list(self.lead)}.")
        if value.dtype != dtype:
            self._error(name, f"{name} has dtype {value.dtype}", f"return {dtype}.")

    def _check_reward(self, reward: Any) -> None:
        scalar = isinstance(reward, bool | int | float | np.generic)
        if not scalar or np.asarray(reward).dtype.kind not in "biuf":
            what = f"reward is {reward!r:.60} of {type(reward).__name__}"
            self._stop("reward", what, "return one number: float(reward); sum several rewards.")

    def _check_done(self, done: Any) -> None:
        if not isinstance(done, bool | np.bool_):
            what = f"done is {done!r:.60} of {type(done).__name__}"
            self._error("done", what, "return a bool: bool(terminated or truncated).")
            if np.ndim(done):
                raise Stop

    def _check_info(self, info: Any) -> None:
        if not hasattr(info, "_fields"):
            self._stop(
                "env-info",
                f"env_info is a {type(info).__name__} ({info!r:.60})",
                'return a named tuple: EnvInfo = namedtuple("EnvInfo", ["timeout"]) at the top of '
                "a module, or rlpyt.envs.base.EnvInfo() if there are no entries.",
            )
        if self._first_info is None:
            self._check_first_info(info)
            self._first_info = copied(info)
        elif not same_layout(info, self._first_info):
            first = described(self._first_info)
            self._error(
                "env-info",
                f"env_info is {described(info)}; at the first step it was {first}",
                "return every field at every step with one dtype and shape, zeros if unused.",
            )
        if self.case.batched:
            self._check_batched_info(info)

    def _check_first_info(self, info: Any) -> None:
        for path, _, dtype in layout_of(info):
            if dtype.kind not in "biuf":
                what = f"env_info.{path} has dtype {dtype}, not numbers"
                self._stop("env-info", what, "remove strings and objects from env_info.")
        try:
            buffer_from_example(info, 2)
            changed = difference(serialize.loads(serialize.dumps(info)), info)
            if changed:
                raise ValueError(changed)
        except (TypeError, ValueError) as error:
            self._error(
                "env-info",
                f"env_info cannot be recorded or sent to another process: {error}",
                "define its type at the top of a module, without fields named 'get' or 'items'.",
            )

    def _check_batched_info(self, info: Any) -> None:
        if not is_namedarraytuple(info) or info._fields[:2] != ("timeout", "traj_done"):
            fix = "use rlpyt.envs.vector.base.vector_info(keys), which begins with timeout and "
            what = f"env_info is {type(info).__name__} with fields {info._fields}"
            self._stop("env-info", what, f"{fix}traj_done.")
        if any(np.shape(leaf)[:1] != self.lead for leaf in leaves_of(info)):
            fix = f"give every entry the leading dimension {list(self.lead)}, one value per row."
            self._stop("env-info", f"env_info is {described(info)}", fix)
        for name in ("timeout", "traj_done"):
            value = getattr(info, name)
            if value.dtype != np.bool_ or value.shape != self.lead:
                what = f"env_info.{name} has dtype {value.dtype} and shape {value.shape}"
                self._stop("env-info", what, f"make it bool, {list(self.lead)}.")

    def _check_flags(self, info: Any, done: Any) -> None:
        """Check that timeout and traj_done are bools, and true only where done is."""
        fixes = dict(
            timeout="set done as well: timeout means that this step ended the episode.",
            traj_done="set done as well, or returns would continue over the reset.",
        )
        for name, fix in fixes.items():
            value = getattr(info, name, False)
            if not self.case.batched and not isinstance(value, bool | np.bool_):
                what = f"env_info.{name} is {value!r:.40} of {type(value).__name__}"
                self._error("time-limit", what, "make it a bool.")
            if np.any(np.logical_and(value, np.logical_not(done))):
                self._error("time-limit", f"env_info.{name} is true, done is not", fix)

    def conclude(self) -> None:
        """Check the memory of observations at the end of a run."""
        time.sleep(0.01)  # threads of a native library would have written by now
        if self._last is not None and difference(self._last, self._copy):
            self._error(
                "buffers",
                "the observation changed after it was returned, without a call",
                "return memory that no thread and no other environment writes to.",
            )
        if self.reused:
            what = "observations are written into the same memory at every step"
            self.report.note(what, "none needed: samplers copy observations.", check="buffers")
