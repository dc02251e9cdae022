"""Faults are counted without keeping what has failed."""

import gc
import weakref

import pytest

from rlpyt.samplers.fault_policy import FaultLimit, FaultPolicy


class Replay:
    """Something large."""


def cause(kept):
    large = Replay()
    kept.append(weakref.ref(large))
    raise OSError("the disk")


def fault(kept, several=False):
    """Return an error whose frames hold an object, noted in ``kept``, and its cause another."""
    try:
        other = Replay()
        kept.append(weakref.ref(other))
        try:
            cause(kept)
        except OSError as error:
            if several:
                raise ExceptionGroup("some", [error]) from None
            raise RuntimeError("the environment") from error
    except (RuntimeError, ExceptionGroup) as error:
        return error


def test_an_error_that_is_its_own_cause_is_counted():
    error = ValueError("again")
    error.__cause__ = error
    assert FaultLimit(FaultPolicy()).count(error, 1) == 0


def test_counted_faults_keep_no_objects_of_their_frames():
    kept, limit = [], FaultLimit(FaultPolicy(max_per_hour=3))
    for several in (False, True, False):
        limit.count(fault(kept, several), 1)
    gc.collect()
    assert [ref() for ref in kept] == [None] * 6
    with pytest.raises(RuntimeError, match="the environment") as raised:
        limit.count(fault(kept), 1)
    assert raised.traceback[-1].name == "fault"  # where it came from is still known
    assert "The first of 4 faults" in raised.value.__notes__[0]
