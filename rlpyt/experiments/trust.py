"""Trust: what files of unknown origin may name and ask for.

`config.json` and `parts.json` name classes as "module:Class". Those that rlpyt wrote for this user
(`rlpyt.utils.signed`), and those read with ``trust``, may name any part. All others are checked as
a whole before anything is built from them: `check` finds every string that could be the name of a
part, wherever it is, and `allowed_part` decides. docs/trust.md describes the rules.
"""

import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from rlpyt.errors import DamagedFile, RlpytError, UntrustedFile, itr_of
from rlpyt.experiments.registry import origin
from rlpyt.utils.logging.console import printable
from rlpyt.utils.processes import summary_of
from rlpyt.utils.recorded import BASE64, main_name
from rlpyt.utils.signed import is_signed, read_json
from rlpyt.utils.text import digits

_PARTS = ("agents", "algos", "curricula", "distributions", "envs", "es", "models", "replays")
# Packages with parts. They may be imported for a name; none of their modules acts when imported.
PACKAGES = (
    *(f"rlpyt.{part}" for part in (*_PARTS, "runners", "samplers", "spaces", "utils")),
    *("torch.nn.modules", "torch.optim", "gymnasium.spaces", "gymnasium.envs"),
)
# Modules that give parts other names. Of all further modules only those that the program has
# imported count, and of their classes only those of the user's own modules.
IMPORTABLE = (*PACKAGES, "rlpyt", "rlpyt.experiments.api", "torch.nn", "gymnasium")
# A class derived from one of these is a part: its constructor takes numbers, texts and other parts,
# and neither starts programs nor opens files.
BASES = {
    *("rlpyt.utils.recorded:Recorded", "rlpyt.samplers.collectors:BaseCollector"),
    *("rlpyt.samplers.evaluation:BaseEvalCollector", "rlpyt.replays.buffer:BaseReplayBuffer"),
    *("rlpyt.replays.selection:UniformSelection", "rlpyt.replays.selection:PrioritizedSelection"),
    *("rlpyt.envs.base:Env", "rlpyt.envs.traj_info:TrajInfo", "rlpyt.curricula.env:TaskEnvs"),
    *("rlpyt.curricula.sequential:Stage", "rlpyt.spaces.base:Space", "rlpyt.es.base:BaseES"),
    *("rlpyt.distributions.base:Distribution", "rlpyt.utils.schedules:LinearSchedule"),
    *("torch.nn.modules.module:Module", "torch.optim.optimizer:Optimizer"),
    *("gymnasium.core:Env", "gymnasium.spaces.space:Space"),
}
# Exceptions: wrappers that record videos, actors with a runtime environment, and a hook of runners
# that writes into the directory that it is given.
NO_PARTS = {
    *("gymnasium.core:Wrapper", "rlpyt.samplers.ray_sampler:RaySampler"),
    "rlpyt.runners.heartbeat:HeartbeatHook",
}
# Functions that make environments from the name of a registered one.
MAKERS = {
    "gymnasium.envs.registration:make",
    *("rlpyt.envs.gym:make", "rlpyt.experiments.api:make"),
    *(f"rlpyt.envs.vector.make:{name}" for name in ("make_vec", "make_atari_vec", "make_envpool")),
}
LOGGERS = ("csv", "tensorboard")  # others send files to servers
# Places whose path is replaced by that of the run directory.
CHECKPOINT_PLACES = tuple(
    f"runner.kwargs.{name}{mark}"
    for name in ("checkpoint_dir", "resume_from")
    for mark in ("", ".$path")
)
# Largest numbers by name, and the longest list.
LIMITS = (
    (r"batch_B|eval_n_envs|num_envs|n_tasks|width|height|frame_shape|window", 4096),
    (r"(?!replay_)\w*sizes?|\w*channels|\w*features", 4096),
    (r"n_workers|n_actors|ranks|\w*threads|\w*n_gpu|\w*layers|\w*blocks|\w*heads|\w*stack", 128),
    (r"\w*ensemble|\w*critics|\w*members|\w*repeat\w*|frame_?skip|\w*noops|num_img_obs", 128),
    (r"(n|num)_(?!steps)\w+", 10_000),
    (r"args", 4096),  # of a partial function, whose names are not in the file
    (r"batch_T|max_decorrelation_steps|eval_episodes|eval_max_trajectories", 100_000),
)
MAX_ITEMS = 128
MAX_WEIGHTS = 100_000_000  # of the layers of one list of sizes

_DEVICE = re.compile(r"(cpu|cuda|mps|xpu):\d+")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def read_described(
    path: Path, kind: str, schema: Mapping[str, Any], trust: bool
) -> tuple[dict[str, Any], bool]:
    """Read a file that describes a run, and check what it names unless it is trusted.

    Args:
        path: the file.
        kind: word for it in errors.
        schema: JSON schema of the file.
        trust: the user trusts the file.

    Returns:
        Its content, and True if it is trusted or signed.

    Raises:
        DamagedFile: the file is damaged, or asks for too much.
        UntrustedFile: the file names what only a trusted file may name.
    """
    document = read_json(path, kind, schema)
    trusted = trust or is_signed(document)
    if not trusted:
        check(path, document)
    return document, trusted


