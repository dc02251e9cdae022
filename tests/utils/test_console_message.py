import re

import pytest

from rlpyt.utils.logging.console import Message, SimpleMessage


def test_a_decorated_function_says_how_long_each_call_took(capsys):
    @Message("adding")
    def add(a, b=1):
        return a + b

    assert add(2, b=3) == 5 and add(1) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"\d+\.\d+", "?", line) for line in lines] == [
        "adding",
        "adding: done in ? s",
    ] * 2


def test_a_failure_is_told_and_goes_on():
    told = []
    with pytest.raises(ZeroDivisionError), SimpleMessage("dividing", told.append):
        1 / 0  # noqa: B018
    assert told[1].startswith("dividing: failed in")
