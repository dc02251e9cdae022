"""The store of final observations finds entries anywhere in its ring."""

import numpy as np
import pytest

from rlpyt.replays.memory import Memory
from rlpyt.replays.storage import FinalObservationStore


def stored(capacity, shared):
    memory = Memory(shared)
    store = FinalObservationStore(np.zeros(1), capacity, memory)
    memory.commit()
    return store


@pytest.mark.parametrize("shared", [False, True])
def test_entries_are_those_of_a_list(shared):
    rng = np.random.default_rng(0)
    store, plain, next_key = stored(50, shared), [], 0
    for _ in range(500):
        keys = next_key + np.cumsum(rng.integers(1, 5, rng.integers(0, 6)))
        next_key = max([next_key, *keys.tolist()])
        n = store.add(keys, keys[:, None].astype(float))
        plain += keys[:n].tolist()
        if rng.random() < 0.1:
            last = int(rng.integers(next_key - 8, next_key + 2))
            store.forget_from(last)
            plain = [key for key in plain if key < last]
        first = next_key - int(rng.integers(20, 120))
        store.forget(first)
        plain = [key for key in plain if key >= first]
        assert len(store) == len(plain)
        wanted = rng.choice(plain, 7) if plain else np.zeros(0, int)
        np.testing.assert_array_equal(store.get(wanted)[:, 0], wanted)
