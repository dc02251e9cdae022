"""A run in its directory: train it, load it, let its agent play."""

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt.experiments import rundir
from rlpyt.experiments.agents import build_agent
from rlpyt.experiments.build import EnvRecipe, build_runner, env_recipe, env_spaces
from rlpyt.experiments.curriculum import with_tasks
from rlpyt.experiments.hardware import with_ranks_of_torchrun
from rlpyt.experiments.options import CONFIG, RunOptions, read_options
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.env_batch import bounds_of
from rlpyt.utils import torchrun
from rlpyt.utils.buffer import buffer_func, numpify_buffer
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context, started_by_this_job, write_params
from rlpyt.utils.logging.lock import RunDirectoryError, RunLock
from rlpyt.utils.processes import summary_of
from rlpyt.utils.seed import set_seed, undisturbed

EVAL_SEED = 1_000_000  # far from the seeds of training, so that evaluation meets other episodes


def train(
    options: RunOptions, run_dir: Path, hooks: Sequence[Any] = (), resume: bool = False
) -> None:
    """Build what the options say, and train it in ``run_dir``.

    Under torchrun rank 0 writes there, and what torchrun starts anew goes on by itself.

    Args:
        options: of the run.
        run_dir: created where it does not exist, and removed again if the run could not begin;
            must not hold a run, unless to ``resume`` it.
        hooks: called by the runner.
        resume: go on from the newest checkpoint in ``run_dir``.

    Raises:
        RunDirectoryError: the directory cannot be used; says why.
        FileExistsError, FileNotFoundError: it holds a run already; it has none to resume.
        SystemExit: 130, 143 or 129 after Ctrl-C, SIGTERM or SIGHUP, with a checkpoint saved.
        CheckpointError: the last checkpoint of the run could not be saved.
        WorkerError: a worker failed; a checkpoint is saved once an iteration was complete.
    """
    options = with_ranks_of_torchrun(options)
    if not torchrun.is_first():
        build_runner(options, run_dir, resume=resume).train()
        return
    if not started_by_this_job(run_dir):
        _check_run_dir(run_dir, resume)
    new, created = not run_dir.exists(), False
    hooks = [*hooks, ResumedSettings(options, run_dir)] if resume else hooks
    runner = build_runner(options, run_dir, hooks=hooks, resume=resume)
    context = run_context(
        run_dir,
        **_named(options),
        log_params=None if resume else asdict(options),
        snapshot_mode="last",
        use_summary_writer=options.tensorboard,
        resume=resume,
    )
    try:
        with logger.session():
            logger.set_console(False)  # hooks show what a person needs; the rest is in debug.log
            with context:
                created = new
                if not resume:
                    options.write(run_dir)
                runner.train()
    finally:
        if created and runner.itr < 0 and not rundir.has_rows(run_dir):  # it could not even begin
            shutil.rmtree(run_dir, ignore_errors=True)


class ResumedSettings(Hook):
    """Writes the settings of a resumed run, once nothing speaks against going on with it."""

    def __init__(self, options: RunOptions, run_dir: Path) -> None:
        self.options, self.run_dir = options, run_dir

    def on_start(self, runner: Any) -> None:
        """All checks are behind us."""
        self.options.write(self.run_dir)
        write_params(self.run_dir, **_named(self.options), log_params=asdict(self.options))


def _named(options: RunOptions) -> dict[str, Any]:
    """What params.json calls the run."""
    return {"run_ID": options.seed, "name": f"{options.algo_name} {options.env}"}


def _check_run_dir(run_dir: Path, resume: bool) -> None:
    """Refuse a directory that a run cannot begin in, or be resumed from."""
    owner = RunLock(run_dir).owner() if run_dir.is_dir() else ""
    if owner:
        raise RunDirectoryError(
            f"{run_dir} is in use by {owner}: wait for it to end, or choose another --run-dir."
        )
    if resume and not rundir.has_checkpoint(run_dir):
        raise FileNotFoundError(
            f"{run_dir} has no checkpoint to go on from: the run ended before the first. Train "
            "anew, in another --run-dir or after deleting this one."
        )
    if not resume and rundir.has_checkpoint(run_dir):
        raise FileExistsError(
            f"{run_dir} holds another run: go on with it (rlpyt resume {run_dir}), or choose "
            "another --run-dir."
        )
    if not resume and rundir.has_rows(run_dir):
        raise FileExistsError(
            f"{run_dir} holds a run that ended before its first checkpoint, and cannot be resumed: "
            "delete it, or choose another --run-dir."
        )


