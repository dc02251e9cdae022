import io
import sys

from rlpyt.utils.prog_bar import ProgBarCounter


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_counts_are_absolute_and_shown_in_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    bar = ProgBarCounter(200)
    bar.update(50)
    bar.update(100)
    assert bar._bar.tasks[0].completed == 100
    bar.stop()
    bar.update(150)
    bar.stop()
    assert "50%" in sys.stderr.getvalue()
    assert bar._bar.tasks[0].completed == 100


def test_silent_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = ProgBarCounter(10)
    bar.update(10)
    bar.stop()
    bar.stop()
    assert sys.stderr.getvalue() == ""
