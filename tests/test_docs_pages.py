"""The code and the commands of documentation pages run, in order, with few steps."""

import importlib
import re
import shlex
from pathlib import Path

import pytest
import torch

import rlpyt
from rlpyt.cli.train import read_flags
from tests.cli.test_commands import rlpyt_command
from tests.faulty import FaultyEnv
from tests.programs import run_script

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = [  # pages whose commands run
    "first_run",
    "tutorial_halfcheetah",
    "concepts",
    "custom_environment",
    "custom_model",
    "memory",
    "dict_observations",
    "asymmetric_critics",
    "custom_agent",
    "custom_algorithm",
    "export",
    "hooks",
    "checkpoints",
    "debugging",
    "recipes",
    "action_masks",
    "hybrid_actions",
    "hindsight",
]
SCRIPTS = [  # further pages whose Python runs
    "../README",
    "coming_from",
    "coming_from_sb3",
    "coming_from_cleanrl",
    "schedules",
    "algorithms/ppo",
    "algorithms/dqn",
    "algorithms/c51_rainbow",
    "algorithms/qrdqn_iqn",
    "algorithms/sac",
    "tensor_environments",
]
SLOW = (
    *("first_run", "custom_environment", "debugging", "action_masks", "hybrid_actions", "export"),
    *("dict_observations", "asymmetric_critics", "tutorial_halfcheetah", "hindsight"),
    *SCRIPTS[1:],
)  # take most of the time
EVERY_PAGE = sorted(str(page.relative_to(DOCS))[:-3] for page in DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(\S*).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = ["--eval-episodes", "2", "--sampler.kind", "serial"]
LOGS = "from rlpyt.utils.logging import context; context.LOG_DIR = 'logs'\n"


def blocks(page):
    """Return (language, text) of the blocks of Python and of those without a language."""
    found = BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    return [(language, text) for language, text in found if language in ("", "python")]


def commands(text):
    """Return the arguments of each command ``rlpyt`` in a block."""
    lines = text.replace("\\\n", " ").splitlines()
    lines = [line for line in lines if line.startswith("rlpyt ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def few_steps(text):
    """Return a script or command that takes few environment steps."""
    text = re.sub(r"\b((?:n_)?steps=)[\d_]+", r"\g<1>1_024", text)
    text = re.sub(r"\b((?:min_steps_learn|log_interval_steps)=)[\d_]+", r"\g<1>256", text)
    text = re.sub(r"--steps \d+", "--steps 1024", text)
    text = re.sub(r"(rlpyt resume .*--steps) \d+", r"\1 2048", text)
    return text.replace("steps=1_024, resume=True", "steps=2_048, resume=True")


def run_script_of(code, path):
    """Run the blocks of Python since the last command as one script."""
    path.write_text(LOGS + few_steps(code), encoding="utf-8")
    paths = {"PYTHONPATH": f"{path.parent}:{DOCS.parent}"}
    done = run_script(path, directory=path.parent, environ=paths, timeout_s=200)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def test_blocks_of_other_languages_do_not_hide_those_after_them():
    languages = [language for language, _ in blocks("algorithms/sac")]
    assert languages[:3] == ["", "python", ""] and len(languages) > 5


def test_headings_are_on_a_page_once():
    for page in EVERY_PAGE:
        headings = re.findall(r"^##+ .*", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.M)
        assert len(headings) == len(set(headings)), page


@pytest.mark.parametrize(
    ("page", "every"),
    [
        *((page, False) for page in (*COMMANDS, *SCRIPTS) if page not in SLOW),
        *(pytest.param(page, True, marks=pytest.mark.slow) for page in (*COMMANDS, *SCRIPTS)),
    ],
)
def test_code_and_commands_run(page, every, tmp_path, monkeypatch, capsys):
    """Train by every command, or the first one and those with modules or directories of the page.

    The flags of the others are read.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code, found, trained = "", blocks(page), False
    assert found
    for number, (language, text) in enumerate([*found, ("", "")]):
        named = re.match(r"# (\w+\.py)\n", text)  # a module that commands and scripts import
        if named:
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
        elif language:
            code += f"{text}\n\n"
        elif code:
            run_script_of(code, tmp_path / f"{Path(page).name}_{number}.py")
            code = ""
        for command in commands(few_steps(text)) if page in COMMANDS else []:
            flags = [*FLAGS, "--no-video"] if command[0] == "train" else []
            modules = {f"{path.stem}:" for path in tmp_path.glob("*.py")}
            own = "--run-dir" in command or any(m in word for m in modules for word in command)
            if every or command[0] != "train" or own or not trained:
                trained |= command[0] == "train"
                assert rlpyt_command(*command, *flags) == 0, (command, capsys.readouterr())
            else:
                read_flags(*command[1:3], command[3:])


@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if page not in COMMANDS])
def test_commands_are_understood(page):
    found = [command for _, text in blocks(page) for command in commands(text)]
    for command in found:
        names = command[1:3]  # of the algorithm and the environment
        custom = any("my_" in name for name in command)
        if command[0] == "train" and not {"ALGO", "--config"} & {*names} and not custom:
            read_flags(*names, command[3:])


def test_the_recipe_with_a_replay_draws_whole_steps_only(tmp_path, monkeypatch):
    """With faults that are healed, and after a resume in new episodes."""
    (code,) = [code for _, code in blocks("recipes") if "class PredictingPPO" in code]
    (tmp_path / "predicting.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    predicting = importlib.import_module("predicting")
    n_drawn = []

    class Checked(predicting.PredictingPPO):
        def loss(self, batch):
            steps = self.replay.sample_batch(64)
            now, after = steps.agent_inputs.observation, steps.target_inputs.observation
            assert (after[~steps.done_n] == now[~steps.done_n] + torch.tensor([0, 0, 1])).all()
            n_drawn.append(int((~steps.done_n).sum()))
            return super().loss(batch)

    settings = dict(
        env_args=dict(fault="raise", at=21),
        on_fault=dict(env_error="restart_env", max_per_hour=999),
        agent=dict(model_cls=predicting.PredictingModel), algo=dict(epochs=1),
        sampler=dict(kind="serial", batch_T=16, batch_B=2), video=False, eval_episodes=0,
        run_dir=tmp_path / "run", progress=False,
    )  # fmt: skip
    for steps, resume in ((320, False), (640, True)):
        rlpyt.train(Checked, Stateless, steps=steps, resume=resume, **settings)
    assert sum(n_drawn) > 1000


class Stateless(FaultyEnv):
    """Starts new episodes after a resume."""

    def get_state(self):
        return None