@dataclass(frozen=True)
class Evaluation:
    """Returns of whole episodes, played one after the other."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seed: int
    deterministic: bool

    def as_dict(self) -> dict[str, Any]:
        """Everything, with mean and standard deviation, for JSON."""
        summary = {"return_mean": float(np.mean(self.returns)), "return_std": self._std}
        return {**summary, **asdict(self)}

    @property
    def _std(self) -> float:
        return float(np.std(self.returns))

    def __str__(self) -> str:
        return (
            f"return {np.mean(self.returns):.1f} (standard deviation {self._std:.1f}, "
            f"lowest {min(self.returns):.1f}) over {len(self.returns)} episodes "
            f"of {np.mean(self.lengths):.0f} steps"
        )


class Run:
    """A trained agent and how to build its environment; made by :func:`load`.

    Step it by hand::

        run = rlpyt.load("data/ppo-CartPole-v1-20260101-120000")
        env = run.env()
        step = env.step(run.act(env.reset()))

    ``act`` remembers what the agent needs from step to step (recurrent state, previous action);
    call :meth:`reset` where an episode starts.

    Args:
        path: the run directory.
        options: of the run.
        recipe: builds its environment.
        agent: initialized, with the trained parameters.
        itr: iteration they are of.
    """

    def __init__(
        self, path: Path, options: RunOptions, recipe: EnvRecipe, agent: Any, itr: int = 1
    ) -> None:
        self.path = path
        self.options = options
        self.recipe = recipe
        self.agent = agent
        self.itr = max(1, itr)  # at 0 some agents would play at random
        self._null_action = buffer_func(agent.env_spaces.action.null_value(), np.asarray)
        self._bounds = bounds_of(agent.env_spaces.action)
        self.reset()

    def env(self, render: bool = False) -> Any:
        """A new environment of the kind trained on, able to give pictures if ``render``."""
        return self.recipe.make(render)

    def reset(self) -> None:
        """Forget the episode: recurrent state, previous action and reward."""
        self.agent.eval_mode(self.itr)
        self.agent.reset()
        self._prev_action = self._null_action

    def act(self, observation: Any, reward: float = 0.0, deterministic: bool = True) -> Any:
        """Choose an action for one observation.

        Args:
            observation: as :meth:`env` gives it, without leading dimensions; for vectors and
                images that is what gymnasium's environment gives, too.
            reward: that came with it; only recurrent agents look at it.
            deterministic: take the distribution's mode instead of a sample; policies without a
                distribution (DDPG, TD3) are then without the noise that they explore by.

        Returns:
            The action, for the environment's ``step``.
        """
        inputs = buffer_func((observation, self._prev_action, np.float32(reward)), _row)
        self.agent.set_deterministic(deterministic, self.itr)
        action, _ = self.agent.step(*inputs)
        self._prev_action = buffer_func(numpify_buffer(action), np.take, 0, 0)
        if self._bounds is None:
            return self._prev_action
        return np.clip(self._prev_action, *self._bounds)

    def play(
        self,
        env: Any,
        seed: int | None = None,
        deterministic: bool = True,
    ) -> Any:
        """Play one episode.

        Args:
            env: from :meth:`env`.
            seed: of the environment; ``None`` leaves it as it is.
            deterministic: as in :meth:`act`.

        Returns:
            The episode's TrajInfo: ``Length``, ``Return`` and what the environment's kind adds.
        """
        if seed is not None:
            env.seed(seed)
        traj_info = self.recipe.TrajInfoCls()
        observation, reward, done = env.reset(), 0.0, False
        self.reset()
        while not done:
            action = self.act(observation, reward, deterministic)
            next_observation, reward, done, info = env.step(action)
            traj_info.step(observation, action, reward, done, None, info)
            observation = next_observation
            done = done and bool(getattr(info, "traj_done", True))
        return traj_info

    def evaluate(
        self, episodes: int = 20, seed: int = EVAL_SEED, deterministic: bool = True
    ) -> Evaluation:
        """Play episodes, the first with ``seed``, and report their returns (Atari: the score).

        Raises:
            ValueError: ``episodes`` is below 1.
        """
        if episodes < 1:
            raise ValueError(f"episodes={episodes} must be at least 1.")
        with undisturbed(), contextlib.closing(self.env()) as env:
            set_seed(seed)  # for what is drawn
            played = [self.play(env, seed + i, deterministic) for i in range(episodes)]
        returns = tuple(float(info.get("GameScore", info.Return)) for info in played)
        return Evaluation(returns, tuple(int(i.Length) for i in played), seed, deterministic)


def load(run_dir: Path | str) -> Run:
    """Rebuild the trained agent of a run directory, from params.pkl or the newest checkpoint.

    Raises:
        FileNotFoundError: there is no run, or it has not saved its agent yet.
        ValueError: its configuration or params.pkl cannot be read.
        CheckpointError: there is no params.pkl, and no checkpoint is valid.
    """
    path = Path(run_dir)
    options = read_options(path)
    state, itr = _saved_agent(path, options)
    recipe = with_tasks(env_recipe(options.env, options.env_args), options)
    spaces = env_spaces(recipe)
    agent = build_agent(options, spaces)
    agent.initialize(spaces)
    try:
        agent.load_state_dict(state)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        said = " ".join(summary_of(error, 200).split())
        raise ValueError(
            f"the saved agent in {path} must be one of {options.algo_name} on {options.env} with "
            f"the network of {path / CONFIG}, got another ({said})."
        ) from error
    return Run(path, options, recipe, agent, itr)


def _saved_agent(path: Path, options: RunOptions) -> tuple[dict[str, Any], int]:
    """The agent's state, and the iteration that it is of."""
    snapshot, checkpoints = path / rundir.SNAPSHOT, path / rundir.CHECKPOINTS
    if snapshot.is_file():
        try:
            state = torch.load(snapshot, map_location="cpu", weights_only=True)
            return state["agent_state_dict"], whole_number("itr", state["itr"], 0)
        except Exception as error:  # torch has many, and names no file
            way = "the run has no checkpoint either: train anew."
            if rundir.has_checkpoint(path):
                way = f"delete it, and the newest checkpoint in {checkpoints} is taken instead."
            said = summary_of(error, 100)
            raise ValueError(f"{snapshot} is damaged or cut off ({said}): {way}") from error
    if not rundir.has_checkpoint(path):
        raise FileNotFoundError(
            f"{path} has no {rundir.SNAPSHOT} yet: it is written with each log interval, every "
            f"{options.log_interval_steps} steps."
        )
    state = load_checkpoint(checkpoints).state
    return state["agent"], state["itr"]


def _row(leaf: Any) -> torch.Tensor:
    """One leaf without leading dimensions as a batch of one."""
    return torch.as_tensor(np.asarray(leaf))[None]
