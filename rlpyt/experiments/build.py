"""Algorithms, samplers, runners and environments built from options."""

import contextlib
import functools
import inspect
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import gymnasium
import torch
from gymnasium.envs.registration import load_env_creator

from rlpyt.agents.building import named_arguments
from rlpyt.envs import gym as gym_envs
from rlpyt.envs.atari.games import rom_id
from rlpyt.envs.base import build_env
from rlpyt.envs.gym_registry import current_id
from rlpyt.envs.tensor import TensorRow, is_tensor_env, make_tensor_envs
from rlpyt.envs.vector.row import VectorRow
from rlpyt.errors import WorkerError
from rlpyt.experiments import rundir
from rlpyt.experiments.agents import EVOLUTION, LOCAL_AGENTS, build_agent
from rlpyt.experiments.curriculum import build_curriculum, with_tasks
from rlpyt.experiments.hardware import affinities
from rlpyt.experiments.options import MAX_LEAD, RunOptions, SamplerOptions
from rlpyt.experiments.registry import (
    algorithm_class,
    base_algorithm,
    class_named,
    env_maker,
    origin,
)
from rlpyt.processes.call import run_in_child
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.environments import closing_quietly, with_rows
from rlpyt.samplers.surroundings import Surroundings
from rlpyt.utils import torchrun
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.checks import warn_without, whole_number
from rlpyt.utils.names import UnknownName
from rlpyt.utils.recorded import importable_name, label
from rlpyt.utils.running import merge_statistics

SAMPLERS = {
    "serial": "rlpyt.samplers.serial.sampler:SerialSampler",
    "cpu": "rlpyt.samplers.parallel.cpu.sampler:CpuSampler",
    "gpu": "rlpyt.samplers.parallel.gpu.sampler:GpuSampler",
    "alternating": "rlpyt.samplers.parallel.gpu.alternating_sampler:AlternatingSampler",
    "no-overlap": "rlpyt.samplers.parallel.gpu.alternating_sampler:NoOverlapAlternatingSampler",
    "ray": "rlpyt.samplers.ray_sampler:RaySampler",
    "tensor": "rlpyt.samplers.tensor_sampler:TensorSampler",
}
ASYNC_SAMPLERS = {
    "serial": "rlpyt.samplers.async_.serial_sampler:AsyncSerialSampler",
    "cpu": "rlpyt.samplers.async_.cpu_sampler:AsyncCpuSampler",
    "gpu": "rlpyt.samplers.async_.gpu_sampler:AsyncGpuSampler",
    "alternating": "rlpyt.samplers.async_.alternating_sampler:AsyncAlternatingSampler",
    "no-overlap": "rlpyt.samplers.async_.alternating_sampler:AsyncNoOverlapAlternatingSampler",
}
# Names of `rlpyt.envs.toy`: "bandit" for ``BanditEnv``.
TOYS = (
    *("bandit", "memory", "delay", "truncation", "reach"),
    *("mask", "parts", "hybrid", "puzzle", "count"),
)
# Unusable classes of torch.optim: the base class, one that evaluates the loss itself, and one for
# sparse gradients only.
NO_OPTIMIZERS = ("Optimizer", "LBFGS", "SparseAdam")
LONGEST_EPISODE = 30_000  # steps; limits evaluations in environments that never end
STICKY = 0.25  # action repeat probability of ALE versions 0 and 5


