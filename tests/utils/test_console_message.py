import os
import re

import pytest

from rlpyt.utils.logging import console
from rlpyt.utils.logging.console import (
    Message,
    SimpleMessage,
    say,
)


def test_a_decorated_function_prints_its_duration(capsys):
    @Message("adding")
    def add(a, b=1):
        return a + b

    assert add(2, b=3) == 5 and add(1) == 2
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"\d+\.\d+", "?", line) for line in lines] == [
        "adding",
        "adding: done in ? s",
    ] * 2


def test_a_failure_is_printed_and_raised():
    told = []
    with pytest.raises(ZeroDivisionError), SimpleMessage("dividing", told.append):
        1 / 0  # noqa: B018
    assert told[1].startswith("dividing: failed in")


def test_a_stream_that_cannot_be_written_to_is_silenced():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe, open("/dev/full", "w") as full:
        for stream in (pipe, full):
            say("nobody hears this", stream)
            print("nor this, which is no error any more", file=stream, flush=True)
    say("a closed one", stream)


def test_characters_beyond_the_encoding_are_escaped(tmp_path):
    with open(tmp_path / "said", "w", encoding="ascii") as file:
        say("\u03b5 = 0.1", file)
    assert (tmp_path / "said").read_text() == "\\u03b5 = 0.1\n"


def test_nested_messages_are_indented(capsys):
    with Message("outer"):
        assert console.MESSAGE_DEPTH == 1
        with pytest.raises(ZeroDivisionError), Message("inner"):
            1 / 0  # noqa: B018
    assert console.MESSAGE_DEPTH == 0
    lines = [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["outer", "  inner", "  inner", "outer"]


def test_control_characters_of_names_do_not_reach_the_terminal(capsys):
    say("a\x1b[2J\x07\x9b b\tc\nd \x1b[8mhidden\x1b[0m \x00\r \u202edne")
    expected = "a\\x1b[2J\\x07\\x9b b\tc\nd \\x1b[8mhidden\\x1b[0m \\x00\\r \\u202edne\n"
    assert capsys.readouterr().out == expected
