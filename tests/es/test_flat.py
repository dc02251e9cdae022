"""Strategies go on where all candidates are equally good, as on a task that is solved."""

import numpy as np

from rlpyt.es import CMAES


def test_cmaes_goes_on_after_thousands_of_equal_generations():
    strategy = CMAES(np.zeros(4), 1.0, popsize=8, seed=0)
    for _ in range(8_000):
        strategy.tell(strategy.ask(), np.zeros(8))
    assert np.isfinite(strategy.mean).all() and np.isfinite(strategy.C).all()
    assert 0 < strategy.sigma < np.inf
    assert np.linalg.eigvalsh(strategy.C)[0] > 0
