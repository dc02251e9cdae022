"""Cases of tests: some of a product in the fast suite, all of it in the slow one."""

from itertools import product
from typing import Any

import pytest


def product_of(*values: Any, fast: Any) -> list[Any]:
    """Return all combinations of values, slow but for those in ``fast``.

    Args:
        values: values of each parameter.
        fast: combinations, in which every value of every parameter occurs.
    """
    cases, fast = [*product(*values)], [*fast]
    assert all(case in cases for case in fast), "a fast case is not in the product"
    for i, known in enumerate(values):
        assert all(any(case[i] == value for case in fast) for value in known), "a value is missing"
    return [pytest.param(*c, marks=[] if c in fast else pytest.mark.slow) for c in cases]
