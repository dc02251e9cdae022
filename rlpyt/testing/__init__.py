"""Conformance checks for custom parts.

Environments, agents, encoders, memories, distributions, samplers and replays.
"""

from rlpyt.testing.agent import check_agent
from rlpyt.testing.distribution import check_distribution
from rlpyt.testing.encoder import check_encoder
from rlpyt.testing.env import check_env
from rlpyt.testing.memory import check_memory
from rlpyt.testing.replay import check_replay
from rlpyt.testing.report import ConformanceError, ConformanceWarning, Finding, Report
from rlpyt.testing.sampler import check_sampler

__all__ = [
    "ConformanceError",
    "ConformanceWarning",
    "Finding",
    "Report",
    "check_agent",
    "check_distribution",
    "check_encoder",
    "check_env",
    "check_memory",
    "check_replay",
    "check_sampler",
]
