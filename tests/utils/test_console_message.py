import io
import os
import re

import pytest

from rlpyt.utils.logging import console
from rlpyt.utils.logging.console import (
    Message,
    SimpleMessage,
    collect_args,
    query_yes_no,
    say,
    tweak,
    type_hint,
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


@pytest.mark.parametrize(
    "answers, default, expected",
    [
        (["y"], "no", True),
        (["NO"], "yes", False),
        ([""], "yes", True),
        (["", "perhaps", "n"], None, False),
        ([], "no", False),  # standard input has ended
    ],
)
def test_a_question_is_asked_until_the_answer_is_yes_or_no(monkeypatch, answers, default, expected):
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    assert query_yes_no("Overwrite?", default) is expected


def test_a_question_without_default_needs_an_answer(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(EOFError):
        query_yes_no("Overwrite?", None)
    with pytest.raises(ValueError, match="default must be 'yes', 'no' or None, got 'y'"):
        query_yes_no("Overwrite?", "y")


def test_the_command_line_replaces_tweaked_values(monkeypatch):
    words = "prog --n-steps 5 --clip=0.5 --verbose --double 0 --run-size 8"
    monkeypatch.setattr("sys.argv", words.split())
    assert collect_args() == dict(n_steps="5", clip="0.5", verbose="True", double="0", run_size="8")
    assert (tweak(3, "n_steps"), tweak(1.0, "clip"), tweak("a", "name")) == (5, 0.5, "a")
    assert tweak(True, "double") is False and tweak(False, "verbose") is True

    @type_hint("size", float)
    def run(size, n=2):
        return size, n

    assert tweak(run)(1) == (8.0, 2) and type(tweak(run)(1)[0]) is float
    assert tweak(run, "other")(1) == (1, 2)
    monkeypatch.setattr("sys.argv", ["prog", "--n-steps", "many", "--run-n", "4"])
    assert tweak(run)(size=1, n=3) == (1, 4)
    with pytest.raises(ValueError, match="--n-steps must be of type int, got 'many'"):
        tweak(3, "n-steps")
    with pytest.raises(ValueError, match="needs the name"):
        tweak(3)


def test_control_characters_of_names_do_not_reach_the_terminal(capsys):
    say("a\x1b[2J\x07\x9b b\tc\nd \x1b[31mred\x1b[0m \x00")
    assert capsys.readouterr().out == ("a\\x1b[2J\\x07\\x9b b\tc\nd \x1b[31mred\x1b[0m \\x00\n")
