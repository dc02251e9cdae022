"""Checkpoints: directories that survive crashes, detect corruption and run no code on loading.

A checkpoint is a directory ``checkpoint-<counter>`` with state.json (the structure),
tensors.safetensors (torch), arrays.safetensors (numpy) and manifest.json (format version, library
versions, size and sha256 of the others, the caller's ``meta``).
"""

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

from rlpyt.errors import RlpytError
from rlpyt.utils.files import (
    naming,
    remove_leftovers,
    sync_directory,
    sync_file,
    temporary_of,
)
from rlpyt.utils.identify import describe_file
from rlpyt.utils.state_codec import EncodedState, decode_state, encode_state, write_safetensors
from rlpyt.version import VERSION

FORMAT = "rlpyt checkpoint"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
STATE, TENSORS, ARRAYS = FILES = ("state.json", "tensors.safetensors", "arrays.safetensors")
MAX_JSON_BYTES = 2**28  # parsing takes about ten times the memory

_NAME = re.compile(r"checkpoint-(\d+)")

PathLike = str | os.PathLike[str]


class CheckpointError(RlpytError, RuntimeError):
    """Failure to save or load a checkpoint; the message gives the file and the reason."""


class _CorruptError(CheckpointError):
    """Corrupt checkpoint; an older one may be valid."""


@dataclass(frozen=True)
class Checkpoint:
    """Result of ``load_checkpoint``.

    ``state`` is the saved tree with its tensors on the CPU; ``meta`` the caller's metadata;
    ``path`` the directory it was loaded from; ``versions`` those of the libraries that saved it.
    """

    state: dict[Any, Any]
    meta: dict[str, Any]
    path: Path
    versions: dict[str, str] = field(default_factory=dict)


