"""rlpyt's names for action servers beside the optimizer; they are no different there."""

from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)


class AsyncActionServer(ActionServer):
    """Serves one host's workers; several hosts, one per GPU, have one each."""


class AsyncAlternatingActionServer(AlternatingActionServer):
    """Two groups of workers, one stepping while the other is answered."""


class AsyncNoOverlapAlternatingActionServer(NoOverlapAlternatingActionServer):
    """Two groups of workers that never step at the same time."""
