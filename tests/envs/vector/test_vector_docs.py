"""The page's code runs, from top to bottom."""

import re
from pathlib import Path

import numpy as np

from rlpyt.testing import check_env
from tests.envs.vector.vector_parts import SEEDS

PAGE = Path(__file__).parents[3] / "docs" / "vector_environments.md"


def test_code_of_the_page_runs():
    scope = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), scope)
    walk = scope["Walk"](3)
    walk.seed(SEEDS)
    walk.reset()
    for _ in range(4):
        step = walk.step(np.array([1, 1, 0]))
    assert step.done.all()
    check_env(scope["Walk"], skip=["seeding"])
    standardized = scope["make_standardized"](2)
    assert standardized.reset().shape == (2, 3) and scope["make_standardized"].batched
