"""The package as it is installed: its metadata, its contents, its commands."""

import ast
import runpy
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rlpyt
from rlpyt.version import REPOSITORY, VERSION
from tests.check_package import CONSTRAINTS, Environment, build

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


def test_the_names_of_the_package_are_those_that_type_checkers_see():
    stub = ast.parse((ROOT / "rlpyt" / "__init__.pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    assert {a.name: node.module for node in imports for a in node.names} == rlpyt._MODULES


def test_an_index_page_can_follow_the_links_of_the_readme():
    setup = runpy.run_path(str(ROOT / "setup.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [m[2] for m in setup["LINK"].finditer(readme)]
    assert targets and all((ROOT / target.partition("#")[0]).exists() for target in targets)
    changed = setup["absolute"](readme, REPOSITORY)
    assert not [m[0] for m in setup["LINK"].finditer(changed)]
    assert changed.count(f"{REPOSITORY}/raw/main/docs/images/") == 2


def test_addresses_and_version_are_the_same_everywhere():
    assert PROJECT["urls"]["Repository"] == REPOSITORY
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {VERSION}\n" in citation and f'repository-code: "{REPOSITORY}"' in citation


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source distribution, and a wheel built from it."""
    return build(tmp_path_factory.mktemp("package"))


@pytest.mark.slow
def test_a_wheel_holds_every_module_and_the_marker_of_types(built):
    files = (path for path in (ROOT / "rlpyt").rglob("*") if path.is_file())
    expected = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    held = {name for name in zipfile.ZipFile(built[1]).namelist() if name.startswith("rlpyt/")}
    assert held == expected


@pytest.mark.slow
def test_a_source_distribution_holds_tests_documentation_and_examples(built):
    with tarfile.open(built[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("tests", "docs", "examples", "benchmarks"):
        missing = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.*")} - held
        assert not {name for name in missing if "__pycache__" not in name and "_build" not in name}
    assert {"Makefile", "constraints.txt", "CHANGELOG.md", "CITATION.cff", ".ci/run"} < held


@pytest.mark.slow
def test_a_sweep_works_in_an_environment_with_nothing_else(built, tmp_path):
    run = Environment(tmp_path, "-c", CONSTRAINTS, f"{built[1]}[plot,sweep]")
    run("rlpyt", "train", "ppo", "CartPole-v1", "--steps", "2000", "--run-dir", "run")
    assert (tmp_path / "run" / "progress.csv").is_file()
    (tmp_path / "tiny.yaml").write_text(SWEEP)
    run("rlpyt", "sweep", "tiny.yaml", "--dir", "tiny")
    run("rlpyt", "report", "tiny")
    assert list((tmp_path / "tiny").glob("*.html"))
