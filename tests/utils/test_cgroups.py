"""Control groups of this process."""

import pytest

from rlpyt.utils.cgroups import own_cgroups

OWN = "5:cpu,cpuacct:/a/b\n4:memory:/a\n0::/c/d\n"


@pytest.mark.parametrize(
    "controller, version_1",
    [("cpu", ["cpu/a/b", "cpu/a", "cpu"]), ("memory", ["memory/a", "memory"])],
)
def test_groups_are_listed_from_the_process_to_the_root(tmp_path, controller, version_1):
    own = tmp_path / "own"
    own.write_text(OWN)
    expected = [(tmp_path / path, 1) for path in version_1]
    expected += [(tmp_path / path, 2) for path in ("c/d", "c", "")]
    assert list(own_cgroups(controller, tmp_path, own)) == expected


def test_without_a_list_of_groups_only_roots_are_listed(tmp_path):
    found = list(own_cgroups("cpu", tmp_path, tmp_path / "missing"))
    assert found == [(tmp_path, 2), (tmp_path / "cpu", 1)]
