"""Record types of a sampler's batch, and the statistics of a trajectory."""

from collections import namedtuple
from typing import Any

from rlpyt.utils.collections import AttrDict, namedarraytuple

Samples = namedarraytuple("Samples", ["agent", "env"])

AgentSamples = namedarraytuple("AgentSamples", ["action", "prev_action", "agent_info"])
AgentSamplesBsv = namedarraytuple(
    "AgentSamplesBsv", ["action", "prev_action", "agent_info", "bootstrap_value"]
)
# Written by rlpyt's collectors for algorithms that bootstrap. ``bootstrap_value`` [1, B] is the
# value of the observation after the batch; ``timeout_value`` [T, B] is the value of the true final
# observation where step t was the last of a truncated episode, and zero elsewhere.
AgentSamplesTlv = namedarraytuple(
    "AgentSamplesTlv",
    ["action", "prev_action", "agent_info", "bootstrap_value", "timeout_value"],
)
EnvSamples = namedarraytuple(
    "EnvSamples", ["observation", "reward", "prev_reward", "done", "env_info"]
)


# Required by algorithms with replay: ``final_observation`` [T, B, ...] is the true final
# observation where step t was the last of a truncated episode (``env_info.timeout``), and means
# nothing elsewhere.
EnvSamplesFinal = namedarraytuple("EnvSamplesFinal", [*EnvSamples._fields, "final_observation"])


class BatchSpec(namedtuple("BatchSpec", "T B")):
    """T: time steps in a batch; B: environments side by side."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Environment steps in one batch, T * B."""
        return int(self.T * self.B)


class TrajInfo(AttrDict):
    """Statistics of one trajectory; every public entry is logged.

    Subclass it and extend ``step`` to log more (and hide helpers behind a leading underscore). The
    stock class is computed from whole batches at once, with the same results; a subclass's
    ``step`` is called after every environment step.
    """

    _discount: float = 1.0  # set by the runner through ``traj_info_kwargs``

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # The order is that of the columns of progress.csv.
        self.Length, self.Return = 0, 0.0
        self.NonzeroRewards, self.DiscountedReturn = 0, 0.0

    def step(
        self,
        observation: Any,
        action: Any,
        reward: float,
        done: bool,
        agent_info: Any,
        env_info: Any,
    ) -> None:
        """Add one step to the sums; ``observation`` is the one that the action was chosen for."""
        t, r = self.Length, float(reward)
        self.DiscountedReturn += r * self._discount**t
        self.Return += r
        if r:
            self.NonzeroRewards += 1
        self.Length = t + 1

    def terminate(self, observation: Any) -> "TrajInfo":
        """Return what is logged of a trajectory that has ended with this final observation."""
        return self
