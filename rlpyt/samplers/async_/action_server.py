"""Names of action servers in asynchronous runs; they are the synchronous ones."""

from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)


class AsyncActionServer(ActionServer):
    """Serves the workers of one sampler process."""


class AsyncAlternatingActionServer(AlternatingActionServer):
    """Two groups of workers, of which one steps while the agent acts for the other."""


class AsyncNoOverlapAlternatingActionServer(NoOverlapAlternatingActionServer):
    """Two groups of workers that never step at the same time."""
