"""CMA-ES continues where candidates are equally good, as on a task that is solved."""

import numpy as np
import pytest

from rlpyt.es import CMAES


@pytest.mark.parametrize("diagonal", [False, True])
def test_cmaes_waits_while_all_candidates_are_equally_good(diagonal):
    strategy = CMAES(np.zeros(4), 1.0, popsize=8, seed=0, diagonal=diagonal)
    for _ in range(8_000):
        strategy.tell(strategy.ask(), np.zeros(8))
    assert (strategy.mean == 0).all() and strategy.sigma == 1.0


@pytest.mark.parametrize("diagonal", [False, True])
def test_cmaes_continues_where_values_are_noise_of_two_kinds(diagonal):
    strategy = CMAES(np.zeros(4), 1.0, popsize=8, seed=0, diagonal=diagonal)
    rng = np.random.default_rng(0)
    for _ in range(8_000):
        strategy.tell(strategy.ask(), rng.integers(0, 2, 8).astype(float))
    assert np.isfinite(strategy.mean).all() and np.isfinite(strategy.C).all()
