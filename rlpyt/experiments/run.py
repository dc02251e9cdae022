"""Runs in run directories: train, load and evaluate."""

import contextlib
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.envs.base import EnvSpaces, built_like
from rlpyt.envs.tensor import takes_rows
from rlpyt.errors import DamagedFile, NonFiniteError, RankError
from rlpyt.experiments import hub, rundir, script_runs
from rlpyt.experiments.agents import build_agent, prepare_resumed, use_saved_convolutions
from rlpyt.experiments.build import EnvRecipe, build_runner, env_recipe, env_spaces, spaces_of_run
from rlpyt.experiments.curriculum import with_tasks
from rlpyt.experiments.hardware import check_device, with_ranks_of_torchrun
from rlpyt.experiments.options import (
    CONFIG,
    SCHEMA,
    RunOptions,
    as_arguments,
    read_config,
    without_config,
)
from rlpyt.experiments.policy import MISSING_REWARD
from rlpyt.experiments.registry import check_env_maker
from rlpyt.experiments.settings import with_settings
from rlpyt.experiments.trust import blaming
from rlpyt.models.utils import matmul_precision
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.env_batch import bounds_of, clipped, is_batch
from rlpyt.samplers.environments import closing_quietly
from rlpyt.samplers.fault_policy import HEALED, FaultLimit
from rlpyt.samplers.step_checks import all_finite, float_leaves
from rlpyt.samplers.surroundings import Surroundings
from rlpyt.spaces.action_mask import action_mask_of, mask_error, mask_sizes, unwrapped
from rlpyt.spaces.elements import check_first, leaf_spaces
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper, from_gym, to_gym
from rlpyt.spaces.record import check_spaces
from rlpyt.utils import torchrun
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.checkpoint import MANIFEST, load_checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.context import (
    is_result,
    run_context,
    started_by_this_job,
    write_params,
)
from rlpyt.utils.logging.lock import RunDirectoryError, RunLock
from rlpyt.utils.logging.snapshots import read_snapshot
from rlpyt.utils.processes import first_line, summary_of
from rlpyt.utils.recorded import label, missing_parts, rebuild
from rlpyt.utils.seed import check_seed, set_seed, undisturbed
from rlpyt.utils.signed import read_json

EVAL_SEED = 1_000_000  # far from training seeds, so that evaluation episodes differ
EVAL_STEPS = 10_000  # limit of an evaluation episode, unless the environment has a longer one


def train(
    options: RunOptions,
    run_dir: Path,
    hooks: Sequence[Any] = (),
    resume: bool = False,
    finish: Callable[[RunOptions, Path], None] | None = None,
    debug: bool = False,
) -> EnvSpaces:
    """Build a run from its options and train it in ``run_dir``; return the spaces.

    Under torchrun only rank 0 writes files, and runs restarted by torchrun resume automatically.

    Args:
        options: options of the run.
        run_dir: run directory, created if it does not exist. Must not contain a run, except to
            ``resume`` it. If the run fails to start, a new or empty one is removed.
        hooks: hooks of the runner.
        resume: resume from the latest checkpoint in ``run_dir``.
        finish: called with options and ``run_dir`` after training, while loggers take files.
        debug: do everything in this process and thread, see `in_one_process`.

    Raises:
        RunDirectoryError: the directory cannot be used; the message says why.
        FileExistsError: the directory already contains a run, and ``resume`` is False.
        FileNotFoundError: the directory has no checkpoint, and ``resume`` is True.
        SystemExit: 130, 143 or 129 after Ctrl-C, SIGTERM or SIGHUP, with a checkpoint saved.
        CheckpointError: the last checkpoint of the run could not be saved.
        ValueError: ``run_dir`` is a model of the hub, or ``device`` does not exist here.
        WorkerError: a worker failed; a checkpoint is saved if an iteration was complete.
    """
    limit, newest, streak = FaultLimit(options.on_fault), "", 0
    heals = options.on_fault.rank_death == "restart_run" and torchrun.place() is None
    while True:
        try:
            with matmul_precision(options.matmul_precision):
                return _train(options, run_dir, hooks, resume, finish, debug)
        except RankError as error:
            has_checkpoint = rundir.has_checkpoint(run_dir)
            if heals and not has_checkpoint:
                error.add_note("(There is no checkpoint yet from which all ranks can start again.)")
            if not heals or not has_checkpoint:
                raise
            before, newest = newest, rundir.newest_checkpoint(run_dir)
            streak = streak + 1 if newest == before else 1  # without a new checkpoint
            wait_s = limit.count(error, streak)
            text = f"{HEALED}: {first_line(error)}. All ranks start again from {newest}."
        say(text)
        time.sleep(wait_s)
        resume = True


