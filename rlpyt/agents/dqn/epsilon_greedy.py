"""Epsilon-greedy exploration: annealing, one epsilon per environment, evaluation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.exploration import annealed, log_spaced
from rlpyt.utils.checks import check_range


class EpsilonGreedyAgentMixin(BaseAgent):
    """Mixin that sets the epsilon of an agent's distribution by mode, iteration and environment.

    Epsilon depends only on the iteration, so a resumed run has the right one. The start and end of
    annealing, which workers need, are in the agent's ``settings``.

    Args:
        eps_init: initial epsilon.
        eps_final: epsilon after annealing; with ``eps_final_min``, of the last environment only.
        eps_final_min: epsilon of the first environment after annealing; the others are evenly
            spaced in the logarithm, by global rank. ``None``: all have ``eps_final``.
        eps_itr_min, eps_itr_max: iterations between which epsilon decreases linearly; algorithms
            override them (``set_epsilon_itr_min_max``).
        eps_eval: epsilon in evaluation, except before training (iteration 0), where it is 1, and
            in deterministic evaluation, where it is 0.
        *args, **kwargs: arguments of the agent.

    Raises:
        ValueError: a number is out of range, or ``eps_final`` exceeds ``eps_init``.
    """

    changeable = ("eps_init", "eps_final", "eps_final_min", "eps_eval")
    eps_sample: Any  # current epsilon of sampling: a number, or an array over environments
    _global_B = 1
    _env_ranks: list[int] | None = None  # of this process's environments

    def __init__(
        self,
        eps_init: float = 1,
        eps_final: float = 0.01,
        eps_final_min: float | None = None,
        eps_itr_min: int = 50,
        eps_itr_max: int = 1000,
        eps_eval: float = 0.001,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        named = dict(eps_init=eps_init, eps_final=eps_final, eps_eval=eps_eval)
        for name, value in named.items():
            check_range(name, value, 0, 1)
        if eps_final > eps_init:
            raise ValueError(
                f"eps_final must not exceed eps_init={eps_init}, got {eps_final}: exploration "
                "must not grow."
            )
        if eps_final_min is not None:
            check_range("eps_final_min", eps_final_min, 0, eps_final, open_low=True)
        self.eps_final_min = eps_final_min
        self.eps_eval = eps_eval
        self.eps_init: Any = eps_init
        self.eps_final: Any = eps_final
        self.eps_sample = eps_init
        self.settings["eps_itr"] = np.zeros(2)
        self.set_epsilon_itr_min_max(eps_itr_min, eps_itr_max)
        self._epsilon_key: Any = None  # (group, n, rows) for which the distribution is set

    @property
    def eps_itr_min(self) -> float:
        """Return the iteration at which annealing starts."""
        return float(self.settings["eps_itr"][0])

    @property
    def eps_itr_max(self) -> float:
        """Return the iteration at which annealing ends."""
        return float(self.settings["eps_itr"][1])

    def set_epsilon_itr_min_max(self, eps_itr_min: float, eps_itr_max: float) -> None:
        """Set the iterations between which epsilon decreases, in all processes.

        If the end precedes the start, epsilon drops to its final value right after the end.

        Raises:
            ValueError: an iteration is negative or not a number.
        """
        if not (eps_itr_min >= 0 and eps_itr_max >= 0):
            raise ValueError(
                "eps_itr_min and eps_itr_max must not be negative, got "
                f"{eps_itr_min} and {eps_itr_max}."
            )
        self.settings["eps_itr"][:] = min(eps_itr_min, eps_itr_max), eps_itr_max

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Start annealing when learning starts; delay its end if that would come earlier."""
        self.set_epsilon_itr_min_max(min_itr_learn, max(min_itr_learn, self.eps_itr_max))

    def collector_initialize(self, global_B: int = 1, env_ranks: Any = None) -> None:
        """Set the final epsilons of this process's environments."""
        if env_ranks is not None:
            self.make_vec_eps(global_B, env_ranks)

    def make_vec_eps(self, global_B: int, env_ranks: Sequence[int]) -> None:
        """Use the final epsilon of each of these environments, out of ``global_B``."""
        self._global_B, self._env_ranks = global_B, list(env_ranks)

    @property
    def eps_final(self) -> Any:
        """Return the epsilon after annealing: a number, or [n] of this process's environments."""
        final = vars(self)["eps_final"]
        if self.eps_final_min is None or self._env_ranks is None:
            return final
        spread = self._spread()
        return spread if spread is final else spread[self._env_ranks]

    @eps_final.setter
    def eps_final(self, value: Any) -> None:
        vars(self)["eps_final"] = value

    def _spread(self) -> Any:
        """Return the final epsilon of all environments of all processes, a number or an array."""
        least, final = self.eps_final_min, vars(self)["eps_final"]
        if least is None or np.ndim(final) or least == final:  # an array is a subclass's own
            return final
        return log_spaced(least, final, self._global_B)

    def statistics(self, itr: int) -> dict[str, float]:
        """Return the mean epsilon of all environments when sampling in iteration ``itr``."""
        ends = (np.mean(self.eps_init), np.mean(self._spread()))
        return {"Epsilon": float(annealed(itr, self.eps_itr_min, self.eps_itr_max, *ends))}

    def set_sample_epsilon_greedy(self, epsilon: Any) -> None:
        """Sample with this epsilon, a number or one per environment, until the mode changes.

        An array of equal entries becomes a number, which fits any group of environments.
        """
        self.eps_sample, self._epsilon_key = epsilon, None
        if isinstance(epsilon, np.ndarray) and epsilon.ndim:
            equal = (epsilon == epsilon[0]).all()
            epsilon = epsilon[0] if equal else epsilon.astype(np.float32)
        is_array = isinstance(epsilon, np.ndarray)
        self.distribution.set_epsilon(epsilon if is_array else float(epsilon))

    def sample_mode(self, itr: int) -> None:
        """Sample with the epsilon of this iteration."""
        super().sample_mode(itr)
        ramp = (self.eps_itr_min, self.eps_itr_max)
        self.set_sample_epsilon_greedy(annealed(itr, *ramp, self.eps_init, self.eps_final))

    def eval_mode(self, itr: int) -> None:
        """Evaluate with ``eps_eval``; before any training, with random actions."""
        super().eval_mode(itr)
        self._epsilon_key = None
        self.distribution.set_epsilon(1.0 if itr == 0 else self.eps_eval)

    def set_noise(self, noise: Any) -> None:
        """Set the noise [B, ...] of the next step, and the epsilons of B environments."""
        if noise is not None:
            self.fit_epsilon(len(noise))
        super().set_noise(noise)

    def epsilon_of(self, n: int, group: int, rows: Sequence[int] | None = None) -> Any:
        """Return the epsilons of n environments for the current mode, float32.

        Args:
            n: number of environments.
            group: index of their group, see ``set_group``.
            rows: indices of the environments; ``None``: all of the group.
        """
        if self._mode == "eval" or np.ndim(self.eps_sample) == 0:
            return np.float32(self.distribution.epsilon)
        eps = np.asarray(self.eps_sample, np.float32)
        selected = eps[group * n : (group + 1) * n] if rows is None else eps[list(rows)]
        # A number, so that it also fits the trial step with two environments.
        return selected if len(selected) > 1 else selected[0]

    def fit_epsilon(self, n: int) -> None:
        """Set the distribution's epsilons to those of the n environments that act next."""
        key = (self.group, n, self.rows)
        if self._epsilon_key != key:
            self.distribution.set_epsilon(self.epsilon_of(n, self.group, self.rows))
            self._epsilon_key = key
