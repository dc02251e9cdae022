"""TD3's agent: several critics, and noise on the target policy's actions."""

from typing import Any, Literal

from rlpyt.agents.qpg.base import check_std, wide_std
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.distributions.gaussian import DistInfo, Gaussian
from rlpyt.models.ensemble import join_members
from rlpyt.utils.checks import check_range, whole_number


class Td3Agent(DdpgAgent):
    """DDPG's agent with several critics and smoothed targets (Fujimoto et al. 2018).

    Args:
        pretrain_std: "uniform": uniformly random actions before learning starts, as in the paper;
            a number: actions of the initial policy with noise of this standard deviation, in units
            where the action space is [-1, 1].
        target_noise_std: standard deviation of the noise on the target policy's actions.
        target_noise_clip: maximum absolute target noise; ``None``: no limit.
        initial_q2_model_state_dict: initial parameters of the second critic.
        n_critics: E, number of critics.
        **kwargs: arguments of `DdpgAgent`.
    """

    provides = "a deterministic policy and several critics"

    def __init__(
        self,
        pretrain_std: float | Literal["uniform"] = "uniform",
        target_noise_std: float = 0.2,
        target_noise_clip: float | None = 0.5,
        initial_q2_model_state_dict: dict[str, Any] | None = None,
        n_critics: int = 2,
        **kwargs: Any,
    ) -> None:
        n_critics = whole_number("n_critics", n_critics, 1)
        if pretrain_std is None:
            raise ValueError(
                'pretrain_std must be a number or "uniform" for TD3, got None, which is for '
                "policies with a learned standard deviation, such as SAC's."
            )
        super().__init__(n_critics=n_critics, **kwargs)
        self.pretrain_std = pretrain_std
        wide_std(pretrain_std)  # raises ValueError
        if target_noise_clip is not None:
            check_range("target_noise_clip", target_noise_clip, 0, open_low=True)
        self.target_noise = (check_std("target_noise_std", target_noise_std), target_noise_clip)
        self.initial_q2_model_state_dict = initial_q2_model_state_dict

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Build policy, critics, targets and the noise on target actions."""
        super().initialize(*args, **kwargs)
        self.target_distribution = Gaussian(self.scale.size, std=0, clip=1)
        self.set_target_noise(*self.target_noise)

    def set_target_noise(self, std: float, noise_clip: float | None = None) -> None:
        """Set standard deviation and limit of the noise on the target policy's actions."""
        self.target_distribution.set_std(std)
        self.target_distribution.set_noise_clip(noise_clip)

    def _load_initial_critics(self) -> None:
        states = [self.initial_q_model_state_dict, self.initial_q2_model_state_dict]
        if states == [None, None]:
            return
        if None in states or self.n_critics != len(states):
            raise ValueError(
                "initial_q_model_state_dict and initial_q2_model_state_dict are the states of two "
                f"critics: give both, with n_critics=2, got n_critics={self.n_critics}."
            )
        join_members(self.q_model, states)  # type: ignore[arg-type]

    def _target_action(self, *inputs: Any) -> Any:
        return self.target_distribution.sample(DistInfo(self.target_model(*inputs)))