def _train(
    options: RunOptions,
    run_dir: Path,
    hooks: Sequence[Any],
    resume: bool,
    finish: Callable[[RunOptions, Path], None] | None,
    debug: bool,
) -> EnvSpaces:
    """Train once, see `train`."""
    hub.refuse(run_dir)
    run_dir = run_dir.absolute()  # environments may change the working directory
    options = with_ranks_of_torchrun(rebuilt(options, run_dir))
    if resume:
        options = with_own_seed(options, run_dir)
    if not torchrun.is_first():
        runner = build_runner(options, run_dir, resume=resume)
        _prepare_agent(runner.agent, options, run_dir, resume)
        runner.train()
        return runner.agent.env_spaces  # type: ignore[no-any-return]
    check_device(options.device)
    if resume:
        rundir.check_files(run_dir, links=True)
    if not started_by_this_job(run_dir):
        _check_run_dir(run_dir, resume)
    new, created = not any(run_dir.glob("*")), False
    hooks = [*hooks, ResumedSettings(options, run_dir)] if resume else hooks
    runner = build_runner(options, run_dir, hooks=hooks, resume=resume, debug=debug)
    runner.says_how_to_resume = False  # callers do, see ``rundir.showing_how_to_resume``
    _prepare_agent(runner.agent, options, run_dir, resume)
    context = run_context(
        run_dir,
        **{**_params(options), **({"log_params": None} if resume else {})},
        snapshot_mode="last",
        use_summary_writer=options.tensorboard,
        resume=resume,
        loggers=options.logger,
    )
    try:
        with logger.session():
            logger.set_console(False)  # hooks show progress; the rest is in debug.log
            with context:
                created = new
                if not resume:
                    options.write(run_dir)
                runner.train()
                if finish is not None:
                    finish(options, run_dir)
    finally:
        if created and runner.itr < 0 and not rundir.has_rows(run_dir):  # failed to start
            shutil.rmtree(run_dir, ignore_errors=True)
    return runner.agent.env_spaces  # type: ignore[no-any-return]


def _prepare_agent(agent: Any, options: RunOptions, run_dir: Path, resume: bool) -> None:
    """Let an agent, not initialized, have its own saved network, or that of ``init_from``.

    Raises:
        FileNotFoundError: there is no run ``init_from``, or it has not saved an agent.
        ValueError: its agent has other parameters; the message names them, with their shapes.
    """
    if resume:
        prepare_resumed(agent, run_dir / rundir.CHECKPOINTS)
    if resume or options.init_from is None:
        return
    path = hub.local_path(options.init_from)
    if path.is_file():
        state, _, saved_spaces = _snapshot_agent(path)
    elif path.is_dir():
        rundir.check_files(path, links=True)
        state, _, saved_spaces = _saved_agent(path, path / rundir.CHECKPOINTS)
    else:
        raise FileNotFoundError(f"init_from: run directory not found: {options.init_from!r}")
    recipe = with_tasks(env_recipe(options.env, options.env_args), options)
    spaces = spaces_of_run(recipe, options)
    probe = build_agent(options, spaces)
    for given in (probe, agent):
        use_saved_convolutions(given, state)
    with undisturbed():
        probe.initialize(spaces)
    own, saved = _shapes(probe.state_dict()), _shapes(state)
    wrong = [
        f"{name} has shape {saved.get(name, 'none')}, expected {own.get(name, 'none')}"
        for name in {**own, **saved}
        if own.get(name) != saved.get(name)
    ]
    if wrong:
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        raise ValueError(
            f"init_from={options.init_from!r} must be a run whose agent has the parameters of this "
            f"run's, but {'; '.join(wrong[:4])}{more}. Use its settings of the agent, and an "
            "environment with the same spaces."
        )
    check_spaces(saved_spaces, spaces, f"the agent of {options.init_from}")
    _load_agent(probe, state, f"of init_from={options.init_from!r} cannot be loaded")
    agent.initial_model_state_dict = state