def check(path: Path, document: Mapping[str, Any]) -> None:
    """Check all names, paths and numbers of a document; raises as `read_described` does."""
    layers: dict[str, list[float]] = {}
    for place, value in _named_leaves(document):
        try:
            _check_leaf(place, value)
        except (ValueError, ImportError) as error:
            raise UntrustedFile(
                f"{path} has {place}={value!r:.80}, {error}. It was not written by rlpyt for this "
                "user, or was changed since. Read the file; if you trust its author, add --trust "
                "(trust=True in Python)."
            ) from error
        keys = re.sub(r"\[\d+\]", "", place)
        name = keys.rpartition(".")[2]
        limit = next((most for names, most in LIMITS if re.fullmatch(names, name)), None)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and limit is not None and not abs(value) <= limit:  # also NaN
            raise DamagedFile(_too_much(path, f"{place}={value!r:.20}", f"at most {limit:,}"))
        sizes = name.endswith("sizes") or name == "args"
        if (sizes or limit is not None) and str(value).startswith(BASE64):
            raise DamagedFile(_too_much(path, f"{place} in base64", "numbers in a list"))
        found = map(digits, re.findall(r"\[(\d+)\]", place))
        if any(at is None or at >= MAX_ITEMS for at in found):
            raise DamagedFile(_too_much(path, keys, f"a list of at most {MAX_ITEMS} items"))
        if number and sizes:
            layers.setdefault(keys, []).append(value)
    for keys, widths in layers.items():
        if sum(a * b for a, b in pairwise(widths)) > MAX_WEIGHTS:
            raise DamagedFile(_too_much(path, keys, f"layers of at most {MAX_WEIGHTS:,} weights"))


def _named_leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what `leaves` does, tuples, arrays and items of dictionaries at the place they take.

    ``rlpyt.utils.recorded`` builds them from marked dictionaries, whose keys are not their names.
    """
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _named_leaves(item, f"{place}[{at}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            unnamed = key in ("$tuple", "$array")
            yield from _named_leaves(item, place if unnamed else f"{place}.{key}".lstrip("."))
            pairs = item if key == "$items" and isinstance(item, list) else []
            for pair in pairs:
                if isinstance(pair, list) and len(pair) == 2:
                    yield from _named_leaves(pair[1], f"{place}.{pair[0]}".lstrip("."))
    else:
        yield place, value


def allowed_part(name: str) -> Any:
    """Return the class or function "module:name", if any file may name it.

    Raises:
        ValueError: it is not a part that any file may name; the message is the end of a sentence.
        ImportError: its module cannot be imported.
    """
    module, _, attributes = name.partition(":")
    importable = module in IMPORTABLE or module.startswith(tuple(f"{x}." for x in PACKAGES))
    if _NAME.fullmatch(name) is None:
        is_file = name.partition(":")[0].endswith(".py")
        raise ValueError("which names a file" if is_file else "which is not module:name")
    found: Any = importlib.import_module(module) if importable else None
    if not importable:
        found = sys.modules.get("__main__" if module == main_name() else module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute, None)
        if isinstance(found, ModuleType):
            found = None
    if _is_class_of_part(found) or (inspect.isfunction(found) and _defined(found) in MAKERS):
        return found
    raise ValueError(
        "which is not an environment, agent, model, algorithm, sampler, replay, hook, optimizer or "
        "space of rlpyt, torch.nn, torch.optim or Gymnasium"
    )


def _is_class_of_part(found: Any) -> bool:
    if not isinstance(found, type):
        return False
    parents = {_defined(cls) for cls in found.__mro__}
    own = _defined(found).startswith(tuple(f"{x}." for x in PACKAGES))
    known = own or origin(found.__module__) == "user"
    return known and bool(parents & BASES) and not parents & NO_PARTS


def _defined(part: Any) -> str:
    return f"{part.__module__}:{part.__qualname__}"


@contextlib.contextmanager
def blaming(path: Path, trusted: bool) -> Iterator[None]:
    """Turn any error while parts of an untrusted file are built and used into one with its name.

    Raises:
        DamagedFile: an error other than rlpyt's own was raised.
    """
    try:
        yield
    except Exception as error:
        if trusted or isinstance(error, RlpytError) or itr_of(error) >= 0:
            raise
        reason = printable(" ".join(summary_of(error, 300).split()).rstrip("."))
        raise DamagedFile(f"{path} describes no run that can be built: {reason}.") from error


def _check_leaf(place: str, value: Any) -> None:
    if not isinstance(value, str):
        return
    name = re.sub(r"\[\d+\]", "", place).rpartition(".")[2]
    if name in ("logger", "loggers") and value not in LOGGERS:
        raise ValueError("which sends the run's files to a server")
    if place in CHECKPOINT_PLACES or (place == "device" and _DEVICE.fullmatch(value)):
        return
    if ":" in value:
        allowed_part(value)
    elif value.startswith(("/", "~")) or "\\" in value or ".." in PurePath(value).parts:
        raise ValueError("a path outside of its directory")


def _too_much(path: Path, asked: str, limit: str) -> str:
    return (
        f"{path} asks for {asked}, but a file that rlpyt did not write for this user may ask for "
        f"{limit}. Add --trust (trust=True in Python) to allow more."
    )
