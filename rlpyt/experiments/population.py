"""Independent runs of one algorithm that train in lockstep, with their agents as an axis.

Each run is an ordinary one, with its own sampler, algorithm, random streams, run directory and
checkpoints. Only losses and gradient steps are computed for all at once (`rlpyt.algos.axis`), so
that small networks share the overhead of operations.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from rlpyt.algos.axis import ALONE, AgentAxis, Inputs, Trainee, all_leaves, custom_parts
from rlpyt.algos.optim import GradientStep
from rlpyt.errors import RlpytError
from rlpyt.experiments.build import build_algo
from rlpyt.experiments.finish import save_evaluation
from rlpyt.experiments.options import CONFIG, RunOptions
from rlpyt.experiments.run import train
from rlpyt.experiments.rundir import has_checkpoint, has_rows, program
from rlpyt.experiments.settings import with_settings
from rlpyt.replays.memory import FORCE, ReplayTooLarge
from rlpyt.runners.hooks import Hook
from rlpyt.runners.lockstep import Answer, Member, run_in_lockstep
from rlpyt.runners.progress import ProgressHook
from rlpyt.utils.launching.variant import set_nested
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.memory import available_memory
from rlpyt.utils.processes import summary_of
from rlpyt.utils.seed import check_seed
from rlpyt.utils.signed import leaves

MAX_SEEDS = 10_000  # of one text; ranges of more are mistakes
LOSS, STEP = "loss", "step"  # kinds of questions


class PopulationError(RlpytError, RuntimeError):
    """Some runs of a population failed; the others are complete, or stopped by a signal.

    Attributes:
        errors: errors by run directory.
    """

    def __init__(self, errors: Mapping[Path, Exception], n: int, stopped: bool = False) -> None:
        others = "; the others are complete" if len(errors) < n else ""
        others = "; the others were stopped by a signal" if others and stopped else others
        lines = [f"{path.name}: {summary_of(e).splitlines()[0]}" for path, e in errors.items()]
        failed = f"{len(errors)} of {n} runs failed in {next(iter(errors)).parent}"
        where = "The debug.log of each has environment, step and traceback."
        super().__init__("\n".join([f"{failed}{others}.", *lines, where]))
        self.errors = dict(errors)


class OneOfMany(Hook):
    """Hook that computes a run's losses and gradient steps together with those of others.

    Args:
        axis: computes them.
        member: the run.
        n: number of runs.
        options: options of the run.
        has_hooks: True if the run has hooks of the user, which may change numbers of its agent.
    """

    def __init__(
        self, axis: AgentAxis, member: Member, n: int, options: RunOptions, has_hooks: bool
    ) -> None:
        self.axis, self.member, self.n, self.options = axis, member, n, options
        self.has_hooks = has_hooks
        self.trainee: Trainee | None = None
        self.runner: Any = None
        self.has_started = False
        self.stops_alone = False  # True if others do not stop with it
        self._received: int | None = None

    def on_start(self, runner: Any) -> None:
        """Let the algorithm ask for losses and steps.

        Raises:
            ReplayTooLarge: as many replays as this one do not fit into memory.
        """
        _check_that_replays_fit(runner.algo, self.n)
        algo, self.runner, self.has_started = runner.algo, runner, True
        self.trainee = Trainee(algo, self.member.state.torch)
        # Losses also read numbers of the agent, which depend on its arguments and on the spaces.
        given = repr(self.options.agent), repr(algo.agent.env_spaces)
        custom = bool(custom_parts(algo))
        self._signature = self.axis.signature(algo)

        def kind() -> Hashable:
            return self.axis.signature(algo) if custom else self._signature, given

        def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
            name = function.__name__

            def ask(*inputs: Any) -> Any:
                if torch.is_inference_mode_enabled():  # see ``RlAlgorithm.explained``
                    return function(*inputs)
                given = Inputs(inputs, all_leaves(inputs))
                shapes = tuple(x.shape for x in given.leaves)
                result = self.member.ask((LOSS, kind(), name, shapes), given)
                return function(*inputs) if result is ALONE else result

            return ask if getattr(algo, name, None) == function else function

        algo.compiled = compiled  # type: ignore[method-assign]
        if "gradient_step" in vars(algo):
            algo.gradient_step = AskedStep(algo.gradient_step, self.member, kind, "")
        steps = getattr(algo, "steps", {})
        for name, step in steps.items():
            steps[name] = AskedStep(step, self.member, kind, name)

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Take note of what hooks have changed, which may set the run apart from others."""
        if self.has_hooks:
            self._signature = self.axis.signature(runner.algo)

    def stop_with(self, signal: int, alone: bool = False) -> None:
        """Stop the run after its iteration, as if it had received a signal."""
        self.stops_alone = self.stops_alone or alone
        if self.runner is not None and self.runner._signals.received is None:
            self.runner._signals.received = signal

    @property
    def received(self) -> int | None:
        """Signal that the run has received, if it stops all runs."""
        if self.stops_alone:
            return None
        return self._received if self.runner is None else self.runner._signals.received

    def leave(self) -> None:
        """Forget the run, which has ended, so that its memory is free for the others."""
        if self.trainee is not None:
            self._received = self.received
            self.axis.forget(self.trainee.algo)
        self.runner = self.trainee = None


