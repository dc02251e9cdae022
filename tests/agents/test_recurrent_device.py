"""Recurrent states are brought to the model's device, wherever they were left.

There is no second device where these tests run; torch's "meta" stands for one, and a model that
only notes where its state is for a network.
"""

import pytest
import torch

from rlpyt.agents.pg.vector import agent_for
from rlpyt.envs.toy import CountEnv
from rlpyt.models.recurrent import RnnState

B, H = 3, 4


class Noted(Exception):
    pass


class NotingModel(torch.nn.Module):
    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        raise Noted([x.device.type for x in (observation, prev_reward, *init_rnn_state)])


@pytest.fixture
def agent():
    """Its model has moved; its memory was restored on the CPU, as from a checkpoint."""
    agent = agent_for(CountEnv().spaces, recurrent=True)
    agent.initialize(CountEnv().spaces)
    agent.model, agent.device = NotingModel(), torch.device("meta")
    agent.sample_mode(0)
    state = RnnState(torch.ones(1, B, H), torch.ones(1, B, H))
    agent.memory.advance(state)
    assert agent.prev_rnn_state.h.device.type == "cpu"
    return agent


@pytest.mark.parametrize("call", ["step", "value"])
def test_acting_moves_the_state_to_the_model(agent, call):
    inputs = torch.zeros(B, 3), torch.zeros(B, dtype=torch.int64), torch.zeros(B)
    with pytest.raises(Noted) as noted:
        getattr(agent, call)(*inputs)
    assert noted.value.args[0] == ["meta"] * 4


def test_training_moves_the_state_to_the_model(agent):
    inputs = torch.zeros(2, B, 3), torch.zeros(2, B, dtype=torch.int64), torch.zeros(2, B)
    with pytest.raises(Noted) as noted:
        agent(*inputs, init_rnn_state=agent.prev_rnn_state)
    assert noted.value.args[0] == ["meta"] * 4
