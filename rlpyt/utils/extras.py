"""Commands that install the packages of an extra, for messages."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]  # of a clone
PACKAGES = {"PIL": "pillow", "cv2": "opencv-python-headless", "ruamel": "ruamel.yaml"}  # by module


def install_command(*extras: str) -> str:
    """Return the command that adds extras of rlpyt to this installation.

    From a clone ``pip install -e '/path/to/clone[atari]'``, from an index
    ``pip install 'rlpyt[atari]'``.
    """
    names = ",".join(extras)
    source, flag = "rlpyt", ""
    # A clone in the current directory may hold metadata of its own, without an origin.
    found = [d.read_text("direct_url.json") for d in distributions(name="rlpyt")]
    origin = json.loads(next(filter(None, found), "{}"))
    if not any(found) and (ROOT / "pyproject.toml").exists():  # a clone on the path
        origin = {"url": ROOT.as_uri(), "dir_info": {"editable": True}}
    address = str(origin.get("url", ""))
    if origin.get("dir_info", {}).get("editable"):
        flag = "-e "
    if address.startswith("file:"):
        source = unquote(urlsplit(address).path)
    elif "vcs_info" in origin:
        return f"pip install 'rlpyt[{names}] @ {origin['vcs_info']['vcs']}+{address}'"
    return f"pip install {flag}'{source}[{names}]'"


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Turn an ImportError into one that says how to install the packages of an extra."""
    try:
        yield
    except ImportError as error:
        raise missing_extra(what, extra, error.name) from error


def missing_extra(what: str, extra: str, module: str | None) -> ImportError:
    """Return the error that something needs a package of an extra, which is missing."""
    needed = (module or extra).partition(".")[0]
    package = PACKAGES.get(needed, needed)
    said = f"{what} needs the package {package}. Run: {install_command(extra)}"
    return ImportError(said, name=needed)
