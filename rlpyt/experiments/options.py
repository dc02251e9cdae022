"""Options of a run, saved in ``config.json``.

The comment of each field is its help text on the command line. Options are plain values. In Python
they may also be classes, functions, arrays and paths: dictionaries may contain them, and
``algo_name``, ``env`` and the agent's ``cls``, ``model_cls`` and ``memory`` may be a class or
function that has no name "module:name". The file contains their descriptions
(`rlpyt.utils.recorded`), which are rebuilt when the run is loaded.
"""

import contextlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rlpyt.errors import DamagedFile
from rlpyt.samplers.fault_policy import RAISE, FaultPolicy
from rlpyt.utils.checks import scalar, true_or_false, whole_number
from rlpyt.utils.files import write_text
from rlpyt.utils.logging.tracking import logger_names
from rlpyt.utils.names import UnknownName, suggestion
from rlpyt.utils.recorded import describe, has_marks, importable_name, label, missing_parts
from rlpyt.utils.schedules import with_start
from rlpyt.utils.signed import SIGNATURE, is_signed, read_json, signed
from rlpyt.version import VERSION

FORMAT = 1  # version of config.json, increased when older readers would misread it
CONFIG = "config.json"
Precision = Literal["highest", "high", "medium"]
SCHEMA = {
    "type": "object",
    "required": ["format"],
    "properties": {
        "format": {"type": "integer"},
        "rlpyt": {"type": "string", "pattern": r"^[\w.+-]*$"},  # shown as it is
        "algo_name": {"pattern": r"^[^\r\n]*\Z"},  # in the title of a model card,
        "env": {"pattern": r"^[^\r\n]*\Z"},  # of which it is one line
    },
}
MAX_LEAD = 2  # batches, by default
MIN_ROWS, MAX_ROWS = 10, 50  # rows of a run, by default
LOG_STEPS, MAX_LOG_STEPS = 10_000, 50_000  # usual and maximum steps between two rows, by default
MAX_CHECKPOINT_STEPS = 250_000  # between two checkpoints, by default


@dataclass(frozen=True)
class SamplerOptions:
    """Options of sampling."""

    # serial: in this process; cpu: in workers that also act; gpu: in workers, and this process
    # acts for all; alternating, no-overlap: like gpu, in two alternating groups of workers; ray:
    # in actors of a Ray cluster (RAY_ADDRESS, or one on this machine); tensor: in this process, for
    # an environment that is one program on tensors of all rows.
    kind: Literal["serial", "cpu", "gpu", "alternating", "no-overlap", "ray", "tensor"] = "cpu"
    n_workers: int = 2  # number of worker processes (of all groups), about one per core
    batch_T: int = 128  # time steps per batch and environment
    batch_B: int = 8  # number of environments, distributed over the workers
    max_decorrelation_steps: int = 100  # maximum number of random steps before the first batch
    # bit-identical results for all samplers and numbers of workers on a machine, acting on the
    # CPU; slower
    deterministic_acting: bool = False
    # seconds without progress in a step after which a worker hangs (--on-fault.env-hang)
    env_timeout: float = 60.0
    reset_timeout: float = 300.0  # the same in a reset
    asynchronous: bool = False  # sample in separate processes while the agent trains
    # (asynchronous) maximum number of batches ahead of the updates; -1: unlimited
    max_lead: int = MAX_LEAD
    # how the task of each episode is chosen, in environments with tasks; level-replay: prioritized
    # level replay, for algorithms with a value function (ppo, a2c, vtrace)
    curriculum: Literal["none", "uniform", "learning-progress", "level-replay"] = "none"
    n_tasks: int = 0  # (curriculum) number of tasks of the environment


# Arguments of models (``agent.model``) that can be given by an option of the agent, too.
MODEL_ARGUMENTS = {
    "hidden_sizes": ("hidden_sizes", "fc_sizes"),
    "normalize_observation": ("normalize_observation",),
    "dueling": ("dueling",),
    "noisy": ("noisy",),
}


