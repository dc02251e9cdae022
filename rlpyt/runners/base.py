"""Base class of all runners."""

from rlpyt.utils.recorded import Recorded


class BaseRunner(Recorded):
    """Interface of runners, which are constructed with all parts and started by ``train``."""

    def train(self) -> None:
        """Run from start to end."""
        raise NotImplementedError(f"{type(self).__name__} must implement train.")
