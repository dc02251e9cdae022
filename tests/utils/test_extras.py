"""Commands that install an extra."""

import json
import sys

import pytest

from rlpyt.utils import extras
from rlpyt.utils.extras import install_command, missing_extra

ORIGINS = {
    "index": (None, "pip install 'rlpyt[plot]'"),
    "editable": (
        {"url": "file:///src/my%20clone", "dir_info": {"editable": True}},
        "pip install -e '/src/my clone[plot]'",
    ),
    "folder": ({"url": "file:///src/rlpyt", "dir_info": {}}, "pip install '/src/rlpyt[plot]'"),
    "wheel": (
        {"url": "file:///x/rlpyt-1-py3-none-any.whl", "archive_info": {}},
        "pip install '/x/rlpyt-1-py3-none-any.whl[plot]'",
    ),
    "repository": (
        {"url": "https://example.org/rlpyt.git", "vcs_info": {"vcs": "git"}},
        "pip install 'rlpyt[plot] @ git+https://example.org/rlpyt.git'",
    ),
}


@pytest.mark.parametrize("origin, command", ORIGINS.values(), ids=ORIGINS)
def test_the_command_adds_to_this_installation(origin, command, tmp_path, monkeypatch):
    """pip records where it has installed a package from."""
    folder = tmp_path / "rlpyt-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rlpyt\nVersion: 1\n")
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(extras, "ROOT", tmp_path)  # the code lies in site-packages
    assert install_command("plot") == command
    assert install_command("plot", "atari") == command.replace("[plot]", "[plot,atari]")


def test_without_metadata_the_clone_is_installed(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    assert install_command("hub") == f"pip install -e '{tmp_path}[hub]'"


@pytest.mark.parametrize(
    "module,package", [("matplotlib.pyplot", "matplotlib"), ("ruamel", "ruamel.yaml")]
)
def test_the_error_names_the_package(module, package):
    error = missing_extra("A plot", "plot", module)
    assert error.name == module.partition(".")[0]
    assert str(error).startswith(f"A plot needs the package {package}. Run: pip install ")
