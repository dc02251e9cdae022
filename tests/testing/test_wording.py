"""Messages of the checks of custom parts, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest

from rlpyt.envs.toy import CountEnv
from rlpyt.testing import ConformanceError, check_agent, check_env
from rlpyt.testing.env import CHECKS
from rlpyt.utils.names import UnknownName
from tests.parts import EchoAgent
from tests.wording import check

MESSAGES = {
    "name of a check": (
        UnknownName,
        lambda: check_env(CountEnv, skip=["observations"]),
        (
            "unknown check to skip 'observations'; did you mean 'observation'? Known: "
            f"{', '.join(sorted(CHECKS))}."
        ),
    ),
    "spaces": (
        TypeError,
        lambda: check_agent(EchoAgent(), 3),
        (
            "env_or_spaces=3 must be an environment, a class or function that makes one, or "
            "EnvSpaces(observation, action)."
        ),
    ),
    "environment": (
        ConformanceError,
        lambda: check_env(lambda: None),
        (
            "check_env(<lambda>()): 1 errors, 0 warnings, 0 checks passed\n  FAIL [factory] "
            "building an environment raised TypeError: <lambda> returned None instead of an "
            "environment (conformance check). Add a return statement.\n       -> fix the "
            "factory; samplers would fail likewise."
        ),
    ),
    "class for an instance": (
        ConformanceError,
        lambda: check_env(lambda: CountEnv),
        (
            "check_env(<lambda>()): 1 errors, 0 warnings, 0 checks passed\n  FAIL [factory] "
            "building an environment raised TypeError: <lambda> returned the class CountEnv "
            "(conformance check). Return an instance of it.\n       -> fix the factory; "
            "samplers would fail likewise."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
