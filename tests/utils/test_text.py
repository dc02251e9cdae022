"""Words for messages."""

import doctest

from rlpyt.utils import text


def test_examples_in_docstrings_run():
    result = doctest.testmod(text)
    assert result.attempted and not result.failed


def test_counted_nouns():
    assert text.counted(1, "stretch") == "1 stretch" and text.counted(0, "run") == "0 runs"
    assert text.counted(2, "stretch") == "2 stretches"
