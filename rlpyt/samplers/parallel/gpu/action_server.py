"""rlpyt's names for serving actions; ``samplers.serving`` is what serves, in groups or not."""

from rlpyt.samplers.serving import ActionServer

EVAL_TRAJ_CHECK = 20  # steps; rlpyt looked for finished evaluation episodes so often


class AlternatingActionServer(ActionServer):
    """Two groups of workers, one stepping while the other is answered."""


class NoOverlapAlternatingActionServer(ActionServer):
    """Two groups of workers that never step at the same time."""
