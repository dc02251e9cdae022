"""Categorical DQN, "C51" (Bellemare et al. 2017): distributions of returns over fixed atoms.

With double_dqn, prioritized_replay, n_step_return=3 and an agent whose model is dueling and noisy,
this is Rainbow (Hessel et al. 2018).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from rlpyt.algos.arguments import own_fields_first
from rlpyt.algos.diagnostics import only_valid
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import categorical_loss, greedy_row, project_onto_atoms
from rlpyt.utils.checks import check_range, fixed
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.tensor import select_at_indexes

EPS = 1e-6  # smallest probability in priorities


@own_fields_first
@dataclass(eq=False)
class CategoricalDQN(DQN):
    """DQN that learns distributions of returns over the agent's ``n_atoms`` atoms."""

    V_min: float = fixed(-10, finite=True, doc="value of the first atom, the lowest return")
    V_max: float = fixed(10, finite=True, doc="value of the last atom, the highest return")

    requires: ClassVar[str] = "probabilities of atoms"
    takes_munchausen: ClassVar[bool] = False
    ready_agents: ClassVar[str] = "CatDqnMlpAgent or AtariCatDqnAgent"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.warn_of_unused(("delta_clip",), "the loss is a cross entropy")
        check_range("V_max", self.V_max, self.V_min, open_low=True, finite=True)

    def _set_schedules(self) -> None:
        super()._set_schedules()
        self.agent.give_V_min_max(self.V_min, self.V_max)

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the cross entropy between the projected target distribution and the prediction.

            L = E[-w sum_i (Phi (R + g Z'(s', a*)))_i log p_i(s, a)]

        Arguments and results are those of `DQN.loss`, with KL divergences in place of TD errors.
        """
        steps = self.replayed(samples)
        p = select_at_indexes(steps.action, steps.now(self.agent))
        with torch.no_grad():
            z = torch.linspace(
                self.V_min, self.V_max, self.agent.n_atoms, dtype=p.dtype, device=p.device
            )
            target_p = steps.next(self.agent.target)
            selecting_p = steps.next.shared(self.agent) if self.double_dqn else target_p
            next_p = greedy_row(target_p, selecting_p @ z, steps.next_mask)
            projected = project_onto_atoms(next_p, steps.return_, steps.discount_n, z)
        self.record(q=only_valid(p.detach() @ z, steps.valid))
        losses, kl = categorical_loss(p, projected, EPS)
        return self.weighted_mean(losses, samples, steps.valid), only_valid(kl, steps.valid)
