"""``rlpyt train ALGO ENV``: train and evaluate an agent, plot its curve, record a video."""

import contextlib
import dataclasses
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from rlpyt.cli import resume
from rlpyt.cli.flags import UsageError, parse, settings_class
from rlpyt.errors import itr_of
from rlpyt.experiments.agents import CONTROL
from rlpyt.experiments.finish import finish
from rlpyt.experiments.hub import local_path
from rlpyt.experiments.options import CONFIG, RunOptions, Settings, read_config
from rlpyt.experiments.population import (
    in_this_process,
    members_in,
    seed_directories,
    seeds_of,
    train_and_evaluate,
)
from rlpyt.experiments.presets.families import FAMILIES
from rlpyt.experiments.registry import ALGORITHMS, algorithm_class, algorithm_named
from rlpyt.experiments.run import train
from rlpyt.experiments.rundir import (
    given_directory,
    has_checkpoint,
    has_rows,
    run_directory,
    showing_how_to_resume,
)
from rlpyt.experiments.settings import default_options, hyphenated, plain_fields, setting_types
from rlpyt.experiments.trust import blaming
from rlpyt.runners.progress import ProgressHook
from rlpyt.samplers.fault_policy import as_policy
from rlpyt.utils import torchrun
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.context import move_aside
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.names import DIFFERENCES, OTHER_NAMES, flattened
from rlpyt.utils.recorded import describe, has_marks, rebuild
from rlpyt.utils.text import counted

EXAMPLE = "ppo"  # algorithm shown by --help if none is given
# Flags that may be given without the name of the part.
SHORT = r"^--(?:(agent)(?=$|=)|(no-)?(normalize[-_](?:observation|reward))(?=$|=))"
PRESETS = f"family of environments whose defaults to use: {', '.join(FAMILIES)}"
DESCRIPTION = f"""Train an agent, then evaluate it, plot its learning curve and record a video.

ALGO is one of: {", ".join(ALGORITHMS)}. ENV is a gymnasium id (CartPole-v1, HalfCheetah-v5,
MinAtar/Breakout-v1), an Atari game (ALE/Pong-v5 with sticky actions, or pong without), a toy
(toy/memory) or a custom environment (my_module:MyEnv). Algorithm, agent and model may be custom
classes too: rlpyt train my_module:MyAlgo CartPole-v1 --agent my_module:MyAgent. --debug does
everything in one process and thread, so that a debugger works (docs/debugging.md).

The defaults below are those of {{}}, from the preset of the environment's family."""