@dataclass(frozen=True)
class AgentOptions:
    """Options of the agent and its model."""

    cls: str | None = None  # custom agent, my_module:MyAgent; also given by --agent
    model_cls: str | None = None  # custom model of the agent, my_module:MyModel
    # memory, which also takes the previous action and reward: lstm, gru, ln_lstm
    # (layer-normalized), mingru (parallel scan), gtrxl (attention), a custom one
    # (my_module:MyMemory), or none
    memory: str | None = None
    memory_size: int | None = None  # size of the memory's output; None: the model decides
    memory_args: dict[str, Any] = field(default_factory=dict)  # such as {"window": 32} for gtrxl
    recurrent: bool = False  # short for memory lstm
    # (policy gradient, with memory) what the critic's values depend on: shared, the policy's
    # memory; own, another memory; none, only the current observation. None: shared
    critic_memory: Literal["shared", "own", "none"] | None = None
    # parts of a Dict observation that the policy reads, such as: state image.left; None: all
    policy_observation: tuple[str, ...] | None = None
    critic_observation: tuple[str, ...] | None = None  # parts that the critic reads; None: all
    hidden_sizes: tuple[int, ...] | None = None  # sizes of the fully connected layers
    # normalize vector observations by their running mean and standard deviation
    normalize_observation: bool = False
    dueling: bool = False  # (Q-learning) dueling network: separate state value and advantages
    noisy: bool = False  # (Q-learning) noisy layers; epsilon is then 0 unless set in args
    model: dict[str, Any] = field(default_factory=dict)  # further arguments of the model
    # further arguments of the agent, such as {"eps_final": 0.05}
    args: dict[str, Any] = field(default_factory=dict)

    @property
    def has_memory(self) -> bool:
        """Return True if the agent is recurrent."""
        return self.recurrent if self.memory is None else self.memory != "none"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run that do not depend on the algorithm or the environment."""

    # environment steps to train for, rounded down to whole batches of batch_T * batch_B
    steps: int = 500_000
    seed: int = 0  # seed of all random streams, 0 to 2**64 - 1
    # training processes; batch size and number of workers are per rank (asynchronous: number of
    # optimizers, with one sampler)
    ranks: int = 1
    device: str = "cpu"  # training device: cpu, cuda or cuda:N
    torch_threads: int = 1  # threads of the training process; 0: one per core, for large networks
    # torch's precision of products of float32 matrices: highest; high and medium: faster, where the
    # GPU or CPU has instructions for it; None: as set in this process
    matmul_precision: Precision | None = None
    # steps between two rows of progress.csv; None: 10000, in runs of less than 100000 steps a
    # tenth, and in those of more than 500000 a fiftieth of the run, at most 50000
    log_interval_steps: int | None = None
    # steps between two checkpoints; None: a tenth of the run, at most 250000; 0: only at the end
    checkpoint_interval_steps: int | None = None
    eval_interval_steps: int = 0  # steps between evaluations in training; 0: only at the end
    eval_episodes: int = 20  # episodes per evaluation; 0: no evaluation
    # steps after which an evaluation episode counts as unfinished; None: 10000 (30000 in
    # evaluations during training), or the time limit of the environment if that is longer
    eval_max_steps: int | None = None
    # keep the agent with the highest return of an evaluation (without evaluations in training: of
    # the latest training episodes) as best.pkl, for `rlpyt eval --best`
    keep_best: bool = False
    # run whose agent has the initial parameters: its directory, best.pkl of it, or hf://user/name
    init_from: str | None = None
    # outputs besides progress.csv (csv): tensorboard, wandb, mlflow, trackio; several with commas
    logger: tuple[str, ...] = ("csv",)
    tensorboard: bool = False  # the same as --logger tensorboard
    video: bool = True  # record a video of the trained agent after training
    env_args: dict[str, Any] = field(default_factory=dict)  # arguments of the environment
    sampler: SamplerOptions = SamplerOptions()
    on_fault: FaultPolicy = RAISE
    agent: AgentOptions = AgentOptions()

    def __post_init__(self) -> None:
        """Check names.

        Raises:
            UnknownName: a logger or the precision is unknown.
        """
        _checked("matmul_precision", self.matmul_precision, Precision | None)
        object.__setattr__(self, "logger", logger_names(self.logger))

    @property
    def log_steps(self) -> int:
        """Steps between rows, given or by default."""
        if self.log_interval_steps is not None:
            return self.log_interval_steps
        usual = min(LOG_STEPS, self.steps // MIN_ROWS)
        return min(max(usual, self.steps // MAX_ROWS, 1), MAX_LOG_STEPS)

    @property
    def checkpoint_steps(self) -> int:
        """Steps between checkpoints, given or by default; 0: only at the end."""
        given = self.checkpoint_interval_steps
        return min(max(self.steps // 10, 1), MAX_CHECKPOINT_STEPS) if given is None else given


@dataclass(frozen=True, kw_only=True)
class RunOptions(Settings):
    """All options of a run, as saved in ``config.json``."""

    algo_name: str  # "ppo"
    env: str  # "CartPole-v1"
    algo: dict[str, Any] = field(default_factory=dict)  # arguments of the algorithm's class

    def updated(self, changes: Mapping[str, Any]) -> "RunOptions":
        """Return a copy with nested changes, e.g. ``{"steps": 1, "sampler": {"batch_B": 4}}``.

        An argument of the model in ``agent.model`` replaces an older ``agent.hidden_sizes`` and the
        like, such as that of a preset, and the other way round.

        Raises:
            UnknownName: a key, at any level, is not an option.
            TypeError, ValueError: a value has the wrong type.
        """
        updated: RunOptions = _updated(self, changes)
        return replace(updated, agent=_newest(self.agent, updated.agent))

    @property
    def title(self) -> str:
        """Algorithm and environment, such as "ppo on CartPole-v1"."""
        return f"{label(self.algo_name)} on {label(self.env)}"

    def described(self) -> dict[str, Any]:
        """Return all options as plain data."""
        return _described(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``config.json``."""
        return signed({"format": FORMAT, "rlpyt": VERSION, **self.described()})

    def write(self, run_dir: Path) -> None:
        """Write ``config.json``, which :func:`read_options` reads.

        One that replaces an unsigned file is not signed either: a resume makes no run of somebody
        else one of this user. Warns of options that are not rebuilt from it, such as lambdas.
        """
        config = self.as_dict()
        with contextlib.suppress(OSError, ValueError):  # there is none, or a damaged one
            if not is_signed(read_json(run_dir / CONFIG, "a run's configuration", SCHEMA)):
                del config[SIGNATURE]
        write_text(run_dir / CONFIG, json.dumps(config, indent=2) + "\n")
        missing = dict(missing_parts(config))
        if missing:
            listed = ", ".join(f"{'.'.join(place)}={text}" for place, text in missing.items())
            given = as_arguments(missing)
            again = f"load this run, give it again: rlpyt.load({str(run_dir)!r}, {given})"
            if all(place[0] == "algo" for place in missing):  # the trained agent needs none of it
                again = f"resume this run, give it again: rlpyt.train(..., {given}, resume=True)"
            warnings.warn(
                f"{CONFIG} cannot describe {listed}. To {again}; or define it at the top level of "
                "a module that can be imported."
            )