def _load_agent(agent: Any, state: Any, problem: str) -> None:
    """Load the state of an agent from a file.

    Raises:
        DamagedFile: the state does not fit, or is none; the message contains ``problem``.
    """
    try:
        agent.load_state_dict(state)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(summary_of(error, 200).split())
        raise DamagedFile(f"The saved agent {problem} ({reason}).") from error


def _shapes(tree: Any, name: str = "") -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of a state by their dotted names."""
    if isinstance(tree, dict):
        parts = ((f"{name}.{key}" if name else key, value) for key, value in tree.items())
        return {k: v for path, value in parts for k, v in _shapes(value, path).items()}
    return {name: tuple(np.shape(tree))}


def with_own_seed(options: RunOptions, run_dir: Path) -> RunOptions:
    """Return options with the seed of the run that they resume; warn if theirs is another."""
    try:
        own = check_seed(read_json(run_dir / CONFIG, "a run's configuration", SCHEMA)["seed"])
    except (OSError, TypeError, ValueError, KeyError):  # the file is replaced by these options
        return options
    if own != options.seed and torchrun.is_first():
        warnings.warn(
            f"seed must be {own}, as in the run that is resumed, got {options.seed}. The run keeps "
            "its seed, and its random streams continue from the checkpoint. For another seed, "
            "start a new run in another run_dir."
        )
    return replace(options, seed=own)


class ResumedSettings(Hook):
    """Hook that writes the settings of a resumed run after all checks have passed.

    It removes evaluation.json once the agent has changed: a run that is then interrupted, or that
    Python resumes without an evaluation, would be reported with the returns of the earlier agent.
    """

    def __init__(self, options: RunOptions, run_dir: Path) -> None:
        self.options, self.run_dir = options, run_dir
        self._has_trained = False

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Remove the evaluation after the first iteration."""
        if not self._has_trained:
            self._has_trained = True
            (self.run_dir / rundir.EVALUATION).unlink(missing_ok=True)

    def on_start(self, runner: Any) -> None:
        """Write config.json and params.json, unless the run already has all its steps."""
        if not runner.has_something_left:
            if runner.start_itr > runner.n_itr:
                warnings.warn(
                    f"steps={self.options.steps:,} is less than the {runner.cum_steps:,} that the "
                    "run has: it is not trained, and keeps its settings. Give a larger total."
                )
            return
        self.options.write(self.run_dir)
        write_params(self.run_dir, **_params(self.options))


def _params(options: RunOptions) -> dict[str, Any]:
    """Return ID, name and settings of the run for params.json, with readable names."""
    names = {"algo_name": label(options.algo_name), "env": label(options.env)}
    settings = {**options.described(), **names}
    return {"run_ID": options.seed, "name": " ".join(names.values()), "log_params": settings}


