"""Options of a run as plain values: from presets and flags into ``config.json`` and back.

The trailing comment of each field is its help text on the command line.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rlpyt.utils.checks import true_or_false, whole_number
from rlpyt.utils.files import write_text
from rlpyt.utils.names import UnknownName, suggestion
from rlpyt.version import VERSION

FORMAT = 1  # of config.json; raised when an older reader would misread it
CONFIG = "config.json"
OF_SCRIPTS = ("params.pkl", "checkpoint", "progress.csv")  # which the run of a script has as well
MAX_LEAD = 2  # batches; unless told otherwise
MOST_UNSAVED_STEPS = 250_000  # between two checkpoints, unless told otherwise


@dataclass(frozen=True)
class SamplerOptions:
    """Options of sampling."""

    # serial: in this process; cpu: in workers that act themselves; gpu: in workers, this process
    # acts for all; alternating, no-overlap: as gpu, in two groups of workers that take turns; ray:
    # in actors of a Ray cluster (RAY_ADDRESS, or one on this machine).
    kind: Literal["serial", "cpu", "gpu", "alternating", "no-overlap", "ray"] = "cpu"
    n_workers: int = 2  # worker processes, about one per core; of all groups together
    batch_T: int = 128  # time steps per batch and environment
    batch_B: int = 8  # environments side by side, shared out over the workers
    max_decorrelation_steps: int = 100  # random steps, at most, before the first batch
    # the same bits for any sampler and number of workers on one machine, acting on the CPU; slower
    deterministic_acting: bool = False
    asynchronous: bool = False  # while the agent trains, in processes of the sampler's own
    # (asynchronous) batches ahead of the updates that are due; -1: any number
    max_lead: int = MAX_LEAD
    # what chooses the task of each episode, in environments that take tasks; level-replay:
    # prioritised level replay, for algorithms with values of states (ppo, a2c, vtrace)
    curriculum: Literal["none", "uniform", "learning-progress", "level-replay"] = "none"
    n_tasks: int = 0  # (curriculum) how many tasks the environment has


@dataclass(frozen=True)
class AgentOptions:
    """The shape of the agent's network."""

    recurrent: bool = False  # put an LSTM into the model, fed also previous action and reward
    hidden_sizes: tuple[int, ...] | None = None  # widths of the fully connected layers
    normalize_observation: bool = False  # shift and scale vectors by their running mean, deviation
    dueling: bool = False  # (Q-learning) value of the state and advantages of actions apart
    noisy: bool = False  # (Q-learning) noisy layers; epsilon is then 0, unless args say otherwise
    model: dict[str, Any] = field(default_factory=dict)  # further arguments of the model
    args: dict[str, Any] = field(default_factory=dict)  # and of the agent: {"eps_final": 0.05}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run that any algorithm and environment have."""

    steps: int = 500_000  # environment steps to train for
    seed: int = 0  # seed of all random streams, 0 to 2**64 - 1
    # processes that train together; batches and workers are those of each (asynchronous: there is
    # one sampler, and so many optimizers)
    ranks: int = 1
    device: str = "cpu"  # cpu, cuda or cuda:1; where the network is trained
    torch_threads: int = 1  # threads of the training process; 0: one per core, for large networks
    log_interval_steps: int = 10_000  # steps between two rows of progress.csv
    # steps between two checkpoints; None: a tenth of the run, at most 250000; 0: only at the end
    checkpoint_interval_steps: int | None = None
    eval_interval_steps: int = 0  # steps between evaluations in training; 0: only at the end
    eval_episodes: int = 20  # episodes per evaluation; 0: none
    tensorboard: bool = False  # write TensorBoard event files into the run directory as well
    video: bool = True  # film the trained agent when training has ended
    env_args: dict[str, Any] = field(default_factory=dict)  # arguments of the environment
    sampler: SamplerOptions = SamplerOptions()
    agent: AgentOptions = AgentOptions()

    @property
    def checkpoint_steps(self) -> int:
        """The interval between checkpoints, whether it was given or not; 0: only at the end."""
        given = self.checkpoint_interval_steps
        return min(max(self.steps // 10, 1), MOST_UNSAVED_STEPS) if given is None else given


@dataclass(frozen=True, kw_only=True)
class RunOptions(Settings):
    """Everything that determines a run; what ``config.json`` holds."""

    algo_name: str  # "ppo"
    env: str  # "CartPole-v1"
    algo: dict[str, Any] = field(default_factory=dict)  # arguments of the algorithm's class

    def updated(self, changes: Mapping[str, Any]) -> "RunOptions":
        """A copy with nested ``changes`` made, e.g. ``{"steps": 1, "sampler": {"batch_B": 4}}``.

        Raises:
            UnknownName: a key is no option, wherever it is nested.
        """
        updated: RunOptions = _updated(self, changes)
        return updated

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``config.json``."""
        return {"format": FORMAT, "rlpyt": VERSION, **asdict(self)}

    def write(self, run_dir: Path) -> None:
        """Write ``config.json``: plain JSON, readable by people and by :func:`read_options`."""
        text = json.dumps(self.as_dict(), indent=2) + "\n"
        write_text(run_dir / CONFIG, text)


def read_options(run_dir: Path | str) -> RunOptions:
    """The options of the run in ``run_dir``, which may also be the ``config.json`` itself.

    Raises:
        FileNotFoundError: there is no such directory, or it holds no run.
        ValueError: ``config.json`` is damaged, from a newer version, or has unknown keys.
    """
    path = Path(run_dir) if Path(run_dir).is_file() else Path(run_dir) / CONFIG
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no run directory {str(run_dir)!r}{_nearest_sibling(path.parent)}")
    if not path.is_file():
        raise FileNotFoundError(_without_config(path.parent))
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        found = config.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a run's configuration: {error!r}.") from error
    version = config.pop("rlpyt", "unknown")
    if found != FORMAT:
        raise ValueError(
            f"{path} has format {found}, written by rlpyt {version}; this rlpyt "
            f"{VERSION} reads format {FORMAT}. Use the newer rlpyt."
        )
    try:
        return RunOptions(algo_name="", env="").updated(config)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _without_config(run_dir: Path) -> str:
    """Return what to do with a directory that has no ``config.json``."""
    files = {name for name in OF_SCRIPTS if (run_dir / name).exists()}
    if not files:
        return (
            f"{str(run_dir)!r} holds no run: it has no {CONFIG}. Give the directory that "
            "`rlpyt train` named when it started."
        )
    ways = []
    if "params.pkl" in files:
        ways.append(
            f"load the state of its agent with torch.load({str(run_dir / 'params.pkl')!r})"
            "['agent_state_dict']"
        )
    if "checkpoint" in files:
        ways.append(
            "resume it in the script with MinibatchRl(..., "
            f"resume_from={str(run_dir / 'checkpoint')!r})"
        )
    remedy = f" In Python: {'; '.join(ways)} (see examples/example_6.py)." if ways else ""
    return (
        f"{str(run_dir)!r} holds the run of a script: it has no {CONFIG}, which is needed to "
        f"rebuild the agent.{remedy}"
    )


def _updated(options: Any, changes: Any, prefix: str = "") -> Any:
    if not isinstance(changes, Mapping):
        raise TypeError(f"{prefix.rstrip('.')}={changes!r:.80} must be a dictionary of settings.")
    kinds = get_type_hints(type(options))
    for key in changes:
        if key not in kinds:
            raise UnknownName("option", f"{prefix}{key}", {prefix + name for name in kinds})
    merged = {
        key: _merged(getattr(options, key), value, prefix + key, kinds[key])
        for key, value in changes.items()
    }
    return replace(options, **merged)


def _merged(old: Any, new: Any, name: str, kind: Any) -> Any:
    if is_dataclass(old):
        return _updated(old, new, f"{name}.")
    if isinstance(new, list):
        new = tuple(new)  # JSON has no tuples
    new = _checked(name, new, kind)
    return {**old, **new} if isinstance(old, dict) else new


def _checked(name: str, value: Any, kind: Any) -> Any:
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
    elif origin is Literal:
        if value not in args:
            raise UnknownName(name, str(value), args)
    elif not isinstance(value, origin or kind):
        words = {tuple: "list of numbers", dict: "dictionary"}
        said = words.get(origin or kind, (origin or kind).__name__)
        raise TypeError(f"{name}={value!r:.80} must be a {said}.")
    return value


def _nearest_sibling(path: Path) -> str:
    parent = path.parent
    names = [item.name for item in parent.iterdir() if item.is_dir()] if parent.is_dir() else []
    return suggestion(path.name, names)