def sign(run_dir: Path) -> None:
    """Sign the ``config.json`` of a run that the user trusts."""
    config = read_json(run_dir / CONFIG, "a run's configuration", SCHEMA)
    write_text(run_dir / CONFIG, json.dumps(signed(config), indent=2) + "\n")


def as_arguments(places: Iterable[tuple[str, ...]]) -> str:
    """Return arguments of ``rlpyt.load`` for options: ``env=..., agent={'model': ...}``."""
    tree: dict[str, Any] = {}
    for place in places:
        path = ("algo",) if place == ("algo_name",) else place
        # Items of a dictionary of settings are replaced as a whole.
        *above, last = path[: 3 if path[0] == "agent" else 2]
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[last] = ...
    return ", ".join(f"{key}={value!r}" for key, value in tree.items()).replace("Ellipsis", "...")


def _described(options: Any) -> dict[str, Any]:
    values = {item.name: getattr(options, item.name) for item in fields(options)}
    return {
        name: _described(value)
        if isinstance(value, AgentOptions | SamplerOptions | FaultPolicy)
        else describe([*value] if isinstance(value, tuple) else value)
        for name, value in values.items()
    }


def read_options(run_dir: Path | str, trust: bool = False) -> RunOptions:
    """Return the options of the run in ``run_dir``, which may also be its ``config.json``.

    Args:
        run_dir: the directory or file.
        trust: accept a file of somebody else, whatever it names.

    Raises:
        FileNotFoundError: the directory does not exist or contains no run.
        DamagedFile: ``config.json`` is damaged, from a newer version, or has unknown keys.
        UntrustedFile: it is a file of somebody else that names other than rlpyt's parts.
    """
    return read_config(run_dir, trust)[0]


