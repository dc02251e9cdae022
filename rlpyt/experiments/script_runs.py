"""Runs of scripts, rebuilt from the descriptions of their parts in ``parts.json``."""

import ast
import contextlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.envs.gym import make as make_gym
from rlpyt.envs.tensor import takes_rows
from rlpyt.experiments import rundir
from rlpyt.experiments.agents import prepare_resumed
from rlpyt.experiments.build import EnvRecipe, env_recipe
from rlpyt.experiments.registry import (
    check_env_maker,
    env_maker,
    find_in_working_directory,
    import_named,
    origin,
)
from rlpyt.experiments.trust import allowed_part, read_described
from rlpyt.runners.hooks import Hook
from rlpyt.runners.runner import PARTS_FILE
from rlpyt.samplers.collections import TrajInfo
from rlpyt.utils.files import write_text
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.names import UnknownName
from rlpyt.utils.recorded import NotDescribed, label, main_name, rebuild
from rlpyt.utils.signed import is_signed, read_json, signed

GIVEN = ("env", "env_args", "agent")  # settings in place of what the file describes
# Arguments of samplers that say how environments are made.
ENV_ARGUMENTS = ("EnvCls", "env_kwargs", "eval_env_kwargs", "TrajInfoCls")


def _object(*required: str, more: Any = True, **properties: Any) -> dict[str, Any]:
    """Return the schema of a dictionary; ``more`` is that of keys without a schema."""
    schemas = {"properties": properties, "additionalProperties": more}
    return {"type": "object", "required": [*required], **schemas}


NAMED = _object("run_ID", "name")  # schema of params.json
_TEXT, _NODE, _DICT = {"type": "string"}, {"$ref": "#/definitions/node"}, _object()
_PART = _object(kwargs=_DICT)
_LOGGING = _object(
    snapshot_mode=_TEXT,
    use_summary_writer={"type": "boolean"},
    loggers={"type": "array", "items": _TEXT},
    more=False,
)
_KWARGS = _object(
    *("algo", "agent", "sampler", "n_steps"),
    algo=_PART,
    agent=_PART,
    sampler=_object(kwargs=_object(EnvCls=_DICT)),
    n_steps={"type": "number", "minimum": 0},
    more=_NODE,
)
_RUNNER = _object("$call", "kwargs", **{"$call": _TEXT, "kwargs": _KWARGS})
_PARTIAL = {"args": {"type": "array"}, "kwargs": _DICT}
SCHEMA = {
    **_object("logging", "runner", format={"const": 1}, logging=_LOGGING, runner=_RUNNER),
    "definitions": {
        "node": {
            "type": ["object", "array", "string", "number", "boolean", "null"],
            "items": _NODE,
            "properties": {
                **dict.fromkeys(("$call", "$name", "$missing"), _TEXT),
                "$tuple": {"type": "array"},
            },
            "dependencies": {
                "$call": {"properties": {"kwargs": _DICT}},
                "$partial": {"required": ["args", "kwargs"], "properties": _PARTIAL},
            },
            "additionalProperties": _NODE,
        },
    },
}


def find(name: str) -> Any:
    """Return a class or function by its name "module:name".

    Raises:
        ModuleNotFoundError: the module does not exist.
        ValueError: it has no such name, or is a script that would train.
    """
    module = name.partition(":")[0]
    if module not in sys.modules and module != main_name():
        check_import(module)
    return import_named(name, "part")


