"""Messages of evolution strategies, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest

from rlpyt.es import CMAES, OpenAIES
from rlpyt.es.algo import CemAlgo, CmaesAlgo, OpenaiEsAlgo
from tests.wording import check

START = np.zeros(3)

MESSAGES = {
    "start": (
        ValueError,
        lambda: CMAES(np.zeros((2, 2)), 0.5),
        "x0 must be a nonempty vector of finite numbers, got an array of shape (2, 2).",
    ),
    "step size by component": (
        ValueError,
        lambda: CMAES(START, np.ones(2)),
        "sigma0 must be a number or an array (3,), got an array of shape (2,).",
    ),
    "options": (
        ValueError,
        lambda: CMAES(START, 0.5, opts={"popsiz": 6}),
        "opts has ['popsiz']; it takes 'popsize' and 'seed'.",
    ),
    "given twice": (
        ValueError,
        lambda: CMAES(START, 0.5, opts={"popsize": 6}, popsize=8),
        "popsize is given both as an argument and in opts; remove one.",
    ),
    "pairs": (
        ValueError,
        lambda: OpenAIES(START, 0.5, opts={"popsize": 5}),
        "popsize=5 must be even: candidates come in pairs.",
    ),
    "incomplete generation": (
        ValueError,
        lambda: CMAES(START, 0.5, opts={"popsize": 6}).tell(np.zeros((5, 3)), np.zeros(5)),
        (
            "solutions and function_values must have shapes (6, 3) and (6,), got (5, 3) and "
            "(5,). Tell all candidates returned by ask, with one value for each."
        ),
    ),
    "state of another kind": (
        ValueError,
        lambda: CMAES(START, 0.5, diagonal=True).load_state_dict(CMAES(START, 0.5).state_dict()),
        "The state does not match this CMAES of 3 components: C must have shape (3,), got (3, 3).",
    ),
    "batch size": (
        ValueError,
        lambda: CmaesAlgo(popsize=5, episodes=3).checked_popsize(8),
        (
            "popsize=5 with episodes=3 makes 15 episodes, which do not fill complete batches "
            "of batch_B=8. Try batch_B=5."
        ),
    ),
    "range": (
        ValueError,
        lambda: CemAlgo(elite_frac=2),
        "elite_frac=2 must be in (0, 1].",
    ),
    "schedule and decay": (
        ValueError,
        lambda: OpenaiEsAlgo(learning_rate="linear", learning_rate_decay=0.9),
        "learning_rate_decay=0.9 must be 1 if learning_rate follows a schedule. Set one of them.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