@dataclass(frozen=True)
class EnvRecipe:
    """Recipe for the environments of a run, usable in any process.

    Attributes:
        EnvCls: environment class, or function that returns an environment.
        kwargs: arguments of ``EnvCls`` for training.
        eval_kwargs: arguments for evaluation, in complete games.
        render_kwargs: additional arguments for rendering.
        TrajInfoCls: class of trajectory statistics.
        family: family of presets: "classic", "atari", "minatar" or "mujoco".
        tensors: True to make a tensor environment of one row, in which a trained agent can act.
        checkpoints: directory with the running statistics of vector environments, to make vector
            environments of one row; ``None``: they are refused.
    """

    EnvCls: Any
    kwargs: dict[str, Any]
    eval_kwargs: dict[str, Any]
    render_kwargs: dict[str, Any] = field(default_factory=dict)
    TrajInfoCls: Any = TrajInfo
    family: str = "classic"
    tensors: bool = False
    checkpoints: Path | None = None

    def make(self, render: bool = False) -> Any:
        """Make an environment for evaluation, which can render images if ``render``.

        Raises:
            ValueError: ``EnvCls`` makes a vector environment, and there is no directory of
                checkpoints.
            CheckpointError: it needs running statistics, and no checkpoint is valid.
        """
        if self.tensors:
            return TensorRow(self.EnvCls, self.eval_kwargs)
        if is_tensor_env(self.EnvCls):
            raise ValueError(
                f"env must be a single environment here, got {label(self.EnvCls)}, which makes "
                "batches of tensors: it is for sampler.kind='tensor' (--sampler.kind tensor)."
            )
        kwargs = {**self.eval_kwargs, **(self.render_kwargs if render else {})}
        batched = getattr(self.EnvCls, "batched", False)
        if batched and self.checkpoints is None:
            raise ValueError(
                f"{self.EnvCls.__name__} makes batches of environments. Train with it in a script "
                "(examples/vector_environments.py), or give the single environment here."
            )
        if batched:
            kwargs = with_rows(self.EnvCls, kwargs, [0])
        env = build_env(self.EnvCls, kwargs)
        if self.checkpoints is None or not is_batch(env):
            return env
        if env.n > 1 and "num_envs" in kwargs:
            env.close()
            env = build_env(self.EnvCls, {**kwargs, "num_envs": 1})
        if env.n > 1:
            return env  # which the caller refuses
        if env.statistics():
            env.load_statistics(self.statistics)
            env.freeze()
        return VectorRow(env)

    @functools.cached_property
    def statistics(self) -> dict[str, Any]:
        """Return the running statistics of vector environments, from the newest checkpoint.

        Raises:
            CheckpointError: no checkpoint is valid.
            ValueError: the checkpoint has none.
        """
        assert self.checkpoints is not None
        workers = load_checkpoint(self.checkpoints).state["sampler"].get("stations", ())
        parts = [part for worker in workers for part in worker["statistics"]]
        if not parts:
            raise ValueError(
                f"The newest checkpoint in {self.checkpoints} has no running statistics of the "
                "vector environments. Give an environment that has them: rlpyt.load(..., env=...)."
            )
        return merge_statistics(parts)


