"""Base class of DDPG, TD3 and SAC: critics and a policy, and their optimizers."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from rlpyt.agents.base import AgentInputs, BaseAgent
from rlpyt.agents.qpg.base import NetworkInputs
from rlpyt.algos.base import column_of
from rlpyt.algos.optim import RATE, GradientStep, ParameterGroup
from rlpyt.algos.replay import ReplayAlgo
from rlpyt.algos.sequences import valid_and_ends
from rlpyt.algos.untrained import warn_of_untrained
from rlpyt.models.normalization import batch_norms, running_statistics
from rlpyt.models.unit_norm import unit_vectors
from rlpyt.models.utils import unwrap_ddp
from rlpyt.replays.batch import PrioritizedTransitions, Transitions
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import NamedArrayTuple

VALUES = ("q", "target_q", "q_at_mu", "target_q_at_mu")  # methods of agents, of all critics


class QpgAlgo(ReplayAlgo):
    """Base class of off-policy actor-critic algorithms (DDPG, TD3, SAC).

    Attributes:
        steps: the `GradientStep` objects, by name.
        skips_policy: True if the current update does not train the policy.
        divisor: number by which rewards are divided; with ``normalize_reward`` a tensor.
        atoms: values of the atoms of categorical critics, [N].
    """

    # Hyperparameters that every subclass declares, in addition to those of the base.
    bootstrap_timelimit: bool
    policy_update_interval: int

    steps: Mapping[str, GradientStep] = MappingProxyType({})  # none with a user's optimizers
    divisor: Any = 1.0
    atoms: torch.Tensor
    skips_policy = False
    learns_distributions = False  # True if critics may return quantiles or atoms
    learns_sequences = True
    joint_critics = False
    own_agents = "A custom agent derives from one of them: the critics are one model, `q_model`."

    def check_agent(self, agent: BaseAgent) -> None:
        """Raise ValueError if the algorithm does not learn the agent's outputs."""
        super().check_agent(agent)
        given = {"n_quantiles": agent.n_quantiles, "n_atoms": agent.n_atoms}
        found = [f"{name}={n}" for name, n in given.items() if n is not None]
        if found and not self.learns_distributions:
            raise ValueError(
                f"{type(self).__name__} learns action values, but the agent's critics return "
                f"{found[0]} each. Use SAC for distributions of returns."
            )

    def _check_replay_and_schedule(self) -> None:
        super()._check_replay_and_schedule()
        self.agent.give_min_itr_learn(self.min_itr_learn)

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizers and load their initial state, if there is one."""
        if rank == 0 and not self.joint_critics and batch_norms(self.agent.q_model):
            warnings.warn(
                "Critics with batch normalization seldom learn from targets that are normalized by "
                "other statistics (Bhatt et al. 2024). Set joint_critics=True, which SAC has, or "
                "give the critics layer_norm=True instead."
            )
        self.steps = {}
        self.agent.has_joint_optimizer = True
        if any(is_override(getattr(self.agent, name, None)) for name in VALUES):
            self.forward = self._forward_of_overrides  # type: ignore[method-assign]
        super().optim_initialize(rank)

    def _forward_of_overrides(self, network: Any, *inputs: Any) -> Any:
        """Return the outputs of a network, stacked if they are a tuple of critics.

        Overrides of an agent's ``q`` return tuples, as rlpyt's (2019) did.
        """
        output = super().forward(network, *inputs)
        if getattr(network, "__name__", "") in VALUES and isinstance(output, tuple):
            return torch.stack(output)
        return output

    def _all_steps(self) -> list[GradientStep]:
        return [*self.steps.values()]

    def _add_steps(self) -> None:
        """Build the optimizers with ``add_step``."""
        raise NotImplementedError(f"{type(self).__name__} must implement _add_steps.")

    def network(
        self,
        name: str,
        module: torch.nn.Module | None,
        parameters: Iterable[torch.nn.Parameter],
        n_members: int | None = None,
        rate: str = RATE,
        decays: bool = True,
    ) -> ParameterGroup:
        """Return the `ParameterGroup` of one network.

        Args:
            name: name of the network.
            module: module of the parameters, or ``None``.
            parameters: parameters of the network; those that require no gradient are skipped.
            n_members, decays: see `ParameterGroup`.
            rate: setting with the learning rate of the network.
        """
        names: dict[torch.nn.Parameter, str] = {}
        if module is not None:
            module = unwrap_ddp(module)
            if self.rank == 0:
                warn_of_untrained(module)
            names = {p: f"{name}: {path}" for path, p in module.named_parameters()}
        trained = [p for p in parameters if p.requires_grad]
        found = [] if module is None else unit_vectors(module)
        vectors = [v for v in found if all(x.requires_grad for x in v.tensors)]
        return ParameterGroup(name, trained, n_members, names, rate, vectors, decays)

    def add_step(self, name: str, networks: Sequence[ParameterGroup]) -> None:
        """Add an optimizer of these networks, with the learning rates that they name."""
        rates = dict.fromkeys(network.rate for network in networks)
        step = self.StepCls(
            networks,
            self.OptimCls,
            {rate: getattr(self, rate) for rate in rates},
            self.optimizer_arguments(),
            self.clip_grad_norm,
        )
        self.steps = {**self.steps, name: step}
        for rate in rates:
            self.follow(rate, partial(step.set_learning_rate, rate))

    def statistics(self) -> dict[str, float]:
        """Return the learning rates, and settings with a schedule."""
        rates = {k: v for step in self.steps.values() for k, v in step.learning_rates.items()}
        return super().statistics() | {column_of(name): rate for name, rate in rates.items()}

    def learn_from(self, batch: NamedArrayTuple, opt_info: Any) -> None:
        """Update on a batch; train the policy if it is due."""
        self.skips_policy = (self.update_counter + 1) % self.policy_update_interval != 0
        super().learn_from(batch, opt_info)

    # Sequences, for agents with memory.

    def steps_of(
        self, samples: NamedArrayTuple, now: Sequence[str], after: Sequence[str] = ()
    ) -> Any:
        """Return a batch of transitions, to which sequences are converted.

        Every network has a memory of its own, which runs over the sequences once. The steps that
        count are then transitions like any others, whose ``agent_inputs`` and ``target_inputs``
        hold `NetworkInputs`. Losses need not know of memories.

        Args:
            samples: batch from the replay.
            now: names of the networks that are evaluated at the steps themselves.
            after: names of the networks that are evaluated at the states after their returns.

        Returns:
            ``samples`` without a memory; otherwise transitions [N] of the N valid trained steps,
            in order of time.
        """
        if not self.trains_sequences:
            return samples
        sequences = self.replayed(samples)
        select = self._valid_steps(sequences.valid)
        wT = self.warmup_T
        inputs = {"now": NetworkInputs(), "next": NetworkInputs()}
        for name in dict.fromkeys((*now, *after)):
            own = self.agent.sequence_inputs(name, sequences.packed, sequences.run)
            for rows, names in (("now", now), ("next", after)):
                if name in names:
                    selected = getattr(sequences, rows).rows(own)
                    inputs[rows][name] = buffer_func(selected, select)
        fields = [
            AgentInputs(inputs["now"], None, None),
            buffer_func(sequences.action, select),
            select(sequences.return_),
            select(samples.done[wT:]),
            select(samples.done_n[wT:]),
            AgentInputs(inputs["next"], None, None),
        ]
        steps = Transitions(*fields)
        if self.prioritized_replay:
            weights = samples.is_weights.expand_as(sequences.return_)
            steps = PrioritizedTransitions(*fields, select(weights))
        steps.discount_n, steps.ticket = select(sequences.discount_n), None
        return steps

    def _valid_steps(self, valid: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return a function that selects the valid ones of steps [T, B, ...], [N, ...]."""
        if self.mid_batch_reset:
            return lambda leaf: leaf.flatten(0, 1)
        kept = valid.flatten().nonzero().squeeze(1)
        return lambda leaf: leaf.flatten(0, 1)[kept]

    def initial_state(self, network: Any, recorded: Any) -> Any:
        """Return the state before the first row: the recorded one of policies, zeros of critics."""
        (model,) = network.args
        policies = (unwrap_ddp(self.agent.model), self.agent.target_model)
        return recorded if any(model is policy for policy in policies) else None

    def _prioritize(self, batch: NamedArrayTuple, priorities: torch.Tensor) -> None:
        if self.trains_sequences:
            valid, _ = valid_and_ends(batch, self.warmup_T, self.mid_batch_reset)
            errors = torch.zeros_like(valid)
            errors[valid > 0] = priorities.to(errors)
            priorities = self.priorities(errors, batch)
        super()._prioritize(batch, priorities)

    # State.

    def optim_state_dict(self) -> dict[str, Any]:
        """Return the states of the optimizers, by name of the network.

        Those of a subclass's own ``optim_initialize`` have the names of its attributes.
        """
        if not self.steps:
            return {name: own.state_dict() for name, own in self._own_optimizers().items()}
        return {k: v for step in self.steps.values() for k, v in step.state_dicts().items()}

    def load_optim_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``optim_state_dict``."""
        for step in self.steps.values():
            step.load_state_dicts(state_dict)
        if not self.steps:
            for name, own in self._own_optimizers().items():
                own.load_state_dict(state_dict[name])

    def _own_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {k: x for k, x in vars(self).items() if isinstance(x, torch.optim.Optimizer)}


def is_override(method: Any) -> bool:
    """Return True if an agent's method is not that of a ready one; ``None``: it has none."""
    return not getattr(method, "__module__", "rlpyt.").startswith("rlpyt.")


def joined(first: Any, second: Any) -> Any:
    """Return one batch of two trees of tensors [B, ...]."""
    rest = iter(leaves_of(second))
    return buffer_func(first, lambda x: torch.cat([x, next(rest)]))


@contextmanager
def frozen(network: torch.nn.Module) -> Iterator[None]:
    """Disable gradients of a network's parameters inside the context, but not of its inputs.

    Batch normalization uses its running statistics, and does not update them.
    """
    with running_statistics(batch_norms(network)):
        if torch.compiler.is_compiling():  # which cannot trace a change of requires_grad
            own = [(m._parameters, name) for m in network.modules() for name in m._parameters]
            kept = [place[name] for place, name in own]
            for place, name in own:
                place[name] = None if place[name] is None else place[name].detach()  # type: ignore[assignment, union-attr]
            try:
                yield
            finally:
                for (place, name), p in zip(own, kept):
                    place[name] = p
            return
        parameters = [p for p in network.parameters() if p.requires_grad]
        for parameter in parameters:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in parameters:
                parameter.requires_grad_(True)
