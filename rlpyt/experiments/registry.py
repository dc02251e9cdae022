"""Classes by name: algorithms, and custom classes and functions as "module:Class"."""

import functools
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import gymnasium

from rlpyt.utils.names import UnknownName
from rlpyt.utils.recorded import importable_name, main_name

ALGORITHMS = {
    "ppo": "rlpyt.algos.pg.ppo:PPO",
    "a2c": "rlpyt.algos.pg.a2c:A2C",
    "vtrace": "rlpyt.algos.pg.vtrace:VTrace",
    "impala": "rlpyt.algos.pg.vtrace:VTrace",
    "dqn": "rlpyt.algos.dqn.dqn:DQN",
    "catdqn": "rlpyt.algos.dqn.cat_dqn:CategoricalDQN",
    "rainbow": "rlpyt.algos.dqn.cat_dqn:CategoricalDQN",
    "qrdqn": "rlpyt.algos.dqn.qr_dqn:QRDQN",
    "iqn": "rlpyt.algos.dqn.qr_dqn:IQN",
    "pqn": "rlpyt.algos.dqn.pqn:PQN",
    "r2d1": "rlpyt.algos.dqn.r2d1:R2D1",
    "ddpg": "rlpyt.algos.qpg.ddpg:DDPG",
    "td3": "rlpyt.algos.qpg.td3:TD3",
    "sac": "rlpyt.algos.qpg.sac:SAC",
    **dict.fromkeys(("crossq", "xqc", "simba", "flashsac"), "rlpyt.algos.qpg.sac:SAC"),
    "sac_v": "rlpyt.algos.qpg.sac_v:SAC_V",
    "cmaes": "rlpyt.es.algo:CmaesAlgo",
    "cem": "rlpyt.es.algo:CemAlgo",
    "openai_es": "rlpyt.es.algo:OpenaiEsAlgo",
}
KEYS: dict[Any, str] = {path: key for key, path in reversed(ALGORITHMS.items())}
# Functions of installed packages that make environments, by defining module. Others are refused,
# since installed packages also contain functions that load pickles, run or install programs.
MAKERS = (
    *(f"gymnasium.envs.registration:{name}" for name in ("make", "make_vec")),
    *(f"envpool.registration:{name}" for name in ("make", "make_gym", "make_gymnasium")),
    *(f"rlpyt.envs.vector.make:{name}" for name in ("make_vec", "make_atari_vec", "make_envpool")),
    *("rlpyt.experiments.api:make", "rlpyt.envs.gym:make", "gym.envs.registration:make"),
)


def algorithm_named(algo: Any) -> Any:
    """Return the name of an algorithm, which may be given in any case, or as a class.

    Returns:
        A key of ``ALGORITHMS``; "module:Class"; or the class if it has no name.
    """
    if isinstance(algo, str):
        key = algo.lower().replace("-", "_")
        return key if key in ALGORITHMS else algo
    name = importable_name(algo)
    return KEYS.get(name, name or algo)


def algorithm_class(name: Any) -> Any:
    """Return the class of an algorithm, given as in `algorithm_named`.

    Raises:
        UnknownName: the algorithm is unknown.
        ValueError: the module has no such class, or it is not an algorithm.
        ModuleNotFoundError: the module does not exist.
    """
    key = algorithm_named(name)
    if not isinstance(key, str) or ":" in key:
        return class_named(key, "algorithm", ("initialize", "optimize_agent"))
    if key not in ALGORITHMS:
        raise UnknownName("algorithm", key, ALGORITHMS)
    return resolve_name(ALGORITHMS[key])


def base_algorithm(name: Any) -> str:
    """Return the key of ``ALGORITHMS`` from which a custom algorithm derives; "" if from none."""
    key = algorithm_named(name)
    if isinstance(key, str) and ":" not in key:
        return key
    parents = (f"{cls.__module__}:{cls.__qualname__}" for cls in algorithm_class(key).__mro__)
    return next((KEYS[parent] for parent in parents if parent in KEYS), "")


