"""Recurrent DQN: a deep Q-learning agent with a recurrent model."""

from rlpyt.agents.dqn.dqn_agent import AgentInfoRnn as AgentInfo  # noqa: F401
from rlpyt.agents.dqn.dqn_agent import DqnAgent


class R2d1Agent(DqnAgent):
    """Acts epsilon-greedily on the values of a recurrent model.

    It records ``q`` and ``prev_rnn_state``, the recurrent state before the step, leaves [B, N, H].
    """

    recurrent = True


class R2d1AlternatingAgent(R2d1Agent):
    """Recurrent DQN, for alternating samplers."""

    alternating = True


R2d1AgentBase = R2d1Agent  # rlpyt's name