def _check_run_dir(run_dir: Path, resume: bool) -> None:
    """Check that a run can start in a directory, or be resumed from it; raises as `train` does."""
    owner = RunLock(run_dir).owner() if run_dir.is_dir() else ""
    if owner:
        raise RunDirectoryError(
            f"{run_dir} is in use by {owner}. Wait for it to end, or choose another run_dir "
            "(--run-dir)."
        )
    if resume and not rundir.has_checkpoint(run_dir):
        raise FileNotFoundError(
            f"{run_dir} has no checkpoint to resume from: the run ended before the first one. "
            "Start a new run, in another run_dir (--run-dir) or after deleting this one."
        )
    if not resume and rundir.has_checkpoint(run_dir):
        raise FileExistsError(
            f"{run_dir} contains another run. Resume it (rlpyt resume {quote(str(run_dir))}), or "
            "choose another run_dir (--run-dir)."
        )
    if not resume and (run_dir / CONFIG).exists() and not is_result(run_dir / CONFIG):
        raise FileExistsError(
            f"{run_dir / CONFIG} is a file of another program. Choose another run_dir (--run-dir)."
        )
    if not resume and rundir.has_rows(run_dir):
        raise FileExistsError(
            f"{run_dir} contains a run that ended before its first checkpoint and cannot be "
            "resumed. Delete it, or choose another run_dir (--run-dir)."
        )


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of episodes, played one after the other.

    Attributes:
        returns, lengths: return and number of steps of each episode.
        seed: seed of the first episode.
        deterministic: True if the most likely actions were taken.
        unfinished: number of episodes that a limit of steps ended; they count with the return until
            then.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seed: int
    deterministic: bool
    unfinished: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, with mean and standard deviation of the return, for JSON."""
        mean, std = float(np.mean(self.returns)), float(np.std(self.returns))
        return {"return_mean": mean, "return_std": std, **asdict(self)}

    def __str__(self) -> str:
        unfinished = f", {self.unfinished} of them unfinished" if self.unfinished else ""
        return (
            f"return {np.mean(self.returns):.1f} (standard deviation {np.std(self.returns):.1f}, "
            f"lowest {min(self.returns):.1f}) over {len(self.returns)} episodes "
            f"of {np.mean(self.lengths):.0f} steps{unfinished}"
        )


class Run:
    """Trained agent with the recipe of its environment, returned by :func:`load`.

    Step it manually::

        run = rlpyt.load("data/ppo-CartPole-v1-20260101-120000")
        env = run.env()
        step = env.step(run.act(env.reset()))

    ``act`` keeps the recurrent state and the previous action between steps, also if other episodes
    are played in between (:meth:`evaluate`); call :meth:`reset` at the start of each episode.

    Args:
        path: run directory; of a model of the hub, its directory in the cache.
        options: options of the run, ``None`` for the run of a script.
        recipe: recipe of its environment.
        agent: initialized agent with the trained parameters.
        itr: iteration of the parameters.
        name: algorithm and environment, such as "ppo on CartPole-v1".
        best: True if these are the parameters with the highest return, not the last ones.
    """

    _described: tuple[Path, bool] = Path(), True  # file that describes the run, True if trusted

    def __init__(
        self,
        path: Path,
        options: RunOptions | None,
        recipe: EnvRecipe,
        agent: Any,
        itr: int = 1,
        name: str = "",
        best: bool = False,
    ) -> None:
        self.path = path
        self.best = best
        self.options = options
        self.name = name
        self.recipe = recipe
        self.agent = agent
        self.itr = max(1, itr)  # at iteration 0 some agents act randomly
        self._null_action = buffer_func(agent.env_spaces.action.null_value(), np.asarray)
        self._bounds = bounds_of(agent.env_spaces.action)
        self._outputs_need_reward: bool | None = None  # unknown before it was missing
        self._warned = set[int]()  # kinds of warnings of `act` that have been given
        self.reset()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.name}, iteration {self.itr})"

    def env(self, render: bool = False) -> Any:
        """Make an environment as in training, which can render images if ``render``.

        Raises:
            ValueError: it is a vector environment.
        """
        with built_like(self.agent.env_spaces.observation):
            env = self.recipe.make(render)
        if is_batch(env):
            raise ValueError(
                f"episodes are played in a single environment, but {label(self.recipe.EnvCls)} "
                f"makes {env.n}. Give one: rlpyt.load({str(self.path)!r}, env=...). In training, "
                "eval_interval_steps (--eval-interval-steps) evaluates in vector environments."
            )
        return env

    def reset(self) -> None:
        """Reset the recurrent state and the previous action, at the start of an episode."""
        self.agent.eval_mode(self.itr)
        self.agent.reset()
        self._prev_action = self._null_action

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Keep the recurrent state and the previous action while other episodes are played."""
        state, previous = self.agent.prev_rnn_state, self._prev_action
        try:
            yield
        finally:
            self.reset()  # the mode may be another one
            self.agent.prev_rnn_state, self._prev_action = state, previous

    def act(self, observation: Any, reward: float | None = None, deterministic: bool = True) -> Any:
        """Choose an action for one observation.

        Args:
            observation: observation of an environment of :meth:`env`, or of the Gymnasium
                environment itself (a dict for a Dict space), without leading dimensions. With
                masks of actions in info: ``{"observation": observation, "action_mask": mask}``.
                A category alone counts from 0, as in :meth:`env`, whatever its space's start.
            reward: reward received with the observation, 0 at the start of an episode; used only by
                recurrent agents and custom models, which are warned about if it is missing later.
            deterministic: take the mode of the distribution instead of a sample; policies without
                a distribution (DDPG, TD3) then act without exploration noise.

        Returns:
            The action, in dtype and shape of the environment's space, for ``step`` of the
            environment from :meth:`env`: discrete choices count from 0, and parts are those of a
            named tuple. For an observation that is a dict or a plain tuple it is one for the
            Gymnasium environment itself.

        Raises:
            TypeError: the observation does not have the parts of :meth:`env`'s observations.
            ValueError: a part is missing or is not an element of its space, such as an image of
                floats, or the mask of actions allows none.
        """
        space, action_space = self.agent.env_spaces
        fields = getattr(space.shape, "_fields", None)
        is_gym = isinstance(observation, Mapping) or type(observation) is tuple
        if fields is not None and is_gym:
            observation = from_gym(space, observation)
        elif observation is None or is_gym or getattr(observation, "_fields", None) != fields:
            expected = "an array"
            if fields is not None:
                expected = f"a dict or named tuple with the parts {', '.join(fields)}"
            raise TypeError(
                f"the observation must be {expected}, as from Run.env(), got {observation!r:.120}."
            )
        said: list[str | None] = [check_first(space, observation), None, None]
        if not all_finite(float_leaves(observation)):
            said[1] = (
                f"{self.name}: observations must be finite, got {observation!r:.120}. Correct the "
                "environment, or ignore this if the agent can handle such values."
            )
        later = self._prev_action is not self._null_action
        if reward is None and later and 2 not in self._warned and self._reads_reward(observation):
            said[2] = MISSING_REWARD
        for kind, text in enumerate(said):  # once each: texts have numbers, which differ
            if text is not None and kind not in self._warned:
                self._warned.add(kind)
                warnings.warn(text)
        mask = action_mask_of(observation)
        if mask is not None:
            invalid = mask_error(np.asarray(mask), mask_sizes(self.agent.env_spaces.action))
            if invalid is not None:
                raise ValueError(invalid[1])
        inputs = buffer_func((observation, self._prev_action, np.float32(reward or 0)), _row)
        self.agent.set_deterministic(deterministic, self.itr)
        action, _ = self.agent.step(*inputs)
        chosen = numpify_buffer(action)
        self._prev_action = buffer_func(chosen, np.take, 0, 0)
        action = buffer_func(chosen, np.take, 0, 0)  # another one, which the environment may change
        if self._bounds is not None:
            action = clipped(action, self._bounds)
        if is_gym:
            return to_gym(action_space, action)
        spaces = iter([part for _, part in leaf_spaces(action_space)])
        return buffer_func(action, lambda leaf: _in_shape_of_env(next(spaces), leaf))

    def _reads_reward(self, observation: Any) -> bool:
        """Return True if the agent has a memory, or its outputs depend on the previous reward."""
        if self._outputs_need_reward is None:
            agent, outputs = self.agent, []
            custom = not agent.observation_only and type(agent).step is BaseAgent.step
            for reward in (-1, 0, 1) if custom and not agent.recurrent else ():
                inputs = buffer_func((observation, self._prev_action, np.float32(reward)), _row)
                action, _, dist_info = agent.greedy(*inputs)
                outputs.append([*leaves_of(action), *leaves_of(dist_info)])
            same = all(torch.equal(x, y) for other in outputs for x, y in zip(outputs[0], other))
            self._outputs_need_reward = agent.recurrent or not same
        return self._outputs_need_reward

    def play(
        self,
        env: Any,
        seed: int | None = None,
        deterministic: bool = True,
        max_steps: int | None = None,
    ) -> Any:
        """Play one episode.

        Args:
            env: environment made by :meth:`env`.
            seed: seed of the environment; ``None`` to keep its random state.
            deterministic: as in :meth:`act`.
            max_steps: number of steps after which to stop; ``None``: play to the end.

        Returns:
            The TrajInfo of the episode: ``Length``, ``Return`` and fields of the environment.
        """
        with self.apart():
            return self._play(env, seed, deterministic, max_steps)[0]

    def _play(
        self, env: Any, seed: int | None, deterministic: bool, max_steps: int | None
    ) -> tuple[Any, bool]:
        """Play one episode; return its TrajInfo, and True if the episode has ended.

        Raises:
            DamagedFile: an error was raised, and an untrusted file describes the environment.
        """
        with blaming(*self._described):
            if seed is not None:
                env.seed(seed)
            traj_info = self.recipe.TrajInfoCls()
            observation, reward, done, t = env.reset(), 0.0, False, 0
            self.reset()
            while not done and t != max_steps:
                try:
                    action = self.act(observation, reward, deterministic)
                except (TypeError, ValueError, RuntimeError) as error:
                    error.add_note(f"In step {t} of an episode of {env}.")
                    raise
                next_observation, reward, done, info = env.step(action)
                t += 1
                traj_info.step(observation, action, reward, done, None, info)
                observation = next_observation
                done = done and bool(getattr(info, "traj_done", True))
            return traj_info, bool(done)

    def evaluate(
        self,
        episodes: int = 20,
        seed: int = EVAL_SEED,
        deterministic: bool = True,
        max_steps: int | None = None,
    ) -> Evaluation:
        """Play episodes, the first with ``seed``, and return their returns (Atari: game scores).

        Args:
            episodes: number of episodes.
            seed: seed of the first episode, incremented for each further one.
            deterministic: as in :meth:`act`.
            max_steps: number of steps after which an episode is ended, with a warning, and counts
                as unfinished; ``None``: 10,000, or the time limit of the environment if that is
                longer.

        Raises:
            ValueError: ``episodes`` or ``max_steps`` is below 1.
            NonFiniteError: parameters of the policy are NaN or infinite.
        """
        episodes = whole_number("episodes", episodes, 1)
        model = getattr(self.agent, "model", None)
        parameters = model.named_parameters() if isinstance(model, torch.nn.Module) else ()
        bad = [name for name, x in parameters if not torch.isfinite(x).all()]
        if bad:
            raise NonFiniteError(
                f"{self.name}: {len(bad)} parameters of the policy are NaN or infinite, the first "
                f"is {bad[0]}. Load an earlier checkpoint, or best.pkl of a run with --keep-best."
            )
        if max_steps is not None:
            max_steps = whole_number("max_steps", max_steps, 1)
        with (
            undisturbed(),
            Surroundings().checked(),
            self.apart(),
            closing_quietly(self.env()) as env,
        ):
            set_seed(seed)  # for sampled actions
            limit = max_steps or max(EVAL_STEPS, getattr(env, "horizon", None) or 0)
            played = [self._play(env, seed + i, deterministic, limit) for i in range(episodes)]
        infos, ended = zip(*played, strict=True)
        unfinished = episodes - sum(ended)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {episodes} episodes did not end within {limit:,} steps and count "
                "with their returns until then. Raise max_steps (--max-steps, in training "
                "--eval-max-steps), or give the environment a time limit.",
                stacklevel=2,
            )
        returns = tuple(float(info.get("GameScore", info.Return)) for info in infos)
        lengths = tuple(int(info.Length) for info in infos)
        return Evaluation(returns, lengths, seed, deterministic, unfinished)

    def export(self, path: Path | str, to: str | None = None, steps: int = 100) -> float:
        """Export the policy to one file, with which `rlpyt.load_policy` acts without this run.

        The file contains the network with normalization of observations, scaling and bounds of
        actions, and recurrent state. It is written after the exported policy has been compared
        with the agent in this run's environment.

        Args:
            path: file, whose suffix is that of the format: .onnx or .pt2 (torch).
            to: format, "onnx" or "torch"; ``None``: by the suffix.
            steps: number of steps to compare.

        Returns:
            The largest difference found, relative where values exceed 1; usually below 1e-6,
            and at most 1e-4.

        Raises:
            ValueError: suffix and format do not match; the agent cannot be traced, or the format
                has no such operation (the message names it); or the exported policy differs.
            ImportError: a package required for ONNX is missing.
        """
        from rlpyt.experiments.export import export_policy

        return export_policy(self, path, to, steps)

    def push(self, repo_id: str, private: bool = False, message: str = "") -> str:
        """Upload the agent to the Hugging Face Hub, with what is needed to load it.

        The run directory is not changed. `docs/hub.md` lists what is uploaded.

        Args:
            repo_id: "user/name"; created if it does not exist.
            private: create it as private.
            message: message of the commit.

        Returns:
            The address of the model; ``rlpyt.load("hf://user/name")`` loads it.

        Raises:
            ValueError: the name is invalid, or settings contain a path of this machine.
            PermissionError: there is no token, or it may not write there.
            ConnectionError: the hub cannot be reached.
            ImportError: huggingface_hub is missing.
        """
        from rlpyt.experiments.push import push

        return push(self, repo_id, private, message)


