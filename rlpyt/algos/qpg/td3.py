"""Twin delayed deep deterministic policy gradient, TD3 (Fujimoto et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from rlpyt.algos.arguments import own_fields_first
from rlpyt.algos.qpg.ddpg import DDPG


@own_fields_first
@dataclass(eq=False)
class TD3(DDPG):
    """DDPG with two critics, whose lesser value is the target, and a policy that moves less often.

    The target policy's actions are smoothed by noise (of the agent's).
    """

    batch_size: int = 100  # transitions per update; 100-256
    replay_ratio: float = 100  # samples trained on per one collected; batch_size: 1 update a step
    target_update_tau: float = 0.005  # share of the networks in the targets at each update
    target_update_interval: int = 2  # updates between those of the targets
    policy_update_interval: int = 2  # updates of the critics for one of the policy
    mu_learning_rate: float | None = None  # of the policy's optimizer; None: learning_rate
    q_learning_rate: float = 1e-3  # of the critics'
    learning_rate: float = 1e-3  # of the policy's optimizer; 3e-4 to 1e-3

    learns: ClassVar[str] = "a deterministic policy and several critics"
    ready_agents: ClassVar[str] = "Td3Agent"

    def __post_init__(self) -> None:
        if self.mu_learning_rate is not None:
            self._take_mu_learning_rate()
        super().__post_init__()

    def _take_mu_learning_rate(self) -> None:
        """Let it be the learning rate; ValueError if another one was given by that name."""
        if self.learning_rate not in (type(self).learning_rate, self.mu_learning_rate):
            raise ValueError(
                f"learning_rate={self.learning_rate} and mu_learning_rate={self.mu_learning_rate} "
                "are two names of one setting, the policy's; give learning_rate alone (it goes "
                "before a preset's)."
            )
        self.learning_rate = self.mu_learning_rate  # type: ignore[assignment]
        self.learning_rate_is = "mu_learning_rate"
