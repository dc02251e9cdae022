"""Action servers of asynchronous runs: other names of the synchronous ones."""

from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
)


class AsyncActionServer(ActionServer):
    """Action server for the workers of one sampler process."""


class AsyncAlternatingActionServer(AlternatingActionServer):
    """Action server for two groups of workers: one steps while the agent acts for the other."""


class AsyncNoOverlapAlternatingActionServer(NoOverlapAlternatingActionServer):
    """Action server for two groups of workers that never step at the same time."""
