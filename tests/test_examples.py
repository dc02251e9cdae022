"""Every example runs with few steps, also as a user starts it (slow), and is listed in README."""

import csv
import importlib
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_commands import rlpyt_command
from tests.programs import run_script

EXAMPLES = Path(__file__).parents[1] / "examples"
ARGUMENTS = {  # where `SHORT` is not enough
    "async_training.py": "--steps 4000 --kind vtrace",
    "atari.py": "--steps 1024 --recurrent",
    "callbacks.py": "--steps 10240 --target-return 45",
    "compare_samplers.py": "--steps 2048 --sampler alternating",
    "continuous_control.py": "--steps 600 --n-critics 3",
    "curriculum.py": "--steps 4096",
    "custom_algorithm.py": "--steps 4096",
    "dqn_family.py": "--steps 1024 --kind qrdqn --noisy",
    "evolution.py": "--steps 32000 --strategy cem",
    "multi_gpu.py": "--steps 4096 --ranks 2",
    "ray_cluster.py": "--steps 4096",
    "recurrent_memory.py": "--steps 1280",
    "resume.py": "--steps 4096",
    "tensor_environment.py": "--steps 8192",
    "vector_environments.py": "--steps 4096 --normalize --n-workers 2",
}
OUTPUT = {  # text that the example prints besides its table
    "callbacks.py": "learning rate from now on",
    "curriculum.py": "Next levels: [",
    "custom_algorithm.py": "over 20 episodes",
    "dict_observations.py": "over 100 episodes",
    "evolution.py": "best return",
    "export_policy.py": ": True\n",
    "logging_wandb_tensorboard.py": "",
    "ppo_cartpole.py": "over 20 episodes",
    "reversi.py": "over 200 episodes",
    "resume.py": "equal bit for bit: True",
}
SHORT = "--steps 2048"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
SLOW = {"atari.py", "ray_cluster.py"}  # a recurrent network on images; a cluster


def test_the_table_names_every_example():
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([\w./]+)\]\(([\w./]+)\)", page, re.MULTILINE)
    files = [path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".yaml", ".ipynb")]
    names = {str(path.relative_to(EXAMPLES)) for path in files} - {"sweeps/train.py"}
    assert {link for _, link in rows} == names and all(name == link for name, link in rows)


def arguments_of(name, tmp_path):
    takes_log_dir = "log_dir" in (EXAMPLES / name).read_text(encoding="utf-8")
    directory = "--log-dir" if takes_log_dir else "--run-dir"
    return [*ARGUMENTS.get(name, SHORT).split(), directory, str(tmp_path / "log")]


def check(name, done, tmp_path):
    assert done.returncode == 0, done.stdout + done.stderr
    assert OUTPUT.get(name, "") in done.stdout
    for progress in (found := [*tmp_path.rglob("progress.csv")]):
        with open(progress) as file:
            rows = list(csv.DictReader(file))
        assert float(rows[-1]["Diagnostics/CumSteps"]) > 0
    assert len(found) == (2 if name == "resume.py" else 1)


@pytest.mark.parametrize(
    "name",
    [
        *sorted({*NAMES} - SLOW),
        *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(SLOW)),
    ],
)
def test_example_runs(name, tmp_path):
    done = run_script(EXAMPLES / name, *arguments_of(name, tmp_path))
    check(name, done, tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        "custom_algorithm:Reinforce CartPole-v1 --agent rlpyt:CategoricalMlpAgent",
        "ppo custom_environment:Corridor",
        "ppo dict_observations:Questions --agent.hidden-sizes 64",
    ],
)
def test_classes_of_examples_train_on_the_command_line(names, tmp_path, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    flags = "--steps 256 --sampler.kind serial --sampler.batch-T 16 --no-video --eval-episodes 1"
    run_dir = str(tmp_path / "run")
    assert rlpyt_command("train", *names.split(), *flags.split(), "--run-dir", run_dir) == 0


def test_reversi_gives_and_turns_what_the_rules_say(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    reversi = importlib.import_module("reversi")
    env, rng = reversi.Reversi(), np.random.default_rng(0)
    for seed in range(5):
        (_, info), over = env.reset(seed=seed), False
        while not over:
            moves = reversi_moves(reversi.BITS, env.own, env.other)
            assert np.flatnonzero(info["action_mask"]).tolist() == sorted(moves)
            for move, turned in moves.items():
                assert reversi.flipped(env.own, env.other, reversi.BITS[move]) == turned
            own = env.own.bit_count()
            _, reward, over, _, info = env.step(int(rng.choice(sorted(moves))))
            assert env.own != own
        assert reward == np.sign(env.own.bit_count() - env.other.bit_count())
        assert not reversi_moves(reversi.BITS, env.own, env.other)
    _, reward, over, _, _ = env.step(0)
    assert over and reward == -1


def reversi_moves(bits, own, other):
    """Return the discs that each legal move turns, from a board of six rows."""
    board = {(i // 6, i % 6): 1 if own & b else 2 if other & b else 0 for i, b in enumerate(bits)}
    moves = {}
    for i, ((row, column), disc) in enumerate(board.items()):
        if disc:
            continue
        turned = 0
        for y, x in itertools.product((-1, 0, 1), repeat=2):
            n = 1
            while board.get((row + n * y, column + n * x)) == 2:
                n += 1
            if board.get((row + n * y, column + n * x)) == 1:
                turned += sum(bits[(row + k * y) * 6 + column + k * x] for k in range(1, n))
        if turned:
            moves[i] = turned
    return moves


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_runs_in_a_new_interpreter(name, tmp_path):
    command = [sys.executable, EXAMPLES / name, *arguments_of(name, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    check(name, done, tmp_path)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("over 20 episodes" in output.get("text", "") for output in outputs)
