"""What algorithms that learn from replay share: when and how often to learn, what to store."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from rlpyt.algos.gradient import GradientAlgo
from rlpyt.replays.batch import FinalObservations, ReplayBatch
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.selection import PrioritizedSelection
from rlpyt.utils.buffer import buffer_to, leaves_of
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import get_seed

IMAGE_DIMS = 3
COLOURS = 3  # channels of one picture: red, green, blue
SMALL_REPLAY = 200e6  # bytes; checkpoints keep replays up to this size unless told otherwise


class OffPolicyAlgo(GradientAlgo):
    """Base of algorithms with a replay, whose hyperparameters it reads as attributes.

    The sampler records final observations of truncated episodes, and the replay keeps them, so
    that targets bootstrap from them.
    """

    final_observation = True

    # Hyperparameters that every subclass declares, beside those of the base.
    discount: float
    min_steps_learn: int
    replay_size: int
    replay_ratio: float
    n_step_return: int
    ReplayBufferCls: Any
    updates_per_sync: int
    save_replay: bool | None

    batch_size_is: ClassVar[str] = "batch_size"  # in terms of arguments
    replay_buffer: Any = None
    _told_of_missing_finals = False
    batches_in_replay = 0  # of this run; since the resume, where a checkpoint held no replay

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("discount", self.discount, 0, 1)
        check_range("replay_ratio", self.replay_ratio, 0, open_low=True)
        self.min_steps_learn = whole_number("min_steps_learn", self.min_steps_learn, 0)
        self.replay_size = whole_number("replay_size", self.replay_size, 1)
        self.n_step_return = whole_number("n_step_return", self.n_step_return, 1)
        self.updates_per_sync = whole_number("updates_per_sync", self.updates_per_sync, 1)
        if not isinstance(self.save_replay, bool | None):
            raise TypeError(f"save_replay={self.save_replay!r} must be True, False or None.")
        for name, least in (
            (self.batch_size_is, self.batch_size),
            ("n_step_return", self.n_step_return),
            ("min_steps_learn", self.min_steps_learn),
        ):
            if self.replay_size < least:
                raise ValueError(
                    f"replay_size={self.replay_size:,} is below {name}={least:,}; the replay must "
                    "hold what learning begins with, and a batch."
                )

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

        Where an iteration samples less than the ratio wants for one update, there is one update
        every few iterations.

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
        self.itrs_per_optimize = 1
        if updates is None:
            exact = self.replay_ratio * sampler_bs / self.batch_size
            updates = max(1, round(exact))
            self.itrs_per_optimize = max(1, round(1 / exact))
        self.updates_per_optimize = updates
        self.batches_in_replay = 0

    def plan_beginning(self) -> None:
        """Let learning begin after ``min_steps_learn``, and when the replay can be sampled from.

        Raises:
            ValueError: it would never begin.
        """
        T, B = self.batch_spec
        asked = int(self.min_steps_learn // self.itr_steps)
        rows = rows_to_begin(self.replay_buffer)
        self.min_itr_learn = max(asked, -(-rows // T) - 1)
        late = self.min_itr_learn > asked
        steps, why = self.min_itr_learn * self.itr_steps, "min_steps_learn"
        if late:
            why = f"the replay gives its first sample once it holds {rows} rows of {B} environments"
        if self.min_itr_learn >= self.n_itr:
            raise ValueError(
                f"learning would begin after {steps:,} steps ({why}), which is not below the "
                f"{self.n_itr * self.itr_steps:,} steps of the run, so it would never learn; run "
                "longer or begin earlier."
            )
        if late:
            logger.log(
                f"{type(self).__name__}: learning begins after {steps:,} steps, not after "
                f"min_steps_learn={self.min_steps_learn:,}; {why}."
            )

    def may_learn(self, itr: int, sampler_itr: int | None) -> bool:
        """Whether it is time to, and there is enough to learn from."""
        if itr < self.min_itr_learn or (itr + 1) % self.itrs_per_optimize:
            return False
        # Without a replay in the checkpoint, a resumed run has to fill it anew.
        return sampler_itr is not None or self.batches_in_replay > self.min_itr_learn

    # What to store.

    def examples_to_buffer(self, examples: Any) -> Any:
        """One step as the replay keeps it, from the sampler's examples."""
        raise NotImplementedError(f"{type(self).__name__} must implement examples_to_buffer.")

    def samples_to_buffer(self, samples: Any) -> Any:
        """A batch [T, B] as the replay takes it, from the sampler's."""
        raise NotImplementedError(f"{type(self).__name__} must implement samples_to_buffer.")

    def store(self, samples: Any) -> None:
        """Put a batch [T, B] of the sampler's into the replay."""
        try:
            self.replay_buffer.append_samples(self.samples_to_buffer(samples))
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
        if timeout is None or not self._takes_finals():
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

    def _tell_of_missing_finals(self) -> None:
        if not self._told_of_missing_finals:
            self._told_of_missing_finals = True
            logger.log(
                f"{type(self).__name__}: the collector does not record final observations "
                "(records_final_observations), so episodes cut off by a time limit count as ended."
            )

    def _takes_finals(self) -> bool:
        cls = self.ReplayBufferCls if self.replay_buffer is None else type(self.replay_buffer)
        return cls is None or (isinstance(cls, type) and issubclass(cls, ReplayBuffer))

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
        """Raise ValueError if the replay cannot do what the settings ask of it."""
        if self.save_replay and not self._can_be_saved():
            raise ValueError(
                f"save_replay=True, but {type(self.replay_buffer).__name__} cannot be saved: it "
                "needs state_dict() and load_state_dict(state)."
            )

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizer; let each of several processes draw from replay on its own."""
        super().optim_initialize(rank)
        if rank and hasattr(self.replay_buffer, "set_seed"):
            self.replay_buffer.set_seed(get_seed(), rank)

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

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, counters, and the replay if it is to be kept."""
        state = super().state_dict()
        state["batches_in_replay"] = self.batches_in_replay
        state["replay"] = self.replay_buffer.state_dict() if self._keeps_replay() else None
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; without a replay in it, fill one before learning goes on."""
        super().load_state_dict(state)
        if state["replay"] is not None:
            self.replay_buffer.load_state_dict(state["replay"])
            self.batches_in_replay = state["batches_in_replay"]
            return
        self.batches_in_replay = 0
        logger.log(
            f"The checkpoint holds no replay (save_replay); {self.min_steps_learn:,} steps are "
            "collected before learning goes on."
        )

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
        return bool(self.save_replay)


def rows_to_begin(replay: Any) -> int:
    """Rows of B environments that a replay must hold before something can be drawn from it.

    Of a user's own replay nothing is known: one.
    """
    if not isinstance(replay, ReplayBuffer):
        return 1
    every = max(1, replay.rnn_state_interval)
    first = -(-replay.off_forward // every) * every  # where the first window can begin
    return int(first + 1 + replay.window.rows_after(replay, None))


def with_fields(samples: Any, **more: Any) -> Any:
    """A named tuple with further fields."""
    fields = {**dict(samples.items()), **more}
    return namedarraytuple(type(samples).__name__, tuple(fields))(*fields.values())


def check_suits(algo: str, own: Any, usual: Any, observation: Any) -> None:
    """Raise ValueError where a class of replay does something else than is asked for.

    Args:
        algo: the algorithm's name.
        own: the user's class.
        usual: one that does what is asked for.
        observation: an example.
    """

    def kind(cls: Any) -> tuple[bool, bool, bool]:
        prioritized = issubclass(cls.Selection, PrioritizedSelection)
        return cls.Window.sequences, prioritized, cls.async_

    (sequences, prioritized, shared), asked = kind(own), kind(usual)
    wrong = ""
    if sequences != asked[0]:
        wrong = f"gives {'sequences' if sequences else 'single transitions'}"
    elif prioritized != asked[1]:
        wrong = f"has {'' if prioritized else 'no '}priorities (prioritized_replay={asked[1]})"
    elif asked[2] and not shared:
        wrong = "is not in shared memory, which this runner needs"
    elif issubclass(own, FrameBufferMixin) and np.ndim(leaves_of(observation)[0]) < 2:
        wrong = f"keeps stacks of frames, and observations are {list(np.shape(observation))}"
    if wrong:
        raise ValueError(
            f"{algo}: ReplayBufferCls={own.__name__} {wrong}; use one like {usual.__name__}, or "
            "change what it contradicts."
        )


def is_frame_stack(observation: Any) -> bool:
    """Whether an observation looks like [C, H, W] bytes: C frames, of which one is new.

    With C = 3 it is one picture in colours, and with a multiple of 3 several of them, whose last
    channel is not all that is new in a step; with C = 1 it is one in grey, and there are no older
    frames to leave out. Where 3, 6, ... grey frames are stacked, say so with ``ReplayBufferCls``;
    otherwise they are kept in full, correct and so many times as large.
    """
    array = np.asarray(observation) if not isinstance(observation, tuple) else None
    if array is None or array.ndim != IMAGE_DIMS or array.dtype != np.uint8:
        return False
    C = array.shape[0]
    return bool(C > 1 and C % COLOURS)


def null_action_of(agent: Any) -> Any:
    """The previous action of an episode's first step."""
    null = getattr(agent.env_spaces.action, "null_value", None)
    return null() if callable(null) else 0


def thinned(values: torch.Tensor, most: int = 8) -> Sequence[float]:
    """A few of many numbers, for statistics."""
    flat = values.flatten()
    return flat[:: max(1, len(flat) // most)].tolist()  # type: ignore[no-any-return]