def load(run_dir: Path | str, trust: bool = False, best: bool = False, **settings: Any) -> Run:
    """Load the trained agent of a run, from params.pkl or the latest checkpoint.

    Args:
        run_dir: directory of a run of the command line, of `rlpyt.train`, or of a script with
            ``logger_context``; or a model of the Hugging Face Hub, "hf://user/name" or
            "hf://user/name@revision", which is downloaded into the cache of the hub.
        trust: import and call whatever a run of somebody else names; see docs/trust.md.
        best: load the agent with the highest return, which ``keep_best`` (`KeepBest`) has kept as
            best.pkl, instead of the last one.
        **settings: settings that the run's file cannot describe, such as a lambda, given as to
            `rlpyt.train`: ``env=...``, ``agent=dict(...)``. The algorithm is ``algo=...``. The
            run's ``env_args`` also apply to another ``env``, unless both are given. The run of a
            script takes ``env``, ``env_args``, and an ``agent`` constructed as in the script.

    Raises:
        UnknownName, TypeError, ValueError: a setting is unknown or wrong.
        FileNotFoundError: the directory contains no run, the run has not saved its agent yet, or
            the hub has no such model.
        DamagedFile: the configuration or params.pkl is invalid, or a part of a script's run cannot
            be rebuilt.
        UntrustedFile: a run of somebody else names other than rlpyt's parts.
        CheckpointError: params.pkl does not exist, and no checkpoint is valid.
        ConnectionError: the hub cannot be reached, and the model is not in the cache.
        ImportError: huggingface_hub is missing for a model of the hub.
    """
    return loaded(run_dir, trust, best, settings=settings)


