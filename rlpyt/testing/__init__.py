"""Conformance checks for custom parts.

Environments, agents, encoders, memories and distributions.
"""

from rlpyt.testing.agent import check_agent
from rlpyt.testing.distribution import check_distribution
from rlpyt.testing.encoder import check_encoder
from rlpyt.testing.env import check_env
from rlpyt.testing.memory import check_memory
from rlpyt.testing.report import ConformanceError, ConformanceWarning, Finding, Report

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
]