def save_checkpoint(
    directory: PathLike, state: dict[Any, Any], keep: int = 2, meta: dict[str, Any] | None = None
) -> Path:
    """Save a state as the newest checkpoint of a directory.

    The checkpoint is written to a hidden temporary directory, fsynced and renamed, so that a crash
    at any time leaves earlier checkpoints intact. Only then are older ones deleted. Only one
    process may save to a directory at a time (ensured by the run's lock).

    Args:
        directory: directory with the checkpoints of one run; created if absent.
        state: a dict of dicts (string or integer keys), lists, tuples, None, bool, int, float,
            str, bytes, numpy arrays and scalars, torch tensors. Everything is loaded with equal
            values, types and dtypes, except that tensors are loaded on the CPU, without gradient
            and without shared memory, and subclasses of dict as dict.
        keep: number of checkpoints to keep, including this one; at least 1.
        meta: metadata without arrays, such as the iteration or the algorithm's name.

    Returns:
        Path of the new checkpoint.

    Raises:
        CheckpointError: the files cannot be written (disk full, input/output error, no permission),
            or ``state`` or ``meta`` contains an unsupported object. No partial checkpoint remains.
        ValueError: ``keep`` is less than 1.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, for the new checkpoint, got {keep}.")
    directory = Path(directory)
    path = directory / f"checkpoint-{1 + max(map(_counter, _found(directory)), default=0)}"
    temporary = temporary_of(path)
    try:
        encoded, texts = _to_write(state, meta)
        remove_leftovers(directory)
        directory.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        _write_files(temporary, encoded, *texts)
        os.rename(temporary, path)
        sync_directory(directory)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, (OSError, TypeError, ValueError, RecursionError)):
            raise CheckpointError(f"{path} could not be saved: {_reason(error)}") from error
        raise
    _delete(_found(directory)[keep:])
    return path


def load_checkpoint(directory: PathLike, follow_links: bool = False) -> Checkpoint:
    """Load the newest valid checkpoint without unpickling or executing any part of it.

    Sizes and checksums are verified first. If the newest checkpoint is corrupt, a warning gives
    the file and the reason, and the newest valid one is loaded.

    Args:
        directory: the directory given to ``save_checkpoint``, or one checkpoint in it.
        follow_links: accept files that are symbolic links, as in the cache of a hub.

    Raises:
        CheckpointError: the path does not exist, contains no checkpoint or no valid one, is a file
            of another library, or was saved by a newer rlpyt; the message gives the reason.
    """
    path = Path(directory)
    problems: list[str] = []
    for candidate in _candidates(path):
        try:
            checkpoint = _read(candidate, follow_links)
        except _CorruptError as error:
            problems.append(str(error))
            continue
        if problems:
            warnings.warn(
                f"{'; '.join(problems)}. Loaded the older {candidate} instead.", stacklevel=2
            )
        return checkpoint
    raise CheckpointError(f"no valid checkpoint in {path}: {'; '.join(problems)}.")


def saved_shapes(directory: PathLike) -> list[torch.Tensor]:
    """Return the tensors of the newest checkpoint without their numbers, on the meta device.

    Raises:
        CheckpointError: there is no checkpoint.
        OSError, safetensors.SafetensorError: its file is missing or damaged.
    """
    with safetensors.safe_open(_candidates(Path(directory))[0] / TENSORS, "pt") as file:
        parts = map(file.get_slice, file.keys())
        return [torch.empty(part.get_shape(), device="meta") for part in parts]


def _to_write(state: dict[Any, Any], meta: dict[str, Any] | None) -> tuple[EncodedState, list[str]]:
    if not isinstance(state, dict):
        raise TypeError(f"state must be a dict, got a {type(state).__name__}.")
    encoded = encode_state(state)
    notes = encode_state(meta or {})
    if notes.tensors or notes.arrays:
        raise TypeError("meta must not contain arrays or tensors. Put them into state.")
    texts = [json.dumps(part, allow_nan=False) for part in (encoded.tree, notes.tree)]
    if max(map(len, texts)) > MAX_JSON_BYTES:
        raise ValueError("state has too much plain data. Convert long lists of numbers to arrays.")
    return encoded, texts


def _write_files(directory: Path, encoded: EncodedState, state_text: str, meta_text: str) -> None:
    entries = {
        STATE: _write(directory / STATE, lambda file: file.write(state_text.encode())),
        TENSORS: _write(directory / TENSORS, lambda f: write_safetensors(f, encoded.tensors)),
        ARRAYS: _write(directory / ARRAYS, lambda f: write_safetensors(f, encoded.arrays)),
    }
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "versions": {
            "rlpyt": VERSION,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "files": entries,
        "meta": json.loads(meta_text),
    }
    manifest["sha256"] = _digest(manifest)
    text = json.dumps(manifest, indent=2).encode()
    _write(directory / MANIFEST, lambda file: file.write(text))
    sync_directory(directory)


class _HashingFile:
    """Wrapper of an open binary file that computes the size and hash of the written content."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.size = 0
        self.sha256 = hashlib.sha256()

    def write(self, content: bytes | memoryview) -> None:
        self.file.write(content)
        self.size += len(content)
        self.sha256.update(content)


def _write(path: Path, write_to: Callable[[Any], object]) -> dict[str, Any]:
    """Write and fsync a new file and return its entry in the manifest."""
    with naming(path), open(path, "xb") as file:
        hashing = _HashingFile(file)
        write_to(hashing)
        sync_file(file)
    return {"size": hashing.size, "sha256": hashing.sha256.hexdigest()}


def _digest(manifest: dict[str, Any]) -> str:
    """Return the checksum of a manifest without its own entry; the same in all versions."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _counter(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _found(directory: Path) -> list[Path]:
    """Return the checkpoints of a directory, newest first."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=_counter, reverse=True)


def _delete(paths: list[Path]) -> None:
    for path in paths:
        try:
            # A partly deleted directory must not look like a checkpoint.
            os.rename(path, temporary_of(path))
            shutil.rmtree(temporary_of(path))
        except OSError as error:
            warnings.warn(f"old checkpoint {path} could not be deleted: {error}", stacklevel=3)