class ScriptRun:
    """Descriptions of the parts of a run, from which they are built again.

    Args:
        run_dir: directory with ``parts.json``.
        trust: accept a file of somebody else, whatever it names.
        settings: parts in place of those that the file describes: "env" and "env_args" as for
            `rlpyt.train`, "agent" an agent. The arguments of ``EnvCls`` in the file also apply to a
            class or function "env" unless "env_args" are given.

    Raises:
        DamagedFile: the file is damaged.
        UntrustedFile: it is a file of somebody else that names other than rlpyt's parts.
        UnknownName: a setting is unknown.
        TypeError: "agent" is not an agent.
    """

    def __init__(
        self, run_dir: Path, trust: bool = False, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        for name in settings:
            if name not in GIVEN:
                raise UnknownName("setting of the run of a script", name, GIVEN)
        given = settings.get("agent")
        if given is not None and not isinstance(given, BaseAgent):
            raise TypeError(
                f"agent must be an agent for the run of a script, got {given!r:.80}. Construct it "
                "as in the script."
            )
        self._given = settings
        self.run_dir, self.path = run_dir, run_dir / PARTS_FILE
        parts, self.trusted = read_described(self.path, "the description of a run", SCHEMA, trust)
        self._find = find if self.trusted else allowed_part
        self.logging: dict[str, Any] = parts["logging"]
        self._runner: dict[str, Any] = parts["runner"]
        self._parts: dict[str, Any] = parts["runner"]["kwargs"]
        if not self.trusted:
            self._parts["checkpoint_dir"] = str(run_dir / rundir.CHECKPOINTS)

    @property
    def n_steps(self) -> int:
        """Environment steps of the run."""
        return int(self._parts["n_steps"])

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        given = rebuild(self._parts.get("checkpoint_dir"), self._find, "checkpoint_dir")
        return Path(given or self.run_dir / rundir.CHECKPOINTS)

    @property
    def name(self) -> str:
        """Algorithm and environment, such as "PPO on CartPole-v1"."""
        sampler = self._parts["sampler"].get("kwargs", {})
        env = sampler.get("env_kwargs", {})
        env = env[0] if isinstance(env, list) and env else env
        known = env.get("id") or env.get("game") if isinstance(env, dict) else None
        algo, maker = self._parts["algo"].get("$call", "?"), label(sampler.get("EnvCls", "?"))
        return f"{_class(algo)} on {known or _class(maker)}"

    def recipe(self) -> EnvRecipe:
        """Return the recipe of the environments.

        Raises:
            ValueError: the sampler's arguments have no description, or name no environment.
        """
        env, args = self._given.get("env"), self._given.get("env_args")
        maker: Any = None if env is None else env_maker(env)
        if env is not None and maker is None:
            return env_recipe(env, args)
        described = {k: self._parts["sampler"].get("kwargs", {}).get(k) for k in ENV_ARGUMENTS}
        if env is not None:
            del described["EnvCls"]
        if args is not None:
            described.update(env_kwargs=None, eval_env_kwargs=None)
        with self._asking_for(self._to_load("env")):
            found = {k: rebuild(x, self._find, f"sampler.{k}") for k, x in described.items()}
        maker = found.get("EnvCls", maker)
        kwargs = _first(found["env_kwargs"]) if args is None else dict(args)
        for_eval = found["eval_env_kwargs"]
        check_env_maker("EnvCls", maker)
        can_render = maker is make_gym or "render_mode" in inspect.signature(maker).parameters
        sampler = _class(self._parts["sampler"].get("$call", "?"))
        return EnvRecipe(
            maker,
            kwargs,
            kwargs if for_eval is None else _first(for_eval),
            {"render_mode": "rgb_array"} if can_render else {},
            found["TrajInfoCls"] or TrajInfo,
            tensors=sampler == "TensorSampler" and (env is None or takes_rows(maker)),
            checkpoints=self.checkpoints,
        )

    def published(self) -> dict[str, Any]:
        """Return what ``parts.json`` must contain to load the agent, and what was trained how.

        Settings of the algorithm that have no description are left out.
        """
        parts: dict[str, Any] = {"agent": self._parts["agent"]}
        for name in ("algo", "sampler"):
            part = self._parts[name]
            given = part.get("kwargs", {}).items()
            described = {k: v for k, v in given if "$missing" not in json.dumps(v)}
            if name == "sampler":
                kept = (*ENV_ARGUMENTS, "batch_T", "batch_B")
                described = {k: v for k, v in described.items() if k in kept}
            parts[name] = {"$call": part.get("$call", "?"), "kwargs": described}
        parts |= {key: self._parts[key] for key in ("n_steps", "seed") if key in self._parts}
        runner = {"$call": self._runner.get("$call", "?"), "kwargs": parts}
        return {"format": 1, "logging": {}, "runner": runner}

    def agent(self) -> Any:
        """Return the agent, as constructed.

        Raises:
            ValueError: the agent has no description.
        """
        if self._given.get("agent") is not None:
            return self._given["agent"]
        with self._asking_for(self._to_load("agent")):
            return rebuild(self._parts["agent"], self._find, "agent")

    @contextlib.contextmanager
    def _asking_for(self, remedy: str) -> Iterator[None]:
        """Add to errors about parts without description how to give them."""
        try:
            yield
        except NotDescribed as error:
            raise ValueError(f"{error} {remedy}") from None

    def _to_load(self, setting: str) -> str:
        return f"Give it again: rlpyt.load({str(self.run_dir)!r}, {setting}=...)."

    def named(self) -> dict[str, Any]:
        """Return the run's ID and name.

        Raises:
            DamagedFile: params.json is damaged.
        """
        params = read_json(self.run_dir / "params.json", "the settings of a run", NAMED)
        return {"run_ID": params["run_ID"], "name": params["name"]}

    def runner(self, n_steps: int, hooks: Sequence[Any] = ()) -> Any:
        """Return the runner, not started; see `resume`."""
        resumed = f"{_class(self._runner['$call'])}(..., resume_from={str(self.checkpoints)!r})"
        with self._asking_for(
            f"Resume the run in its script: {resumed} in logger_context(..., resume=True)."
        ):
            parts = {key: rebuild(value, self._find, key) for key, value in self._parts.items()}
        parts |= {"n_steps": n_steps, "resume_from": None}
        parts["hooks"] = [*hooks, *(parts.get("hooks") or ())]
        return self._find(self._runner["$call"])(**parts)

    def resume(self, n_steps: int, hooks: Sequence[Any] = ()) -> None:
        """Resume training from the latest checkpoint.

        Args:
            n_steps: environment steps of the complete run.
            hooks: hooks of the runner, besides its own.

        Raises:
            ValueError: a part has no description; the message names it.
            CheckpointError: there is no valid checkpoint.
        """
        runner = self.runner(n_steps, [*hooks, _NewSteps(self.path, n_steps)])
        runner.resume_from = str(self.checkpoints)
        prepare_resumed(runner.agent, self.checkpoints)
        with logger.session():
            logger.set_console(False)  # hooks show progress
            with run_context(self.run_dir, **self.named(), **self.logging, resume=True):
                runner.train()


class _NewSteps(Hook):
    """Hook that writes the number of steps of a resumed run after all checks have passed."""

    def __init__(self, path: Path, n_steps: int) -> None:
        self.path, self.n_steps = path, n_steps

    def on_start(self, runner: Any) -> None:
        """Write the number of steps into parts.json, which stays signed if it was."""
        parts = read_json(self.path, "the description of a run", SCHEMA)
        if parts["runner"]["kwargs"]["n_steps"] == self.n_steps or not runner.has_something_left:
            return
        was_signed = is_signed(parts)
        parts["runner"]["kwargs"]["n_steps"] = self.n_steps
        parts = signed(parts) if was_signed else parts
        write_text(self.path, json.dumps(parts, indent=2) + "\n")


def exists(run_dir: Path) -> bool:
    """Return True if the directory contains the run of a script."""
    return (run_dir / PARTS_FILE).is_file()


def check_import(module: str) -> None:
    """Check that importing a script would not train.

    Raises:
        ValueError: its main program trains and has no guard.
    """
    find_in_working_directory()
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return  # the import raises a more precise error
    if spec is None or not spec.has_location or origin(module) != "user":
        return
    source = Path(str(spec.origin)).read_text(encoding="utf-8")
    for statement in ast.parse(source).body:
        guarded = isinstance(statement, ast.If | ast.FunctionDef | ast.ClassDef)
        calls = [] if guarded else [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        if any(getattr(call.func, "attr", "") == "train" for call in calls):
            raise ValueError(
                f"{spec.origin} trains when it is imported (line {statement.lineno}). Put its main "
                "program in a block `if __name__ == '__main__':`."
            )


def _class(name: str) -> str:
    return name.rpartition(":")[2]


def _first(kwargs: Any) -> dict[str, Any]:
    """Return the arguments of the first environment."""
    return dict((kwargs[0] if isinstance(kwargs, list) else kwargs) or {})
