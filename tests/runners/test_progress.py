"""The progress line, on a terminal and off."""

import io
import sys
from types import SimpleNamespace

import pytest

from rlpyt.runners import progress
from rlpyt.runners.progress import ProgressHook, TerminalProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def runner(**changes):
    state = dict(
        itr=11,
        n_itr=40,
        itr_batch_size=25,
        cum_steps=300,
        steps_per_second=100.0,
        recent_return=31.25,
        algo=SimpleNamespace(),
    )
    return SimpleNamespace(**{**state, **changes})


def test_plain_lines_say_everything_and_come_at_intervals():
    out = io.StringIO()
    hook = ProgressHook(out, interval_s=1000.0)
    hook.on_start(runner(itr=-1, cum_steps=0))
    hook.on_iteration(runner(), 11)
    assert out.getvalue() == ""  # the interval is not over
    hook.interval_s = 0.0
    hook._next_line_s = 0.0
    hook.on_iteration(runner(), 11)
    assert out.getvalue() == (
        "300 of 1,000 steps (30%), iteration 11, 100 steps/s, return 31.2, 00:07 left\n"
    )


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


def test_a_terminal_gets_one_line_that_is_redrawn():
    out = Terminal()
    hook = ProgressHook(out)
    hook.on_start(runner(itr=-1, cum_steps=0))
    hook.on_iteration(runner(), 11)
    hook.on_end(runner(itr=39, cum_steps=1000))
    lines = out.getvalue().rstrip("\n")
    assert "\n" not in lines
    last = lines.split("\r")[-1]
    assert last.startswith("100%|") and "1.00k/1.00k steps" in last
    assert "iteration 39, 100 steps/s, return 31.2, 00:00 left" in last


def test_a_run_that_never_started_says_nothing():
    out = io.StringIO()
    ProgressHook(out).on_end(SimpleNamespace())
    assert out.getvalue() == ""


def test_the_time_left_follows_the_last_minute(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
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
    state = dict(hooks=hooks, logs_after=lambda itr: True)
    hook.on_start(runner(itr=-1, cum_steps=0, **state))
    hook.on_iteration(runner(**state), 11)
    hook.on_end(runner(**state))
    shown = sys.stderr.getvalue()
    assert ("300/1.00k steps, iteration 11" in shown) == (stream is Terminal and not owned)
    assert stream is Terminal or not shown
