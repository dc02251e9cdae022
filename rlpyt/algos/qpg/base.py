"""What algorithms of continuous control share: critics and a policy, each with an optimizer."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rlpyt.algos.off_policy import OffPolicyAlgo
from rlpyt.algos.optim import GradientStep
from rlpyt.algos.untrained import warn_of_untrained
from rlpyt.errors import NonFiniteError


class QpgAlgo(OffPolicyAlgo):
    """Base of algorithms that regress critics, and let a policy climb them.

    Attributes:
        steps: the `GradientStep` of each part, by name: "q", "mu" or "pi", ...
    """

    # Hyperparameters that every subclass declares, beside those of the bases.
    bootstrap_timelimit: bool
    compile_loss: bool

    steps: dict[str, GradientStep]

    def _check_replay_and_plan(self) -> None:
        super()._check_replay_and_plan()
        if hasattr(self.agent, "give_min_itr_learn"):
            self.agent.give_min_itr_learn(self.min_itr_learn)

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizers, from their initial state if one was given."""
        self.rank = rank
        self._seed_replay(rank)
        self.steps = {}
        self._add_steps()
        self._losses: dict[str, Any] = {}
        if self.initial_optim_state_dict is not None:
            self.load_optim_state_dict(self.initial_optim_state_dict)

    def _add_steps(self) -> None:
        """Build the optimizers, by ``add_step``."""
        raise NotImplementedError(f"{type(self).__name__} must implement _add_steps.")

    def add_step(
        self,
        name: str,
        network: torch.nn.Module | None,
        parameters: Iterable[torch.nn.Parameter],
        learning_rate: float,
        n_members: int | None = None,
    ) -> None:
        """Add an optimizer.

        Args:
            name: of the part.
            network: whose parameters they are; ``None``: of none.
            parameters: what it trains.
            learning_rate: its own.
            n_members: of `GradientStep`.
        """
        names: dict[torch.nn.Parameter, str] = {}
        if network is not None:
            if self.rank == 0:
                warn_of_untrained(network)
            names = {p: f"{name}: {path}" for path, p in network.named_parameters()}
        self.steps[name] = GradientStep(
            parameters,
            self.OptimCls,
            learning_rate,
            self.optim_kwargs,
            self.clip_grad_norm,
            names,
            n_members,
        )

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The method, compiled where ``compile_loss`` asks for it."""
        if not self.compile_loss:
            return function
        name = function.__name__
        if name not in self._losses:
            self._losses[name] = torch.compile(function)
        return self._losses[name]  # type: ignore[no-any-return]

    def descend(self, name: str, loss: torch.Tensor, itr: int) -> torch.Tensor:
        """Take a step with one part; returns its gradient norm.

        Raises:
            NonFiniteError: loss or gradient is not finite.
        """
        try:
            return self.steps[name](loss)
        except NonFiniteError as error:
            raise self.stop_if_not_finite(itr, error) from None

    # State.

    def optim_state_dict(self) -> dict[str, Any]:
        """States of the optimizers by the names of their parts."""
        return {name: step.optimizer.state_dict() for name, step in self.steps.items()}

    def load_optim_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``optim_state_dict`` gave."""
        for name, step in self.steps.items():
            step.optimizer.load_state_dict(state_dict[name])


@contextmanager
def frozen(network: torch.nn.Module) -> Iterator[None]:
    """Compute with a network without gradients for its parameters; those of its inputs remain."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
