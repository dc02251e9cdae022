"""Base class of algorithms: the interface for runners, and an optimizer for the agent."""

import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.compiled import TracedStep, compiled_function
from rlpyt.algos.diagnostics import Columns, UpdateRecord, read_means
from rlpyt.algos.optim import GradientStep, checked_arguments
from rlpyt.algos.precision import warn_of_slow_precision
from rlpyt.algos.returns import valid_from_done
from rlpyt.algos.reward_normalizer import RewardNormalizer
from rlpyt.algos.untrained import warn_of_untrained
from rlpyt.algos.update_schedule import UpdateSchedule
from rlpyt.envs.base import BatchSpec
from rlpyt.errors import NonFiniteError
from rlpyt.models.utils import module_not_finite, unwrap_ddp
from rlpyt.utils.buffer import buffer_func, buffer_to
from rlpyt.utils.checks import (
    check_settings,
    checked,
    declared,
    limits_of,
    scalar,
    whole_number,
)
from rlpyt.utils.collections import AttrDict, NamedArrayTuple
from rlpyt.utils.completion import warn_of_lost_state
from rlpyt.utils.names import warn_if_meant
from rlpyt.utils.recorded import Recorded
from rlpyt.utils.schedules import Decay, Piecewise, schedule_of
from rlpyt.utils.seed import torch_state


class _StepOfOwnOptimizer:
    """``gradient_step`` of a subclass whose own ``initialize`` has only made ``optimizer``."""

    def __get__(self, algo: Any, cls: type | None = None) -> Any:
        if algo is None or algo.optimizer is None:
            return None
        algo.adopt_optimizer()
        return algo.gradient_step