def import_named(name: str, kind: str) -> Any:
    """Return the class or function "module:name", also of a module in the current directory.

    Args:
        name: "module:name".
        kind: word for it in errors, such as "algorithm".

    Raises:
        ModuleNotFoundError: the module does not exist.
        ValueError: it has no such name.
    """
    module, colon, attributes = name.partition(":")
    if not colon:
        raise ValueError(f"{kind}={name!r} must be module:name.")
    found = _part(_module(name, kind), attributes)
    if found is None:
        raise ValueError(f"{module} has no '{attributes}'.")
    return found


def _part(module: ModuleType, attributes: str) -> Any:
    """Return "name" or "Class.name" of a module, or ``None``."""
    found: Any = module
    for attribute in attributes.split("."):
        found = getattr(found, attribute, None)
    return found


def class_named(name: Any, kind: str, methods: Sequence[str]) -> Any:
    """Return the class "module:Class".

    Args:
        name: the module may be in the current directory; or the class itself.
        kind: word for the class in errors, such as "algorithm".
        methods: methods that the class must have.

    Raises:
        ModuleNotFoundError: the module does not exist.
        ValueError: it has no such class.
    """
    found = import_named(name, kind) if isinstance(name, str) else name
    if not isinstance(found, type) or not all(hasattr(found, method) for method in methods):
        hint = " Give the class, and its arguments as settings (of an agent: args, model_cls)."
        raise ValueError(
            f"{kind}={name!r} must name a class with {' and '.join(methods)}, got {found!r:.80}."
            f"{'' if isinstance(name, str | type) else hint}"
        )
    return found


def env_maker(env_id: Any) -> Any:
    """Return the class or function "module:name", or ``None`` for a gymnasium id.

    Classes, functions and other objects that return an environment when called are returned as they
    are.

    Raises:
        TypeError: `env_id` is an environment or something else that cannot be called.
        ModuleNotFoundError: the module does not exist.
        ValueError: the module has no such name, or it is neither an environment class nor a
            function that may return an environment.
    """
    if not isinstance(env_id, str):
        if not callable(env_id):
            raise TypeError(
                f"env must be a name, a class or a function that returns an environment, got "
                f"{env_id!r:.80}. Each worker makes its own environments."
            )
        return env_id
    module, colon, name = env_id.partition(":")
    if not colon:
        return None
    found = _part(_module(env_id, "env"), name)  # may register environments with gymnasium
    registered = any(known == name or known.startswith(f"{name}-v") for known in gymnasium.registry)
    if found is None and not registered:
        raise ValueError(
            f"{module} has no '{name}'. Give module:Class, module:function, or an id that the "
            "module registers with gymnasium."
        )
    if found is not None:
        check_env_maker(env_id, found)
    return found


def check_env_maker(env_id: str, found: Any) -> None:
    """Check that an object is an environment class, or a function that may return an environment.

    Raises:
        ValueError: `found` is neither.
    """
    if not callable(found):
        raise ValueError(_not_a_maker(env_id, f"a {type(found).__name__}"))
    function = found
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    custom = origin(module) == "user"
    if isinstance(function, type):
        delegates = custom and hasattr(function, "__getattr__")  # as a wrapper does
        if not delegates and not all(hasattr(function, name) for name in ("reset", "step")):
            raise ValueError(_not_a_maker(env_id, "a class without reset and step"))
    elif not custom and f"{module}:{getattr(function, '__name__', '')}" not in MAKERS:
        raise ValueError(_not_a_maker(env_id, f"{function!r:.80} of the module {module}"))


def _not_a_maker(env_id: str, got: str) -> str:
    return (
        f"env={env_id!r} must name an environment class, or a custom function that returns an "
        f"environment, got {got}. Call functions of installed packages in a function of your "
        "module, and give module:function."
    )


