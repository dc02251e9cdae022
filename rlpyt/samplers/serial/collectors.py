"""Evaluation collector of the serial sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rlpyt.samplers.evaluation import EvalCollector

if TYPE_CHECKING:
    from rlpyt.samplers.collections import TrajInfo
    from rlpyt.samplers.tiles import ActingAgent


class SerialEvalCollector(EvalCollector):
    """Evaluation in the master process.

    Args:
        envs: evaluation environments.
        agent: the agent.
        TrajInfoCls: function that makes an empty ``TrajInfo``.
        max_T: maximum number of time steps per environment.
        max_trajectories: maximum number of episodes, divided evenly among the environments.
    """

    def __init__(
        self,
        envs: Sequence[Any],
        agent: ActingAgent | None,
        TrajInfoCls: Callable[[], TrajInfo],
        max_T: int,
        max_trajectories: int | None = None,
    ) -> None:
        super().__init__(0, envs, TrajInfoCls, None, max_T, agent)
        self.max_trajectories = max_trajectories
