"""The page about algorithms: its programs run, and its table says what agents take."""

import contextlib
import inspect
import io
import re
from pathlib import Path

import torch

from rlpyt.agents.dqn import vector
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.utils.collections import AttrDict

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
TRAINING, MODEL = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_script_runs_with_few_steps():
    short = TRAINING.replace("n_steps=20_480", "n_steps=2_048").replace("5_120", "1_024")
    scope = AttrDict()
    threads = torch.get_num_threads()
    exec(short, scope)
    torch.set_num_threads(threads)
    assert scope.algo.update_counter > 400


def test_a_model_of_ones_own_passes():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(MODEL, {"__name__": "a_script"})
    assert printed.getvalue() == "True\n"


def test_agents_are_listed_with_their_arguments():
    for for_vectors, for_images in vector.AGENTS.values():
        assert f"| `{for_vectors.__name__}` | `{for_images.__name__}` |" in PAGE
    for name in ("eps_init", "eps_final", "eps_eval"):
        default = inspect.signature(EpsilonGreedyAgentMixin).parameters[name].default
        assert f"`{name}={default}`" in PAGE
