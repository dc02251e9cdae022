"""Base class of all runners."""

from rlpyt.utils.recorded import FixedWhileRunning


class BaseRunner(FixedWhileRunning):
    """Interface of runners: constructed with all parts, started by ``train``."""

    def train(self) -> None:
        """Train from start to end."""
        raise NotImplementedError(f"{type(self).__name__} must implement train.")