class AskedStep:
    """A gradient step that is taken together with those of other runs.

    Args:
        step: the run's own step.
        member: the run.
        kind: function that returns what runs must have in common to take it together.
        name: name of the step.
    """

    def __init__(
        self, step: GradientStep, member: Member, kind: Callable[[], Hashable], name: str
    ) -> None:
        self._step, self._member, self._kind, self._name = step, member, kind, name

    def __call__(self, losses: Any) -> Any:
        """Take the step."""
        if torch.is_inference_mode_enabled():  # see ``RlAlgorithm.explained``
            return self._step(losses)
        parts = losses if isinstance(losses, Mapping) else {"": losses}
        return self._member.ask((STEP, self._kind(), self._name), (self._step, parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)


class Population:
    """Runs that train in lockstep, see `run_in_lockstep`.

    Args:
        n: number of runs at once, whose replays must fit into memory.

    Attributes:
        joining: the runs, each with the hook that computes its losses with those of others.
    """

    def __init__(self, n: int) -> None:
        self.n, self.joining = n, dict[Member, OneOfMany]()
        self._axis = AgentAxis()
        self._told = False  # True once it was said which runs are computed apart

    def add(
        self,
        path: Path,
        options: RunOptions,
        hooks: Sequence[Any] = (),
        has_hooks: bool = False,
        resume: bool = False,
        finish: Callable[[RunOptions, Path], None] | None = None,
    ) -> Member:
        """Add a run in the directory ``path``, which has not begun.

        Args:
            hooks: of this run.
            has_hooks: True if there are hooks of the user among them.
            options, resume, finish: see `rlpyt.experiments.run.train`.
        """

        def run(member: Member) -> Any:
            joining = self.joining[member]
            try:
                return train(options, path, hooks=[*hooks, joining], resume=resume, finish=finish)
            finally:
                joining.leave()

        member = Member(run)
        hook = OneOfMany(self._axis, member, self.n, options, has_hooks)
        self.joining[member] = hook
        return member

    def answer(self, kind: tuple[Any, ...], group: list[tuple[Member, Any]]) -> list[Answer]:
        """Answer questions of one kind. A signal that a run has received stops all."""
        signals = [s for hook in self.joining.values() if (s := hook.received) is not None]
        ended = (exit_code(m.error) for m, hook in self.joining.items() if not hook.stops_alone)
        signals += [code - 128 for code in ended if code > 128]  # before they started
        for hook in self.joining.values() if signals else ():
            hook.stop_with(signals[0])
        if not self._told:
            self._tell_apart([member for member, _ in group])
        trainees = [t for m, _ in group if (t := self.joining[m].trainee) is not None]
        contents = [content for _, content in group]
        if kind[0] == STEP:
            steps, losses = zip(*contents, strict=True)
            results = self._axis.steps(trainees, steps, losses)
            return [Answer(error=x) if isinstance(x, Exception) else Answer(x) for x in results]
        try:
            return [Answer(x) for x in self._axis.losses(kind[2], trainees, contents)]
        except Exception as error:  # of one of them: find out whose
            if len(group) == 1:
                return [Answer(error=error)]
            return [one for pair in group for one in self.answer(kind, [pair])]

    def _tell_apart(self, group: list[Member]) -> None:
        """Say how many runs are computed apart from a group, and which settings differ."""
        self._told = True
        apart = [h for m, h in self.joining.items() if h.trainee is not None and m not in group]
        if not apart:
            return
        first = _in_words(self.joining[group[0]].options)
        others = [_in_words(hook.options) for hook in apart]
        names = {name for other in others for name in other if other[name] != first.get(name)}
        say(
            f"{len(apart)} of {len(apart) + len(group)} agents are computed apart from the others, "
            f"which takes longer. They differ in {', '.join(sorted(names - {'seed'})) or 'spaces'}."
        )


def _in_words(options: RunOptions) -> dict[str, str]:
    parts = {name: vars(x) if is_dataclass(x) else x for name, x in vars(options).items()}
    return {name: repr(value) for name, value in leaves(parts)}


def train_population(
    runs: Mapping[Path, RunOptions],
    hooks: Sequence[Any] = (),
    progress: bool = False,
    resume: bool = False,
    finish: Callable[[RunOptions, Path], None] | None = None,
) -> list[Any]:
    """Train runs in lockstep; return the spaces of each.

    A run that fails ends alone. A signal ends all after their current iteration.

    Args:
        runs: options by run directory. Their samplers are serial, whatever ``sampler.kind`` is,
            since all of them give the same batches. Runs that differ in more than seeds and
            settings that are numbers are computed apart.
        hooks: hooks, of which every run gets its own copy (by ``copy.deepcopy``).
        progress: show the progress of the first run.
        resume, finish: see `rlpyt.experiments.run.train`.

    Raises:
        PopulationError: some runs failed.
        ReplayTooLarge: their replays do not fit into memory.
        UnknownName, ValueError, TypeError: see `check_member`.
        SystemExit: a signal stopped the runs.
    """
    for options in runs.values():
        check_member(options)
    population = Population(len(runs))
    for i, (path, options) in enumerate(runs.items()):
        own = copy.deepcopy([*hooks])
        if i == 0 and progress:
            text = f"Training {len(runs)} agents, {options.title}, for {{steps}} steps each in "
            text += f"{path.parent}; progress of {path.name}:"
            own = [ProgressHook(announcement=text), *own]
        continues = resume and (has_rows(path) or has_checkpoint(path))
        population.add(path, in_this_process(options), own, bool(hooks), continues, finish)
    members, joining = [*population.joining], population.joining
    run_in_lockstep(members, population.answer)
    failed, stopped = {}, None
    for path, member in zip(runs, members):
        if isinstance(member.error, SystemExit):
            stopped = member.error
        elif isinstance(member.error, Exception):
            failed[path] = member.error
        elif member.error is not None:
            raise member.error
    if len(failed) == len(members) and not any(hook.has_started for hook in joining.values()):
        raise next(iter(failed.values()))  # none has started
    if failed and stopped is None:
        raise PopulationError(failed, len(members))
    if failed:
        say(str(PopulationError(failed, len(members), stopped=True)), sys.stderr)
    if stopped is not None:
        raise stopped
    return [member.result for member in members]


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of a process that ends with this error, as Python chooses it."""
    if not isinstance(error, SystemExit):
        return int(error is not None)
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def check_member(options: RunOptions) -> None:
    """Check that a run can be one of a population.

    Raises:
        UnknownName: the algorithm has no such setting.
        ValueError, TypeError: a setting is out of range, or the run cannot be one of several.
    """
    build_algo(options)
    wrong = {
        "device": (options.device, "cpu"),
        "ranks": (options.ranks, 1),
        "sampler.asynchronous": (options.sampler.asynchronous, False),
        "algo.compile_loss": (options.algo.get("compile_loss", False), False),
        "algo.compile": (options.algo.get("compile"), None),
        "matmul_precision": (options.matmul_precision, None),
    }
    for name, (value, needed) in wrong.items():
        if value != needed:
            raise ValueError(
                f"{name}={value!r} must be {needed!r} in runs that train several agents as one "
                "(docs/many_agents.md). Start a run for each, for example by `rlpyt sweep`."
            )


def _check_that_replays_fit(algo: Any, n: int) -> None:
    """Compare the memory that n replays will use, as their rows are written, with what is free."""
    size = getattr(getattr(algo, "replay_buffer", None), "nbytes", 0)
    have = available_memory()
    if n * size > have and not os.environ.get(FORCE):
        raise ReplayTooLarge(
            f"{n} agents need {n * size / 1e6:,.0f} MB for their replays of {size / 1e6:,.0f} MB, "
            f"and only {have / 1e6:,.0f} MB are free: {have // size} fit. Train fewer at once, or "
            f"set a smaller replay_size ({FORCE}=1 in the environment skips this check)."
        )


def in_this_process(options: RunOptions) -> RunOptions:
    """Return options with a serial sampler.

    Raises:
        ValueError: the environment makes batches of tensors.
    """
    if options.sampler.kind == "tensor":
        raise ValueError(
            "sampler.kind='tensor' is for one agent, got several seeds or members. Start a run for "
            "each, for example by `rlpyt sweep`."
        )
    return options.updated({"sampler": {"kind": "serial", "n_workers": 1}})


def train_and_evaluate(runs: Mapping[Path, RunOptions], resume: bool = False) -> None:
    """Train runs as `train_population` does, evaluate each, and print their returns."""
    returns: dict[str, str] = {}
    directory = next(iter(runs)).parent

    def evaluate(options: RunOptions, path: Path) -> None:
        if options.eval_episodes:
            returns[path.name] = str(save_evaluation(options, path))

    try:
        train_population(runs, (), True, resume, evaluate)
    except SystemExit:
        say(f"Resume with: {program()} resume {quote(str(directory))}")
        unsaved = [path.name for path in runs if not has_checkpoint(path)]
        if unsaved:
            say(f"Without a checkpoint, to be started again: {', '.join(unsaved)}")
        raise
    finally:
        if returns:
            say(tabulate(returns.items(), tablefmt="plain"))
    names, shown = [path.name for path in runs], quote(str(directory))
    say(
        f"\nIn {directory}: {names[0]} to {names[-1]}. Try next:\n"
        f"  {program()} plot {shown} -o curves.png\n"
        f"  {program()} report {shown}\n"
        f"  {program()} eval {quote(str(directory / names[0]))} --episodes 100"
    )


def members_in(directory: Path) -> list[Path]:
    """Return the runs of a population in its directory, in order of their numbers."""
    found = {
        int(match[1]): path.parent
        for path in directory.glob(f"*/{CONFIG}")
        if (match := re.fullmatch(r"(?:seed|agent)_(\d+)", path.parent.name))
    }
    return [found[number] for number in sorted(found)]


def seeds_of(given: Any) -> list[int]:
    """Return seeds that are given as a text, such as "0-7,10", or as numbers.

    Raises:
        ValueError: the text is not a list of numbers and ranges, or lists more than `MAX_SEEDS`.
        TypeError: they are neither.
    """
    if not isinstance(given, str):
        if not isinstance(given, Iterable):
            raise TypeError(f"seeds={given!r} must be several numbers, such as range(8).")
        return [check_seed(seed) for seed in given]
    seeds: list[int] = []
    text = given
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise ValueError(
                f"seeds={text!r} must list numbers and ranges, such as 0-7 or 0,3,10-12."
            )
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
        if len(numbers[: MAX_SEEDS + 1]) + len(seeds) > MAX_SEEDS:
            raise ValueError(f"seeds={text!r} must list at most {MAX_SEEDS:,} seeds.")
        seeds += numbers
    return seeds


def seed_directories(
    options: RunOptions, seeds: Sequence[int], path: Path
) -> dict[Path, RunOptions]:
    """Return the options of one run for each seed, in ``path/seed_0`` and so on.

    Raises:
        ValueError: there is no seed, or one is there twice.
    """
    if not seeds or len({*seeds}) < len(seeds):
        raise ValueError(f"seeds={[*seeds]} must name at least one seed, and each once.")
    options = in_this_process(options)
    return {path / f"seed_{seed}": options.updated({"seed": seed}) for seed in seeds}


def members_of(
    options: RunOptions, population: Sequence[Mapping[str, Any]], path: Path
) -> dict[Path, RunOptions]:
    """Return the options of one run for each entry of settings, in ``path/agent_0`` and so on.

    Args:
        options: what they have in common.
        population: settings of each by name, such as ``{"algo.learning_rate": 1e-3}``.
        path: directory of all.

    Raises:
        UnknownName: a setting is unknown.
        ValueError: there are none.
    """
    if not population or not all(isinstance(settings, Mapping) for settings in population):
        raise ValueError(
            f"population={population!r:.80} must be a list with the settings of each agent, as in "
            '[{"algo.learning_rate": 1e-3}, {"algo.learning_rate": 3e-4}].'
        )
    options = in_this_process(options)
    return {
        path / f"agent_{i}": with_settings(options, _nested(settings))
        for i, settings in enumerate(population)
    }


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        set_nested(nested, name.split("."), value)
    return nested