@undisturbed()  # the initial parameters are drawn
def loaded(
    run_dir: Path | str,
    trust: bool = False,
    best: bool = False,
    options: RunOptions | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    spaces: EnvSpaces | None = None,
) -> Run:
    """Load a trained agent as `load` does.

    Options and spaces of its run are used if they are given; else an environment is made.
    """
    path, trusted = hub.local_path(run_dir), True
    if options is None and not (path / CONFIG).exists() and script_runs.exists(path):
        script = script_runs.ScriptRun(path, trust, settings)
        file, trusted, checkpoints = script.path, script.trusted, script.checkpoints
    else:
        if options is None:
            options, trusted = read_config(path, trust)
        file, checkpoints = path / CONFIG, path / rundir.CHECKPOINTS
    rundir.check_files(path, links=trusted or hub.is_reference(run_dir))
    if best and not (path / rundir.BEST).exists():
        why = "train with keep_best=True (--keep-best)."
        if options is not None and options.keep_best:
            why = "no episode has ended yet. Train longer, or load the last agent without best."
        raise FileNotFoundError(f"{path} has no {rundir.BEST}: {why}")
    saved = _snapshot_agent(path / rundir.BEST) if best else _saved_agent(path, checkpoints)
    state, itr, saved_spaces = saved
    with blaming(file, trusted):
        if options is None:
            recipe, name = script.recipe(), script.name
            spaces, agent = spaces or env_spaces(recipe), script.agent()
        else:
            if {"env", "env_args"} <= settings.keys():
                options = replace(options, env_args={})
            options = with_settings(options, settings) if settings else options
            options = rebuilt(options, path, ("algo_name", "env", "env_args", "agent"))
            recipe = with_tasks(env_recipe(options.env, options.env_args), options)
            if options.sampler.kind == "tensor":  # a single environment may be given instead
                rows = "env" not in settings or takes_rows(recipe.EnvCls)
                recipe = replace(recipe, tensors=rows)
            name, spaces = options.title, spaces or env_spaces(recipe)
            agent = build_agent(options, spaces)
        use_saved_convolutions(agent, state)
        agent.initialize(spaces)
    check_spaces(saved_spaces, spaces, f"the agent of {path}")
    _load_agent(agent, state, f"in {path} does not match {name} with the network of {file}")
    run = Run(path, options, recipe, agent, itr, name, best)
    run._described = file, trusted
    return run