class RlAlgorithm(Recorded):
    """Base class of algorithms, which train an agent on samples.

    Algorithms are dataclasses whose fields are hyperparameters (`rlpyt.utils.checks.setting`). The
    constructor only stores and checks them; ``initialize`` builds the optimizer and the replay
    buffer, if any. Custom algorithms need not be dataclasses.

    Settings can be changed during training by assigning them: a value takes effect at the next
    update, in all processes of the run. Those that cannot take effect any more raise an error.
    Settings declared by `rlpyt.utils.checks.scheduled` may also follow a schedule, see
    `rlpyt.utils.schedules`; the attribute is then the value of the current iteration.

    Attributes:
        agent: the agent that is trained.
        mid_batch_reset: True if environments are reset within a batch.
        void_rows: True if the sampler marks rows of broken episodes (``samples.env.void``); set by
            the runner.
        heeds_void: (class attribute) True if losses and statistics leave out what ``valid_steps``
            does.
        gradient_step: `GradientStep` of the optimizer.
        update_counter: number of updates.
        recorded: statistics given to ``record`` since the last iteration.
        rank: rank of this process among those that train together.
        progress: progress of the run, from 0 to 1, at which schedules are evaluated.
        schedules: functions of the progress, by name of the setting.
        changes: settings that were assigned after ``initialize``, by name.
    """

    opt_info_fields: ClassVar[tuple[str, ...]] = ()  # names of the statistics of updates
    recorded_fields: ClassVar[tuple[str, ...]] = ()  # those of them that are given to ``record``
    OptInfo: ClassVar[Any] = namedtuple("OptInfo", ())  # named tuple of the others
    bootstrap_value = False  # True if samplers record ``agent.value``
    final_observation = False  # True if samplers record final observations
    update_counter = 0
    min_itr_learn = 0  # number of iterations before learning begins
    rank = 0
    discount: float = 1.0  # gamma of `TrajInfo.DiscountedReturn` and of targets
    _batch_size = 0  # samples in one training batch; 0 makes the logged replay ratio 0
    n_itr = 1  # number of iterations of the run

    heeds_void: ClassVar[bool] = False
    progress = 0.0
    _itr = 0  # iteration of ``progress``
    schedules: Mapping[str, Callable[[float], float]] = MappingProxyType({})
    changes: Mapping[str, Any] = MappingProxyType({})
    _started = False  # True from the end of ``initialize``

    agent: Any
    recorded: UpdateRecord
    _watched: set[str]  # names of settings, and of what has a follower
    _followers: dict[str, Callable[[Any], Any]]  # by name of the setting
    _fixed: dict[str, str]  # reasons, by name of the setting
    update: Any  # method that trains on one batch
    mid_batch_reset: bool
    void_rows = False
    gradient_step: Any = _StepOfOwnOptimizer()
    optimizer: Any = None  # optimizer of ``gradient_step``, or a custom one

    # Hyperparameters that ``optim_initialize`` and other methods read; subclasses may declare them.
    learning_rate: Any  # float
    OptimCls: Any = torch.optim.Adam
    optim_kwargs: dict[str, Any] | None = None
    clip_grad_norm: float | None = None
    initial_optim_state_dict: dict[str, Any] | None = None
    compile: str | None = None
    compile_loss = False  # name of compile="loss" in earlier versions
    mixed_precision = False
    normalize_reward: bool = False  # True if losses are of rewards in other units
    reward_normalizer: RewardNormalizer | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Add the record of statistics, also to subclasses with their own constructor."""
        self = super().__new__(cls, *args, **kwargs)
        vars(self).update(
            recorded=UpdateRecord(),
            schedules={},
            changes={},
            schedule=UpdateSchedule(),
            _watched={*declared(cls)},
            _followers={},
            _fixed={},
        )
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a setting takes effect at the next update.

        Raises:
            AttributeError: the setting cannot be changed after ``initialize``.
            TypeError, ValueError: the value has the wrong type, is out of range, or is not a
                schedule.
        """
        if name in self._watched:
            self._change(name, value)
        else:
            if self._started and name not in self.__dict__:
                warn_if_meant(self, name, declared(type(self)), "setting")
            object.__setattr__(self, name, value)

    def __post_init__(self) -> None:
        check_settings(self, self.schedules)
        if self.compile_loss and self.compile is None:
            self.compile = "loss"
        checked_arguments(self.OptimCls, self.optim_kwargs)
        if self.optim_kwargs is None:  # a mapping, as overrides of rlpyt's (2019) expect
            self.optim_kwargs = {}

    # Settings.

    def _change(self, name: str, value: Any) -> None:
        """Set a setting to a number or a schedule, in place of a schedule that it may follow."""
        item = declared(type(self)).get(name)
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        if self._started:
            self._check_that_it_can_change(name)
        is_number = isinstance(scalar(value), int | float | None)
        if item is not None and limits_of(item).scheduled and not is_number:
            self.follow_schedule(name, schedule_of(name, value, getattr(type(self), name)))
        else:
            if item is not None and self._started:
                value = checked(item, value, limits_of(item))
            self._put(name, value)
            self.schedules.pop(name, None)  # type: ignore[attr-defined]
        if self._started:
            self.changes[name] = value  # type: ignore[index]

    def warn_of_unused(self, names: Iterable[str], why: str) -> None:
        """Warn of those of these settings that differ from their defaults: nothing reads them."""
        default = partial(getattr, type(self))
        given = {name: getattr(self, name, None) for name in names}
        unused = [f"{name}={x!r}" for name, x in given.items() if x != default(name, None)]
        if unused:
            what = f"{', '.join(unused)} of {type(self).__name__} has no effect"
            warnings.warn(f"{what}, since {why}.")

    def follow_schedule(self, name: str, schedule: Callable[[float], float]) -> None:
        """Let a setting follow a function of the progress.

        Raises:
            TypeError, ValueError: a value at an end or a point, or the current one, is invalid.
        """
        value_at = partial(checked_value, type(self), name, schedule)
        points = schedule.points if isinstance(schedule, Piecewise) else ()
        for progress in (0.0, *(progress for progress, _ in points), 1.0):
            value_at(progress)
        # The values of a `Decay` are between the first and the last one.
        bounded = type(schedule) is Decay
        self.schedules[name] = schedule if bounded else value_at  # type: ignore[index]
        self._put(name, value_at(self.progress))

    def _put(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._followers:
            self._followers[name](value)

    def change(self, settings: Mapping[str, Any]) -> None:
        """Assign the settings that differ from those assigned last."""
        for name, value in settings.items():
            if name not in self.changes or self.changes[name] != value:
                setattr(self, name, value)

    def follow(self, name: str, function: Callable[[Any], Any]) -> None:
        """Call a function with each new value of a setting, after setting the attribute."""
        self._watched.add(name)
        self._followers[name] = function

    def fix(self, why: str, *names: str) -> None:
        """Refuse changes of these settings after ``initialize``.

        Args:
            why: reason, for the message.
            names: names of the settings.
        """
        self._fixed.update(dict.fromkeys(names, why))

    def _check_that_it_can_change(self, name: str) -> None:
        settings = declared(type(self))
        fixed = {key for key, item in settings.items() if limits_of(item).fixed} | {*self._fixed}
        if name in fixed:
            why = f", {self._fixed[name]}" if name in self._fixed else ""
            free = ", ".join(sorted(settings.keys() - fixed)) or "none"
            raise AttributeError(
                f"{name} cannot be changed after initialize{why}. Give it to the constructor of "
                f"{type(self).__name__}. These settings can be changed: {free}."
            )

    # Life cycle.

    def check_batch(self, agent: BaseAgent, batch_spec: BatchSpec) -> None:
        """Check settings against the size of batches, before anything is started.

        Raises:
            ValueError: they do not fit.
        """

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
        """Prepare for training.

        Args:
            agent: agent, initialized and on its device.
            n_itr: number of iterations of the run, for schedules.
            batch_spec: T and B of the sampler's batches.
            mid_batch_reset: True if environments are reset within a batch; otherwise samples after
                a done are invalid.
            examples: one example step of all data, for replay buffers.
            world_size, rank: number of processes that train together, and rank of this one.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement initialize.")

    def async_initialize(
        self,
        agent: BaseAgent,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: AttrDict,
        world_size: int = 1,
    ) -> Any:
        """Prepare for training in an asynchronous run, without the optimizer; return the replay."""
        raise NotImplementedError(f"{type(self).__name__} does not run asynchronously.")

    # Algorithms with a replay that are not `ReplayAlgo`, in asynchronous runs

    n_void = batches_in_replay = 0
    new_priority = 1.0

    def updates_due(self, n_steps: int) -> float:
        """Return the number of updates for this many environment steps."""
        return float(self.replay_ratio) * n_steps / self.batch_size  # type: ignore[attr-defined]

    def store(self, samples: NamedArrayTuple) -> None:
        """Store a batch [T, B] of the sampler in the replay."""
        self.replay_buffer.append_samples(self.samples_to_buffer(samples))  # type: ignore[attr-defined]

    def optimizer_arguments(self) -> dict[str, Any]:
        """Return the optimizer's arguments, except the learning rate."""
        return dict(self.optim_kwargs or {})

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizers and load their initial state, if there is one."""
        self.rank = rank
        if rank == 0 and self.mixed_precision:
            warn_of_slow_precision(self.agent.device)
        self._add_steps()
        self.follow("clip_grad_norm", self._set_clip_grad_norm)
        if self.initial_optim_state_dict is not None:
            self.load_optim_state_dict(self.initial_optim_state_dict)
        self._started = True

    def _add_steps(self) -> None:
        """Build ``gradient_step``."""
        self._build_step(self.OptimCls)

    def adopt_optimizer(self) -> None:
        """Build ``gradient_step`` of the optimizer that a subclass's ``initialize`` has made."""
        optimizer = self.optimizer
        self._build_step(lambda *_, **__: optimizer)

    def _build_step(self, OptimCls: Any) -> None:
        model = unwrap_ddp(self.agent.model)
        if self.rank == 0:
            warn_of_untrained(model)
        names = {p: name for name, p in model.named_parameters()}
        step = self.gradient_step = self.StepCls(
            self.agent.parameters(),
            OptimCls,
            self.learning_rate,
            self.optimizer_arguments(),
            self.clip_grad_norm,
            names,
        )
        self.optimizer = step.optimizer
        self.follow("learning_rate", partial(step.set_learning_rate, "learning_rate"))

    def _all_steps(self) -> list[GradientStep]:
        return [self.gradient_step]

    def _set_clip_grad_norm(self, limit: float | None) -> None:
        for step in self._all_steps():
            step.clip_grad_norm = limit

    @property
    def StepCls(self) -> type[GradientStep]:
        """Return the class of gradient steps."""
        return TracedStep if self.compile == "update" else GradientStep

    # Training.

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Train on new samples or on replayed ones; return a named tuple of lists to log."""
        raise NotImplementedError(f"{type(self).__name__} must implement optimize_agent.")

    @contextmanager
    def explained(self, *inputs: Any) -> Iterator[None]:
        """Add to errors the module where the first NaN or infinite number of an update arises.

        Args:
            inputs: arguments of ``update``, which is repeated after an error, and kept in it.
        """
        random = torch_state()
        try:
            yield
        except NonFiniteError as error:
            error.update = inputs, random
            agent = vars(self.agent).items()
            networks = {k: v for k, v in agent if isinstance(v, torch.nn.Module)}
            # Without gradient steps, in which ranks would wait for each other.
            with torch.inference_mode():
                found = module_not_finite(networks, partial(self.update, *inputs))
            if found:
                error.args = (f"{error} The first output that is not finite is that of {found}.",)
            raise

    def record(self, **statistics: torch.Tensor) -> None:
        """Log the means of tensors of this update, in columns of these names.

        A name that is recorded again belongs to the next update.

        This is for statistics that ``loss`` computes but does not return. The means are computed
        and read from the device once per iteration. NaN entries do not count, except in scalars.
        Columns of names in ``recorded_fields`` exist from the first row on, others from the row in
        which they are recorded first.

        Args:
            statistics: tensors of any shape, of floats, integers or booleans. Their gradient is
                left out.

        Raises:
            TypeError: a value is not a tensor.
        """
        try:
            tensors = {name: x.detach() for name, x in statistics.items()}
        except AttributeError:
            wrong = [n for n, x in statistics.items() if not isinstance(x, torch.Tensor)]
            kinds = ", ".join(f"{n}: {type(statistics[n]).__name__}" for n in wrong)
            raise TypeError(
                f"record takes tensors, got {kinds}. Convert them by torch.as_tensor."
            ) from None
        if torch.compiler.is_compiling():  # a copy costs less than a view of another tensor
            tensors = {name: x.clone() for name, x in tensors.items()}
        elif not self.recorded.current.keys().isdisjoint(tensors):  # of the next update
            self.recorded.end_update()
        self.recorded.current.update(tensors)

    def make_opt_info(self, columns: Iterable[list[float]]) -> Any:
        """Return a named tuple of lists, one for each of ``opt_info_fields``, and recorded ones.

        Args:
            columns: lists of the fields that are not in ``recorded_fields``, in order.

        Raises:
            ValueError: there are more or fewer lists than fields.
        """
        columns, names = list(columns), self.returned_fields
        if len(columns) > len(names) or (len(columns) < len(names) and not self._adds_fields()):
            raise ValueError(
                f"update of {type(self).__name__} must return {', '.join(names)}, which "
                f"opt_info_fields declares, got {len(columns)} values. Let loss return the loss, "
                "then a scalar for each statistic."
            )
        others = dict(zip(names, columns))
        recorded = self.read_recorded()
        fields = (*dict.fromkeys((*self.opt_info_fields, *recorded)),)
        return opt_info_class(fields)(*(others.get(k, recorded.get(k, [])) for k in fields))

    def empty_opt_info(self) -> Any:
        """Return a named tuple of empty lists, one for each of ``opt_info_fields``."""
        fields = tuple(self.opt_info_fields)
        return opt_info_class(fields)(*[[] for _ in fields])

    def add_recorded(self, opt_info: Any) -> Any:
        """Append recorded statistics to the lists of an ``opt_info``; return it with new fields."""
        recorded = self.read_recorded()
        fields = (*dict.fromkeys((*opt_info._fields, *recorded)),)
        lists = [getattr(opt_info, name, []) for name in fields]
        for name, values in zip(fields, lists):
            values.extend(recorded.get(name, []))
        return opt_info_class(fields)(*lists)

    @property
    def returned_fields(self) -> list[str]:
        """Return those of ``opt_info_fields`` whose values are results of ``update``, in order."""
        return [name for name in self.opt_info_fields if name not in self.recorded_fields]

    def _adds_fields(self) -> bool:
        """Return True if an override of ``optimize_agent`` may add statistics of its own."""
        return not type(self).optimize_agent.__module__.startswith("rlpyt.")

    def read_recorded(self) -> dict[str, list[float]]:
        """Return the mean of each recorded statistic in each update, and clear the record."""
        means = read_means(self.summarize(self.recorded.take()))
        if self._adds_fields():  # which may expect only the fields that it declares
            unknown = {*self.recorded_fields} - {*self.opt_info_fields}
            means = {name: values for name, values in means.items() if name not in unknown}
        return means

    def summarize(self, columns: Columns) -> Columns:
        """Compute further statistics from recorded ones, for all updates of an iteration at once.

        Args:
            columns: statistics by name, tensors [U, ...] of U updates each.
        """
        return columns

    def statistics(self) -> dict[str, float]:
        """Return columns of progress.csv: learning rate, settings with a schedule, reward scale."""
        groups = getattr(self.optimizer, "param_groups", None)  # a custom one may have none
        rate = {"LearningRate": groups[0]["lr"]} if groups else {}
        normalizer = self.reward_normalizer
        scale = {} if normalizer is None else {"RewardScale": normalizer.scale}
        return {column_of(name): getattr(self, name) for name in self.schedules} | rate | scale

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method, compiled if ``compile`` is "loss"."""
        if self.compile != "loss":
            return function
        compiled = self.__dict__.setdefault("_compiled", {})
        if function.__name__ not in compiled:
            result = compiled_function(function)
            compiled[function.__name__] = self.recorded.isolated(result)
        return compiled[function.__name__]  # type: ignore[no-any-return]

    def to_device(self, tree: Any) -> Any:
        """Move the leaves of a tree to the agent's device."""
        return tree if self.agent.device.type == "cpu" else buffer_to(tree, self.agent.device)

    def update_obs_rms(self, samples: NamedArrayTuple) -> None:
        """Update the agent's observation statistics, if it has any, with a batch [T, B].

        On-policy algorithms do this after training on the batch, so that during training the agent
        reproduces the recorded likelihoods and values (PPO's ratios begin at one).
        """
        if self.agent is None:  # in the process of the replay writer
            return
        observation, valid = samples.env.observation, self.valid_steps(samples.env)
        if valid is not None:  # drop void rows: [T, B, ...] -> [N, ...]
            observation = buffer_func(observation, lambda leaf: leaf[valid > 0])
        self.agent.update_obs_rms(observation)

    def valid_steps(self, env: NamedArrayTuple) -> torch.Tensor | None:
        """Return which rows of a sampler's batch are steps, [T, B] float32; ``None``: all are.

        The others are void: recorded while an environment waited for its reset, or in an episode
        that was broken by a fault.

        Args:
            env: ``samples.env``, with the field ``void`` if the sampler has ``on_fault``.
        """
        void = getattr(env, "void", None)
        if void is not None:
            return 1 - torch.as_tensor(void).float()
        return None if self.mid_batch_reset else valid_from_done(env.done)

    # State.

    def optim_state_dict(self) -> Any:
        """Return the state of the optimizer, or a dictionary of several by name."""
        if self.optimizer is None:
            warn_of_lost_state(self, "A resumed run has the algorithm as it was constructed.")
            return {}
        return self.optimizer.state_dict()

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Load the optimizer's state; `GradientStep` keeps its own learning rate."""
        if "gradient_step" in vars(self):
            self.gradient_step.load_state_dict(state_dict)
        elif self.optimizer is not None:
            self.optimizer.load_state_dict(state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs in addition to the agent's."""
        state = {"optimizer": self.optim_state_dict(), "update_counter": self.update_counter}
        if self.reward_normalizer is not None:
            state["reward_normalizer"] = self.reward_normalizer.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``; it may lack statistics of rewards."""
        self.load_optim_state_dict(state["optimizer"])
        self.update_counter = whole_number("update_counter", state["update_counter"], 0)
        if self.reward_normalizer is not None and "reward_normalizer" in state:
            self.reward_normalizer.load_state_dict(state["reward_normalizer"])

    def apply_schedule(self, itr: int) -> None:
        """Set what depends on the iteration, such as a learning rate that decays.

        The runner calls it before every ``optimize_agent``.
        """
        self._itr, self.progress = itr, min(1.0, itr / self.n_itr)
        for name, schedule in self.schedules.items():
            self._put(name, schedule(self.progress))

    def interrupt(self) -> None:
        """Mark a discontinuity: the next batch does not continue the last one.

        Called before such a batch, when a resumed run could not restore the environments or a
        sampler sets ``BaseSampler.interrupted``.
        """
        if self.reward_normalizer is not None:
            self.reward_normalizer.restart()

    @property
    def batch_size(self) -> int:
        """Return the number of samples in one training batch."""
        return int(self._batch_size)

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        self._batch_size = value


def checked_value(
    cls: type[RlAlgorithm], name: str, schedule: Callable[[float], float], progress: float
) -> float:
    """Return a setting's value at a progress; raises as `RlAlgorithm.follow_schedule` does."""
    item = declared(cls)[name]
    limits = limits_of(item)
    least = limits.ge if limits.gt is None else limits.gt
    value = schedule(progress)
    try:
        value = scalar(value)
        return float(checked(item, value, replace(limits, gt=None, ge=least, warn_above=None)))
    except (TypeError, ValueError) as error:
        error.args = (f"{error} (value of its schedule at a progress of {progress:g})",)
        raise


def column_of(name: str) -> str:
    """Return the column of a setting: ``RatioClip`` for ``ratio_clip``."""
    return "".join(part.capitalize() for part in name.split("_"))


@cache
def opt_info_class(fields: tuple[str, ...]) -> Any:
    """Return a class of named tuples with these fields."""
    return namedtuple("OptInfo", fields)