def read_config(run_dir: Path | str, trust: bool = False) -> tuple[RunOptions, bool]:
    """Return the options as `read_options` does, and True if they are trusted."""
    from rlpyt.experiments.trust import read_described  # which imports gymnasium

    path = Path(run_dir)
    if not path.exists():
        found = path.parent.iterdir() if path.parent.is_dir() else ()
        hint = suggestion(path.name, [item.name for item in found if item.is_dir()])
        raise FileNotFoundError(f"run directory not found: {str(run_dir)!r}{hint}")
    if path.is_dir():
        path /= CONFIG
        if not path.exists():
            raise FileNotFoundError(without_config(path.parent))
    config, trusted = read_described(path, "a run's configuration", SCHEMA, trust)
    version = config.get("rlpyt", "unknown")
    if config["format"] != FORMAT:
        raise DamagedFile(
            f"{path} has format {config['format']}, written by rlpyt {version}, but rlpyt "
            f"{VERSION} reads format {FORMAT}. Use the newer rlpyt."
        )
    changes = {k: v for k, v in config.items() if k not in ("format", "rlpyt", SIGNATURE)}
    try:
        return RunOptions(algo_name="", env="").updated(changes), trusted
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"{path}: {error}") from error


def without_config(run_dir: Path) -> str:
    """Return the error message for a directory that has no ``config.json``."""
    members = sorted(path.parent.name for path in run_dir.glob(f"*/{CONFIG}"))
    if members:
        return (
            f"{str(run_dir)!r} is not a run, but contains {len(members)}. Give one of them, such "
            f"as {str(run_dir / members[0])!r}."
        )
    if (run_dir / "parts.json").exists():
        return (
            f"{str(run_dir)!r} contains the run of a script, which has no {CONFIG} with settings "
            "for another run. Load it with rlpyt.load, continue it with `rlpyt resume`, or change "
            "the script."
        )
    known = {
        "params.pkl": "load the state of its agent with torch.load({!r})['agent_state_dict']",
        "checkpoint": "resume it in the script with MinibatchRl(..., resume_from={!r})",
    }
    paths = {run_dir / name: text for name, text in known.items()}
    remedies = [text.format(str(path)) for path, text in paths.items() if path.exists()]
    if not remedies and not (run_dir / "progress.csv").exists():
        return (
            f"{str(run_dir)!r} contains no run: it has no {CONFIG}. Give the run directory printed "
            "by `rlpyt train`."
        )
    remedy = f" In Python: {'; '.join(remedies)} (see examples/resume.py)." if remedies else ""
    return (
        f"{str(run_dir)!r} contains the run of a script: it has no {CONFIG}, which is needed to "
        f"rebuild the agent.{remedy}"
    )


def _updated(options: Any, changes: Any, prefix: str = "") -> Any:
    kinds = get_type_hints(type(options))
    if not isinstance(changes, Mapping):
        raise TypeError(
            f"{prefix.rstrip('.')}={changes!r:.80} must be a dictionary of settings, with keys "
            f"{', '.join(kinds)}."
        )
    for key in changes:
        if key not in kinds:
            raise UnknownName("option", f"{prefix}{key}", {prefix + name for name in kinds})
    merged = {
        key: _merged(getattr(options, key), value, prefix + key, kinds[key])
        for key, value in changes.items()
    }
    return replace(options, **merged)


