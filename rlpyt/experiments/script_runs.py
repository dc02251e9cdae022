"""Runs of scripts, rebuilt from the descriptions of their parts in ``parts.json``.

A run directory may name code, so it is as trusted as a script.
"""

import ast
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlpyt.envs.gym import make as make_gym
from rlpyt.experiments import rundir
from rlpyt.experiments.build import EnvRecipe
from rlpyt.experiments.registry import (
    check_env_maker,
    find_in_working_directory,
    import_named,
    origin,
)
from rlpyt.runners.runner import PARTS_FILE
from rlpyt.samplers.collections import TrajInfo
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.recorded import main_name, rebuild

# Arguments of samplers that say how environments are made.
ENV_ARGUMENTS = ("EnvCls", "env_kwargs", "eval_env_kwargs", "TrajInfoCls")


def find(name: str) -> Any:
    """Return a class or function by its name "module:name".

    Raises:
        ModuleNotFoundError: the module does not exist.
        ValueError: it has no such name, or it may not be named in a file.
    """
    module = name.partition(":")[0]
    if module not in sys.modules and module != main_name():
        check_import(module)
    found = import_named(name, "part")
    top = module.partition(".")[0]
    if top not in ("rlpyt", "torch", "gymnasium") and origin(module) != "user":
        raise ValueError(
            f"{name} must be a part of rlpyt, torch, gymnasium or of a custom module, not of an "
            "installed package. Wrap it in a function of your module."
        )
    if not isinstance(found, type) and (top == "torch" or not inspect.isfunction(found)):
        raise ValueError(f"{name} must be a class{'' if top == 'torch' else ' or function'}.")
    defined = found.__module__.partition(".")[0]
    if defined != top and origin(defined) != "user":  # a module that it imports
        raise ValueError(f"{name} must be defined in {top}, but is a part of {found.__module__}.")
    return found


class ScriptRun:
    """Descriptions of the parts of a run, from which they are built again.

    Args:
        run_dir: directory with ``parts.json``.
        find: returns the class or function of a name "module:name".

    Raises:
        ValueError: the file is damaged.
    """

    def __init__(self, run_dir: Path, find: Callable[[str], Any] = find) -> None:
        self.run_dir, path = run_dir, run_dir / PARTS_FILE
        self._find = find
        try:
            parts = json.loads(path.read_text(encoding="utf-8"))
            self.logging: dict[str, Any] = parts["logging"]
            self._runner: dict[str, Any] = parts["runner"]
            self._parts: dict[str, Any] = parts["runner"]["kwargs"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} does not describe a run: {error!r}.") from error

    @property
    def n_steps(self) -> int:
        """Environment steps of the run."""
        return int(self._parts["n_steps"])

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return Path(self._parts.get("checkpoint_dir") or self.run_dir / rundir.CHECKPOINTS)

    @property
    def name(self) -> str:
        """Algorithm and environment, such as "PPO on CartPole-v1"."""
        sampler = self._parts["sampler"].get("kwargs", {})
        env = sampler.get("env_kwargs", {})
        known = env.get("id") or env.get("game") if isinstance(env, dict) else None
        algo, maker = self._parts["algo"].get("$call", "?"), sampler.get("EnvCls", {})
        return f"{_class(algo)} on {known or _class(maker.get('$name', '?'))}"

    def recipe(self) -> EnvRecipe:
        """Return the recipe of the environments.

        Raises:
            ValueError: the sampler's arguments have no description, or name no environment.
        """
        given = self._parts["sampler"].get("kwargs", {})
        found = {
            key: rebuild(given.get(key), self._find, f"sampler.{key}") for key in ENV_ARGUMENTS
        }
        maker, kwargs = found["EnvCls"], _first(found["env_kwargs"])
        check_env_maker("EnvCls", maker)
        can_render = maker is make_gym or "render_mode" in inspect.signature(maker).parameters
        return EnvRecipe(
            maker,
            kwargs,
            _first(found["eval_env_kwargs"]) or kwargs,
            {"render_mode": "rgb_array"} if can_render else {},
            found["TrajInfoCls"] or TrajInfo,
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
        """Return the agent, as constructed."""
        return rebuild(self._parts["agent"], self._find, "agent")

    def resume(self, n_steps: int, hooks: Sequence[Any] = ()) -> None:
        """Resume training from the latest checkpoint.

        Args:
            n_steps: environment steps of the complete run.
            hooks: hooks of the runner, besides its own.

        Raises:
            ValueError: a part has no description; the message names it.
            CheckpointError: there is no valid checkpoint.
        """
        parts = {key: rebuild(value, self._find, key) for key, value in self._parts.items()}
        parts |= {"n_steps": n_steps, "resume_from": self.checkpoints}
        parts["hooks"] = [*hooks, *(parts.get("hooks") or ())]
        runner = self._find(self._runner["$call"])(**parts)
        params = json.loads((self.run_dir / "params.json").read_text(encoding="utf-8"))
        named = {"run_ID": params["run_ID"], "name": params["name"]}
        with logger.session():
            logger.set_console(False)  # hooks show progress
            with run_context(self.run_dir, **named, **self.logging, resume=True):
                runner.train()


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
