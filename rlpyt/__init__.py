"""rlpyt: deep reinforcement learning in PyTorch, with parallel sampling.

    import rlpyt

    run = rlpyt.train("ppo", "CartPole-v1", steps=100_000)
    print(run.evaluate())

Importing the package is cheap: the names in ``__init__.pyi`` are loaded when they are first used.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

from rlpyt.version import VERSION

__version__ = VERSION


def _modules() -> dict[str, str]:
    """Return the module of every public name, read from the stub file."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_modules(), "__version__"])
    module = "" if name.startswith("_") else _modules().get(name)
    if not module:
        raise AttributeError(f"module 'rlpyt' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_modules()])
