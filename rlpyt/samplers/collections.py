"""Record types of a sampler's batch."""

from rlpyt.envs.base import BatchSpec
from rlpyt.envs.traj_info import TrajInfo
from rlpyt.utils.collections import namedarraytuple

__all__ = [
    "AgentSamples",
    "AgentSamplesBsv",
    "AgentSamplesTlv",
    "BatchSpec",
    "EnvSamples",
    "EnvSamplesFinal",
    "Samples",
    "TrajInfo",
]

Samples = namedarraytuple("Samples", ["agent", "env"])

AgentSamples = namedarraytuple("AgentSamples", ["action", "prev_action", "agent_info"])
AgentSamplesBsv = namedarraytuple(
    "AgentSamplesBsv", ["action", "prev_action", "agent_info", "bootstrap_value"]
)
# Recorded for algorithms that bootstrap. ``bootstrap_value`` [1, B] is the value of the observation
# after the batch; ``timeout_value`` [T, B] is the value of the true final observation where step t
# was the last of a truncated episode, and zero elsewhere.
AgentSamplesTlv = namedarraytuple(
    "AgentSamplesTlv",
    ["action", "prev_action", "agent_info", "bootstrap_value", "timeout_value"],
)
EnvSamples = namedarraytuple(
    "EnvSamples", ["observation", "reward", "prev_reward", "done", "env_info"]
)


# Required by algorithms with replay: ``final_observation`` [T, B, ...] is the true final
# observation where step t was the last of a truncated episode (``env_info.timeout``). In the other
# rows it is the observation after the batch, with which the next one begins, for t = T - 1, and
# undefined before.
EnvSamplesFinal = namedarraytuple("EnvSamplesFinal", [*EnvSamples._fields, "final_observation"])
