"""The package as it is installed: its metadata, its contents, its commands."""

import ast
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SWEEP = """
title: tiny
train: ppo
env: CartPole-v1
options: {steps: 2000, eval_episodes: 2}
grid:
  algo.learning_rate: [1e-3, 3e-4]
seeds: 1
resources: {cpus_per_run: 1}
"""


def declared():
    """Names of all distributions that the metadata requires, extras included."""
    extras = PROJECT["optional-dependencies"].values()
    needs = [*PROJECT["dependencies"], *(need for extra in extras for need in extra)]
    return {Requirement(need).name.lower().replace("_", "-") for need in needs}


def imported():
    """Third-party modules that the package imports, each with the files that do."""
    found = {}
    for path in sorted((ROOT / "rlpyt").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {n.partition(".")[0] for n in names}:
                if name not in sys.stdlib_module_names and name != "rlpyt":
                    found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def test_what_the_package_imports_is_declared():
    distributions, known = packages_distributions(), declared()
    missing = {}
    for module, files in imported().items():
        names = {n.lower().replace("_", "-") for n in distributions.get(module, [module])}
        if not names & known:
            missing[module] = files
    assert not missing


def test_every_dependency_has_a_pinned_version():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    untested = {"sphinx", "furo", "myst-parser", "rlpyt"}
    assert declared() - pinned - untested == set()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built from what git has, by way of the source distribution."""
    folder = tmp_path_factory.mktemp("package")
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    build = "import setuptools.build_meta as b; print(b.build_sdist('dist'))"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-w",
        str(folder / "wheel"),
        sdist,
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = (folder / "wheel").glob("*.whl")
    return built


@pytest.mark.slow
def test_a_wheel_holds_every_module_and_the_marker_of_types(wheel):
    listing = subprocess.run(
        ["git", "ls-files", "rlpyt"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("rlpyt/")}
    assert held == set(listing.stdout.split())


@pytest.mark.slow
def test_commands_work_in_an_environment_with_nothing_else(wheel, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")  # of the tests, where pip and Python would find this checkout
    venv.create(tmp_path / "venv", with_pip=True)
    bin_, constraints = tmp_path / "venv" / "bin", ROOT / "constraints.txt"
    pip = [bin_ / "python", "-m", "pip", "install", "-q", "-c", constraints, f"{wheel}[plot]"]
    subprocess.run(pip, check=True)

    def rlpyt(*arguments):
        done = subprocess.run(
            [bin_ / "rlpyt", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    rlpyt("train", "ppo", "CartPole-v1", "--steps", "2000", "--run-dir", "run")
    assert (tmp_path / "run" / "progress.csv").is_file()
    (tmp_path / "tiny.yaml").write_text(SWEEP)
    rlpyt("sweep", "tiny.yaml", "--dir", "tiny")
    rlpyt("report", "tiny")
    assert list((tmp_path / "tiny").glob("*.html"))
