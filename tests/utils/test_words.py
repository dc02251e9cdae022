"""Words for messages."""

import doctest

from rlpyt.utils import words


def test_examples_in_docstrings_run():
    result = doctest.testmod(words)
    assert result.attempted and not result.failed


def test_numbers_go_with_their_nouns():
    assert words.counted(1, "stretch") == "1 stretch" and words.counted(0, "run") == "0 runs"
    assert words.counted(2, "stretch") == "2 stretches"
