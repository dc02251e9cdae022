"""Base class of all runners."""


class BaseRunner:
    """Runs a whole training; constructed with all parts, started by ``train``."""

    def train(self) -> None:
        """Run from start to end."""
        raise NotImplementedError(f"{type(self).__name__} must implement train.")
