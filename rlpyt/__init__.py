"""rlpyt: deep reinforcement learning in PyTorch, with parallel sampling.

Importing the package is cheap: it loads neither torch nor an environment library. ``rlpyt.load``
fetches what it needs when it is called::

    import rlpyt
    run = rlpyt.load("data/ppo-CartPole-v1-20260101-120000")
    action = run.act(observation)
"""

from typing import TYPE_CHECKING, Any

from rlpyt.version import VERSION

if TYPE_CHECKING:
    from rlpyt.experiments.run import Run, load

__version__ = VERSION
__all__ = ["Run", "__version__", "load"]


def __getattr__(name: str) -> Any:
    if name in ("Run", "load"):
        from rlpyt.experiments import run

        return getattr(run, name)
    raise AttributeError(f"module 'rlpyt' has no attribute {name!r}")
