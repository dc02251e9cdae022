"""``rlpyt.train``, ``rlpyt.evaluate`` and ``rlpyt.make``: what the command line does, in Python."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from rlpyt.experiments.build import env_recipe
from rlpyt.experiments.options import RunOptions, Settings
from rlpyt.experiments.population import (
    members_of,
    seed_directories,
    seeds_of,
    train_population,
)
from rlpyt.experiments.run import EVAL_SEED, Evaluation, Run, load, loaded, with_own_seed
from rlpyt.experiments.run import train as train_run
from rlpyt.experiments.rundir import given_directory, run_directory, showing_how_to_resume
from rlpyt.experiments.settings import default_options, with_settings
from rlpyt.runners.progress import ProgressHook


@overload
def train(
    algo: str | type, env: str | Any, /, *, seeds: Iterable[int] | str, **settings: Any
) -> list[Run]: ...


@overload
def train(
    algo: str | type, env: str | Any, /, *, population: Sequence[Mapping[str, Any]], **settings: Any
) -> list[Run]: ...


@overload
def train(
    algo: str | type,
    env: str | Any,
    /,
    *,
    steps: int = Settings.steps,
    seed: int = 0,
    agent: str | type | Mapping[str, Any] | None = None,
    preset: str | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    hooks: Sequence[Any] = (),
    progress: bool = True,
    debug: bool = False,
    **settings: Any,
) -> Run: ...


def train(
    algo: str | type,
    env: str | Any,
    /,
    *,
    steps: int = Settings.steps,
    seed: int = 0,
    agent: str | type | Mapping[str, Any] | None = None,
    preset: str | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    hooks: Sequence[Any] = (),
    progress: bool = True,
    debug: bool = False,
    seeds: Iterable[int] | str | None = None,
    population: Sequence[Mapping[str, Any]] | None = None,
    **settings: Any,
) -> Run | list[Run]:
    """Train an agent as ``rlpyt train`` does, and return the run with the trained agent.

        run = rlpyt.train("ppo", "CartPole-v1", steps=100_000, learning_rate=3e-4, batch_B=16)
        print(run.evaluate(20))

    Args:
        algo: name of an algorithm ("ppo", "dqn", "sac", ..., in any case), or its class, also a
            custom one.
        env: name of an environment ("CartPole-v1"), or a class, function or other object that
            returns an environment when called.
        steps: environment steps, rounded down to whole batches of ``batch_T * batch_B``.
        seed: seed of all random streams, 0 to 2**64 - 1; a resumed run keeps its own.
        agent: custom agent class; or the agent's settings, such as ``dict(hidden_sizes=[64])``.
        preset: family of environments whose settings to use: "classic", "atari", ...
        run_dir: run directory; by default ``data/ALGO-ENV-TIMESTAMP``.
        resume: resume from the latest checkpoint in ``run_dir``, with the settings given here.
        hooks: hooks of the runner (`rlpyt.runners.hooks.Hook`).
        progress: print progress.
        debug: do everything in this process and thread, also in an asynchronous run or one with
            workers, so that a debugger works; see `rlpyt.in_one_process`.
        seeds: train one agent with each of these seeds, in one process and as one batched network
            (docs/many_agents.md): numbers, or a text such as "0-7". Each is an ordinary run, in
            ``run_dir/seed_0`` and so on, with a serial sampler.
        population: train one agent with each of these settings instead, such as
            ``[{"algo.learning_rate": 1e-3}, {"algo.learning_rate": 3e-4}]``, in
            ``run_dir/agent_0`` and so on.
        **settings: any setting that ``rlpyt train ALGO ENV --help`` lists. Those of the algorithm,
            the agent and the sampler are given by name, or as ``algo=dict(...)``,
            ``agent=dict(...)``, ``sampler=dict(...)``, each of them once. Values may be classes,
            functions, arrays and paths. The run is saved with their names or contents; of what has
            neither, such as a lambda, a warning says how to give it again to `rlpyt.load`.

    Returns:
        The run; with ``seeds`` or ``population`` a list of them.

    Raises:
        UnknownName: the algorithm, environment or a setting is unknown.
        ValueError: a value is out of range, or settings contradict each other.
        RunDirectoryError: the directory cannot be used.
        WorkerError: a worker failed; a checkpoint is saved if an iteration was complete.
        PopulationError: some of several runs failed; the others are complete.
    """
    options = options_of(algo, env, agent=agent, preset=preset, **settings)
    options = options.updated({"steps": steps, "seed": seed})
    given = given_directory(run_dir)
    if seeds is not None or population is not None:
        if seeds is not None and (population is not None or seed != 0):
            raise ValueError("give seeds alone, not with seed or population.")
        if debug:
            raise ValueError("debug=True is for one run: leave out seeds and population.")
        numbers = None if seeds is None else seeds_of(seeds)
        with run_directory(options, given) as path:
            there = path.absolute()  # environments may change the working directory
            if numbers is not None:
                runs = seed_directories(options, numbers, there)
            else:
                runs = members_of(options, population or (), there)
            all_spaces = train_population(runs, hooks, progress, resume)
        return [loaded(d, options=o, spaces=s) for (d, o), s in zip(runs.items(), all_spaces)]
    with run_directory(options, given) as path:
        options = with_own_seed(options, path) if resume else options
        what = f"{options.title} for {{steps}} steps"
        shown = [ProgressHook(announcement=f"Training {what} in {path}")] if progress else []
        how = f"rlpyt.train(..., run_dir={str(path)!r}, resume=True)"
        there = path.absolute()  # environments may change the working directory
        with showing_how_to_resume(path, how):
            spaces = train_run(options, path, hooks=[*shown, *hooks], resume=resume, debug=debug)
        return loaded(there, options=options, spaces=spaces)


def evaluate(
    run: Run | str | Path,
    episodes: int = 20,
    seed: int = EVAL_SEED,
    deterministic: bool = True,
    max_steps: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Play episodes with the trained agent of a run, or of a run directory; see `Run.evaluate`.

    ``trust`` is that of `load`.

    Raises:
        FileNotFoundError: the directory contains no run.
        ValueError: ``episodes`` or ``max_steps`` is below 1.
    """
    loaded = run if isinstance(run, Run) else load(run, trust)
    return loaded.evaluate(episodes, seed, deterministic, max_steps)


def make(env: Any, /, **kwargs: Any) -> Any:
    """Return an environment by name ("CartPole-v1", "ALE/Pong-v5", "my_module:MyEnv").

    Args:
        env: name of the environment, as on the command line; or a class or function.
        **kwargs: further arguments of the environment.

    Raises:
        ValueError: the environment is unknown; the message lists the nearest names.
    """
    return env_recipe(env, kwargs).make()


def options_of(
    algo: str | type,
    env: str | Any,
    /,
    agent: str | type | Mapping[str, Any] | None = None,
    preset: str | None = None,
    **settings: Any,
) -> RunOptions:
    """Return the options of a run; arguments are those of `train`.

    Raises:
        UnknownName: the algorithm, environment or a setting is unknown.
        ValueError: a setting belongs to several parts.
    """
    if agent is not None:
        settings["agent"] = agent
    return with_settings(default_options(algo, env, preset), settings)
