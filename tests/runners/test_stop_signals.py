"""Signals ask a run to stop; a second one forces, unless it is that of a closed terminal."""

import os
import signal

import pytest

from rlpyt.runners.hooks import StopSignals


@pytest.fixture
def signals():
    with StopSignals() as signals:
        signals.at_once = False
        yield signals


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


def test_nohup_stays_in_force():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
        assert not signals.has_come() and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