def _snapshot_agent(file: Path) -> tuple[dict[str, Any], int, Any]:
    """Return the agent's state and iteration in a snapshot, and the record of its spaces."""
    state = read_snapshot(file)
    try:
        itr = whole_number("itr", state["itr"], -1)
        return state["agent_state_dict"], itr, state.get("spaces")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedFile(f"{file} is damaged, without an agent ({error!r}).") from error


def rebuilt(
    options: RunOptions,
    run_dir: Path,
    parts: Sequence[str] = ("algo_name", "env", "env_args", "agent", "algo"),
) -> RunOptions:
    """Return options with objects in place of the descriptions in a run's file.

    Args:
        options: options of the run in `run_dir`.
        run_dir: its directory, for errors.
        parts: options that are needed.

    Raises:
        ValueError: the file cannot describe one of them; the message says how to give it.
    """
    given = {name: getattr(options, name) for name in parts}
    given["agent"] = vars(options.agent)
    missing = dict(missing_parts(given))
    if missing:
        listed = ", ".join(f"{'.'.join(place)}={text}" for place, text in missing.items())
        again = as_arguments(missing)
        raise ValueError(
            f"{run_dir / CONFIG} does not describe {listed}. Give it in Python: "
            f"rlpyt.load({str(run_dir)!r}, {again}), or rlpyt.train(..., run_dir={str(run_dir)!r}, "
            "resume=True) with all settings of the run, to resume it."
        )
    found = rebuild(given, script_runs.find)
    if isinstance(options.env, Mapping):
        check_env_maker(label(options.env), found["env"])
    return replace(options, **{**found, "agent": replace(options.agent, **found["agent"])})