@dataclasses.dataclass(frozen=True)
class OwnFlags:
    """Flags of the command beside the settings of the run."""

    # run directory; by default data/ALGO-ENV-TIMESTAMP
    run_dir: Annotated[str | None, tyro.conf.arg(metavar="{None}|PATH")] = None
    # train one agent for each of these seeds in one process, without videos: 0-7 or 0,3,5
    seeds: str | None = None
    # auto: resume the run in --run-dir if it has begun, and do nothing if it is complete; a job can
    # start the same command any number of times
    resume: Literal["never", "auto"] = "never"
    preset: Annotated[str | None, tyro.conf.arg(help=PRESETS)] = None
    # settings of another run (its directory, config.json or hf://user/name), instead of ALGO ENV
    config: Path | None = None
    trust: bool = False  # import and call whatever --config names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    listed = _early_flag("--seeds", args)
    seeds = None if listed is None else seeds_of(listed)
    if seeds is not None and debug:
        say("rlpyt: error: --debug is for one run: give --seed instead of --seeds", sys.stderr)
        return 2
    config = _early_flag("--config", args)
    blamed: AbstractContextManager[None] = contextlib.nullcontext()
    if config is None:
        (algo_name, env_id), flags = _positionals(args)
        options, given_dir = read_flags(algo_name, env_id, flags)
    else:
        given, trusted = read_config(local_path(config), "--trust" in args)
        blamed = blaming(Path(config), trusted)
        flags = _without_names(args, given, config)
        options, given_dir = read_flags(given.algo_name, given.env, flags, given)
    code = _resumed(args, options, seeds)
    if code is not None:
        return code
    if seeds is not None:
        if torchrun.place() is not None or _early_flag("--seed", args) is not None:
            raise UsageError("--seeds cannot be combined with --seed or torchrun.")
        with blamed, run_directory(options, given_dir) as run_dir:
            train_and_evaluate(seed_directories(options, seeds, run_dir.absolute()))
            return 0
    if not torchrun.is_first():
        train(options, given_dir or Path())  # rank 0 writes files and prints
        return 0
    if given_dir is None and torchrun.place() is not None:
        raise UsageError("torchrun requires --run-dir: restarted runs resume from there.")
    kind, n = options.sampler.kind, options.sampler.n_workers
    workers = kind if kind in ("serial", "tensor") else f"{kind}, {n} workers"
    if options.sampler.asynchronous:
        optimizers = f"{options.ranks} optimizer{'s' if options.ranks > 1 else ''}"
        workers = f"{workers}, in parallel with {optimizers}"
    elif options.ranks > 1:
        workers = f"{options.ranks} ranks, each: {workers}"
    if debug:
        workers = "in one process, for a debugger"
    announcement = (
        f"Training {options.title} for {{steps}} steps "
        f"({workers}, {counted(options.sampler.batch_B, 'environment')}, seed {options.seed})"
    )
    with (
        blamed,
        run_directory(options, given_dir) as run_dir,
        showing_how_to_resume(run_dir),
        _naming_flags(options),
    ):
        hooks = [ProgressHook(announcement=f"{announcement} in {run_dir}")]
        train(options, run_dir, hooks=hooks, finish=finish, debug=debug)
    return 0


def _resumed(args: Sequence[str], options: RunOptions, seeds: Sequence[int] | None) -> int | None:
    """With ``--resume auto``, resume the run in --run-dir and return the exit code.

    Warns of flags that differ from the settings of the run, which it keeps.

    Returns:
        ``None`` if a run is to be started: there is none, or it ended before its first checkpoint;
        its files are then moved aside.
    """
    if _early_flag("--resume", args) != "auto":
        return None
    given = _early_flag("--run-dir", args)
    run_dir = given_directory(given)
    if given is None or run_dir is None:
        raise UsageError("--resume auto requires --run-dir: the same one at each start.")
    if any(map(has_checkpoint, (run_dir, *members_in(run_dir)))):
        flags = [(flag, _early_flag(flag, args)) for flag in ("--steps", "--device")]
        kept = [text for flag, value in flags if value is not None for text in (flag, value)]
        if torchrun.is_first():
            _warn_of_changed_flags(run_dir, options, seeds)
        return resume.main([given, *kept, "--complete"])
    for path in (run_dir, *members_in(run_dir)) if torchrun.is_first() else ():
        if has_rows(path) and not RunLock(path).owner():
            move_aside(path.absolute())
    return None


def _warn_of_changed_flags(run_dir: Path, options: RunOptions, seeds: Sequence[int] | None) -> None:
    """Warn of options other than those of the run in a directory, or of the first of several.

    Raises:
        UsageError: it is a run of another algorithm or environment.
    """
    members = [] if (run_dir / CONFIG).exists() else members_in(run_dir)
    first = next(iter(members), run_dir)
    if not (first / CONFIG).exists():
        return  # of a script
    own, _ = read_config(first, trust=True)  # which imports nothing
    if own.title != options.title:
        raise UsageError(
            f"{run_dir} is a run of {own.title}, got {options.title}. Give another --run-dir."
        )
    fields = plain_fields(algorithm_class(options.algo_name))
    defaults = {name: item.default for name, item in fields.items()}
    given = _by_flag(in_this_process(options) if members else options, defaults)
    has = _by_flag(own, describe(defaults), recorded=True)
    if torchrun.place() is not None:
        given["ranks"] = has["ranks"]
    if members:
        given["seed"] = has["seed"]
        given["seeds"] = sorted(f"seed_{seed}" for seed in seeds or [options.seed])
        has["seeds"] = sorted(path.name for path in members)
    changed = [f"--{k}" for k in sorted(given.keys() | has) if given.get(k) != has.get(k)]
    if changed:
        warnings.warn(
            f"{run_dir} is resumed with its own settings, so these that differ have no effect: "
            f"{', '.join(changed)}. For other settings, start a new run in another --run-dir."
        )


