"""Agents, models and distributions are composed from parts, not from several base classes."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "rlpyt"
READY = ("atari", "mujoco", "vector")  # modules of ready agents


def classes(folder):
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path, node


@pytest.mark.parametrize("folder", ["agents", "models", "distributions"])
def test_every_class_has_one_parent(folder):
    assert [node.name for _, node in classes(folder) if len(node.bases) > 1] == []


def test_ready_agents_are_declarations():
    found = [(path, node) for path, node in classes("agents") if path.stem.startswith(READY)]
    assert len(found) > 20
    assert [
        node.name
        for _, node in found
        if any(getattr(member, "name", "") == "__init__" for member in node.body)
    ] == []


def test_agents_of_all_families_act_by_one_step():
    own = {
        node.name
        for _, node in classes("agents")
        if any(getattr(member, "name", "") == "step" for member in node.body)
    }
    assert own == {"BaseAgent", "RandomAgent"}
