"""Twin delayed deep deterministic policy gradient, TD3 (Fujimoto et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from rlpyt.algos.arguments import own_fields_first
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.utils.checks import Scheduled, rate, scheduled, setting


@own_fields_first
@dataclass(eq=False)
class TD3(DDPG):
    """DDPG with the minimum of two critics in the target, and delayed policy updates.

    The agent smooths the target policy by adding noise to its actions.
    """

    batch_size: int = setting(100, ge=1, doc="transitions per update; 100-256")
    replay_ratio: float = setting(100, gt=0, le=1e6, doc="samples trained on per sample collected")
    target_update_tau: float = setting(0.005, gt=0, le=1, doc="weight of new parameters in targets")
    target_update_interval: int = setting(2, ge=1, doc="updates between target updates")
    policy_update_interval: int = setting(2, ge=1, doc="critic updates per policy update")
    mu_learning_rate: Scheduled[float | None] = scheduled(
        None, gt=0, le=100, warn_above=1, fixed=True, doc="same as learning_rate"
    )
    q_learning_rate: Scheduled[float] = rate(1e-3, doc="learning rate of the critics; 1e-3")
    learning_rate: Scheduled[float] = rate(1e-3, doc="learning rate of the policy; 3e-4 to 1e-3")

    requires: ClassVar[str] = "a deterministic policy and several critics"
    ready_agents: ClassVar[str] = "Td3Agent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu_learning_rate is not None:
            self._take_mu_learning_rate()

    def _take_mu_learning_rate(self) -> None:
        """Use ``mu_learning_rate`` as ``learning_rate``; raise ValueError if both are set."""
        if self.learning_rate not in (type(self).learning_rate, self.mu_learning_rate):
            raise ValueError(
                f"learning_rate={self.learning_rate} and mu_learning_rate={self.mu_learning_rate} "
                "are two names of one setting, that of the policy. Set only learning_rate (it "
                "overrides a preset's)."
            )
        value = self.schedules.pop("mu_learning_rate", self.mu_learning_rate)  # type: ignore[attr-defined]
        self.learning_rate = value
