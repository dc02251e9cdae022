"""The page about algorithms: its programs run, and its table says what agents take."""

import contextlib
import inspect
import io
import re
from pathlib import Path

import pytest
import torch

from rlpyt.agents.dqn import vector
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.agents.qpg import sac_agent, td3_agent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.utils.collections import AttrDict

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
TRAINING, MODEL, CONTROL, CONTROL_MODELS, OWN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("script", "changes", "updates"),
    [
        (TRAINING, {"n_steps=20_480": "n_steps=2_048", "5_120": "1_024"}, 400),
        (CONTROL, {"n_steps=6_000": "n_steps=600", "1_000": "300"}, 90),
        (OWN, {"n_steps=10_240": "n_steps=2_048"}, 15),
    ],
)
def test_the_scripts_run_with_few_steps(script, changes, updates):
    short = script
    for whole, part in changes.items():
        assert whole in short
        short = short.replace(whole, part)
    scope = AttrDict()
    threads = torch.get_num_threads()
    exec(short, scope)
    torch.set_num_threads(threads)
    assert scope.algo.update_counter > updates


def test_a_setting_of_ones_own_is_checked():
    scope = {"__name__": "a_script"}
    exec(OWN.replace("n_steps=10_240", "n_steps=1_024"), scope)
    with pytest.raises(ValueError) as caught:
        scope["RegularizedPPO"](weight_penalty=-1)
    assert f"raises `ValueError: {caught.value}`" in PAGE


@pytest.mark.parametrize("script", [MODEL, CONTROL_MODELS])
def test_models_of_ones_own_pass(script):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(script, {"__name__": "a_script"})
    assert printed.getvalue() == "True\n"


def test_agents_are_listed_with_their_arguments():
    for for_vectors, for_images in vector.AGENTS.values():
        assert f"| `{for_vectors.__name__}` | `{for_images.__name__}` |" in PAGE
    for name in ("eps_init", "eps_final", "eps_eval"):
        default = inspect.signature(EpsilonGreedyAgentMixin).parameters[name].default
        assert f"`{name}={default}`" in PAGE


def test_arguments_of_control_are_listed_with_their_defaults():
    own = {
        DdpgAgent: ("action_std", "action_noise_clip"),
        td3_agent.Td3Agent: ("n_critics", "pretrain_std", "target_noise_std", "target_noise_clip"),
        sac_agent.SacAgent: ("n_critics", "pretrain_std", "action_squash"),
    }
    for cls, names in own.items():
        parameters = inspect.signature(cls).parameters
        (row,) = [line for line in PAGE.splitlines() if f" | `{cls.__name__}` | " in line]
        for name in names:
            assert f"`{name}={parameters[name].default}`" in row
