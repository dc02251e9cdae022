import inspect
from dataclasses import dataclass, field

import pytest

from rlpyt.algos.arguments import own_fields_first


@dataclass
class Base:
    a: int = 1
    b: int = 2
    c: int = 3

    def __post_init__(self):
        self.checked = True


@own_fields_first
@dataclass
class Own(Base):
    d: int = 4
    b: int = 20
    e: int = field(init=False, default=9)


def test_own_fields_come_first_and_others_by_keyword():
    own = Own(40, 50, c=7)
    assert (own.a, own.b, own.c, own.d, own.e) == (1, 50, 7, 40, 9) and own.checked
    assert (Own().b, Own().d) == (20, 4)
    assert list(inspect.signature(Own).parameters) == ["d", "b", "a", "c"]


def test_wrong_calls_are_refused():
    with pytest.raises(TypeError, match=r"2 arguments .*\(d, b\), got 3"):
        Own(1, 2, 3)
    with pytest.raises(TypeError, match=r"\['d'\]"):
        Own(1, d=2)
    with pytest.raises(TypeError, match="'f'"):
        Own(f=2)
