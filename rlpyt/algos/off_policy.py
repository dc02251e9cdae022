"""What algorithms that learn from replay share: when, how often, and with which agents."""

import math
import re
import warnings
from typing import Any, ClassVar

import torch

from rlpyt.agents.exploration import annealed
from rlpyt.algos.gradient import mean_over_ranks
from rlpyt.algos.replay_choice import rows_to_begin
from rlpyt.algos.replaying import ReplayAlgo
from rlpyt.errors import ReplayNotReady
from rlpyt.utils.buffer import buffer_method
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import get_seed


class OffPolicyAlgo(ReplayAlgo):
    """Base of algorithms that collect a batch, store it, and take gradient steps on what they draw.

    Subclasses implement ``update``, one such step.
    """

    # Hyperparameters that every subclass declares, beside those of the base.
    batch_size: int
    min_steps_learn: int
    replay_ratio: float
    target_update_tau: float
    target_update_interval: int
    updates_per_sync: int

    learns: ClassVar[str]  # what the agent must give
    ready_agents: ClassVar[str]  # that give it
    learns_memories: ClassVar[str] = "R2D1"  # what trains agents with a memory, in its place
    batch_size_is: ClassVar[str] = "batch_size"  # in terms of arguments

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batch_size = self.batch_size
        for name, least in (
            (self.batch_size_is, self.batch_size),
            ("n_step_return", self.n_step_return),
            ("min_steps_learn", self.min_steps_learn),
        ):
            if self.replay_size < least:
                warnings.warn(
                    f"replay_size={self.replay_size:,} is below {name}={least:,}: the replay "
                    f"cannot hold that many samples. Raise replay_size, or lower {name}."
                )

    # Life cycle.

    def initialize(
        self,
        agent: Any,
        n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Build replay and optimizer; set the schedules.

        Raises:
            ValueError: the algorithm does not learn from what the agent returns, or the replay
                does not record what the algorithm needs.
        """
        self.rank = rank
        self.check_parts(agent)
        self.plan(agent, n_itr, batch_spec, mid_batch_reset, world_size)
        self.initialize_replay_buffer(examples, batch_spec)
        self._check_replay_and_plan()
        self.optim_initialize(rank)

    def async_initialize(
        self,
        agent: Any,
        sampler_n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
        replay_buffer: Any = None,
    ) -> Any:
        """For asynchronous runners: without optimizer; returns the replay, in shared memory.

        Several processes that optimize together are given one ``replay_buffer``.
        """
        self.check_parts(agent)
        updates = self.updates_per_sync
        self.plan(agent, sampler_n_itr, batch_spec, mid_batch_reset, world_size, updates)
        if replay_buffer is None:
            self.initialize_replay_buffer(examples, batch_spec, async_=True)
        else:
            self.replay_buffer = replay_buffer
        self._check_replay_and_plan()
        return self.replay_buffer

    def check_parts(self, agent: Any) -> None:
        """Raise ValueError if the algorithm cannot train this agent."""
        self.check_agent(agent)
        if agent.recurrent:
            raise ValueError(
                f"{type(self).__name__} learns from single transitions, and "
                f"{type(agent).__name__} has a memory; use {self.learns_memories}, or an agent "
                "without."
            )

    def check_agent(self, agent: Any) -> None:
        """Raise ValueError if the algorithm does not learn from what the agent returns.

        An agent that does not declare what it returns (``gives``) only needs a target network.
        Custom algorithms accept any agent.
        """
        if not type(self).__module__.startswith("rlpyt."):
            return
        gives = getattr(agent, "gives", None)
        if gives != self.learns and (gives is not None or not hasattr(agent, "target")):
            name = type(agent).__name__
            if name in re.findall(r"\w+", self.ready_agents):  # there are several of this name
                name += f" of {type(agent).__module__}"
            raise ValueError(
                f"{type(self).__name__} learns {self.learns}, and {name} gives "
                f"{gives or 'no such thing'}; use {self.ready_agents}. (An agent of "
                "your own says by its class attribute `gives` what its model gives.)"
            )

    def _check_replay_and_plan(self) -> None:
        self.check_replay()
        self.plan_beginning()
        self._set_schedules()

    def _set_schedules(self) -> None:
        last_itr = self.n_itr - 1
        if self.pri_beta_steps is not None:
            last_itr = max(1, self.pri_beta_steps // self.itr_steps)
        self.pri_beta_itr = last_itr

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizer; let each of several processes draw from replay on its own."""
        super().optim_initialize(rank)
        self._seed_replay(rank)

    def _seed_replay(self, rank: int) -> None:
        if rank and hasattr(self.replay_buffer, "set_seed"):
            self.replay_buffer.set_seed(get_seed(), rank)

    # When to learn.

    def plan(
        self,
        agent: Any,
        n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        world_size: int,
        updates: int | None = None,
    ) -> None:
        """Turn steps into iterations, and the replay ratio into updates per iteration.

        The ratio is kept exactly over the run: fractions of updates carry over, so the number of
        updates may differ from one iteration to the next.

        Args:
            agent, n_itr, batch_spec, mid_batch_reset, world_size: of ``initialize``.
            updates: per iteration, in the asynchronous form; ``None``: by the replay ratio.
        """
        self.agent, self.n_itr = agent, n_itr
        self.batch_spec, self.mid_batch_reset = batch_spec, mid_batch_reset
        self.world_size = world_size
        self.sampler_bs = sampler_bs = int(batch_spec.T * batch_spec.B)
        # Processes in step sample one batch each; asynchronous ones have one sampler for all.
        self.itr_steps = sampler_bs * (world_size if updates is None else 1)
        self._fixed_updates = updates
        self.batches_in_replay = 0
        self._steps_counted = 0.0
        self._updates_postponed = 0  # by the replay ratio, while the replay had only void rows

    def plan_beginning(self) -> None:
        """Set the first iteration that learns: after ``min_steps_learn``, with a usable replay.

        Warns if the run ends before that.
        """
        T, B = self.batch_spec
        asked = int(self.min_steps_learn // self.itr_steps)
        rows = rows_to_begin(self.replay_buffer)
        self.min_itr_learn = max(asked, -(-rows // T) - 1)
        late = self.min_itr_learn > asked
        steps, why = self.min_itr_learn * self.itr_steps, "min_steps_learn"
        if late:
            why = f"the replay gives its first sample once it holds {rows} rows of {B} environments"
        never = ""
        if self.min_itr_learn >= self.n_itr:
            never = (
                f"learning begins after {steps:,} steps ({why}), which is not below the "
                f"{self.n_itr * self.itr_steps:,} steps of the run. Run longer or begin earlier."
            )
        every = max(1, math.ceil(1 / self.updates_due(self.sampler_bs) - 1e-9))
        if not never and self.min_itr_learn + every > self.n_itr:
            never = (
                f"replay_ratio={self.replay_ratio:g} asks for an update of {self.batch_size_is}="
                f"{self.batch_size} every {every:,} iterations of {self.itr_steps:,} steps, and "
                f"the run has {self.n_itr:,}. Raise replay_ratio, or run longer."
            )
        if never and self.rank == 0:
            warnings.warn(f"{type(self).__name__} never learns in this run: {never}")
        if late:
            logger.log(
                f"{type(self).__name__}: learning begins after {steps:,} steps, not after "
                f"min_steps_learn={self.min_steps_learn:,}; {why}."
            )

    def may_learn(self, itr: int, sampler_itr: int | None) -> bool:
        """Return True if learning may begin: late enough, with enough data in the replay."""
        if itr < self.min_itr_learn:
            return False
        # Without a replay in the checkpoint, a resumed run has to fill it again.
        return sampler_itr is not None or self.batches_in_replay > self.min_itr_learn

    # Training.

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Store new samples, then train on batches from replay.

        Args:
            itr: iteration of the run, or of the optimizer where it runs asynchronously.
            samples: the sampler's batch; ``None``: it is in the replay already.
            sampler_itr: iteration of an asynchronous sampler.
        """
        progress = itr if sampler_itr is None else sampler_itr
        if samples is not None:
            self.store(samples)
        columns: tuple[list[Any], ...] = tuple([] for _ in self.opt_info_fields)
        if self.may_learn(progress, sampler_itr):
            self.update_itr_hyperparams(progress)
            n_updates = self._n_updates(self._new_steps())
            for made in range(n_updates):
                try:
                    found = self.update(itr)
                except ReplayNotReady:
                    if self.mid_batch_reset or self.world_size > 1:
                        raise
                    if self._fixed_updates is None:
                        self._updates_postponed = n_updates - made
                    break  # all rows that could be drawn are void
                for column, values in zip(columns, found):
                    column.extend(values)
        return self._opt_info(columns)

    @property
    def updates_per_optimize(self) -> int:
        """Updates per iteration: the rounded mean, at least 1, or the number that was set.

        If it is set after ``initialize``, every iteration makes that many.
        """
        mean = max(1, round(self.updates_due(self.sampler_bs)))
        return mean if self._fixed_updates is None else self._fixed_updates

    @updates_per_optimize.setter
    def updates_per_optimize(self, updates: int) -> None:
        self._fixed_updates = updates

    def updates_due(self, n_steps: float) -> float:
        """Return the updates, as a float, that the replay ratio asks for after ``n_steps``."""
        return self.replay_ratio * n_steps / self.batch_size

    def _new_steps(self) -> float:
        """Return the number of valid steps in this iteration's batch, averaged over ranks."""
        steps = float(self.sampler_bs - self.n_void)
        if self.mid_batch_reset or self.world_size == 1 or self._fixed_updates is not None:
            return steps
        # Ranks must make as many updates as each other: they average gradients.
        number = torch.tensor(steps, device=self.agent.device)
        return float(mean_over_ranks(number, self.world_size))

    def _n_updates(self, n_steps: float) -> int:
        """Return how many updates to make now, and count ``n_steps`` of this iteration's batch."""
        if self._fixed_updates is not None:
            return self._fixed_updates
        before = math.floor(self.updates_due(self._steps_counted) + 1e-6)  # floats may round down
        self._steps_counted += n_steps
        postponed, self._updates_postponed = self._updates_postponed, 0
        return postponed + math.floor(self.updates_due(self._steps_counted) + 1e-6) - before

    def _opt_info(self, columns: tuple[list[Any], ...]) -> Any:
        """What ``optimize_agent`` returns, a named tuple, from its columns."""
        raise NotImplementedError(f"{type(self).__name__} must implement _opt_info.")

    def update(self, itr: int) -> tuple[Any, ...]:
        """Take a step on a batch; returns a list of values for each of ``opt_info_fields``."""
        raise NotImplementedError(f"{type(self).__name__} must implement update.")

    def update_itr_hyperparams(self, itr: int) -> None:
        """Set what changes with the iteration: beta of prioritised replay."""
        if self.prioritized_replay:
            ends = (self.pri_beta_init, self.pri_beta_final)
            self.replay_buffer.set_beta(annealed(itr, self.min_itr_learn, self.pri_beta_itr, *ends))

    def count_update(self) -> None:
        """Count a step, and let the target networks follow when it is due."""
        self.update_counter += 1
        if self.update_counter % self.target_update_interval == 0:
            self.agent.update_target(self.target_update_tau)

    def forward(self, network: Any, *inputs: Any) -> Any:
        """What ``self.agent`` or ``self.agent.target`` gives for these inputs.

        With ``mixed_precision`` the network runs in bfloat16, and all that is made of it is in
        float32 again.
        """
        if not self.mixed_precision:
            return network(*inputs)
        with torch.autocast(self.agent.device.type, torch.bfloat16):
            output = network(*inputs)
        return buffer_method(output, "float")

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the base class and of the replay ratio."""
        return {
            **super().state_dict(),
            "steps_counted": self._steps_counted,
            "updates_postponed": self._updates_postponed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state; if it has no replay, fill one before learning continues."""
        super().load_state_dict(state)
        self._steps_counted = state.get("steps_counted", 0)
        self._updates_postponed = state.get("updates_postponed", 0)
        if state["replay"] is None:
            logger.log(
                f"The checkpoint holds no replay (save_replay); {self.min_steps_learn:,} steps are "
                "collected before learning continues."
            )
