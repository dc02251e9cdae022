"""What algorithms that descend losses have in common."""

from collections.abc import Callable
from typing import Any

import torch

from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.optim import GradientStep, checked_arguments
from rlpyt.algos.precision import warn_of_slow_precision
from rlpyt.algos.returns import valid_from_done
from rlpyt.algos.untrained import warn_of_untrained
from rlpyt.models.utils import bare
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.checks import check_settings


class GradientAlgo(RlAlgorithm):
    """Base of algorithms that descend losses; reads its settings as attributes.

    Here is one optimizer over the agent's parameters; subclasses with several networks build their
    own.
    """

    agent: Any
    mid_batch_reset: bool
    learning_rate: float
    OptimCls: type[torch.optim.Optimizer]
    optim_kwargs: dict[str, Any] | None
    clip_grad_norm: float | None
    initial_optim_state_dict: Any
    compile_loss = False  # of those that offer it
    mixed_precision = False  # likewise
    rank = 0  # of this process, among those that train together

    def __post_init__(self) -> None:
        self._losses: dict[str, Any] = {}  # compiled
        check_settings(self)
        checked_arguments(self.OptimCls, self.optim_kwargs)

    def optimizer_arguments(self) -> dict[str, Any]:
        """What the optimizer is built with, beside its learning rate."""
        return dict(self.optim_kwargs or {})

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizer, from its initial state if one was given."""
        self.rank = rank
        model = bare(self.agent.model)
        if rank == 0:
            warn_of_untrained(model)
            self.warn_of_slow_precision()
        names = {p: name for name, p in model.named_parameters()}
        self.gradient_step = GradientStep(
            self.agent.parameters(),
            self.OptimCls,
            self.learning_rate,
            self.optimizer_arguments(),
            self.clip_grad_norm,
            names,
        )
        self.optimizer = self.gradient_step.optimizer
        if self.initial_optim_state_dict is not None:
            self.load_optim_state_dict(self.initial_optim_state_dict)

    def warn_of_slow_precision(self) -> None:
        """Say it, if reduced precision was asked for and costs time here."""
        if self.mixed_precision:
            warn_of_slow_precision(self.agent.device)

    def load_optim_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``optim_state_dict`` gave; the learning rate stays the algorithm's own."""
        self.gradient_step.load_state_dict(state_dict)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The method, compiled where ``compile_loss`` asks for it."""
        if not self.compile_loss:
            return function
        name = function.__name__
        if name not in self._losses:
            # Random numbers as without compilation: its own are drawn one by one on the CPU.
            self._losses[name] = torch.compile(function, options={"fallback_random": True})
        return self._losses[name]  # type: ignore[no-any-return]

    def update_obs_rms(self, samples: Any) -> None:
        """Let the agent's observation statistics, if it keeps any, take in a batch [T, B].

        On-policy algorithms do it once they have trained on it: until then the agent computes the
        likelihoods and values that were recorded, and PPO's ratios begin at one.
        """
        if not hasattr(self.agent, "update_obs_rms"):
            return
        seen = samples.env.observation
        if not self.mid_batch_reset:  # what was recorded while waiting is void: [N, ...] remain
            valid = valid_from_done(samples.env.done) > 0
            seen = buffer_func(seen, lambda leaf: leaf[valid])
        self.agent.update_obs_rms(seen)


def mean_over_ranks(number: torch.Tensor, world_size: int) -> torch.Tensor:
    """Return the mean of a number without gradient over the processes that train together."""
    if world_size > 1:
        torch.distributed.all_reduce(number)
        number = number / world_size
    return number