def _saved_agent(path: Path, checkpoints: Path) -> tuple[dict[str, Any], int, Any]:
    """Return the agent's state, its iteration, and the record of its spaces."""
    alone, snapshot = path / rundir.AGENT, path / rundir.SNAPSHOT
    has_checkpoint, part = any(checkpoints.glob("checkpoint-*")), "agent"
    remedy = "The run has no checkpoint either; train again."
    if has_checkpoint:
        remedy = f"Delete it to load the latest checkpoint in {checkpoints} instead."
    if (alone / MANIFEST).is_file():  # a model of the hub, whose cache consists of links
        state = load_checkpoint(alone, follow_links=True).state
    elif snapshot.exists():
        try:
            state, part = read_snapshot(snapshot), "agent_state_dict"
        except DamagedFile as error:
            raise DamagedFile(f"{error}. {remedy}") from error
    elif has_checkpoint:
        state = load_checkpoint(checkpoints).state
    elif not ((path / CONFIG).exists() or script_runs.exists(path)):
        raise FileNotFoundError(without_config(path))
    else:
        raise FileNotFoundError(
            f"{path} has no {rundir.SNAPSHOT} yet: it is written at each log interval."
        )
    try:
        return state[part], whole_number("itr", state["itr"], 0), state.get("spaces")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        what = snapshot if part != "agent" else path
        raise DamagedFile(f"{what} is damaged, without an agent ({error!r}). {remedy}") from error


def _row(leaf: Any) -> torch.Tensor:
    """Return a leaf without leading dimensions as a batch of one."""
    array = np.asarray(leaf)
    # Torch takes neither another byte order nor negative strides, as of a flipped image.
    return torch.as_tensor(array.astype(array.dtype.newbyteorder("="), "C", copy=False))[None]


def _in_shape_of_env(space: Any, action: Any) -> Any:
    """Return an action in dtype and shape of its Gymnasium space, with choices from 0."""
    if not isinstance(space, GymSpaceWrapper):
        return action
    own = unwrapped(space)
    if space.shape == ():
        return own.dtype.type(action)
    value = np.reshape(action, own.shape) if np.any(space.start) else space.revert(action)
    return np.asarray(value, own.dtype)