def _candidates(path: Path) -> list[Path]:
    """Return the checkpoints to try, in order.

    Raises:
        CheckpointError: the path contains no checkpoint; the message describes its content.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; expected a directory of checkpoints.")
    if not path.is_dir():
        raise CheckpointError(
            f"{path} must be a checkpoint directory of rlpyt, got {describe_file(path)}; nothing "
            "was loaded."
        )
    candidates = [path] if (path / MANIFEST).exists() else _found(path)
    if not candidates:
        content = sorted(entry.name for entry in path.iterdir())[:10]
        raise CheckpointError(
            f"{path} contains no checkpoint: expected checkpoint-<n>/{MANIFEST}, found "
            f"{', '.join(content) or 'an empty directory'}."
        )
    return candidates


def _load(library: Any, path: Path) -> dict[str, Any]:
    """Load a file by ``safetensors.torch`` or ``safetensors.numpy``."""
    try:
        str(path).encode()
    except UnicodeEncodeError:  # the library takes no other paths than UTF-8
        return library.load(path.read_bytes())  # type: ignore[no-any-return]
    return library.load_file(path)  # type: ignore[no-any-return]


def _read(path: Path, follow_links: bool) -> Checkpoint:
    """Verify and load one checkpoint."""
    name = MANIFEST
    try:
        if path.is_symlink():
            raise ValueError("the checkpoint is a symbolic link")
        _require_regular(path / name, follow_links)
        manifest = _read_manifest(path)
        for name in FILES:
            _require_regular(path / name, follow_links)
            _verify(path / name, manifest["files"][name])
        name = STATE
        tree = _parse((path / STATE).read_bytes())
        name = TENSORS
        tensors = {k: v.clone() for k, v in _load(safetensors.torch, path / TENSORS).items()}
        name = ARRAYS
        arrays = _load(safetensors.numpy, path / ARRAYS)
        arrays = {k: np.require(v, requirements="W") for k, v in arrays.items()}
        name = STATE
        state = decode_state(EncodedState(tree, tensors, arrays))
        if not isinstance(state, dict):
            raise ValueError("it contains no state")
        meta = decode_state(EncodedState(manifest["meta"]))
        return Checkpoint(state, meta, path, manifest["versions"])
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise _CorruptError(f"{path / name} is missing") from error
    except Exception as error:  # any error of a parser in a damaged or crafted file
        raise _CorruptError(f"{path / name} is not valid: {_reason(error)}") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = _parse((path / MANIFEST).read_bytes())
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"it does not describe an {FORMAT}")
    if manifest.get("sha256") != _digest(manifest):
        raise ValueError("its checksum does not match its content")
    version = manifest["version"]
    if type(version) is int and version > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {version}, but rlpyt {VERSION} supports at most version "
            f"{FORMAT_VERSION}. Update rlpyt."
        )
    if version != FORMAT_VERSION or set(manifest["files"]) != set(FILES):
        raise ValueError(f"expected version {FORMAT_VERSION} with the files {', '.join(FILES)}")
    return manifest


def _verify(path: Path, entry: dict[str, Any]) -> None:
    size = path.stat().st_size
    if size != entry["size"]:
        raise ValueError(f"it has {size} bytes instead of {entry['size']}")
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
            raise ValueError("its content has changed (sha256 differs)")


def _require_regular(path: Path, follow_links: bool) -> None:
    status = path.stat(follow_symlinks=follow_links)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is a symbolic link, directory or device instead of a file")
    if path.suffix == ".json" and status.st_size > MAX_JSON_BYTES:
        raise ValueError(f"it has {status.st_size} bytes, more than {MAX_JSON_BYTES}")


def _parse(content: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(content, parse_constant=refuse)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply or contains itself"
    return (
        str(error) if type(error) in (TypeError, ValueError) else f"{type(error).__name__}: {error}"
    )
