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
