"""Resolve ids of registered Gymnasium environments.

Outdated ids (``Hopper-v3``, ``Pendulum-v0``, ``PongNoFrameskip-v4``) resolve to the current
version of the same environment, with a warning.
"""

import multiprocessing
import re
import warnings
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from rlpyt.utils import processes
from rlpyt.utils.extras import install_command, missing_extra
from rlpyt.utils.names import nearest

_VERSIONED = re.compile(r"(?P<name>.+)-v(?P<version>\d+)")
_OLD_ATARI = re.compile(
    r"(?P<game>[A-Za-z]+?)(?P<ram>-ram)?(?P<frames>NoFrameskip|Deterministic)?-v(?P<version>[04])"
)
_FRAMESKIP = {None: (2, 5), "NoFrameskip": 1, "Deterministic": 4}
_STICKY = {"0": 0.25, "4": 0.0}
_EXTRAS = {"ale_py": "atari", "minatar": "minatar", "envs.mujoco": "mujoco"}  # of entry points
_PACKAGES = {  # part of an entry point or namespace -> package to install
    "box2d": "gymnasium[box2d]",
    "toy_text": "gymnasium[toy-text]",
    "phys2d": "gymnasium[jax]",
    "tabular": "gymnasium[jax]",
    "shimmy": "shimmy",
}
_shown: set[str] = set()  # warnings of MuJoCo


def make_registered(env_id: str | EnvSpec, *args: Any, **kwargs: Any) -> Any:
    """Make a Gymnasium environment from an id (or spec), as ``gymnasium.make`` does.

    Raises:
        ValueError: no environment has this id; the message lists the nearest ones.
        ImportError: the environment's package is not installed; the message says which.
    """
    kwargs.setdefault("disable_env_checker", True)  # slower than the environment itself
    if not isinstance(env_id, str) or ":" in env_id:  # a spec, or "module:id"
        return gymnasium.make(env_id, *args, **kwargs)
    current, settings = current_id(env_id)
    entry_point = str(gymnasium.registry[current].entry_point)
    try:
        if "envs.mujoco" in entry_point:
            _redirect_mujoco_warnings()
        return gymnasium.make(current, *args, **{**settings, **kwargs})
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise ImportError(
            f"environment '{current}' could not be created: {error}. {_remedy(entry_point)}"
        ) from error


def _redirect_mujoco_warnings() -> None:
    """Issue MuJoCo's warnings as Python warnings, once each and in the main process only.

    Workers compile the same models and would repeat them. A handler set by the user is kept.
    """
    import mujoco

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn_of_mujoco)


def _warn_of_mujoco(text: str) -> None:
    # Python shows a repeated warning again after any change of its filters. Deprecated attributes,
    # which the models of Gymnasium have, concern who writes a model, not who trains with it.
    shown = "deprecated" in text or text in _shown
    if multiprocessing.parent_process() is None and not shown:
        _shown.add(text)
        warnings.warn(f"MuJoCo: {text}")


def current_id(env_id: str) -> tuple[str, dict[str, Any]]:
    """Return the registered id for ``env_id``, and settings that preserve its meaning.

    Raises:
        ValueError: no environment has this id.
        ImportError: the id is a game of Atari or MinAtar, and its package is not installed.
    """
    if env_id.startswith("ALE/") and not _register_atari():
        raise missing_extra(env_id, "atari", "ale_py")
    if env_id.startswith("MinAtar/") and not _register_minatar():
        raise missing_extra(env_id, "minatar", "minatar")
    if _runs_as_registered(env_id):
        return env_id, {}
    current, settings = _from_old_atari(env_id) or (_newest_version(env_id), {})
    if current is None:
        raise ValueError(_unknown_id_message(env_id))
    with_settings = f" with {settings}" if settings else ""
    warnings.warn(
        f"'{env_id}' is no longer available: running '{current}'{with_settings}; results may "
        "differ from those published for the old version.",
        stacklevel=4,
    )
    return current, settings


def _runs_as_registered(env_id: str) -> bool:
    """Return True if the id is registered, and not only as a stub that reports its removal."""
    if env_id not in gymnasium.registry:
        return False
    spec = gymnasium.registry[env_id]
    entry_point, version = str(spec.entry_point), spec.version or 0
    removed_mujoco = "mujoco" in entry_point and version < 4
    old_atari = entry_point.startswith("ale_py") and spec.namespace is None
    return not (removed_mujoco or old_atari)


def _register_atari() -> bool:
    try:
        import ale_py  # noqa: F401 - which registers them
    except ImportError:
        return False
    return True


def _register_minatar() -> bool:
    try:
        import minatar.gym
    except ImportError:
        return False
    if "MinAtar/Breakout-v1" not in gymnasium.registry:
        minatar.gym.register_envs()
    return True


def _remedy(entry_point: str) -> str:
    """Return the command that installs the package of an environment, as a sentence."""
    commands = {part: install_command(extra) for part, extra in _EXTRAS.items()}
    commands |= {part: f"pip install '{package}'" for part, package in _PACKAGES.items()}
    found = (f"Run: {command}" for part, command in commands.items() if part in entry_point)
    return next(found, "Install its package.")


def _from_old_atari(env_id: str) -> tuple[str, dict[str, Any]] | None:
    match = _OLD_ATARI.fullmatch(env_id)
    if match is None:
        return None
    if not _register_atari():
        if match["frames"]:
            raise missing_extra(env_id, "atari", "ale_py")
        return None
    current = f"ALE/{match['game']}-v5"
    settings: dict[str, Any] = {
        "frameskip": _FRAMESKIP[match["frames"]],
        "repeat_action_probability": _STICKY[match["version"]],
    }
    if match["ram"]:
        settings["obs_type"] = "ram"
    return (current, settings) if current in gymnasium.registry else None


def _newest_version(env_id: str) -> str | None:
    """Return the id of the same name with the highest registered version, if higher."""
    match = _VERSIONED.fullmatch(env_id)
    if match is None:
        return None
    registered = (m for m in map(_VERSIONED.fullmatch, gymnasium.registry) if m)
    versions = [int(m["version"]) for m in registered if m["name"] == match["name"]]
    newest = max(versions, default=-1)
    return f"{match['name']}-v{newest}" if newest > int(match["version"]) else None


def _unknown_id_message(env_id: str) -> str:
    _register_atari()
    # Of ids with the same name, keep the one without namespace, in its newest version.
    ids = sorted(gymnasium.registry, key=lambda known: ("/" not in known, known))
    by_name = {_bare_name(known): known for known in ids}
    names = nearest(_bare_name(env_id), by_name, cutoff=0.6)
    close = ", ".join(f"'{by_name[name]}'" for name in names) or "none"
    if processes.is_child:
        in_module = f"module:{env_id}"
        return (
            f"no environment is registered as {env_id!r} in this worker process; nearest: {close}. "
            "Workers do not run the script, so what it registers (also under `if __name__ == "
            "'__main__'`) is unknown to them. Register it in a module and give "
            f"{in_module!r}, or give the class or a function that makes it instead of the id."
        )
    return (
        f"no environment is registered as {env_id!r}; nearest: {close}. Atari (ALE/Pong-v5, or "
        "pong) and MinAtar (MinAtar/Breakout-v1) need an extra: "
        f"{install_command('atari', 'minatar')}. For a custom environment, import its package or "
        "call gymnasium.register first."
    )


def _bare_name(env_id: str) -> str:
    return env_id.rpartition("/")[2].lower()
