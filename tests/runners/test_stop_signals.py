"""Signals ask a run to stop; a second one forces, unless it is that of a closed terminal."""

import contextlib
import multiprocessing
import os
import pty
import re
import signal
import threading
import time

import pytest

from rlpyt.runners.hooks import StopSignals
from tests.runners.test_minibatch_rl import B, T, runner_for


@pytest.fixture
def signals():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored under nohup
    try:
        with StopSignals() as signals:
            signals.at_once = False
            yield signals
    finally:
        signal.signal(signal.SIGHUP, before)


def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)


def test_sighup_does_not_force_the_end(signals):
    send(signal.SIGHUP, signal.SIGHUP)
    assert signals.exit_code == 129
    send(signal.SIGTERM, signal.SIGHUP)
    assert signals.exit_code == 143
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGTERM)


def test_the_warning_of_a_cluster_does_not_force_the_end(signals):
    send(signal.SIGUSR1, signal.SIGUSR1)
    assert signals.exit_code == 138
    send(signal.SIGTERM)  # some time later
    assert signals.exit_code == 143
    send(signal.SIGUSR1, signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGTERM)


def test_sigusr1_is_left_to_a_program_that_handles_it():
    received = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    try:
        with StopSignals() as signals:
            send(signal.SIGUSR1)
        assert received == [signal.SIGUSR1] and not signals.has_come()
    finally:
        signal.signal(signal.SIGUSR1, before)


def wait_after_telling(connection):
    connection.send("ready")
    time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # in a process with threads
def test_sigterm_ends_what_an_environment_forks(signals):
    """``terminate`` of Gymnasium's vector environments, for example, waits for its effect."""
    context = multiprocessing.get_context("fork")
    ours, its = context.Pipe()
    process = context.Process(target=wait_after_telling, args=(its,))
    process.start()
    assert ours.recv() == "ready"
    process.terminate()
    process.join(10)
    code = process.exitcode
    process.kill()
    assert code == -signal.SIGTERM


class Stop:
    """Hook that sends SIGTERM after an iteration."""

    def on_iteration(self, runner, itr):
        if itr == 1:
            send(signal.SIGTERM)


def test_the_programs_own_handler_is_called_after_the_checkpoint(tmp_path, capsys):
    calls = []

    def own(number, frame):
        calls.append((number, len([*tmp_path.glob("checkpoint-*")])))

    before = signal.signal(signal.SIGTERM, own)
    try:
        with pytest.raises(SystemExit) as stopped:
            runner_for(checkpoint_dir=tmp_path, hooks=[Stop()]).train()
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert calls == [(signal.SIGTERM, 1)] and stopped.value.code == 143
    assert re.search(r"after iteration 1, \d+\.\d s later: checkpoint", capsys.readouterr().out)


def test_nohup_stays_in_force():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
        assert not signals.has_come() and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_one_says_on_a_terminal_what_a_second_one_does(signals):
    ours, terminal = pty.openpty()
    before = os.dup(2)
    try:
        os.dup2(terminal, 2)
        send(signal.SIGINT)
    finally:
        os.dup2(before, 2)
    assert b"Ctrl-C again: at once, without a checkpoint" in os.read(ours, 1000)
    for number in (ours, terminal, before):
        os.close(number)


def test_a_run_that_is_stopped_at_once_says_what_is_saved(tmp_path):
    class Twice:
        def on_iteration(self, runner, itr):
            if itr == 2:
                send(signal.SIGINT, signal.SIGINT)

    every = dict(checkpoint_interval_steps=2 * T * B, checkpoint_dir=tmp_path / "checkpoint")
    runner = runner_for(hooks=[Twice()], **every)
    with pytest.raises(KeyboardInterrupt) as caught:
        runner.train()
    assert caught.value.__notes__ == [
        "The run ended after iteration 2. The newest checkpoint: that of iteration 1."
    ]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_signal_is_heard_while_nobody_reads_the_output(signals, monkeypatch, at_once):
    signals.at_once = at_once
    read, write = os.pipe()
    with os.fdopen(write, "w", buffering=1) as pipe, os.fdopen(read, "rb"):
        monkeypatch.setattr("sys.stdout", pipe)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        ended = pytest.raises(SystemExit) if at_once else contextlib.nullcontext()
        with ended:
            print("x" * 2**20)  # more than the pipe holds
    assert signals.exit_code == 143
