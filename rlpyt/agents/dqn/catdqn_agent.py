"""Categorical DQN: the return of each action as probabilities of fixed atoms."""

from typing import Any

import numpy as np
import torch

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["p"])  # [*lead, A, P] float32
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["p", "prev_rnn_state"])


class CatDqnAgent(DqnAgent):
    """Acts on the means of the model's return distributions [.., A, P].

    Args:
        n_atoms: P, also passed to the model; may be the first positional argument, as in rlpyt.
        *args, **kwargs: arguments of `DqnAgent`.
    """

    provides = "probabilities of atoms"
    AgentInfo, AgentInfoRnn = AgentInfo, AgentInfoRnn

    def __init__(self, *args: Any, n_atoms: int = 51, **kwargs: Any) -> None:
        if args and not callable(args[0]):
            n_atoms, *args = args  # type: ignore[assignment]
        super().__init__(*args, **kwargs)
        self.n_atoms = self.model_kwargs["n_atoms"] = whole_number("n_atoms", n_atoms, 2)
        self.settings["V_min_max"] = np.array([-1.0, 1.0])

    def make_distribution(self, n_actions: int) -> CategoricalEpsilonGreedy:
        """Return an epsilon-greedy distribution over the means."""
        return CategoricalEpsilonGreedy(dim=n_actions, z=self._atoms())

    def action_values(self, summary: Any) -> Any:
        """Return the means of the distributions."""
        return self.distribution.mean(summary)

    def give_V_min_max(self, V_min: float, V_max: float) -> None:
        """Set the values of the first and the last atom, in all processes."""
        self.settings["V_min_max"][:] = V_min, V_max
        self.distribution.set_z(self._atoms())

    def _atoms(self) -> torch.Tensor:
        low, high = self.settings["V_min_max"].tolist()
        return torch.linspace(low, high, self.n_atoms, dtype=torch.float32)

    def sample_mode(self, itr: int) -> None:
        """Sample with the algorithm's current atoms."""
        super().sample_mode(itr)
        self.distribution.set_z(self._atoms())

    def eval_mode(self, itr: int) -> None:
        """Evaluate with the algorithm's current atoms."""
        super().eval_mode(itr)
        self.distribution.set_z(self._atoms())
