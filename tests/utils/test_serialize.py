"""Serialization of definitions of the main program."""

import functools

from rlpyt.utils.serialize import dumps, loads


@functools.lru_cache(maxsize=3)
def doubled(x):
    return [2 * x]


def test_cached_functions_of_the_main_program_are_sent_by_value(monkeypatch):
    monkeypatch.setattr(doubled, "__module__", "__main__")
    monkeypatch.setattr(doubled.__wrapped__, "__module__", "__main__")
    sent = dumps([doubled])
    (function,) = loads(sent)
    assert function(4) == [8] and function(4) is function(4)
    assert doubled.cache_info().misses == 0  # it was not this one
