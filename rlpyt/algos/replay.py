"""Base class of algorithms with a replay: storing, sampling and the schedule of updates."""

import inspect
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.exploration import annealed
from rlpyt.algos.compiled import CompiledUpdate
from rlpyt.algos.diagnostics import FEW
from rlpyt.algos.dqn.losses import sequence_priority
from rlpyt.algos.episodes import check_window, null_action_of
from rlpyt.algos.optim import mean_over_ranks
from rlpyt.algos.replay_choice import (
    SEQUENCES,
    TRANSITIONS,
    Replays,
    check_replay_class,
    is_frame_stack,
)
from rlpyt.algos.sequences import (
    ReplayedSequences,
    ReplayedTransitions,
    SequenceSettings,
    as_sequences,
    valid_and_ends,
)
from rlpyt.algos.update_schedule import UpdateSchedule
from rlpyt.envs.base import BatchSpec
from rlpyt.envs.goals import GoalRewards
from rlpyt.errors import ReplayNotReady
from rlpyt.replays.buffer import BaseReplayBuffer, ReplayBuffer
from rlpyt.replays.device import DeviceReplayBuffer
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.hindsight import Hindsight
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.buffer import buffer_method, buffer_to, leaves_of
from rlpyt.utils.checks import check_range, fixed, whole_number
from rlpyt.utils.collections import AttrDict, NamedArrayTuple, namedarraytuple, with_fields
from rlpyt.utils.completion import completed, takes
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import get_seed
from rlpyt.utils.tensor import valid_mean

SamplesToBuffer = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])

SMALL_REPLAY = 200e6  # bytes; by default, checkpoints contain replays up to this size
PRIORITY_EPS = 1e-6  # so that every sample can be drawn again (Schaul et al. 2016, section 3.3)
LEARNING = {"optimize_agent", "learn_from", "update", "target_of"}  # methods, and names with "loss"
# Settings that nothing reads unless another one is set.
NEEDED_FOR = {
    "prioritized_replay": (
        *("pri_alpha", "pri_eta", "pri_beta_init", "pri_beta_final", "default_priority"),
    ),
    "munchausen": ("munchausen_tau", "munchausen_clip"),
    "hindsight": ("n_sampled_goals",),
}
SEQUENCE_SIZE = "(batch_T + warmup_T) * batch_B"


@dataclass(eq=False, repr=False, init=False, kw_only=True)
class HindsightSettings(SequenceSettings):
    """Settings of hindsight experience replay, see `rlpyt.replays.hindsight`."""

    hindsight: Literal["future", "final", "episode"] | None = fixed(
        None, doc="(goals) choice of the achieved goals that replace those of transitions"
    )
    n_sampled_goals: float = fixed(
        4, gt=0, finite=True, doc="(goals) transitions with a new goal per unchanged one"
    )


