"""The pages about algorithms list agents and their arguments as they are."""

import inspect
from pathlib import Path

import pytest

from rlpyt.agents.dqn import vector
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.agents.qpg import sac_agent, td3_agent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.experiments.registry import ALGORITHMS

DOCS = Path(__file__).parents[3] / "docs"
DQN, CONTROL, OVERVIEW, CUSTOM = (
    (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for page in ("algorithms/dqn", "algorithms/ddpg_td3", "algorithms", "custom_algorithm")
)


def test_agents_are_listed_with_their_arguments():
    for for_vectors, for_images in vector.AGENTS.values():
        assert f"| `{for_vectors.__name__}` | `{for_images.__name__}` |" in DQN
    for name in ("eps_init", "eps_final", "eps_eval"):
        default = inspect.signature(EpsilonGreedyAgentMixin).parameters[name].default
        assert f"`{name}={default}`" in DQN


def test_arguments_of_control_are_listed_with_their_defaults():
    arguments = {
        DdpgAgent: ("action_std", "action_noise_clip"),
        td3_agent.Td3Agent: ("n_critics", "pretrain_std", "target_noise_std", "target_noise_clip"),
        sac_agent.SacAgent: ("n_critics", "pretrain_std", "action_squash"),
    }
    for cls, names in arguments.items():
        parameters = inspect.signature(cls).parameters
        (row,) = [line for line in CONTROL.splitlines() if f" | `{cls.__name__}` | " in line]
        for name in names:
            assert f"`{name}={parameters[name].default}`" in row


def test_every_algorithm_of_the_command_line_is_in_the_overview():
    assert all(f"`{name}`" in OVERVIEW for name in ALGORITHMS)


def test_the_error_of_a_custom_setting_is_as_shown():
    scope = {"__name__": "a_script"}
    exec(CUSTOM.split("```python\n")[1].split("```")[0], scope)
    with pytest.raises(ValueError) as caught:
        scope["RegularizedPPO"](weight_penalty=-1)
    assert f"raises `ValueError: {caught.value}`" in " ".join(CUSTOM.split())
