"""Models on the Hugging Face Hub: names, download and upload.

The hub is contacted only by `download` and `upload`, which load and push call. No code is
downloaded, and no file is unpickled. What models may name is checked as in any run directory
(`rlpyt.experiments.trust`).
"""

import contextlib
import errno
import importlib
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rlpyt.experiments import rundir
from rlpyt.experiments.options import CONFIG
from rlpyt.runners.runner import PARTS_FILE
from rlpyt.utils.checkpoint import FILES as CHECKPOINT_FILES
from rlpyt.utils.checkpoint import MANIFEST
from rlpyt.utils.extras import needing
from rlpyt.utils.processes import first_line
from rlpyt.version import VERSION

CARD = "README.md"  # shown as the page of the model
VIDEO = "replay.mp4"  # shown on the page of the model
TIMEOUT_S = 10.0  # for the first answer of the hub
DESCRIPTIONS = (CONFIG, PARTS_FILE)
# All files of a model. Others in its repository are neither downloaded nor replaced.
FILES = {
    CARD: "model card",
    CONFIG: "options, from which the agent is rebuilt",
    PARTS_FILE: "constructor arguments of agent, environment and algorithm",
    **{f"{rundir.AGENT}/{name}": "trained agent" for name in (MANIFEST, *CHECKPOINT_FILES)},
    rundir.EVALUATION: "returns of the trained agent",
    "progress.csv": "statistics of training",
    rundir.CURVE: "learning curve",
    VIDEO: "video of the trained agent",
}

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_REFERENCE = re.compile(rf"hf:/{{1,2}}({_NAME.pattern})(?:@([\w][\w./-]*))?/?", re.ASCII)


def is_reference(path: Path | str) -> bool:
    """Return True for "hf://user/name", also as a ``Path``, which joins the slashes."""
    return str(path).startswith("hf:/")


def local_path(path: Path | str) -> Path:
    """Return the directory of a run; a model of the hub is downloaded first."""
    return download(path) if is_reference(path) else Path(path)


def is_cached(path: Path) -> bool:
    """Return True if a file of a model in the cache is a link into the cache, as all are."""
    snapshots = path.parent.resolve().parent  # MODEL/snapshots/COMMIT/FILE leads to MODEL/blobs
    blobs = snapshots.parent / "blobs"
    return snapshots.name == "snapshots" and path.resolve().parent == blobs


def refuse(path: Path | str) -> None:
    """Raise ValueError if a model of the hub is given in place of a directory for training."""
    if is_reference(path):
        raise ValueError(
            f"{_shown(path)} cannot be trained further: models of the hub have no optimizer state. "
            f"Start a new run with its settings: rlpyt train --config {_shown(path)}"
        )


def checked_name(repo_id: str) -> str:
    """Return the name of a model, "user/name".

    Raises:
        ValueError: it is not of this form.
    """
    if _NAME.fullmatch(repo_id) is None or ".." in repo_id:
        raise ValueError(
            f"The name of a model must be user/name, of letters, digits, '-', '_' and '.', got "
            f"{repo_id!r}."
        )
    return repo_id


def download(reference: Path | str) -> Path:
    """Download a model into the cache of the hub.

    Args:
        reference: "hf://user/name", or "hf://user/name@revision" with a branch, tag or commit.

    Returns:
        Directory in the cache. It is shared by all users of the cache: do not write into it.

    Raises:
        ValueError: the reference is malformed.
        FileNotFoundError: there is no such model or revision, or it is not a model of rlpyt.
        PermissionError: the token may not read it.
        ConnectionError: the hub cannot be reached, and the model is not in the cache; or its answer
            cannot be read.
        ImportError: huggingface_hub is missing.
    """
    match = _REFERENCE.fullmatch(str(reference))
    if match is None or ".." in str(reference):
        raise ValueError(
            f"A model of the hub must be hf://user/name or hf://user/name@revision, got "
            f"{_shown(reference)!r}."
        )
    patterns = [name for name in FILES if name not in (CARD, VIDEO)]
    with _errors(_shown(reference)):
        path = Path(_snapshot(match[1], match[2], patterns))
    described = any((path / name).is_file() for name in DESCRIPTIONS)
    if not described or not (path / rundir.AGENT / MANIFEST).is_file():
        raise FileNotFoundError(
            f"{_shown(reference)} is not a model of rlpyt: it must have {rundir.AGENT}/{MANIFEST} "
            f"and {' or '.join(DESCRIPTIONS)}. `rlpyt push` writes them."
        )
    return path


