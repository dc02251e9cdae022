"""The way to a Ray cluster: ray is imported here, and only when somebody goes there."""

import contextlib
import importlib
import math
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from rlpyt.utils.processes import available_cpus


def import_ray() -> Any:
    """The library.

    Raises:
        ImportError: it is not installed; the message says how to.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(f"RaySampler needs ray ({error}): pip install 'rlpyt[ray]'.") from error


class Cluster:
    """A connection to a Ray cluster; what was there before is left as it was.

    Args:
        address: of a cluster; ``None``: the connection that this program has, or what
            ``RAY_ADDRESS`` says, or a cluster on this machine, started for the purpose.
        settings: further arguments of ``ray.init``, if there is no connection yet.
        cpus: a cluster on this machine is started with at least so many (``num_cpus``).

    Raises:
        ImportError: ray is not installed.
        ConnectionError: nothing answers at the address.
    """

    def __init__(self, address: str | None, settings: dict[str, Any], cpus: float) -> None:
        with _signals_kept():  # ray has handlers of its own
            self.ray = import_ray()
            self._ours = not self.ray.is_initialized()
            if self._ours:
                address = address or os.environ.get("RAY_ADDRESS") or "local"
                if address == "local":
                    enough = max(len(available_cpus()), math.ceil(cpus))
                    settings = {"include_dashboard": False, "num_cpus": enough, **settings}
                self.ray.init(address=address, **settings)
        have = self.ray.cluster_resources().get("CPU", 0)
        if have < cpus:
            warnings.warn(
                f"the actors ask for {cpus:g} CPUs, and the Ray cluster has {have:g}; unless it "
                "grows, some will never start. Take fewer actors, or a smaller num_cpus in "
                "actor_options."
            )

    def close(self) -> None:
        """Disconnect, and end a cluster that was started here; can be called again."""
        if self._ours:
            self._ours = False
            self.ray.shutdown()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Whoever handles signals of this process goes on doing so."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None:  # one that was not set from Python
                    signal.signal(number, handler)
