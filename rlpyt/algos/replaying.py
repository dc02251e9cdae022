"""What algorithms put into a replay, and draw from it."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from rlpyt.algos.gradient import GradientAlgo
from rlpyt.algos.replay_choice import TRANSITIONS, Replays, check_suits, is_frame_stack
from rlpyt.algos.returns import valid_from_done
from rlpyt.replays.batch import FinalObservations, ReplayBatch
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger

SamplesToBuffer = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])

SMALL_REPLAY = 200e6  # bytes; checkpoints keep replays up to this size unless told otherwise
PRIORITY_EPS = 1e-6  # so that nothing is out of reach for ever (Schaul et al. 2016, section 3.3)


class ReplayAlgo(GradientAlgo):
    """Base of algorithms with a replay, whose hyperparameters it reads as attributes.

    The sampler records final observations of truncated episodes, and the replay keeps them, so
    that targets bootstrap from them.
    """

    final_observation = True

    # Hyperparameters that every subclass declares.
    discount: float
    replay_size: int
    n_step_return: int
    prioritized_replay: bool
    pri_alpha: float
    pri_beta_init: float
    pri_beta_final: float
    pri_beta_steps: int | None
    default_priority: float | None
    ReplayBufferCls: Any
    save_replay: bool | None

    bootstrap_timelimit = True  # else what a time limit ends counts as ended
    replays: ClassVar[Replays] = TRANSITIONS  # to choose from
    batch_spec: Any
    replay_buffer: Any = None
    n_void = 0  # void rows in the batch stored last, in which environments waited for a reset
    batches_in_replay = 0  # of this run; since the resume, where a checkpoint held no replay
    _told_of_missing_finals = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.new_priority = float(self.default_priority or 1)

    # The replay itself.

    def initialize_replay_buffer(
        self, examples: Any, batch_spec: Any, async_: bool = False
    ) -> None:
        """Allocate the replay: of frames if observations are stacks of them (uint8 [C, H, W]).

        Args:
            examples: one step of everything.
            batch_spec: T and B of the sampler's batches.
            async_: in shared memory.

        Raises:
            ValueError: the user's class of replay contradicts other settings.
        """
        example = self.examples_to_buffer(examples)
        cls = self.choose_replay(self.replays[self.prioritized_replay, async_], example)
        self.replay_buffer = cls(example=example, **self.replay_arguments(batch_spec))

    def replay_arguments(self, batch_spec: Any) -> dict[str, Any]:
        """The replay's arguments, but for its example."""
        kwargs = dict(
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
        return kwargs

    def choose_replay(self, chosen: Any, example: Any) -> Any:
        """The user's class of replay if there is one; of two, the one that fits observations.

        Args:
            chosen: (for stacks of frames, for anything else).
            example: one step, to look at its observation.

        Raises:
            TypeError: what the user gave is no class.
            ValueError: it contradicts other arguments.
        """
        own = self.ReplayBufferCls
        if own is None:
            return chosen[0] if is_frame_stack(example.observation) else chosen[1]
        if not callable(own):
            raise TypeError(
                f"ReplayBufferCls={own!r:.80} must be a class of replay, such as "
                f"{chosen[1].__name__}."
            )
        if isinstance(own, type) and issubclass(own, ReplayBuffer):
            check_suits(type(self).__name__, own, chosen[1], example.observation)
        logger.log(
            f"{type(self).__name__}: ReplayBufferCls={getattr(own, '__name__', own)} was given, "
            f"and is used in place of {chosen[1].__name__}."
        )
        return own

    def null_action(self) -> dict[str, Any]:
        """The replay's argument of that name, where an episode's first previous action is not 0."""
        null = null_action_of(self.agent)
        return {"null_action": null} if np.any(null) else {}

    def check_replay(self) -> None:
        """Warn if the replay keeps void rows, or cannot be saved although it should be."""
        if not self.mid_batch_reset and not self._is_ours():
            warnings.warn(
                f"{type(self.replay_buffer).__name__} is not a ReplayBuffer of rlpyt, so rows in "
                "which environments wait for a reset are learnt from. Use a CollectorCls "
                "with mid_batch_reset, such as CpuResetCollector."
            )
        if self.save_replay and not self._can_be_saved():
            warnings.warn(
                f"save_replay=True, but {type(self.replay_buffer).__name__} has no state_dict() "
                "and load_state_dict(state): checkpoints do not contain the replay."
            )

    # What to store.

    def examples_to_buffer(self, examples: Any) -> Any:
        """One step as the replay keeps it.

        Raises:
            ValueError: the replay needs to know of time limits, and the environment does not tell.
        """
        example = SamplesToBuffer(
            observation=examples["observation"],
            action=examples["action"],
            reward=examples["reward"],
            done=examples["done"],
        )
        if not self.needs_timeout():
            return example
        env_info = examples["env_info"]
        if not hasattr(env_info, "timeout"):
            raise ValueError(
                f"{self.ReplayBufferCls.__name__} needs `timeout` in env_info, true where a time "
                f"limit ended the episode; the environment gives {env_info._fields}."
            )
        return with_fields(example, timeout=env_info.timeout)

    def samples_to_buffer(self, samples: Any) -> Any:
        """A batch [T, B] as the replay takes it, with final observations if there are any."""
        to_buffer = SamplesToBuffer(
            observation=samples.env.observation,
            action=samples.agent.action,
            reward=samples.env.reward,
            done=samples.env.done,
        )
        if self.needs_timeout():
            to_buffer = with_fields(to_buffer, timeout=samples.env.env_info.timeout)
        return self.with_finals(to_buffer, samples)

    def store(self, samples: Any) -> None:
        """Put a batch [T, B] of the sampler's into the replay."""
        self.n_void = 0
        to_buffer = self.with_void(self.samples_to_buffer(samples), samples)
        try:
            self.replay_buffer.append_samples(to_buffer)
        except ValueError as error:
            if isinstance(self.replay_buffer, FrameBufferMixin):
                error.add_note(
                    f"({type(self).__name__} keeps observations frame by frame. If they are no "
                    "stacks of frames, give it a ReplayBufferCls that keeps them whole: "
                    f"{type(self.replay_buffer).__name__.replace('Frame', '')}.)"
                )
            raise
        self.batches_in_replay += 1
        self.update_obs_rms(samples)

    def needs_timeout(self) -> bool:
        """Whether the user's class of replay wants a field ``timeout``: which steps hit a limit."""
        return bool(getattr(self.ReplayBufferCls, "time_limits", False))

    def with_finals(self, to_buffer: Any, samples: Any) -> Any:
        """The same with a field ``final`` for what the sampler recorded of truncated episodes.

        Args:
            to_buffer: what goes into the replay, [T, B].
            samples: the sampler's batch.
        """
        timeout = getattr(samples.env.env_info, "timeout", None)
        if timeout is None or not self.bootstrap_timelimit or not self._is_ours():
            return to_buffer
        recorded = getattr(samples.env, "final_observation", None)
        if recorded is None:
            self._tell_of_missing_finals()
            return to_buffer
        where = (timeout.bool() & samples.env.done.bool()).numpy().nonzero()
        if not len(where[0]):
            return to_buffer
        final = FinalObservations(*where, recorded[where])
        return with_fields(to_buffer, final=final)

    def with_void(self, to_buffer: Any, samples: Any) -> Any:
        """Add a field ``void`` if environments wait for a reset until the batch ends.

        Args:
            to_buffer: samples for the replay, [T, B].
            samples: the sampler's batch.
        """
        if self.mid_batch_reset or not self._is_ours():
            return to_buffer
        if "priorities" in to_buffer._fields:
            return to_buffer._replace(samples=self.with_void(to_buffer.samples, samples))
        void = valid_from_done(samples.env.done) == 0
        self.n_void = int(void.sum())
        return with_fields(to_buffer, void=void)

    def _tell_of_missing_finals(self) -> None:
        if not self._told_of_missing_finals:
            self._told_of_missing_finals = True
            logger.log(
                f"{type(self).__name__}: the collector does not record final observations "
                "(records_final_observations), so episodes cut off by a time limit count as ended."
            )

    def _is_ours(self) -> bool:
        """Return True if the replay takes the fields ``final`` and ``void``."""
        cls = self.ReplayBufferCls if self.replay_buffer is None else type(self.replay_buffer)
        return cls is None or (isinstance(cls, type) and issubclass(cls, ReplayBuffer))

    # What to learn from.

    def on_device(self, samples: Any) -> Any:
        """A batch from the replay on the agent's device."""
        device = self.agent.device
        return samples if device.type == "cpu" else buffer_to(samples, device)

    def bootstrap_discount(self, samples: Any) -> torch.Tensor:
        """What the value of the target inputs is multiplied by, in the shape of ``return_``."""
        if isinstance(samples, ReplayBatch):
            return samples.discount_n  # type: ignore[no-any-return]
        # A batch of a user's own replay: n rewards, and no time limits.
        return torch.as_tensor(1 - samples.done_n.float()) * self.discount**self.n_step_return

    def weighted(self, losses: torch.Tensor, samples: Any) -> torch.Tensor:
        """Losses [.., B], weighted by importance where replay is prioritised."""
        return losses * samples.is_weights if self.prioritized_replay else losses

    def weighted_mean(self, losses: torch.Tensor, samples: Any) -> torch.Tensor:
        """Mean of losses [B], weighted by importance where replay is prioritised."""
        return self.weighted(losses, samples).mean()

    # Priorities.

    def _prioritize(self, batch: Any, priorities: torch.Tensor) -> None:
        if not self.prioritized_replay:
            return
        priorities = priorities.cpu() + PRIORITY_EPS
        ticket = getattr(batch, "ticket", None)
        rows = () if ticket is None else (ticket,)
        self.replay_buffer.update_batch_priorities(priorities, *rows)
        greatest = priorities.max().item()
        if self.default_priority is None and greatest > self.new_priority:
            self._give_new_samples(greatest)

    def _give_new_samples(self, priority: float) -> None:
        """Let samples to come rank first, until they have been tried (Schaul et al. 2016)."""
        self.new_priority = priority
        if hasattr(self.replay_buffer, "set_default_priority"):
            self.replay_buffer.set_default_priority(priority)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, counters, the priority of new samples, and the replay if it is to be kept."""
        state = super().state_dict()
        state["new_priority"] = self.new_priority
        state["batches_in_replay"] = self.batches_in_replay
        state["replay"] = self.replay_buffer.state_dict() if self._keeps_replay() else None
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        super().load_state_dict(state)
        self.batches_in_replay = 0
        if state["replay"] is not None:
            self.replay_buffer.load_state_dict(state["replay"])
            self.batches_in_replay = state["batches_in_replay"]
        self._give_new_samples(state.get("new_priority", self.new_priority))

    def interrupt(self) -> None:
        """Tell the replay that what it is given next does not follow what it was given last."""
        if hasattr(self.replay_buffer, "interrupt"):
            gone = self.replay_buffer.interrupt() or 0  # rows
            self.batches_in_replay -= -(-gone // self.batch_spec.T)

    def _can_be_saved(self) -> bool:
        needed = ("state_dict", "load_state_dict")
        return all(hasattr(self.replay_buffer, name) for name in needed)

    def _keeps_replay(self) -> bool:
        if self.save_replay is None:
            size = getattr(self.replay_buffer, "nbytes", SMALL_REPLAY + 1)
            return self._can_be_saved() and size <= SMALL_REPLAY
        return bool(self.save_replay) and self._can_be_saved()


def null_action_of(agent: Any) -> Any:
    """The previous action of an episode's first step."""
    null = getattr(agent.env_spaces.action, "null_value", None)
    return null() if callable(null) else 0


def with_fields(samples: Any, **more: Any) -> Any:
    """A named tuple with further fields."""
    fields = {**dict(samples.items()), **more}
    return namedarraytuple(type(samples).__name__, tuple(fields))(*fields.values())


def thinned(values: torch.Tensor, most: int = 8) -> Sequence[float]:
    """A few of many numbers, for statistics."""
    flat = values.flatten()
    return flat[:: max(1, len(flat) // most)].tolist()  # type: ignore[no-any-return]