def _newest(old: AgentOptions, new: AgentOptions) -> AgentOptions:
    """Remove what is older of a model's argument and the option for it: the newest one counts."""
    for option, names in MODEL_ARGUMENTS.items():
        arguments = [repr([agent.model.get(name) for name in names]) for agent in (old, new)]
        of_model = arguments[0] != arguments[1]
        of_agent = getattr(old, option) != getattr(new, option)
        if of_model and not of_agent:
            new = replace(new, **{option: getattr(AgentOptions, option)})
        elif of_agent and not of_model:
            new = replace(new, model={k: v for k, v in new.model.items() if k not in names})
        elif of_agent and of_model and {*names} & {*new.model}:
            warnings.warn(
                f"agent.{option}={getattr(new, option)!r} counts, not the one of agent.model, "
                f"{new.model!r:.80}. Give one of them."
            )
    return new


def _merged(old: Any, new: Any, name: str, kind: Any) -> Any:
    if is_dataclass(old) and not isinstance(old, type):
        return _updated(old, new, f"{name}.")
    if name != "env_args":
        new = _with_plain_numbers(new)
    if any(get_origin(part) is tuple for part in (kind, *get_args(kind))) and hasattr(
        new, "tolist"
    ):
        new = new.tolist()
    if isinstance(new, list):
        new = tuple(new)  # JSON has no tuples
    if tuple[str, ...] in (kind, *get_args(kind)):
        new = _names_of_list(name, new)
    if isinstance(new, str) and kind == tuple[str, ...]:
        new = tuple(new.split(","))
    new = _checked(name, new, kind)
    if name == "algo":
        new = {key: with_start(value, old.get(key)) for key, value in new.items()}
    if name in ("algo", "agent.args"):
        # Arguments of networks, and of the same optimizer, that are not given stay.
        same = new.get("OptimCls", old.get("OptimCls")) == old.get("OptimCls")
        some = new if name == "agent.args" else ["optim_kwargs"] * same
        both = [x for x in some if isinstance(old.get(x), dict) and isinstance(new.get(x), dict)]
        new = {**new, **{key: {**old[key], **new[key]} for key in both}}
    return {**old, **new} if get_origin(kind) is dict else new


def _with_plain_numbers(value: Any) -> Any:
    """Return a setting with Python's numbers in place of those of numpy and torch, at any depth."""
    if isinstance(value, dict):
        return {key: _with_plain_numbers(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_with_plain_numbers, value))
    return value if callable(value) else scalar(value)


def _names_of_list(name: str, value: Any) -> Any:
    """Return the names of a list in JSON, such as ["state", "image"]; other values unchanged.

    Raises:
        ValueError: the list is not valid JSON.
    """
    text = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    if not isinstance(text, str) or not text.startswith("["):
        return value
    try:
        return tuple(json.loads(text))
    except ValueError as error:
        raise ValueError(
            f"{name}={text!r:.80} must be names, or a list of them in JSON: {error}."
        ) from error


def _checked(name: str, value: Any, kind: Any) -> Any:  # noqa: PLR0911 - a case per kind
    """Return the value of an option, converted to the type of its field.

    Raises:
        TypeError, ValueError: `value` cannot be converted, or is an integer beyond 64 bits.
        UnknownName: `value` is not one of the names that the option accepts.
    """
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = next(arg for arg in args if arg is not NoneType)
        return None if value is None else _checked(name, value, inner)
    if origin is tuple and isinstance(value, tuple):
        return tuple(_checked(name, item, args[0]) for item in value)
    if kind is bool:
        return true_or_false(name, value)
    if kind is int:
        return whole_number(name, value)
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and isinstance(value, PurePath):
        return str(value)
    if kind is str and (callable(value) or has_marks(value)):
        return importable_name(value) or value
    if origin is Literal:
        if value not in args:
            raise UnknownName(name, value, args)
    elif not isinstance(value, origin or kind):
        items = "names" if kind == tuple[str, ...] else "numbers"
        names = {tuple: f"list of {items}", dict: "dictionary"}
        expected = names.get(origin or kind, (origin or kind).__name__)
        raise TypeError(f"{name}={value!r:.80} must be a {expected}.")
    return value