class ReplayAlgo(HindsightSettings):
    """Base class of algorithms that store each batch in a replay and train on samples from it.

    The sampler records final observations of truncated episodes and the replay stores them, so
    that targets bootstrap from them. Subclasses implement ``update``, one gradient step.

    Agents with memory are trained on sequences from the replay, by algorithms whose losses read
    batches as ``replayed`` returns them (``learns_sequences``); see `rlpyt.algos.sequences`.

    Attributes:
        trains_sequences: True if the agent has a memory; set when the run is planned.
    """

    final_observation = True

    # Hyperparameters that every subclass declares.
    discount: float
    batch_size: int
    min_steps_learn: int
    replay_size: int
    replay_ratio: float
    n_step_return: int
    target_update_tau: float
    target_update_interval: int
    updates_per_sync: int
    prioritized_replay: bool
    pri_alpha: float
    pri_beta_init: float
    pri_beta_final: float
    pri_beta_steps: int | None
    default_priority: float | None
    ReplayBufferCls: Any
    save_replay: bool | None

    requires: ClassVar[str]  # outputs that the agent must provide
    ready_agents: ClassVar[str]  # agents that provide them
    own_agents: ClassVar[str] = (  # how custom agents fit, for messages
        "A custom agent declares its model's outputs in the class attribute `provides`."
    )
    learns_sequences: ClassVar[bool] = False  # True if losses take sequences, for memories
    recurrent_algos: ClassVar[str] = "R2D1"  # algorithms that train recurrent agents instead
    batch_size_name: ClassVar[str] = "batch_size"  # for messages
    replays: ClassVar[Replays] = TRANSITIONS  # replay classes to choose from
    sequence_replays: ClassVar[Replays] = SEQUENCES  # the same for agents with memory
    trains_sequences = False

    bootstrap_timelimit = True  # True to bootstrap at time limits
    batch_spec: BatchSpec
    replay_buffer: Any = None
    new_priority = 1.0  # priority of samples without one
    heeds_void = True
    n_void = 0  # void rows in the last stored batch, in which environments waited for a reset
    batches_in_replay = 0  # batches stored; counted from the resume if the checkpoint had no replay
    passes_tickets = True  # False if a custom replay's ``update_batch_priorities`` takes none
    _warned_all_void = False
    _completed_by: tuple[str, ...] = ()  # fields that the replay stores beside those of subclasses

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batch_size = self.batch_size
        self.new_priority = self.first_priority
        self._warn_of_small_replay("n_step_return", self.n_step_return)
        self._warn_of_small_replay("min_steps_learn", self.min_steps_learn)
        for switch, names in NEEDED_FOR.items():
            value = getattr(self, switch, None)
            if value in (None, False) and self.ReplayBufferCls is None:
                self.warn_of_unused(names, f"{switch} is {value!r}")

    @property
    def first_priority(self) -> float:
        """Return the priority of samples before the first update of a run."""
        return float(self.default_priority or 1)

    def _warn_of_small_replay(self, name: str, least: int) -> None:
        if self.replay_size < least:
            warnings.warn(
                f"replay_size={self.replay_size:,} is below {name}={least:,}, so the replay cannot "
                f"hold that many samples. Raise replay_size, or lower {name}."
            )

    # Life cycle.

    def initialize(
        self,
        agent: BaseAgent,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: AttrDict,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Build replay and optimizer, and set the schedules.

        Raises:
            ValueError: the agent does not provide the outputs that the algorithm requires, or the
                replay does not match the settings.
        """
        self.rank = rank
        self.check_parts(agent)
        self.plan(agent, n_itr, batch_spec, mid_batch_reset, world_size)
        self.initialize_replay_buffer(examples, batch_spec)
        self._check_replay_and_schedule()
        self.optim_initialize(rank)
        for name in ("batch_size", "batch_B"):
            self.follow(name, self._count_samples)

    def async_initialize(
        self,
        agent: BaseAgent,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: AttrDict,
        world_size: int = 1,
        replay_buffer: Any = None,
    ) -> Any:
        """Prepare for training in an asynchronous run, without the optimizer.

        Several processes that optimize together share one ``replay_buffer``.

        Returns:
            Replay in shared memory.
        """
        self.check_parts(agent)
        updates = self.updates_per_sync
        self.plan(agent, sampler_n_itr, batch_spec, mid_batch_reset, world_size, updates)
        if replay_buffer is None:
            self.initialize_replay_buffer(examples, batch_spec, async_=True)
        else:
            self.replay_buffer = replay_buffer
        self._check_replay_and_schedule()
        return self.replay_buffer

    def check_parts(self, agent: BaseAgent) -> None:
        """Raise ValueError if the algorithm cannot train this agent; warn of unused settings."""
        self.check_agent(agent)
        if agent.recurrent and self.hindsight is not None:
            raise ValueError(
                f"hindsight must be None for {type(agent).__name__}, which is recurrent, got "
                f"{self.hindsight!r}: sequences keep their goals. Use an agent without memory."
            )
        if not agent.recurrent:
            why = f"{type(agent).__name__} has no memory"
            self.warn_of_unused(inspect.get_annotations(SequenceSettings), why)
            return
        name = type(self).__name__
        if not self.learns_sequences:
            raise ValueError(
                f"{name} learns from single transitions, but {type(agent).__name__} is recurrent. "
                f"Use {self.recurrent_algos}, or another agent."
            )
        if self.compile is not None:
            raise ValueError(
                f"compile must be None for {name} with a memory, whose sequences differ in number "
                f"and length from batch to batch, got {self.compile!r} (or compile_loss=True)."
            )
        check_window(agent, self.warmup_T + self.batch_T, "warmup_T + batch_T")

    def check_agent(self, agent: BaseAgent) -> None:
        """Raise ValueError if the agent does not provide what the algorithm requires.

        An agent that does not declare ``provides`` only needs a target network. A user's subclass
        that learns in its own way accepts any agent.
        """
        custom = [cls for cls in type(self).__mro__ if not cls.__module__.startswith("rlpyt.")]
        if any("loss" in name or name in LEARNING for cls in custom for name in vars(cls)):
            return
        provided = agent.provides
        if provided != self.requires and (provided is not None or not hasattr(agent, "target")):
            name = type(agent).__name__
            if name in re.findall(r"\w+", self.ready_agents):  # not a unique name
                name += f" of {type(agent).__module__}"
            raise ValueError(
                f"{type(self).__name__} requires {self.requires}, but {name} provides "
                f"{provided or 'none'}. Use {self.ready_agents}. ({self.own_agents})"
            )

    def _check_replay_and_schedule(self) -> None:
        self.check_replay()
        self.set_min_itr_learn()
        self._set_schedules()

    def _set_schedules(self) -> None:
        last_itr = self.n_itr - 1
        if self.pri_beta_steps is not None:
            last_itr = max(1, self.pri_beta_steps // self.itr_steps)
        self.pri_beta_itr = last_itr

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizer; give each rank its own random stream for the replay."""
        super().optim_initialize(rank)
        if rank:
            self.replay_buffer.set_seed(get_seed(), rank)
        if self.compile != "update":
            return
        if self.world_size > 1:
            raise ValueError(
                'compile="update" is for one process, got '
                f'{self.world_size} that average their gradients. Use compile="loss".'
            )
        self.update = CompiledUpdate(self, self._all_steps())  # type: ignore[method-assign, arg-type]

    # Replay.

    def initialize_replay_buffer(
        self, examples: AttrDict, batch_spec: BatchSpec, async_: bool = False
    ) -> None:
        """Allocate the replay; stacks of frames (uint8 [C, H, W]) are stored frame by frame.

        Args:
            examples: one example step of all data.
            batch_spec: T and B of the sampler's batches.
            async_: True to use shared memory.

        Raises:
            ValueError: ``ReplayBufferCls`` contradicts other settings.
        """
        if not self.trains_sequences and self.rank == 0:
            self._warn_of_small_replay(self.batch_size_name, self.batch_size)
        example = self._complete_example(self.examples_to_buffer(examples), examples)
        replays = self.sequence_replays if self.trains_sequences else self.replays
        cls = self.choose_replay(replays[self.prioritized_replay, async_], example)
        arguments = self.replay_arguments(batch_spec)
        if self.hindsight is not None:
            arguments["hindsight"] = self._hindsight_part(examples)
        device = examples.get("device")  # of a sampler whose batches stay there
        if device is not None and cls is UniformReplayBuffer and self.ReplayBufferCls is None:
            cls = DeviceReplayBuffer
        if isinstance(cls, type) and issubclass(cls, DeviceReplayBuffer):
            arguments["device"] = device
        replay = cls(example=example, **arguments)
        self.replay_buffer = completed(replay, BaseReplayBuffer)

    def _hindsight_part(self, examples: AttrDict) -> Hindsight:
        """Return the part of the replay that changes goals.

        Raises:
            ValueError: the environment does not compute rewards of other goals, or the sampler does
                not say how to make it.
        """
        make_env = examples.get("make_env")
        if make_env is None:
            raise ValueError(
                "hindsight must be None with this sampler, whose examples have no make_env. Use "
                "SerialSampler, CpuSampler or GpuSampler."
            )
        rewards = GoalRewards(make_env)
        rewards.bind(examples["observation"].achieved_goal)
        return Hindsight(str(self.hindsight), self.n_sampled_goals, rewards)

    def replay_arguments(self, batch_spec: BatchSpec) -> dict[str, Any]:
        """Return the replay's arguments, except the example.

        Raises:
            ValueError: the replay is too small for a sequence.
        """
        kwargs: dict[str, Any] = dict(
            size=self.replay_size,
            B=batch_spec.B,
            discount=self.discount,
            n_step_return=self.n_step_return,
            **self.null_action(),
        )
        if self.prioritized_replay:
            kwargs |= dict(
                alpha=self.pri_alpha,
                beta=self.pri_beta_init,
                default_priority=self.new_priority,
            )
        if not self.trains_sequences:
            return kwargs
        length, rows = self.warmup_T + self.batch_T, self.replay_size // batch_spec.B
        if rows <= length + self.n_step_return:
            raise ValueError(
                f"replay_size={self.replay_size:,} is too small: it holds {rows} steps of "
                f"{batch_spec.B} environments, but a sequence with its targets takes "
                f"{length} + {self.n_step_return}. Raise replay_size, or lower batch_T or warmup_T."
            )
        return kwargs | dict(rnn_state_interval=self.store_rnn_state_interval, batch_T=length)

    def choose_replay(self, chosen: Any, example: NamedArrayTuple) -> Any:
        """Return the replay class: ``ReplayBufferCls``, or the one for these observations.

        Args:
            chosen: (class for stacks of frames, class for other observations).
            example: example step, for its observation.

        Raises:
            TypeError: ``ReplayBufferCls`` is not a class.
            ValueError: ``ReplayBufferCls`` contradicts other arguments.
        """
        custom = self.ReplayBufferCls
        if custom is None:
            return chosen[0] if is_frame_stack(example.observation) else chosen[1]
        if not callable(custom):
            raise TypeError(
                f"ReplayBufferCls={custom!r:.80} must be a replay class, such as "
                f"{chosen[1].__name__}."
            )
        if isinstance(custom, type) and issubclass(custom, (ReplayBuffer, DeviceReplayBuffer)):
            check_replay_class(type(self).__name__, custom, chosen[1], example.observation)
        logger.log(
            f"{type(self).__name__}: ReplayBufferCls={getattr(custom, '__name__', custom)} is "
            f"used in place of {chosen[1].__name__}."
        )
        return custom

    def null_action(self) -> dict[str, Any]:
        """Return the replay's argument ``null_action``, if it is not 0."""
        null = null_action_of(self.agent)
        return {"null_action": null} if any(map(np.any, leaves_of(null))) else {}

    def check_replay(self) -> None:
        """Warn if the replay cannot mark void rows, or cannot be saved as requested."""
        if self.prioritized_replay:
            self.passes_tickets = takes(self.replay_buffer.update_batch_priorities, "ticket")
        if not (self.mid_batch_reset or isinstance(self.replay_buffer, ReplayBuffer)):
            warnings.warn(
                f"{type(self.replay_buffer).__name__} is not a ReplayBuffer of rlpyt, so the "
                "algorithm also trains on rows in which environments wait for a reset. Use a "
                "CollectorCls with mid_batch_reset, such as CpuResetCollector."
            )
        if self.save_replay and not self._can_be_saved():
            warnings.warn(
                f"save_replay=True, but {type(self.replay_buffer).__name__} has no state_dict() "
                "and load_state_dict(state): checkpoints do not contain the replay."
            )

    # Storing.

    def examples_to_buffer(self, examples: AttrDict) -> Any:
        """Return an example of the data stored for each step.

        The replay also gets what `store` adds: states, time limits, goals.
        """
        return SamplesToBuffer(*(examples[name] for name in SamplesToBuffer._fields))

    def samples_to_buffer(self, samples: NamedArrayTuple) -> Any:
        """Return the data of a batch [T, B] to store, like the example."""
        env = samples.env
        return SamplesToBuffer(env.observation, samples.agent.action, env.reward, env.done)

    def _complete_example(self, example: Any, examples: AttrDict) -> Any:
        """Add the fields that the replay needs, unless a subclass has stored them.

        Raises:
            ValueError: the replay needs ``timeout``, but env_info does not have it.
        """
        env_info, more = examples["env_info"], {}
        if self.stores_states:
            more["prev_rnn_state"] = examples["agent_info"].prev_rnn_state
        if self.hindsight is not None:
            more["final_goal"] = goal_of(examples["observation"])
        if getattr(self.ReplayBufferCls, "time_limits", False):
            if not hasattr(env_info, "timeout"):
                raise ValueError(
                    f"{self.ReplayBufferCls.__name__} needs `timeout` in env_info, true where a "
                    f"time limit ended the episode, got the fields {env_info._fields}."
                )
            more["timeout"] = env_info.timeout
        more = {name: value for name, value in more.items() if name not in example._fields}
        self._completed_by = tuple(more)
        return with_fields(example, **more) if more else example

    def _complete(self, to_buffer: Any, samples: NamedArrayTuple) -> Any:
        """Add the fields that were added to the example, and final observations if any."""
        priorities = getattr(to_buffer, "priorities", None)
        parts = to_buffer if priorities is None else to_buffer.samples
        if self._completed_by:
            more = {name: _field_of(samples, name) for name in self._completed_by}
            parts = with_fields(parts, **more)
        if self.bootstrap_timelimit:
            parts = self.replay_buffer.with_finals(parts, samples)
        return parts if priorities is None else to_buffer._replace(samples=parts)

    def store(self, samples: NamedArrayTuple) -> None:
        """Store a batch [T, B] of the sampler in the replay."""
        self.n_void = 0
        if samples.env.reward.device != self.replay_buffer.device:
            samples = buffer_to(samples, self.replay_buffer.device)
        valid = self.valid_steps(samples.env)
        void = None if valid is None else valid == 0
        try:
            to_buffer = self._complete(self.samples_to_buffer(samples), samples)
            self.n_void = self.replay_buffer.append_batch(to_buffer, void)
        except ValueError as error:
            if isinstance(self.replay_buffer, FrameBufferMixin):
                error.add_note(
                    f"({type(self).__name__} stores observations frame by frame. If they are not "
                    "stacks of frames, pass a ReplayBufferCls that stores them whole: "
                    f"{type(self.replay_buffer).__name__.replace('Frame', '')}.)"
                )
            raise
        self.batches_in_replay += 1
        self.update_obs_rms(samples)

    @property
    def stores_states(self) -> bool:
        """Return True if the replay stores recurrent states."""
        return self.trains_sequences and self.store_rnn_state_interval > 0

    # Schedule of updates.

    def plan(
        self,
        agent: BaseAgent,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        world_size: int,
        updates: int | None = None,
    ) -> None:
        """Store the dimensions of the run and reset the counters of the update schedule.

        The replay ratio is exact over the run: fractions of updates carry over, so that the number
        of updates may differ between iterations.

        Args:
            agent, n_itr, batch_spec, mid_batch_reset, world_size: see ``initialize``.
            updates: updates per iteration (asynchronous runs); ``None``: by the replay ratio.
        """
        self.agent, self.n_itr = agent, n_itr
        self.trains_sequences = agent.recurrent
        self._count_samples()
        self.batch_spec = batch_spec
        # Here it is False if the replay may have void rows.
        self.mid_batch_reset = mid_batch_reset = mid_batch_reset and not self.void_rows
        # Functions instead of bound methods, which cannot be sent to the replay writer.
        draws = ReplayAlgo._draw_batches if mid_batch_reset else ReplayAlgo._draw_valid_batches
        self._batches = draws
        self.world_size = world_size
        self.sampler_bs = sampler_bs = int(batch_spec.T * batch_spec.B)
        # Synchronous ranks sample one batch each; asynchronous ranks share one sampler.
        self.itr_steps = sampler_bs * (world_size if updates is None else 1)
        self._fixed_updates = updates
        self.batches_in_replay, self.new_priority = 0, self.first_priority
        self.schedule = UpdateSchedule()

    def _count_samples(self, _: int = 0) -> None:
        self._batch_size = self.samples_per_update

    def set_min_itr_learn(self) -> None:
        """Set the first iteration that learns: after ``min_steps_learn``, with enough rows.

        Warn if the run ends before it, or before the first update of target networks.
        """
        T, B = self.batch_spec
        wanted = int(self.min_steps_learn // self.itr_steps)
        rows = self.replay_buffer.min_rows
        self.min_itr_learn = max(wanted, -(-rows // T) - 1)
        late = self.min_itr_learn > wanted
        steps, why = self.min_itr_learn * self.itr_steps, "min_steps_learn"
        if late:
            why = f"the replay can be sampled once it holds {rows} rows of {B} environments"
        never = ""
        if self.min_itr_learn >= self.n_itr:
            never = (
                f"learning begins after {steps:,} steps ({why}), but the run has only "
                f"{self.n_itr * self.itr_steps:,} steps. Run longer or begin earlier."
            )
        interval = max(1, math.ceil(1 / self.updates_due(self.sampler_bs) - 1e-9))
        if not never and self.min_itr_learn + interval > self.n_itr:
            name = SEQUENCE_SIZE if self.trains_sequences else self.batch_size_name
            never = (
                f"replay_ratio={self.replay_ratio:g} means one update of {name}="
                f"{self.samples_per_update} every {interval:,} iterations of {self.itr_steps:,} "
                f"steps, but the run has only {self.n_itr:,}. Raise replay_ratio, or run longer."
            )
        updates = int(self.updates_due(self.sampler_bs) * (self.n_itr - self.min_itr_learn) + 1e-9)
        if never and self.rank == 0:
            warnings.warn(f"{type(self).__name__} never learns in this run: {never}")
        elif updates < self.target_update_interval and self.rank == 0:
            warnings.warn(
                f"{type(self).__name__} keeps its initial target networks in this run: "
                f"target_update_interval={self.target_update_interval:,}, but the run makes only "
                f"{updates:,} updates. Lower it, or run longer."
            )
        if late:
            logger.log(
                f"{type(self).__name__}: learning begins after {steps:,} steps, not after "
                f"min_steps_learn={self.min_steps_learn:,}, because {why}."
            )

    def may_learn(self, itr: int, sampler_itr: int | None) -> bool:
        """Return True if this iteration may learn: there is enough data in the replay."""
        if itr < self.min_itr_learn:
            return False
        # If the checkpoint had no replay, a resumed run must fill it again.
        return sampler_itr is not None or self.batches_in_replay > self.min_itr_learn

    # Training.

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Store new samples, then train on batches from the replay.

        Args:
            itr: iteration of the run, or of the optimizer in an asynchronous run.
            samples: batch of the sampler; ``None``: it is already in the replay.
            sampler_itr: iteration of an asynchronous sampler.
        """
        progress = itr if sampler_itr is None else sampler_itr
        self.apply_schedule(progress)
        if samples is not None:
            self.store(samples)
        opt_info = self.empty_opt_info()
        if not self.may_learn(progress, sampler_itr):
            return opt_info
        self.update_itr_hyperparams(progress)
        n_updates = self._fixed_updates
        if n_updates is None:
            n_updates = self.schedule.due(self._new_steps(), self.updates_due(1))
        for batch in self._batches(self, n_updates):
            self.learn_from(batch, opt_info)
        if n_updates:
            opt_info = self.add_recorded(opt_info)
        return opt_info

    def _draw_batches(self, n_updates: int) -> Iterator[Any]:
        """Draw the batch of each update; environments never wait for a reset."""
        for _ in range(n_updates):
            yield self.draw_batch()

    def _draw_valid_batches(self, n_updates: int) -> Iterator[Any]:
        """Draw the batch of each update, until all drawn steps are void in any rank.

        The remaining updates are postponed to a later iteration, in all ranks at once, because
        they average gradients.
        """
        for n_made in range(n_updates):
            try:
                batch, ready = self.draw_batch(), True
                if self.trains_sequences:  # all steps after the burn-in may be void
                    valid, _ = valid_and_ends(batch, self.warmup_T, self.mid_batch_reset)
                    ready = bool(valid.any())
            except ReplayNotReady:
                batch, ready = None, False
            if self._mean_over_ranks(ready) < 1:
                if self._fixed_updates is None:
                    self.schedule.postponed = n_updates - n_made
                if batch is not None and not (self.update_counter or self.rank or ready):
                    self._warn_all_void()
                return
            yield batch

    def _warn_all_void(self) -> None:
        if not self._warned_all_void:
            self._warned_all_void = True
            warnings.warn(
                f"{type(self).__name__} trains nothing yet: all episodes that it draws end in the "
                f"burn-in of warmup_T={self.warmup_T} steps, and wait for a reset after it. Lower "
                "warmup_T, or use a collector that resets at once, such as CpuResetCollector."
            )

    def draw_batch(self) -> Any:
        """Draw the samples of one update from the replay.

        Raises:
            ReplayNotReady: the replay has no samples yet, or only void rows.
        """
        if not self.trains_sequences:
            return self.replay_buffer.sample_batch(self.batch_size)
        return as_sequences(self.replay_buffer.sample_batch(self.batch_B), self.n_step_return)

    def replayed(self, samples: NamedArrayTuple) -> Any:
        """Return a batch in the form that losses read.

        Args:
            samples: batch from the replay.

        Returns:
            `ReplayedTransitions` [B], or `ReplayedSequences` [batch_T, B] for an agent with memory.
        """
        discount_n = self.bootstrap_discount(samples)
        if not self.trains_sequences:
            return ReplayedTransitions(samples, self.forward, discount_n)
        return ReplayedSequences(
            samples,
            self.forward,
            discount_n,
            self.warmup_T,
            self.n_step_return,
            self.mid_batch_reset,
            null_action_of(self.agent),
            self.agent.takes_starts,
            self.initial_state,
        )

    def initial_state(self, network: Any, recorded: Any) -> Any:
        """Return the recurrent state before the first row of a sequence.

        Args:
            network: function that is evaluated, such as ``self.agent.target``.
            recorded: recorded state of the agent, leaves [N, B, H]; ``None`` if none is stored.

        Returns:
            The network's state, leaves [N, B, H]; ``None``: zeros.
        """
        return recorded

    def learn_from(self, batch: NamedArrayTuple, opt_info: Any) -> None:
        """Update on a batch; set its priorities, update targets, and record statistics.

        Args:
            batch: batch from the replay.
            opt_info: named tuple with a list for each of ``opt_info_fields``.
        """
        inputs = self.to_device(batch)
        with self.explained(inputs):
            statistics, priorities = self.update(inputs)
        self.recorded.end_update()
        if self.prioritized_replay:
            self._prioritize(batch, priorities)
        self.count_update()
        self.append_opt_info_(opt_info, *statistics)

    def update(self, batch: NamedArrayTuple) -> tuple[tuple[Any, ...], torch.Tensor]:
        """Take the gradient steps of one update.

        It changes only parameters and optimizers, so it can be compiled as a whole.

        Args:
            batch: batch from the replay, on the agent's device.

        Returns:
            Statistics (arguments of ``append_opt_info_``), and priorities [B] of these samples
            without gradient, such as absolute TD errors.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement update.")

    def append_opt_info_(self, opt_info: Any, *statistics: Any) -> None:
        """Add a few values of each statistic of an update to the lists of ``opt_info``.

        Args:
            opt_info: named tuple of lists.
            statistics: tensor for each of ``returned_fields``, or ``None`` to add nothing.
        """
        for name, values in zip(self.returned_fields, statistics, strict=True):
            if values is not None:
                getattr(opt_info, name).extend(subsample(values))

    @property
    def updates_per_optimize(self) -> int:
        """Return updates per iteration: the rounded mean, at least 1, or the number set.

        If set after ``initialize``, every iteration makes this number of updates.
        """
        mean = max(1, round(self.updates_due(self.sampler_bs)))
        return mean if self._fixed_updates is None else self._fixed_updates

    @updates_per_optimize.setter
    def updates_per_optimize(self, updates: int) -> None:
        self._fixed_updates = updates

    def updates_due(self, n_steps: float) -> float:
        """Return the number of updates (a float) due after ``n_steps`` by the replay ratio."""
        return self.replay_ratio * n_steps / self.samples_per_update

    @property
    def samples_per_update(self) -> int:
        """Return the number of replayed steps of one update, including those of burn-in."""
        if self.trains_sequences:
            return (self.batch_T + self.warmup_T) * self.batch_B
        return self.batch_size

    def _new_steps(self) -> float:
        """Return the number of valid steps in this iteration's batch, averaged over ranks."""
        steps = float(self.sampler_bs - self.n_void)
        if self.mid_batch_reset:
            return steps
        # Ranks average gradients, so all must make the same number of updates.
        return self._mean_over_ranks(steps)

    def _mean_over_ranks(self, number: float) -> float:
        if self.world_size == 1:
            return number
        tensor = torch.tensor(float(number), device=self.agent.device)
        return float(mean_over_ranks(tensor, self.world_size))

    def update_itr_hyperparams(self, itr: int) -> None:
        """Set hyperparameters that depend on the iteration: beta of prioritized replay."""
        if self.prioritized_replay:
            ends = (self.pri_beta_init, self.pri_beta_final)
            self.replay_buffer.set_beta(annealed(itr, self.min_itr_learn, self.pri_beta_itr, *ends))

    def count_update(self) -> None:
        """Count an update, and update the target networks at their interval."""
        self.update_counter += 1
        if self.update_counter % self.target_update_interval == 0:
            self.update_targets()

    def update_targets(self) -> None:
        """Move the target networks towards the trained ones."""
        self.agent.update_target(self.target_update_tau)

    def bootstrap_discount(self, samples: NamedArrayTuple) -> torch.Tensor:
        """Return the discount of the target inputs' value, in the shape of ``return_``."""
        discount_n = getattr(samples, "__dict__", {}).get("discount_n")
        if discount_n is not None:
            return discount_n  # type: ignore[no-any-return]
        # Batch made by a custom replay: n rewards, and no time limits.
        return torch.as_tensor(1 - samples.done_n.float()) * self.discount**self.n_step_return

    def weighted(self, losses: torch.Tensor, samples: NamedArrayTuple) -> torch.Tensor:
        """Weight losses [.., B] by importance if the replay is prioritized."""
        return losses * samples.is_weights if self.prioritized_replay else losses

    def weighted_mean(
        self, losses: torch.Tensor, samples: NamedArrayTuple, valid: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the mean of losses, weighted by importance if the replay is prioritized.

        Args:
            losses: [B], or [T, B] of sequences.
            samples: batch from the replay.
            valid: mask of the losses that count; ``None``: all.
        """
        losses = self.weighted(losses, samples)
        return losses.mean() if valid is None else valid_mean(losses, valid)

    def forward(self, network: Any, *inputs: Any) -> Any:
        """Return the outputs of ``self.agent`` or ``self.agent.target`` in float32.

        With ``mixed_precision`` the network runs in bfloat16.
        """
        if not self.mixed_precision:
            return network(*inputs)
        with torch.autocast(self.agent.device.type, torch.bfloat16):
            output = network(*inputs)
        return buffer_method(output, "float")

    # Priorities.

    def priorities(self, td_abs_errors: torch.Tensor, samples: NamedArrayTuple) -> torch.Tensor:
        """Return the priorities [B] of a batch.

        Args:
            td_abs_errors: absolute TD errors, or other measures of surprise: [B] are priorities,
                those of sequences [batch_T, B] are joined.
            samples: batch from the replay.
        """
        if td_abs_errors.dim() == 1:
            return td_abs_errors
        valid, _ = valid_and_ends(samples, self.warmup_T, self.mid_batch_reset)
        return sequence_priority(td_abs_errors, valid, self.pri_eta)

    def _prioritize(self, batch: NamedArrayTuple, priorities: torch.Tensor) -> None:
        priorities = priorities.cpu() + PRIORITY_EPS
        ticket = getattr(batch, "ticket", None) if self.passes_tickets else None
        tickets = () if ticket is None else (ticket,)
        self.replay_buffer.update_batch_priorities(priorities, *tickets)
        largest = priorities.max().item()
        if self.default_priority is None and largest > self.new_priority:
            self._set_new_priority(largest)

    def _set_new_priority(self, priority: float) -> None:
        """Set the priority of new samples, the largest so far (Schaul et al. 2016)."""
        self.new_priority = priority
        self.replay_buffer.set_default_priority(priority)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return the states of optimizer, counters, new priority and, if saved, the replay."""
        state = super().state_dict()
        state["new_priority"] = self.new_priority
        state["batches_in_replay"] = self.batches_in_replay
        state["replay"] = self.replay_buffer.state_dict() if self._saves_replay() else None
        state["steps_counted"] = self.schedule.steps
        state["updates_postponed"] = self.schedule.postponed
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state; if it has no replay, fill one before learning continues."""
        super().load_state_dict(state)
        self.batches_in_replay = 0
        replay, on_device = state["replay"], isinstance(self.replay_buffer, DeviceReplayBuffer)
        was_on_device = isinstance(replay, Mapping) and replay.get("kind") == "device"
        if replay is not None and was_on_device == on_device:
            self.replay_buffer.load_state_dict(replay)
            self.batches_in_replay = whole_number("batches", state["batches_in_replay"], 0)
        else:
            logger.log(
                "The checkpoint has no replay (save_replay), or one of another kind of device: "
                f"{self.min_steps_learn:,} steps are collected before learning continues."
            )
        saved = state.get("new_priority", self.new_priority)
        self._set_new_priority(self.default_priority or saved)
        steps, postponed = state.get("steps_counted", 0), state.get("updates_postponed", 0)
        check_range("steps_counted", steps, 0, 2**53)
        self.schedule.steps = steps
        self.schedule.postponed = whole_number("updates_postponed", postponed, 0)

    def interrupt(self) -> None:
        """Mark a discontinuity in the replay, and in statistics of returns."""
        super().interrupt()
        removed = self.replay_buffer.interrupt() or 0  # a custom replay may return nothing
        self.batches_in_replay -= -(-removed // self.batch_spec.T)

    def _can_be_saved(self) -> bool:
        needed = ("state_dict", "load_state_dict")
        return all(hasattr(self.replay_buffer, name) for name in needed)

    def _saves_replay(self) -> bool:
        if self.save_replay is None:
            size = getattr(self.replay_buffer, "nbytes", SMALL_REPLAY + 1)
            return self._can_be_saved() and size <= SMALL_REPLAY
        return bool(self.save_replay) and self._can_be_saved()


def goal_of(observation: Any) -> Any:
    """Return the achieved goal of an observation.

    Raises:
        ValueError: it has none, or no desired goal.
    """
    parts = getattr(observation, "_fields", ())
    if not {"achieved_goal", "desired_goal"} <= {*parts}:
        raise ValueError(
            "hindsight must be None for observations without the parts achieved_goal and "
            f"desired_goal, got {list(parts) or 'one array'}."
        )
    return observation.achieved_goal


def _field_of(samples: NamedArrayTuple, name: str) -> Any:
    """Return what the replay stores of a batch [T, B] as ``name``, beside ``SamplesToBuffer``."""
    if name == "final_goal":
        return final_goals(samples.env)
    env_info, agent_info = samples.env.env_info, samples.agent.agent_info
    return env_info.timeout if name == "timeout" else agent_info.prev_rnn_state


def final_goals(env: Any) -> torch.Tensor:
    """Return the goals [T, B, ...] achieved after steps that ended an episode, elsewhere zeros.

    Args:
        env: part of a sampler's batch.

    Raises:
        ValueError: the collector does not record final observations.
    """
    if "final_observation" not in env._fields:
        raise ValueError(
            "hindsight must be None with a collector that does not record final observations. Set "
            "records_final_observations = True in its class and write them where episodes end."
        )
    goal = env.final_observation.achieved_goal
    done = env.done.view(*env.done.shape, *[1] * (goal.dim() - 2))
    return torch.where(done, goal, torch.zeros_like(goal))


def subsample(values: torch.Tensor, most: int = 8) -> Sequence[float]:
    """Return about ``most`` of the values, evenly spaced; without NaN, which do not count."""
    if values.dim() == 0:
        return [values.item()]
    flat = values.flatten()
    stride = max(1, len(flat) // most)
    few = len(flat) <= FEW and flat.device.type == "cpu"
    chosen = flat.tolist()[::stride] if few else flat[::stride].tolist()
    return [x for x in chosen if not math.isnan(x)]
