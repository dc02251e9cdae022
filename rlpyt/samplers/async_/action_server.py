"""Action servers of asynchronous runs: other names of the synchronous ones."""

from rlpyt.samplers.parallel.gpu import action_server

AsyncActionServer = action_server.ActionServer
AsyncAlternatingActionServer = action_server.AlternatingActionServer
AsyncNoOverlapAlternatingActionServer = action_server.NoOverlapAlternatingActionServer
