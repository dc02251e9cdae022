"""The progress display, on a terminal and off."""

import io
import re
import sys
from types import SimpleNamespace

import pytest
import torch

from rlpyt.runners import progress
from rlpyt.runners.progress import (
    ProgressHook,
    TerminalProgress,
    parameters_in_words,
    sparkline,
)
from rlpyt.runners.usage import PHASES

CONTROL = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in dict(TERM="xterm", COLUMNS="80", LINES="24", NO_COLOR="1").items():
        monkeypatch.setenv(name, value)


def screen(stream):
    """Return the lines that a terminal shows, and how often the cursor moved up."""
    lines, y, x, n_up = [""], 0, 0, 0
    for argument, command, control, text in CONTROL.findall(stream.getvalue()):
        if control == "\r":
            x = 0
        elif control == "\n":
            y, x = y + 1, 0
            lines += [""] * (y == len(lines))
        elif text:
            lines[y] = lines[y][:x].ljust(x) + text + lines[y][x + len(text) :]
            x += len(text)
        elif command == "A":
            y, n_up = y - int(argument), n_up + 1
        elif command == "K":
            lines[y] = ""
    return [line.rstrip() for line in lines], n_up


def runner(**changes):
    seconds = {**dict.fromkeys(PHASES, 0.0), **changes.pop("seconds", {})}
    state = dict(
        itr=11,
        n_itr=40,
        itr_batch_size=25,
        cum_steps=300,
        steps_per_second=100.0,
        recent_return=31.25,
        algo=SimpleNamespace(),
        agent=SimpleNamespace(device=torch.device("cpu")),
        state=SimpleNamespace(clock=SimpleNamespace(read=lambda: seconds)),
    )
    return SimpleNamespace(**{**state, **changes})


def test_plain_lines_say_everything_and_come_at_intervals():
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=1000.0)
    hook.on_start(runner(itr=-1, cum_steps=0))
    hook.on_iteration(runner(), 11)
    assert out.getvalue() == ""  # the interval is not over
    hook.interval_s = 0.0
    hook._next_s = 0.0
    hook.on_iteration(runner(), 11)
    assert out.getvalue() == (
        "300 of 1,000 steps (30%), iteration 11, 100 steps/s, return 31.2, 00:07 left\n"
    )


def test_the_announcement_gives_the_steps_of_whole_iterations():
    out = io.StringIO()
    hook = ProgressHook(out, announcement="Training {it} for {steps} steps")
    hook.on_start(runner(agent=NoNetwork()))
    assert out.getvalue().startswith("Training {it} for 1,000 steps\n")


class NoNetwork:
    device = torch.device("cpu")

    def target_networks(self):
        return []


def test_parameters_are_counted_once_and_the_largest_layer_is_named():
    agent = NoNetwork()
    assert parameters_in_words(agent) == "The agent has no parameters."
    shared = torch.nn.Linear(3, 4)
    agent.model = torch.nn.Sequential(shared, torch.nn.Sequential(torch.nn.Linear(4, 50), shared))
    agent.shared_model = agent.model
    agent.q_model = torch.nn.Linear(5, 2)
    agent.target = torch.nn.Linear(500, 2)
    agent.target_networks = lambda: [agent.target]
    assert parameters_in_words(agent) == (
        "The agent has 278 parameters, 250 of them in model.1.0 (Linear)."
    )
    shared.requires_grad_(False)
    assert "278" in parameters_in_words(agent)


def test_the_last_line_is_not_printed_twice():
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=0.0)
    hook.on_start(runner())
    hook.on_iteration(runner(), 11)
    hook.on_end(runner())
    assert out.getvalue().count("\n") == 1
    hook.on_end(runner(cum_steps=325))
    assert out.getvalue().count("\n") == 2


def test_a_run_that_failed_in_its_first_iteration_says_nothing():
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=0.0)
    hook.on_start(runner(itr=-1, cum_steps=0))
    hook.on_end(runner(itr=0, cum_steps=0))
    assert out.getvalue() == ""


def test_unknown_numbers_are_left_out():
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=0.0)
    hook.on_start(runner())
    hook.on_iteration(runner(steps_per_second=float("nan"), recent_return=float("nan")), 11)
    assert out.getvalue() == "300 of 1,000 steps (30%), iteration 11\n"


def test_steps_taken_are_shown_besides_those_of_the_budget():
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=0.0)
    hook.on_start(runner())
    hook.on_iteration(runner(algo=SimpleNamespace(steps_taken=1234)), 11)
    assert "(30%), iteration 11, 1,234 steps taken, 100 steps/s" in out.getvalue()


@pytest.fixture
def now(monkeypatch):
    """The time of the display, in a list, that only the test advances."""
    seconds = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def draw(now, out):
    """Draw a run at its start and at 300 of 1000 steps, after ten seconds."""
    hook = ProgressHook(out)
    hook.on_start(runner(itr=-1, cum_steps=0, recent_return=float("nan")))
    for return_ in (0.0, 7.0, 5.0):
        hook.on_log(runner(), {"ReturnAverage": return_})
    now[0] += 10
    later = dict(seconds=dict(sampling=6.0, optimizing=3.5, logging=0.02, evaluating=0.3))
    hook.on_iteration(runner(**later), 11)
    return hook, later


