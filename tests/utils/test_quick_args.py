import pytest

from rlpyt.utils.quick_args import save__init__args


class Base:
    kind = "base"

    def __init__(self, size, rate=0.1, *, name="b", **kwargs):
        helper = 7
        save__init__args(locals())


class Child(Base):
    def __init__(self, depth=2, rate=0.5, **kwargs):
        save__init__args(locals())
        super().__init__(size=3, **kwargs)


def test_arguments_become_attributes_and_nothing_else():
    assert vars(Base(1, rate=2, other=5)) == {"size": 1, "rate": 2, "name": "b"}


def test_arguments_of_the_subclass_take_precedence():
    child = Child(name="c")
    assert vars(child) == {"depth": 2, "rate": 0.5, "size": 3, "name": "c"}


def test_underscore_goes_in_front():
    class Private:
        def __init__(self, size, rate=1):
            save__init__args(locals(), underscore=True)

    assert vars(Private(4)) == {"_size": 4, "_rate": 1}


@pytest.mark.parametrize("overwrite, rate", [(False, 0.5), (True, 0.1)])
def test_overwrite_replaces_existing_attributes(overwrite, rate):
    class Plain:
        def __init__(self, rate=0.1):
            save__init__args(locals(), overwrite=overwrite)

    class Sub(Plain):
        def __init__(self, rate=0.5):
            save__init__args(locals())
            super().__init__()

    assert Sub().rate == rate


def test_class_attributes_count_as_existing():
    class Fixed(Base):
        rate = 9

    assert Fixed(1, rate=2).rate == 9


def test_subclass_only_takes_the_most_derived_constructor():
    class Only(Base):
        def __init__(self, depth, size=1):
            rate = 3
            save__init__args(locals(), subclass_only=True)

    assert vars(Only(2)) == {"depth": 2, "size": 1}

    class Inherits(Only):
        pass

    assert vars(Inherits(2)) == {"depth": 2, "size": 1}


def test_zero_argument_super_and_multiple_inheritance():
    class Mixin:
        def __init__(self, extra=1, **kwargs):
            super().__init__(**kwargs)
            save__init__args(locals())  # locals() holds __class__ as well

    class Both(Mixin, Base):
        pass

    assert vars(Both(size=8)) == {"size": 8, "rate": 0.1, "name": "b", "extra": 1}


def test_locals_without_self_are_refused():
    with pytest.raises(ValueError, match="locals"):
        save__init__args({"size": 1})