def _by_flag(
    options: RunOptions, defaults: Mapping[str, Any], recorded: bool = False
) -> dict[str, Any]:
    """Return the options that a resumed run keeps, by flag; those of the algorithm complete.

    Those of a file are ``recorded``: parts are described there already.
    """
    free = {"steps": 0, "device": "", "algo": {**defaults, **options.algo}}
    described = options.updated(free).described()
    if recorded:
        # Undo the second description of what the file describes; nothing is imported for it.
        described = rebuild(described, find=str)
    flat = flattened(described)
    return {name.partition(".$")[0].replace("_", "-"): value for name, value in flat.items()}


@contextlib.contextmanager
def _naming_flags(options: RunOptions) -> Iterator[None]:
    """Prefix errors about an argument of the algorithm or the sampler with its flag."""
    try:
        yield
    except (ValueError, TypeError) as error:
        name, equals, _ = str(error).partition("=")
        groups = {"algo": options.algo, "sampler": vars(options.sampler)}
        group = next((key for key, known in groups.items() if equals and name in known), None)
        if group is not None and itr_of(error) < 0:
            error.args = (f"--{group}.{name.replace('_', '-')}: {error}",)
        raise


def read_flags(
    algo_name: str, env_id: str, flags: Sequence[str], given: RunOptions | None = None
) -> tuple[RunOptions, Path | None]:
    """Return the options of a run from flags, and the run directory if given.

    Options that have no flag are those ``given``, or else of the presets.

    Raises:
        SystemExit: a flag is unknown or its value is invalid; see `rlpyt.cli.flags.parse`.
        UnknownName: the algorithm, environment or preset is unknown.
    """
    algo_name, cls = algorithm_named(algo_name), algorithm_class(algo_name)
    algo_flags = settings_class(cls, "AlgoFlags")
    options = given or default_options(algo_name, env_id, _early_flag("--preset", flags))
    flags = [re.sub(SHORT, _full_flag, flag) for flag in flags]
    flags = _with_restarts(flags)
    known = plain_fields(cls)
    for name in (name for name, item in known.items() if item.is_class):  # also as in Python
        flags = [re.sub(rf"^--algo\.{name}(?=$|=)", f"--algo.{hyphenated(name)}", x) for x in flags]
    # Descriptions of objects, from the file of another run, are no values of a flag.
    described = {name for name, value in options.algo.items() if has_marks(value)}
    on_line = {k: v for k, v in options.algo.items() if k in known and k not in described}
    settings = Settings(**{x.name: getattr(options, x.name) for x in dataclasses.fields(Settings)})
    try:
        command = parse(
            _command_class(settings, algo_flags(**on_line)),
            flags,
            prog=f"rlpyt train {algo_name} {env_id}",
            description=DESCRIPTION.format(f"{algo_name} on {env_id}"),
        )
    except SystemExit:
        _translate(flags, algo_name)
        raise
    chosen = dataclasses.asdict(command.settings)
    algo = {
        name: value
        for name, value in dataclasses.asdict(command.algo).items()
        if name not in described or value != known[name].default
    }
    # Dictionaries extend those of the preset, as they do in sweeps.
    named = options.updated({"algo_name": algo_name, "env": env_id})
    return named.updated({**chosen, "algo": algo}), given_directory(command.own.run_dir)