def test_a_terminal_gets_a_view_that_is_redrawn(now):
    out = Terminal()
    hook, later = draw(now, out)
    lines, n_up = screen(out)
    bar, *others = lines
    assert bar.startswith(" 30% ━━━") and bar.endswith(" 00:23 left") and len(bar) == 80
    uses = others.pop(3)
    assert others == [
        "steps   300 of 1,000, iteration 11, 100 steps/s",
        "return  31.2  ▁█▆",
        "time    sampling 60%, optimizing 35%, evaluating 3%",
    ]
    assert re.fullmatch(r"uses    \d+\.\d cores, [\d,]+ MB", uses)
    hook.on_iteration(runner(**later), 12)
    assert screen(out)[1] == n_up  # a quarter of a second has not passed
    hook.on_end(runner(itr=39, cum_steps=1000, **later))
    lines, more_up = screen(out)
    assert more_up > n_up and len(lines) == 6 and lines[-1] == ""
    assert lines[0].startswith("100% ━━━") and "1,000 of 1,000" in lines[1]


def test_a_narrow_view_has_longer_columns(now, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    draw(now, out)
    lines, _ = screen(out)
    assert max(map(len, lines)) <= 40
    assert lines[1:3] == ["steps   300 of 1,000, iteration 11, 100", "        steps/s"]


def test_printed_lines_appear_above_the_view(now, monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    hook, later = draw(now, None)
    print("from an environment")
    now[0] += 1
    hook.on_iteration(runner(**later), 12)
    hook.on_end(runner(**later))
    assert sys.stdout is out
    lines, _ = screen(out)
    assert lines[0] == "from an environment" and lines[1].startswith(" 30% ━━━")


def test_a_simple_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    hook = ProgressHook(out, interval_s=0.0)
    hook.on_start(runner(itr=-1, cum_steps=0))
    hook.on_iteration(runner(), 11)
    assert out.getvalue().startswith("300 of 1,000 steps") and "\x1b" not in out.getvalue()


@pytest.mark.parametrize("error", [OSError(5, "EIO"), BrokenPipeError(), ValueError("closed")])
@pytest.mark.parametrize("n_written", [0, 3])
def test_a_run_goes_on_without_its_terminal(error, n_written, monkeypatch):
    class Gone(Terminal):
        n_left = n_written

        def write(self, text):
            self.n_left -= 1
            if self.n_left < 0:
                raise error
            return super().write(text)

    monkeypatch.setattr(progress, "DRAW_INTERVAL_S", 0.0)
    out = Gone()
    monkeypatch.setattr(sys, "stdout", out)
    hook = ProgressHook()
    hook.on_start(runner(itr=-1, cum_steps=0))
    for itr in range(3):
        hook.on_iteration(runner(), itr)
    hook.on_end(runner())
    assert sys.stdout is out and out.n_left < 0


def test_a_run_that_never_started_says_nothing():
    out = io.StringIO()
    ProgressHook(out).on_end(SimpleNamespace())
    assert out.getvalue() == ""


def test_the_time_left_follows_the_last_minute(now):
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=0.0)
    slow = dict(n_itr=4000, steps_per_second=50.0)
    hook.on_start(runner(cum_steps=0, **slow))
    for second in range(1, 201):  # 10 steps per second, then 400
        now[0] += 1
        steps = 10 * min(second, 100) + 400 * max(0, second - 100)
        hook.on_iteration(runner(cum_steps=steps, **slow), 11)
    last = out.getvalue().splitlines()[-1]  # (100,000 - 41,000) / 400 seconds
    assert last.endswith("50 steps/s, return 31.2, 02:27 left")


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_scripts_show_progress_on_a_terminal_unless_a_hook_does(owned, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    hook = TerminalProgress()
    hooks = [hook, ProgressHook(io.StringIO())] if owned else [hook]
    state = dict(hooks=hooks, logs_after=lambda itr: False)
    hook.on_start(runner(itr=-1, cum_steps=0, **state))
    hook.on_iteration(runner(**state), 11)
    hook.on_end(runner(**state))
    shown = sys.stderr.getvalue()
    assert ("300 of 1,000, iteration 11" in shown) == (stream is Terminal and not owned)
    assert stream is Terminal or not shown


def test_the_view_of_a_script_is_erased_while_the_logger_prints(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    hook = TerminalProgress()
    state = dict(hooks=[hook], logs_after=lambda itr: True)
    hook.on_start(runner(itr=-1, cum_steps=0, **state))
    hook.on_iteration(runner(**state), 11)
    assert not any(screen(out)[0]) and sys.stderr is out
    print("a row", file=out)
    hook.on_log(runner(**state), {"ReturnAverage": 31.25})
    lines, _ = screen(out)
    assert lines[0] == "a row" and lines[1].startswith(" 30% ━━━")


def test_a_sparkline_spans_the_numbers():
    assert sparkline([2.0, 9.0, 5.5]) == "▁█▅"
    assert sparkline([3.0, 3.0]) == "▁▁"


def test_a_closed_output_is_no_terminal():
    stream = io.StringIO()
    stream.close()
    assert progress.console_of(stream) is None