def env_recipe(env_id: Any, env_args: Mapping[str, Any] | None = None) -> EnvRecipe:
    """Return the recipe for an environment from its name.

    Args:
        env_id: a gymnasium id ("CartPole-v1"), whose image observations get their channels first;
            an ALE id ("ALE/Pong-v5", with sticky actions of probability 0.25) or the name of a
            game ("pong", without sticky actions), both of which use
            :class:`~rlpyt.envs.atari.atari_env.AtariEnv`; a toy ("toy/memory"); or a custom
            environment class or function ("my_module:MyEnv", "my_file.py:MyEnv"), also in the
            current directory; or a class, function or other object that returns an environment. The
            class of trajectory statistics may be an attribute ``TrajInfoCls`` of it, or of the
            class that a partial or an id of the user's own modules names.
        env_args: further arguments of the environment.

    Raises:
        ValueError: the environment is unknown; the message lists the nearest names.
        ImportError: a required package is missing; the message says how to install it.
    """
    args = dict(env_args or {})
    if isinstance(env_id, str) and env_id.startswith("toy/"):
        name = env_id.removeprefix("toy/")
        if name not in TOYS:
            raise UnknownName("toy", name, TOYS)
        return EnvRecipe(resolve_name(f"rlpyt.envs.toy:{name.capitalize()}Env"), args, args)
    custom = env_maker(env_id)
    if custom is not None:
        can_render = "render_mode" in inspect.signature(custom).parameters
        render_kwargs = {"render_mode": "rgb_array"} if can_render else {}
        return EnvRecipe(custom, args, args, render_kwargs, _traj_info_class(custom))
    game = _atari_game(env_id)
    if game is None:
        family = _family(env_id)
        # All of MinAtar is [H, W, C], which the shape of Seaquest, (10, 10, 10), does not show.
        channels_first = True if family == "minatar" else None
        kwargs = {"id": env_id, "channels_first": channels_first, **args}
        render_kwargs = {"render_mode": "rgb_array"}
        registered = gymnasium.registry.get(env_id.rpartition(":")[2])
        statistics = _traj_info_class(registered and registered.entry_point)
        return EnvRecipe(gym_envs.make, kwargs, kwargs, render_kwargs, statistics, family)
    from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo

    sticky = STICKY if re.search(r"-v[05]$", env_id) else 0.0
    kwargs = {"game": game, "repeat_action_probability": sticky, **args}
    eval_kwargs = {**kwargs, "episodic_lives": False}
    return EnvRecipe(AtariEnv, kwargs, eval_kwargs, TrajInfoCls=AtariTrajInfo, family="atari")


def _traj_info_class(maker: Any) -> Any:
    """Return the attribute ``TrajInfoCls`` of what makes an environment.

    Args:
        maker: class or function, a partial of it, or the entry point of a registered environment.
    """
    if isinstance(maker, str) and origin(maker.partition(":")[0]) == "user":
        maker = load_env_creator(maker)
    while isinstance(maker, functools.partial) and not hasattr(maker, "TrajInfoCls"):
        maker = maker.func
    return getattr(maker, "TrajInfoCls", TrajInfo)


def build_algo(options: RunOptions) -> Any:
    """Build the algorithm, with the arguments in ``options.algo``; ``OptimCls`` may be a name.

    Raises:
        UnknownName: the algorithm does not take an argument, or the optimizer is unknown.
        ValueError, TypeError: an argument is out of range or has the wrong type.
    """
    cls = algorithm_class(options.algo_name)
    known = {item.name for item in fields(cls)} if is_dataclass(cls) else {*named_arguments(cls)}
    for name in options.algo:
        if name not in known:
            raise UnknownName(f"{label(options.algo_name)} setting", name, known)
    kwargs = dict(options.algo)
    if isinstance(kwargs.get("OptimCls"), str):
        kwargs["OptimCls"] = optimizer_class(kwargs["OptimCls"])
    return cls(**kwargs)


def optimizer_class(name: str) -> Any:
    """Return a class of ``torch.optim``, or the class "module:Class".

    Raises:
        UnknownName: the optimizer is unknown, or networks cannot be trained with it.
        ValueError: the module has no such class.
        ModuleNotFoundError: the module does not exist.
    """
    from torch import optim

    if ":" in name:
        return class_named(name, "optimizer", ("step", "zero_grad"))

    known = {
        key: cls
        for key, cls in vars(optim).items()
        if isinstance(cls, type) and issubclass(cls, optim.Optimizer) and key not in NO_OPTIMIZERS
    }
    if name not in known:
        raise UnknownName("optimizer", name, known)
    return known[name]


def optimizer_name(optimizer: Any) -> Any:
    """Return the name that `optimizer_class` takes; the class if it has none; else `optimizer`."""
    if not isinstance(optimizer, type):
        return optimizer
    from torch import optim

    name = optimizer.__name__
    known = getattr(optim, name, None) is optimizer
    return name if known else importable_name(optimizer) or optimizer