def _module(name: str, kind: str, of_file: bool = False) -> ModuleType:
    """Import the module of "module:name" or "file.py:name", also from the current directory.

    Raises:
        ModuleNotFoundError, FileNotFoundError: the module or file does not exist.
        ValueError: it is not the name of a module, or a module of Python's standard library, whose
            import may have effects.
    """
    module = name.partition(":")[0]
    if module.endswith(".py"):
        return _module_of_file(Path(module), name, kind)
    if module == main_name():
        return sys.modules["__main__"]
    if re.fullmatch(r"[\w-]+(\.[\w-]+)*", module) is None:
        raise ValueError(f"{kind}={name!r} must be module:name, with a dotted module name.")
    if module not in sys.modules:
        find_in_working_directory()
    if origin(module) == "standard":
        if kind == "env":
            raise ValueError(_not_a_maker(name, f"a part of the standard module {module}"))
        raise ValueError(f"{kind}={name!r} must not be a part of the standard module {module}.")
    if not of_file:
        _refuse_other_directory(module, name, kind)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            raise  # the user's module imports a missing module
        raise ModuleNotFoundError(
            f"No module named {error.name!r} for {kind}={name!r}. Put it in the current directory "
            f"({os.getcwd()}) or on PYTHONPATH, or install it.",
            name=error.name,
        ) from error


def _module_of_file(path: Path, name: str, kind: str) -> ModuleType:
    """Import the module in a file, of the package to which its directory belongs, if any.

    The directory becomes the first of the search path, so that worker processes find this module.
    """
    file = path.resolve()
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {path} for {kind}={name!r} in {os.getcwd()}.")
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file():
        root, parts = root.parent, [root.name, *parts]
    before = sys.path[:]
    sys.path[:] = [str(root), *(place for place in before if place != str(root))]
    module = ".".join(parts)
    standard = origin(module) == "standard"
    found = None if standard else _module(f"{module}:{name.partition(':')[2]}", kind, True)
    other = Path(getattr(found, "__file__", None) or "")
    if found is None or other.resolve() != file:
        sys.path[:] = before  # workers of other runs must not find this file
        which = "a part of Python" if standard else f"{other} here"
        raise ValueError(
            f"{kind}={name!r} has the module name {module}, which is {which}. Rename the file."
        )
    return found


def _refuse_other_directory(module: str, name: str, kind: str) -> None:
    """Raise a ValueError if a module in the current directory was imported from another one."""
    top = module.partition(".")[0]
    loaded = getattr(sys.modules.get(top), "__file__", None)
    here = importlib.machinery.PathFinder.find_spec(top, [os.getcwd()])
    if not loaded or here is None or not here.has_location or origin(top) != "user":
        return
    if Path(str(here.origin)).resolve() != Path(loaded).resolve():
        raise ValueError(
            f"{kind}={name!r} is in {here.origin}, but this process has imported {loaded} as "
            f"{top}. Rename one of them, or use another process."
        )


def find_in_working_directory() -> None:
    """Let modules in the current directory be imported."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def origin(module: str) -> str:
    """Return the origin of a module: "user", "installed", "standard" or "unknown" (not found).

    A user's file with the name of a standard module, such as ``test.py``, counts as "user".
    """
    top = module.partition(".")[0]
    if top in ("rlpyt", "__main__"):
        return "installed" if top == "rlpyt" else "user"
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # not a valid module name
        spec = None
    if spec is None:
        return "unknown"
    files = [spec.origin] if spec.has_location else [*(spec.submodule_search_locations or ())]
    paths = [Path(str(file)) for file in files]
    if any({"site-packages", "dist-packages"} & {*path.parts} for path in paths):
        return "installed"
    stdlib = sysconfig.get_path("stdlib")
    # Built-in and frozen modules have no paths.
    if not paths or any(path.is_relative_to(stdlib) for path in paths):
        return "standard"
    return "user"
