"""Objects of users' own classes get the methods that they lack."""

import copy
import pickle

import pytest

from rlpyt.utils.completion import completed


class Base:
    """Class of ours."""

    size = 3

    def state_dict(self):
        return {"name": self.name}

    def act(self):
        raise AssertionError("users' own methods are kept")


class Other:
    """Another class of ours."""

    def shutdown(self):
        return f"{self.name} ended"


class Plain:
    """Class of a user's, of which pickle stores the attributes."""

    def __init__(self, name):
        self.name, self.size = name, 5

    def act(self):
        return f"{self.name} acts"


class Reduced(Plain):
    """Class of a user's that says itself how it is pickled."""

    def __reduce__(self):
        return type(self), (self.name,)


@pytest.mark.parametrize("Cls", [Plain, Reduced])
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy]
    + [
        lambda part, protocol=protocol: pickle.loads(pickle.dumps(part, protocol))
        for protocol in (0, 2, pickle.HIGHEST_PROTOCOL)
    ],
)
def test_completed_objects_can_be_pickled_and_copied(Cls, duplicate):
    part = completed(completed(Cls("agent"), Base), Other)
    again = duplicate(part)
    assert isinstance(again, Cls) and again is not part
    assert (again.name, again.size, again.act()) == ("agent", 5, "agent acts")
    assert again.state_dict() == {"name": "agent"} and again.shutdown() == "agent ended"
    again.name = "copy"
    assert part.name == "agent"


def test_the_users_object_keeps_its_class_and_shares_its_attributes():
    own = Plain("agent")
    part = completed(own, Base)
    assert type(own) is Plain and not hasattr(own, "state_dict")
    part.name = "renamed"
    own.number = 3
    assert own.name == "renamed" and part.number == 3
    assert completed(part, Base) is part


class Slotted:
    """Class without ``__dict__``."""

    __slots__ = ("name",)


@pytest.mark.parametrize("part", [Slotted(), [1]])
def test_an_object_without_attributes_of_its_own_is_refused_with_a_remedy(part):
    with pytest.raises(TypeError, match="state_dict.*Base"):
        completed(part, Base)
