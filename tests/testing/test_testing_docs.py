"""The page about conformance checks runs, and the examples in docstrings do."""

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

from rlpyt.testing import agent, env
from tests.oracles import replay, sampler

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


def test_the_page_says_what_is_printed():
    said = io.StringIO()
    scope = {}
    with contextlib.redirect_stdout(said):
        for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(block, scope)
    first, rest = said.getvalue().split("\n", 1)
    assert first in PAGE
    assert "FAIL [seeding] reset does not honor the seed" in rest and "FAIL [seeding]" in PAGE
    assert "check_env(SeededCorridor()): 0 errors, 0 warnings" in rest


@pytest.mark.parametrize(
    "module", [agent, env, replay, sampler], ids=lambda module: module.__name__
)
def test_examples_in_docstrings_run(module):
    results = doctest.testmod(module)
    assert results.attempted >= 3 and results.failed == 0