def build_sampler(options: RunOptions, recipe: EnvRecipe) -> Any:
    """Build the sampler, with evaluation environments if the agent is evaluated in training."""
    sampler = options.sampler
    evaluation: dict[str, Any] = {}
    if options.eval_interval_steps:
        n_envs = min(options.eval_episodes, sampler.batch_B)
        steps_per_env = -(-options.eval_episodes // n_envs) * (
            options.eval_max_steps or LONGEST_EPISODE
        )
        evaluation = {
            "eval_n_envs": n_envs,
            "eval_max_steps": steps_per_env * n_envs,
            "eval_max_trajectories": options.eval_episodes,
            "eval_env_kwargs": recipe.eval_kwargs,
            "eval_deterministic": True,
        }
    kinds = ASYNC_SAMPLERS if sampler.asynchronous else SAMPLERS
    if sampler.kind not in kinds:
        raise ValueError(
            f"sampler.kind={sampler.kind!r} cannot be asynchronous. Use one of {', '.join(kinds)}."
        )
    more: dict[str, Any] = {"n_actors": sampler.n_workers} if sampler.kind == "ray" else {}
    if base_algorithm(options.algo_name) in EVOLUTION:
        if sampler.asynchronous or options.ranks > 1 or sampler.kind not in LOCAL_AGENTS:
            raise ValueError(
                f"{label(options.algo_name)} evaluates candidates in one process or in workers. "
                "Use the sampler serial, cpu or ray, not asynchronous, and ranks=1."
            )
        more["CollectorCls"] = resolve_name("rlpyt.es.collector:PopulationCollector")
    return resolve_name(kinds[sampler.kind])(
        EnvCls=recipe.EnvCls,
        env_kwargs=recipe.kwargs,
        batch_T=sampler.batch_T,
        batch_B=sampler.batch_B,
        max_decorrelation_steps=sampler.max_decorrelation_steps,
        TrajInfoCls=recipe.TrajInfoCls,
        curriculum=build_curriculum(options),
        deterministic_acting=sampler.deterministic_acting,
        env_timeout=sampler.env_timeout,
        reset_timeout=sampler.reset_timeout,
        on_fault=options.on_fault,
        **more,
        **evaluation,
    )


def build_runner(
    options: RunOptions,
    run_dir: Path,
    hooks: Sequence[Any] = (),
    resume: bool = False,
    debug: bool = False,
) -> Any:
    """Build the runner of a run and all its parts, without starting anything.

    Args:
        options: options of the run.
        run_dir: run directory, which contains the checkpoints.
        hooks: hooks of the runner.
        resume: resume from the latest checkpoint in ``run_dir``.
        debug: do everything in this process and thread, see `in_one_process`.
    """
    from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
    from rlpyt.runners.hooks import KeepBest
    from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
    from rlpyt.runners.one_process import in_one_process
    from rlpyt.runners.sync_rl import SyncRl, SyncRlEval

    _check_counts(options)
    recipe = with_tasks(env_recipe(options.env, options.env_args), options)
    parts = {
        "algo": build_algo(options),
        "sampler": build_sampler(options, recipe),
        "affinity": affinities(options),
        "agent": build_agent(options, spaces_of_run(recipe, options, debug)),
    }
    checkpoints = run_dir / rundir.CHECKPOINTS
    kinds: Any = MinibatchRl, MinibatchRlEval
    if options.sampler.asynchronous:
        kinds = AsyncRl, AsyncRlEval
        lead = options.sampler.max_lead
        parts["max_lead"] = None if lead < 0 else lead
    elif options.ranks > 1 or torchrun.place() is not None:
        kinds = SyncRl, SyncRlEval
    runner = kinds[bool(options.eval_interval_steps)](
        **parts,
        n_steps=options.steps,
        seed=options.seed,
        log_interval_steps=options.log_steps,
        eval_interval_steps=options.eval_interval_steps or None,
        checkpoint_dir=checkpoints,
        checkpoint_interval_steps=options.checkpoint_steps,
        resume_from=checkpoints if resume else None,
        hooks=[*hooks, *([KeepBest()] if options.keep_best else [])],
    )
    return in_one_process(runner) if debug else runner