def _snapshot(name: str, revision: str | None, patterns: list[str]) -> Any:
    """Download a model, or return its copy in the cache if the hub does not answer."""
    client, errors = _client(), _library_errors()
    fetch = partial(client.snapshot_download, name, revision=revision, allow_patterns=patterns)
    try:
        _await_answer(client, name, revision)
    except (errors.HTTPError, ConnectionError) as silence:
        try:
            return fetch(local_files_only=True)
        except errors.LocalEntryNotFoundError:
            raise silence from None
    return fetch()


def _await_answer(client: Any, name: str, revision: str | None = None) -> None:
    """Ask the hub for a model, and raise if there is no answer in ``TIMEOUT_S`` seconds.

    Most requests of the client wait without a time limit.
    """
    with contextlib.suppress(_library_errors().HfHubHTTPError):  # an answer
        client.repo_info(name, revision=revision, timeout=TIMEOUT_S)


def require_token() -> None:
    """Check that a token of the hub is set; it is not checked with the hub.

    Raises:
        PermissionError: there is none.
        ImportError: huggingface_hub is missing.
    """
    if library().get_token() is None:
        raise PermissionError(
            "Pushing requires a token of the hub with write access. Log in with `hf auth login`, "
            "or set the environment variable HF_TOKEN."
        )


def upload(folder: Path, repo_id: str, private: bool, message: str) -> str:
    """Upload a folder in one commit, and return the address of the model.

    Args:
        folder: folder with the files of a model; further ones of ``FILES`` are deleted on the hub.
        repo_id: "user/name", created if it does not exist.
        private: create it as private.
        message: message of the commit.

    Raises:
        PermissionError: the token may not write there, or the model is public and ``private``.
        ConnectionError: the hub cannot be reached.
        ValueError: the hub refuses the name or a file.
    """
    with _errors(repo_id):
        client = _client()
        _await_answer(client, repo_id)
        url = client.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not client.repo_info(repo_id).private:
            raise PermissionError(
                f"{repo_id} exists and is public; nothing was uploaded. Choose another name, or "
                "make it private in its settings on the hub."
            )
        client.upload_folder(
            repo_id=repo_id, folder_path=folder, commit_message=message, delete_patterns=[*FILES]
        )
    return str(url)


def _shown(reference: Path | str) -> str:
    return re.sub("^hf:/+", "hf://", str(reference))


def library() -> Any:
    """Return the package huggingface_hub, or raise an ImportError that says how to install it."""
    with needing("The Hugging Face Hub", "hub"):
        import huggingface_hub
    return huggingface_hub


def _library_errors() -> Any:
    library()
    return importlib.import_module("huggingface_hub.errors")  # also has its HTTP library's error


def _client() -> Any:
    return library().HfApi(library_name="rlpyt", library_version=VERSION)


@contextlib.contextmanager
def _errors(name: str) -> Iterator[None]:
    """Turn errors of the hub's client into built-in ones that give the name and the remedy."""
    errors = _library_errors()
    try:
        yield
    except errors.HFValidationError as error:
        raise ValueError(f"{name}: {first_line(error)}") from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise FileNotFoundError(
            f"{name} does not exist on the hub, or is private. Check name and revision; for a "
            "private model log in with `hf auth login` or set HF_TOKEN."
        ) from error
    except errors.HfHubHTTPError as error:
        if error.response.status_code in (401, 403):
            raise PermissionError(
                f"The hub denies access to {name}: {first_line(error)}. Log in as its owner with a "
                "token that has write access (`hf auth login`, or HF_TOKEN)."
            ) from error
        raise ConnectionError(f"The hub failed for {name}: {first_line(error)}.") from error
    except (errors.LocalEntryNotFoundError, ConnectionError, errors.HTTPError) as error:
        raise ConnectionError(
            f"Cannot reach the Hugging Face Hub for {name} at {library().constants.ENDPOINT} "
            f"({first_line(error.__cause__ or error)}). Check the network and HF_HUB_OFFLINE, and "
            "try again."
        ) from error
    except Exception as error:
        # Files are named by what the server says; other errors of the system are the cache's own.
        own = isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG
        if own or isinstance(error, ImportError | MemoryError):
            raise
        raise ConnectionError(
            f"The hub's answer for {name} cannot be read ({first_line(error):.200}). Check that "
            "huggingface.co, or HF_ENDPOINT if it is set, is reached and not a login page."
        ) from error