def _with_restarts(flags: list[str]) -> list[str]:
    """Write ``--on-fault restart``, or raise, as the actions for each fault.

    Raises:
        UsageError: it is another word.
    """
    word = _early_flag("--on-fault", flags)
    if word is None:
        return flags
    if word not in ("restart", "raise"):
        raise UsageError(
            f"--on-fault must be restart or raise, got {word}. Give the action for one kind of "
            "fault as --on-fault.env-error restart_env."
        )
    at = [flag.partition("=")[0].replace("_", "-") for flag in flags].index("--on-fault")
    end = at + 1 + ("=" not in flags[at])
    actions = [f"--on-fault.{hyphenated(x)}={y}" for x, y in as_policy(word).actions()]
    return [*flags[:at], *actions, *flags[end:]]


def _full_flag(short: re.Match[str]) -> str:
    """Return the flag for one of ``SHORT``: "--algo.normalize-reward" for "--normalize-reward"."""
    agent, negation, name = short.groups()
    if agent:
        return "--agent.cls"
    part = "algo" if name.endswith("reward") else "agent"
    return f"--{part}.{negation or ''}{name}"


def _translate(flags: Sequence[str], algo_name: str) -> None:
    """Print the flags for those of other libraries, and the algorithms that have an unknown one."""
    known = setting_types(algo_name)
    for flag in (flag.partition("=")[0] for flag in flags if flag.startswith("--")):
        name = flag.removeprefix("--").replace("-", "_")
        own = name.rpartition(".")[-1]
        meant = own if any(x.endswith(f".{own}") for x in known) else OTHER_NAMES.get(own, own)
        same = [x for x in known if x.rpartition(".")[-1] == meant]
        owners = [x for x in ALGORITHMS if meant in plain_fields(algorithm_class(x))]
        if same and name in OTHER_NAMES and name not in known:
            note = f": {DIFFERENCES[name]}" if name in DIFFERENCES and meant != own else ""
            say(f"{flag} is called --{same[0].replace('_', '-')} in rlpyt{note}.", sys.stderr)
        elif owners and not same:
            say(f"{flag}: {meant} is a setting of {', '.join(owners)}.", sys.stderr)


def _command_class(settings: Settings, algo: Any) -> Any:
    """Return a dataclass of all flags, with the presets as defaults."""
    flags = [
        ("own", Annotated[OwnFlags, tyro.conf.arg(name="")], OwnFlags()),
        ("settings", Annotated[Settings, tyro.conf.arg(name="")], settings),
        ("algo", type(algo), algo),
    ]
    return dataclasses.make_dataclass("Train", flags, frozen=True)


def _positionals(args: Sequence[str]) -> tuple[tuple[str, str], list[str]]:
    names = [arg for arg in args[:2] if not arg.startswith("-")]
    if len(names) == 2 and args[:2] == names:
        return (names[0], names[1]), list(args[2:])
    if "--help" in args or "-h" in args:
        algo_name = names[0] if names else EXAMPLE
        env_id = "Pendulum-v1" if algo_name in CONTROL else "CartPole-v1"
        return (algo_name, env_id), ["--help"]
    raise UsageError(
        "Give an algorithm and an environment first, as in `rlpyt train ppo CartPole-v1`. "
        "`rlpyt train --help` lists them."
    )


def _without_names(args: Sequence[str], given: RunOptions, config: str) -> list[str]:
    """Return the flags without ALGO ENV, which must match ``--config`` if given.

    Raises:
        UsageError: ALGO or ENV differs from the configuration.
    """
    names = list(args[: next((i for i, arg in enumerate(args) if arg.startswith("-")), None)])
    if names not in ([], [given.algo_name], [given.algo_name, given.env]):
        raise UsageError(
            f"--config {config} is a run of {given.algo_name} on {given.env}, got "
            f"{' '.join(names)}. Omit ALGO ENV to use its settings, or omit --config."
        )
    return list(args[len(names) :])


def _early_flag(name: str, flags: Sequence[str]) -> str | None:
    """Return the value of a flag that determines the defaults of all others."""
    for at, flag in enumerate(flags):
        given, equals, value = flag.partition("=")
        if given.replace("_", "-") == name and (equals or at + 1 < len(flags)):
            return value if equals else flags[at + 1]
    return None
