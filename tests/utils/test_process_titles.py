"""Children are told apart in lists of processes."""

import sys
from pathlib import Path

import pytest

from rlpyt.utils.in_child import run_in_child
from rlpyt.utils.processes import title_of


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("worker 3 of 8", "rlpyt-worker 3"),
        ("rank 1 of 2", "rlpyt-rank 1"),
        ("optimizer rank 1 of 2", "rlpyt-rank 1"),
    ],
)
def test_titles_say_what_and_which(name, title):
    assert title_of(name) == title and len(title) <= 15  # what the kernel keeps


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux'")
def test_a_child_has_its_title():
    assert run_in_child(_comm).startswith("rlpyt-process")


def _comm():
    return Path("/proc/self/comm").read_text()
