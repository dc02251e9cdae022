"""Messages of algorithms, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest
import torch

from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.optim import GradientStep
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac import SAC
from rlpyt.errors import NonFiniteError
from rlpyt.samplers.collections import BatchSpec
from tests.wording import check

WEIGHT = torch.nn.Parameter(torch.ones(2))


def step(loss):
    GradientStep([WEIGHT], torch.optim.SGD, 0.5)(loss)


MESSAGES = {
    "range": (
        ValueError,
        lambda: PPO(discount=1.5),
        "discount=1.5 must be in [0, 1].",
    ),
    "type": (
        TypeError,
        lambda: DQN(double_dqn="no"),
        "double_dqn='no' must be True or False.",
    ),
    "choice": (
        ValueError,
        lambda: SAC(action_prior="normal"),
        "action_prior='normal' must be uniform or gaussian.",
    ),
    "schedule": (
        ValueError,
        lambda: A2C(learning_rate="line:1"),
        (
            'learning_rate=\'line:1\' must be a number, "linear:START" or "cosine:START" (to '
            'zero, or to END with another ":END"), a list of (progress, value) pairs, or a '
            "function of the progress."
        ),
    ),
    "name of an optimizer": (
        TypeError,
        lambda: SAC(OptimCls="Adam"),
        (
            "OptimCls='Adam' must be a class such as torch.optim.Adam. Pass its arguments as "
            "optim_kwargs."
        ),
    ),
    "optimizer that needs a closure": (
        ValueError,
        lambda: A2C(OptimCls=torch.optim.LBFGS),
        "OptimCls=LBFGS cannot be used here: it evaluates the loss several times per step.",
    ),
    "agent without values": (
        TypeError,
        lambda: PPO().initialize(DqnMlpAgent(), 10, BatchSpec(4, 2), True, {}),
        (
            "agent must provide a policy and have a method value(observation, prev_action, "
            "prev_reward) for PPO, got DqnMlpAgent. Use an agent such as CategoricalMlpAgent "
            "(rlpyt.agents.pg.vector.agent_for chooses one), or another algorithm."
        ),
    ),
    "agent of another algorithm": (
        ValueError,
        lambda: SAC().check_parts(CatDqnMlpAgent()),
        (
            "SAC requires a squashed Gaussian policy and critics, but CatDqnMlpAgent provides "
            "probabilities of atoms. Use SacAgent of rlpyt.agents.qpg.sac_agent "
            "(sac_v_agent's: SAC_V). (A custom agent derives from one of them: the critics are one "
            "model, `q_model`.)"
        ),
    ),
    "synchronous only": (
        NotImplementedError,
        lambda: PPO().async_initialize(None, 20, BatchSpec(4, 2), True, None),
        "PPO does not run asynchronously.",
    ),
    "loss without parameters": (
        ValueError,
        lambda: step(torch.nn.Parameter(torch.ones(2)).sum()),
        "the loss depends on no parameter of this optimizer.",
    ),
    "loss that is nan": (
        NonFiniteError,
        lambda: step((WEIGHT * torch.nan).sum()),
        (
            "the loss is nan. Look for a learning rate that is too large, or rewards or "
            "observations that are not finite or badly scaled."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
