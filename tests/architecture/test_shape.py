"""The rules of docs/architecture.md that a program can check."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "rlpyt").rglob("*.py"))
NAMES = json.loads((Path(__file__).parent / "public_names.json").read_text())


def files_with(pattern, under="rlpyt"):
    return [
        str(path.relative_to(ROOT / "rlpyt"))
        for path in SOURCES
        if str(path).startswith(str(ROOT / under)) and re.search(pattern, path.read_text())
    ]


def test_environments_are_stepped_in_one_place():
    found = files_with(r"\benv(_step|\.step)\(", "rlpyt/samplers")
    assert sorted(found) == [
        "samplers/blocks.py",
        "samplers/buffer.py",  # the one example step
    ]


def test_agents_are_asked_to_act_in_one_place():
    found = files_with(r"\bagent\.step\(", "rlpyt/samplers")
    assert sorted(found) == [
        "samplers/actions.py",
        "samplers/buffer.py",  # the one example step
    ]


def test_gradients_are_taken_in_one_place():
    assert files_with(r"\.backward\(|\.zero_grad\(") == ["algos/optim.py"]


def test_sampler_processes_start_in_one_place():
    assert files_with(r"context\.Process\(") == ["utils/processes.py"]


def test_nothing_is_unpickled_but_what_parents_send_to_children():
    found = files_with(r"pickle\.loads?\(|weights_only=False|allow_pickle=True")
    assert found == ["utils/serialize.py"]


def test_importing_rlpyt_imports_no_heavy_library():
    code = (
        "import sys, rlpyt;"
        "heavy = {'torch', 'gymnasium', 'ale_py', 'mujoco', 'matplotlib', 'cv2'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_samplers_import_no_environment_library():
    code = (
        "import sys, rlpyt.samplers.parallel.cpu.sampler, rlpyt.runners.minibatch_rl;"
        "heavy = {'ale_py', 'mujoco', 'matplotlib', 'cv2', 'gymnasium'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names_that_peoples_scripts_import_exist(module):
    found = importlib.import_module(module)
    assert [name for name in NAMES[module] if not hasattr(found, name)] == []


def test_star_imports_still_bring_numpy_and_torch():
    """Research code does ``from rlpyt.algos.pg.ppo import *`` and goes on with ``torch``."""
    for module, names in {
        "rlpyt.algos.pg.ppo": ["PPO", "torch", "OptInfo", "LossInputs"],
        "rlpyt.agents.pg.gaussian": ["GaussianPgAgent", "torch"],
        "rlpyt.envs.base": ["Env", "EnvStep"],
    }.items():
        scope = {}
        exec(f"from {module} import *", scope)
        assert [name for name in names if name not in scope] == []
