import multiprocessing as mp
import os
import queue
import socket
import threading
import time

import pytest

from rlpyt.utils.synchronize import FIRST_PORT, LAST_PORT, RWLock, drain_queue, find_port


def test_readers_share_and_a_writer_is_alone():
    lock = RWLock()
    with lock, lock.held(writing=False):
        assert not lock.acquire_write(timeout=0.02)
    assert lock.acquire_write(timeout=0.02)
    assert not lock.acquire_read(timeout=0.02)
    assert not lock.acquire_write(timeout=0.02)
    lock.release_write()
    with lock.write_lock:
        assert not lock.acquire_read(timeout=0.02)
    assert lock.acquire_read(timeout=0.02)
    lock.release_read()


def test_the_writer_waits_for_the_last_reader():
    lock = RWLock()
    lock.acquire_read()
    lock.acquire_read()
    lock.release_read()
    assert not lock.acquire_write(timeout=0.02)
    lock.release_read()
    assert lock.acquire_write(timeout=0.02)


def test_a_waiting_writer_is_not_overtaken_by_new_readers():
    lock = RWLock()
    lock.acquire_read()
    wrote = threading.Event()

    def write():
        with lock.write_lock:
            wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 5
    while lock.acquire_read(timeout=0.01):  # until the writer waits at the turnstile
        lock.release_read()
        assert time.monotonic() < deadline
    assert not wrote.is_set()
    lock.release_read()
    writer.join(5)
    assert wrote.is_set()
    assert lock.acquire_read(timeout=1)


def test_errors_inside_release_the_lock():
    lock = RWLock()
    for context in (lock, lock.held(writing=False), lock.write_lock):
        with pytest.raises(KeyError), context:
            raise KeyError
        assert lock.acquire_write(timeout=0.1)
        lock.release_write()


def add_pairwise(lock, cell, n):
    for _ in range(n):
        with lock.write_lock:
            cell[0] += 1
            cell[1] += 1
        with lock.held(writing=False):
            assert cell[0] == cell[1]


@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_lock_is_shared_with_child_processes(method):
    context = mp.get_context(method)
    lock, cell = RWLock(), context.RawArray("q", 2)
    children = [context.Process(target=add_pairwise, args=(lock, cell, 200)) for _ in range(2)]
    for child in children:
        child.start()
    add_pairwise(lock, cell, 200)
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0, 0]
    assert list(cell) == [600, 600]


def die_holding(lock, what):
    if what == "counter":
        lock._counting.acquire()
    elif what == "read":
        lock.acquire_read()
    else:
        lock.acquire_write()
    os._exit(1)


@pytest.mark.parametrize("what", ["counter", "read", "write"])
def test_a_lock_whose_holder_is_dead_can_be_waited_for_with_a_limit_and_opened(what):
    context = mp.get_context("forkserver")
    lock = RWLock()
    child = context.Process(target=die_holding, args=(lock, what))
    child.start()
    child.join(30)
    if what != "read":
        assert not lock.acquire_read(timeout=0.02)
    if what == "counter":
        assert not lock.release_read(timeout=0.02)
    else:
        assert not lock.acquire_write(timeout=0.02)
    lock.abort_waiters()
    assert lock.aborted
    assert lock.recover_after_crash() is (what == "write")
    assert not lock.aborted
    for _ in range(2):
        assert lock.acquire_write(timeout=0.02)
        assert not lock.acquire_read(timeout=0.02)
        lock.release_write()
        assert lock.acquire_read(timeout=0.02) and lock.acquire_read(timeout=0.02)
        assert lock.release_read() and not lock.acquire_write(timeout=0.02)
        assert lock.release_read()


def filled(*objects):
    full = queue.Queue()
    for obj in objects:
        full.put(obj)
    return full


def test_drain_returns_the_present_content():
    assert drain_queue(filled(1, None, 2)) == [1, None, 2]
    assert drain_queue(filled()) == []


def test_drain_waits_for_sentinels_and_leaves_the_rest():
    full = filled(1, None, 2, None, 3)
    assert drain_queue(full, n_sentinel=2) == [1, 2]
    assert full.get(block=False) == 3


def test_guarded_drain_puts_the_sentinel_back():
    full = filled(1, 2, None)
    assert drain_queue(full, guard_sentinel=True) == [1, 2]
    assert drain_queue(full, n_sentinel=1, timeout=1) == []
    assert full.empty()


def test_drain_times_out_without_a_sentinel():
    with pytest.raises(TimeoutError, match="1 of 2 sentinels"):
        drain_queue(filled(1, None), n_sentinel=2, timeout=0.02)


def test_drain_waits_for_another_process():
    context = mp.get_context("forkserver")
    pipe = context.Queue()
    child = context.Process(target=put_slowly, args=(pipe,))
    child.start()
    assert drain_queue(pipe, n_sentinel=1, timeout=30) == [0, 1, 2]
    child.join(30)


def put_slowly(pipe):
    for obj in (0, 1, 2, None):
        time.sleep(0.02)
        pipe.put(obj)


@pytest.mark.parametrize("kwargs", [{"n_sentinel": -1}, {"n_sentinel": 1, "guard_sentinel": True}])
def test_contradictory_drains_are_refused(kwargs):
    with pytest.raises(ValueError, match="n_sentinel .*guard_sentinel"):
        drain_queue(filled(None), **kwargs)


@pytest.mark.parametrize("offset", [0, 7, 250, 10**6, -3])
def test_found_port_can_be_bound_and_is_left_out_while_taken(offset):
    port = find_port(offset)
    assert FIRST_PORT <= port <= LAST_PORT
    with socket.socket() as taken:
        taken.bind(("", port))
        taken.listen()
        assert find_port(offset) != port


def test_neighbouring_offsets_look_in_different_places():
    assert len({find_port(offset) for offset in range(20)}) == 20
