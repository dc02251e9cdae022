"""The rules of docs/architecture.md that a program can check."""

import ast
import importlib
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "rlpyt").rglob("*.py"))
NAMES = json.loads((Path(__file__).parent / "public_names.json").read_text())


@cache
def references(source):
    """Return what code refers to: pairs of a dotted name and the node that refers to or calls it.

    Names that were imported are given in full: ``loads`` is ``rlpyt.utils.serialize.loads``.
    Methods that are only bound are found as well, and names given to ``getattr``.
    """
    tree = ast.parse(source)
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                whole = name.name if name.asname else name.name.partition(".")[0]
                imported[name.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                imported[name.asname or name.name] = f"{node.module}.{name.name}"

    def dotted(node):
        match node:
            case ast.Name():
                return imported.get(node.id, node.id)
            case ast.Attribute():
                return f"{dotted(node.value)}.{node.attr}"
            case ast.Subscript():
                return dotted(node.value)
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(name), *_]):
                return f"{dotted(value)}.{name}"
            case ast.Call():
                return f"{dotted(node.func)}()"
        return "?"

    called_by = {node.func: node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    kinds = ast.Name | ast.Attribute | ast.Call
    return [
        (dotted(node), called_by.get(node, node))
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]


def files_with(pattern, under="rlpyt", but=lambda node: False):
    return [
        str(path.relative_to(ROOT / "rlpyt"))
        for path in SOURCES
        if path.is_relative_to(ROOT / under) and found_in(path.read_text(), pattern, but)
    ]


def found_in(source, pattern, but=lambda node: False):
    return any(re.search(pattern, name) and not but(node) for name, node in references(source))


def test_environments_are_stepped_in_one_place():
    """Besides the example step, the wrapper for users' collectors, and the loop on tensors."""
    assert len(files_with(r"\benvs?\.step$", "rlpyt/samplers")) == 4


def test_there_is_one_loop_over_steps():
    assert len(files_with(r"\b(env_batch|\w*_env_batch)\.advance$")) == 1


def test_agents_are_asked_to_act_in_one_place():
    """Besides the one example step, and the loop on tensors."""
    assert len(files_with(r"\bagent\.step$", "rlpyt/samplers")) == 3


def test_gradients_are_taken_in_three_places():
    """Of one agent, of several, in a compiled update; besides the checks of users' parts."""
    found = files_with(r"\.backward$|\.zero_grad$|autograd\.grad$")
    assert len([file for file in found if not file.startswith("testing/")]) == 3


def test_optimizers_are_stepped_in_two_places():
    """Of one agent and of several."""
    assert len(files_with(r"\boptim\w*\.step$")) == 2


def test_algorithms_have_five_bases_and_one_parent_each():
    parents = {}
    for path in SOURCES:
        if path.is_relative_to(ROOT / "rlpyt" / "algos"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    parents[node.name] = [ast.unparse(base) for base in node.bases]
    algos = {"RlAlgorithm"}
    while more := {n for n, own in parents.items() if algos & set(own)} - algos:
        algos |= more
    assert all(len(parents[name]) <= 1 for name in algos)
    bases = {name for name in algos if name.endswith(("Algo", "Algorithm"))}
    assert bases == {"RlAlgorithm", "PolicyGradientAlgo", "EpochAlgo", "ReplayAlgo", "QpgAlgo"}


def test_sampler_processes_start_in_one_place():
    started = r"(?<!psutil)\.Process$|\bos\.(fork|spawn\w+|posix_spawn\w*)$|ProcessPoolExecutor$"
    assert len(files_with(started)) == 1


# What runs code of whoever wrote the bytes. ``recv`` of torch.distributed receives tensors.
UNPICKLERS = (
    r"\b(pickle|_pickle|cloudpickle|dill|marshal|shelve|joblib)\.(?!dumps?$|Pickler$)\w+$"
    r"|\bread_pickle$|(?<!safetensors\.)\b(torch|numpy)\.load$"
    r"|(?<!distributed)\.recv$|(?<!ctypes)\.\w+_object(_list)?$"
    r"|(?<!\bqueue)\.(SimpleQueue|JoinableQueue|Queue|Manager|Listener|Client)$"  # not of threads
)
# Bytes from a process that this one has started, or that has started this one.
BETWEEN_PARENT_AND_CHILD = {
    "sweeps/function_runs.py",  # a call's result, in the file that its process wrote
    "sweeps/function_job.py",  # the function to call, in the file that the launching process wrote
    *("processes/child.py", "processes/group.py", "processes/pipe.py"),
    "runners/optimizers.py",
    "processes/ray.py",  # of actors, by Ray's connections
    "compat/barriers.py",  # queues of workers of rlpyt's (2019) protocol
}
# Bytes that this process has made itself: copies of agents and the like.
OWN_BYTES = {
    *("samplers/sampler.py", "samplers/async_/base.py", "samplers/ray_sampler.py"),
    *("testing/agent_case.py", "testing/env_values.py", "utils/serialize.py"),
}


def is_safe(node):
    """Return True for a call that reads arrays or tensors only."""
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in getattr(node, "keywords", [])}
    return given.get("weights_only") == "True" or given.get("allow_pickle") == "False"


def test_only_what_parents_and_children_send_each_other_is_unpickled():
    found = files_with(rf"{UNPICKLERS}|serialize\.loads$", but=is_safe)
    assert set(found) == BETWEEN_PARENT_AND_CHILD | OWN_BYTES


def test_unpickling_is_in_one_function_and_in_pipes():
    """The function is `rlpyt.utils.serialize.loads`; queues of workers are compatibility's."""
    found = files_with(UNPICKLERS, but=is_safe)
    assert len([file for file in found if file.startswith("utils/")]) == 1
    assert {file.partition("/")[0] for file in found} == {"compat", "processes", "utils"}
    assert len(files_with(r"\.Pipe$")) == 1  # of a parent and the child it starts


@pytest.mark.parametrize(
    "source",
    [
        "from pickle import loads as read\nread(data)",
        "import cloudpickle\nload = cloudpickle.load",
        "import pickle\ngetattr(pickle, 'loads')(data)",
        "import pickle\nclass Own(pickle.Unpickler): pass",
        "pipe.recv()",
        "self._pipes[rank].recv()",
        "receive = self.pipe.recv",
        "import torch\ntorch.load(path)",
        "import torch as th\nth.load(path, weights_only=False)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import torch.distributed as dist\ndist.all_gather_object(out, x)",
        "from multiprocessing import get_context\nget_context('spawn').Queue()",
    ],
)
def test_every_spelling_of_unpickling_is_found(source):
    assert found_in(source, UNPICKLERS, is_safe)


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads(text)",
        "import torch.distributed as dist\ndist.recv(tensor, 0)",
        "import torch\ntorch.load(path, map_location='cpu', weights_only=True)",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "import pickle\npickle.dumps(x)",
        "import ctypes\nctypes.py_object(x)",
        "import safetensors.torch\nsafetensors.torch.load(data)",
    ],
)
def test_reading_without_unpickling_is_allowed(source):
    assert not found_in(source, UNPICKLERS, is_safe)


def test_importing_rlpyt_imports_no_heavy_library():
    code = (
        "import sys, rlpyt;"
        "heavy = {'torch', 'gymnasium', 'ale_py', 'mujoco', 'matplotlib', 'cv2'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_ppo_script_imports_only_the_parts_that_it_uses():
    unused = ["ale_py", "mujoco", "matplotlib", "cv2", "gymnasium", "ray", "tensorboard"]
    rlpyt = ["agents.dqn", "agents.qpg", "curricula", "envs.vector", "experiments", "replays"]
    rlpyt += ["runners.async_rl", "runners.distributed", "samplers.async_", "samplers.serving"]
    rlpyt += ["samplers.tiles", "sweeps", "utils.launching.affinity", "vis"]
    code = (
        "import sys;"
        "from rlpyt import PPO, CategoricalMlpAgent, CpuSampler, MinibatchRl, logger_context;"
        "print(*sys.modules, sep='\\n')"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*unused, *(f"rlpyt.{part}" for part in rlpyt)}.isdisjoint(out.stdout.split())


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