def _check_counts(options: RunOptions) -> None:
    """Check numbers that are otherwise used only late in training.

    Raises:
        TypeError, ValueError: a number has the wrong type or is out of range.
    """
    whole_number("checkpoint_interval_steps", options.checkpoint_steps, 0)
    whole_number("eval_interval_steps", options.eval_interval_steps, 0)
    whole_number("sampler.n_workers", options.sampler.n_workers, 1)
    if options.sampler.kind in ("serial", "tensor") and options.sampler.n_workers > 1:
        given = {"sampler.n_workers": (options.sampler.n_workers, SamplerOptions.n_workers)}
        warn_without("a sampler with workers, such as sampler.kind=cpu", **given)
    lead = options.sampler.max_lead
    if lead != MAX_LEAD and not options.sampler.asynchronous:
        raise ValueError(
            f"sampler.max_lead={lead} is for asynchronous runs. Remove it, or add "
            "--sampler.asynchronous."
        )
    if lead < -1:
        raise ValueError(
            f"sampler.max_lead={lead} must be at least 0, or -1 for an unlimited number of batches."
        )
    whole_number("eval_episodes", options.eval_episodes, 1 if options.eval_interval_steps else 0)
    if options.eval_max_steps is not None:
        whole_number("eval_max_steps", options.eval_max_steps, 1)


def spaces_of_run(recipe: EnvRecipe, options: RunOptions, debug: bool = False) -> Any:
    """Return the spaces of a run, see `env_spaces`; with ``debug`` no child is started."""
    if options.sampler.kind != "tensor":
        return env_spaces(recipe, options.sampler.kind != "serial" and not debug)
    with Surroundings().checked(), torch.inference_mode():
        device = None if options.device == "cpu" else torch.device(options.device)
        n = options.sampler.batch_B
        envs = make_tensor_envs(recipe.EnvCls, recipe.kwargs, n, options.seed, device)
        if hasattr(envs.env, "close"):
            envs.env.close()
    return envs.spaces


def env_spaces(recipe: EnvRecipe, in_child: bool = False) -> Any:
    """Return the spaces of an environment, which is made and closed.

    Args:
        recipe: recipe of the environment.
        in_child: make it in a child process, as in workers.

    Raises:
        ValueError: the environment cannot be made with these arguments.
        WorkerError: the child process failed for another reason.
    """
    if in_child:
        try:
            return run_in_child(_spaces_of, recipe)
        except WorkerError as error:
            message = error.traceback.strip().rpartition("\n")[2]
            if not message.startswith(("TypeError", "ValueError", "ImportError")):
                raise
            raise ValueError(f"The environment cannot be made: {message}") from error
    with Surroundings().checked(), contextlib.closing(_spaces_of(recipe)) as spaces:
        return next(spaces)


def _spaces_of(recipe: EnvRecipe) -> Generator[Any, None, None]:
    """Yield the spaces of an environment, then close it: a child may wait for ``close`` apart."""
    with closing_quietly(recipe.make()) as env:
        yield env.spaces


def _family(env_id: str) -> str:
    if ":" in env_id:  # "module:id", registered by importing the module
        return "classic"
    entry_point = str(gymnasium.registry[current_id(env_id)[0]].entry_point)
    return next((name for name in ("mujoco", "minatar") if name in entry_point), "classic")


def _atari_game(env_id: str) -> str | None:
    """Return the emulator's name of the game, or ``None`` if it is another environment."""
    explicit = env_id.startswith("ALE/")
    registered = gymnasium.registry.get(env_id)
    if not explicit and registered and not str(registered.entry_point).startswith("ale_py"):
        return None  # Blackjack-v1 is also the name of an Atari game
    try:
        return rom_id(env_id)
    except (ValueError, ImportError):
        if explicit:
            raise
        return None
