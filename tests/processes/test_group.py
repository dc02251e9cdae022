"""Groups of children: results by child, one named error for any failure, nothing left behind."""

import json
import multiprocessing as mp
import os
import pickle
import signal
import subprocess
import sys
import time

import psutil
import pytest

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.processes.call import run_in_child
from rlpyt.processes.child import Abandoned, Child, ChildSpec, Reply, failure_reply
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import ACTIVITY, IDLE, ITR, WorkerStatus, fresh_progress
from rlpyt.utils.serialize import ByValue, dumps

pytestmark = pytest.mark.usefixtures("nothing_left")


class Helper(Child):
    """Does what the tests ask for; ``payload`` is a tuple of words."""

    def start(self):
        if "no licence" in self.spec.payload.value:
            raise PermissionError("no licence")
        self.spec.progress[[ITR, ACTIVITY]] = 7, IDLE

    def add(self, number):
        return self.spec.rank + number

    def fail(self, rank):
        if self.spec.rank == rank:
            raise ArithmeticError("told to fail")

    def kill(self, rank):
        if self.spec.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    def hang(self, rank):
        time.sleep(60 if self.spec.rank == rank else 0)

    def start_process(self, method):
        process = mp.get_context(method).Process(target=time.sleep, args=(1000,))
        process.start()
        return process.pid

    def start_child(self):
        return run_in_child(os.getppid) != os.getpid()  # started by this child's fork server

    def abandon(self):
        raise Abandoned

    def fail_below(self):
        raise WorkerError("worker 3 was lost", worker=3, pid=1)


def described(spec):
    return WorkerStatus(int(spec.progress[ACTIVITY]), int(spec.progress[ITR]), text="while helping")


def group_of(*payloads, method=None, start=ChildGroup, **kwargs):
    specs = [ChildSpec(i, Helper, ByValue(payload)) for i, payload in enumerate(payloads)]
    return start("helper", specs, described, transport=Pipes(method), **kwargs)


def pids_of(group):
    return [process.pid for process in group.processes]


def check_gone(pids):
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


METHODS = ["forkserver", "fork", pytest.param("spawn", marks=pytest.mark.slow)]


@pytest.mark.parametrize("method", METHODS)
def test_results_come_by_child(method):
    group = group_of((), (), method=method)
    pids = pids_of(group)
    assert group.call("add", 10) == [10, 11]
    assert group.call_each("add", [(5,), (20,)]) == [5, 21]
    group.begin("add", 0)  # its answers are not taken for those of the next command
    assert group.call("add", 30) == [30, 31]
    group.shutdown()
    group.shutdown()
    check_gone(pids)
    with pytest.raises(WorkerError, match="helpers are not running: .*shut down"):
        group.call("add", 1)


@pytest.mark.parametrize("Error", [pickle.PicklingError, ValueError])
def test_an_error_of_pickling_is_told_by_its_class(Error):
    summary, *_ = failure_reply(Error("cannot pickle it: lookup on __main__ failed"), None).result
    assert ("Move them to a module" in summary) == (Error is pickle.PicklingError)


@pytest.mark.parametrize("method", METHODS)
def test_processes_started_by_children_end_with_them(method):
    group = group_of((), method=method)
    pids = [
        pid
        for inner in ("forkserver", "fork", "spawn")
        for pid in group.call("start_process", inner)
    ]
    assert len(set(pids)) == 3
    group.shutdown()
    wait_until_gone(pids)


def test_children_may_start_children():
    group = group_of(())
    assert group.call("start_child") == [True]
    group.shutdown()


STARTS_GRANDCHILDREN = """
import json, sys, time
from tests.processes.test_group import group_of, pids_of

group = group_of((), ())
methods = ("forkserver", "fork", "spawn")
grandchildren = [pid for method in methods for pid in group.call("start_process", method)]
print(json.dumps([*pids_of(group), *grandchildren]), flush=True)
if sys.argv[1] == "exit":
    sys.exit()
time.sleep(1000)
"""


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_no_child_and_no_grandchild_is_left_when_the_parent_ends(end):
    program = [sys.executable, "-c", STARTS_GRANDCHILDREN, end]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as parent:
        try:
            pids = json.loads(parent.stdout.readline())
            assert len(pids) == 8
            if end == "exit":
                assert parent.wait(60) == 0
        finally:
            parent.kill()
    wait_until_gone(pids)


def wait_until_gone(pids, timeout_s=60):
    left, until = pids, time.monotonic() + timeout_s
    while left and time.monotonic() < until:
        left = [pid for pid in left if is_alive(pid)]
        time.sleep(0.02)
    assert not left


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_exception_is_told_in_full():
    group = group_of((), ())
    pids = pids_of(group)
    with pytest.raises(WorkerError) as caught:
        group.call("fail", 1)
    error, said = caught.value, str(caught.value)
    assert said.startswith(f"helper 1 (pid {pids[1]} on ")
    assert "failed with ArithmeticError: told to fail, while helping.\n\nIn the helper:\n" in said
    assert "Traceback" in error.traceback and "in fail" in error.traceback
    assert (error.worker, error.pid, error.itr, error.step) == (1, pids[1], 7, -1)
    assert error.traceback in said
    check_gone(pids)
    with pytest.raises(WorkerError, match="helpers are not running: helper 1 .*told to fail"):
        group.call("add", 1)


def test_a_death_is_noticed_while_another_child_works_on():
    group = group_of((), ())
    started = time.monotonic()
    with pytest.raises(WorkerError, match="^helper 0 .*SIGKILL.*helping"):
        group.call("kill", 0)
    assert time.monotonic() - started < 10


@pytest.mark.filterwarnings("ignore:helper 1 .* has made no progress")
def test_a_standstill_is_ended_after_its_limit():
    group = group_of(
        (), (), limits=Limits(step_s=0.5, step_setting="patience_s"), n_in_other_groups=1
    )
    expected = r"^helper 1 of 3 .* 0.5 s \(patience_s\)"
    with pytest.raises(WorkerTimeout, match=expected) as caught:
        group.call("hang", 1)
    assert "in hang" in caught.value.stacks


def test_a_slow_child_is_warned_of():
    group = group_of((), limits=Limits(step_s=1.0))
    with (
        pytest.warns(UserWarning, match="helper 0 .*helping.* env_timeout=1"),
        pytest.raises(WorkerTimeout),
    ):
        group.call("hang", 0)


def test_an_error_of_a_process_further_down_is_passed_on():
    group = group_of(())
    with pytest.raises(WorkerError, match="^worker 3 was lost") as caught:
        group.call("fail_below")
    assert "It is a worker of helper 0 (pid " in caught.value.__notes__[0]


class Unreadable:
    """Can be sent, and not be rebuilt."""

    def __reduce__(self):
        return open, ("/nowhere/at/all",)


@pytest.mark.parametrize(
    "payload, message",
    [(("no licence",), "PermissionError: no licence"), (Unreadable(), "FileNotFoundError")],
)
def test_a_failure_at_the_start_ends_all(payload, message):
    ended = []
    with pytest.raises(WorkerError, match=f"^helper 1 .*{message}") as caught:
        group_of((), payload, release=lambda: ended.append(1), cleanup=lambda: ended.append(2))
    assert "Traceback" in caught.value.traceback
    assert ended == [1, 2]


def test_children_are_released_before_they_are_stopped_and_cleaned_up_after():
    seen = []
    group = group_of((), cleanup=lambda: seen.append(len(group.processes)))
    group._release = lambda: seen.append(len(group.processes))
    pids = pids_of(group)
    group.shutdown()
    assert seen == [1, 0]
    check_gone(pids)


def test_whoever_waits_can_give_up():
    class GiveUp(Exception):
        pass

    given_up = []

    def poll():
        if given_up:
            raise GiveUp

    group = group_of((), poll=poll)
    pids = pids_of(group)
    given_up.append(True)
    with pytest.raises(GiveUp):
        group.call("hang", 0)
    check_gone(pids)


def test_children_that_nobody_waits_for_are_named_when_they_end():
    group = group_of((), ("no licence",), (), wait=False)
    group.begin("fail", 0)
    deadline = time.monotonic() + 30
    while len(group.ended()) < 2 or group._specs[2].progress[ACTIVITY] != IDLE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert group.stacks_of(5) == ""
    while "in command_loop" not in group.stacks_of(2):  # a busy machine takes longer than is waited
        assert time.monotonic() < deadline
    ends = {rank: (how, traceback) for rank, how, traceback in group.ended()}
    assert ends[0][0] == "failed with ArithmeticError: told to fail" and "in fail" in ends[0][1]
    assert ends[1][0] == "failed with PermissionError: no licence"
    group.kill()
    group.shutdown()
    assert sorted(group.ended())[:2] == [(0, *ends[0]), (1, *ends[1])]


def test_a_child_that_was_abandoned_exits_without_an_answer():
    group = group_of(())
    with pytest.raises(WorkerError, match="exited with code 0"):
        group.call("abandon")


class Nowhere:
    """A transport whose children never run."""

    def __init__(self):
        self.processes = []

    def start(self, specs, names, longest_s):
        assert names == ["helper 0 of 1"]
        self.processes = [type("Process", (), {"pid": -1})]

    def receive(self, children, timeout_s):
        time.sleep(0.01)
        return []

    def refresh_progress(self, child):
        pass

    def not_running_reason(self, child):
        return "the cluster is full"

    def identity(self, child):
        return "an actor"

    def stop(self, patience_s):
        self.processes = []


@pytest.mark.filterwarnings("ignore:helper 0 .* has made no progress")
def test_a_child_that_is_never_started_is_no_child_that_hangs():
    spec = ChildSpec(0, Helper, ByValue(()), progress=fresh_progress())
    limits = Limits(start_s=0.1)
    expected = r"^helper 0 \(an actor\) .* 0.1 s \(start_timeout_s\); .*cluster"
    with pytest.raises(WorkerTimeout, match=expected):
        ChildGroup("helper", [spec], limits=limits, transport=Nowhere())


def test_replies_of_a_transport_are_results():
    class Here(Nowhere):
        def receive(self, children, timeout_s):
            return [(child, Reply("ok", dumps(5))) for child in children]

        def send(self, child, method, arguments):
            assert (method, arguments) == ("add", (1,))

    group = ChildGroup("helper", [ChildSpec(0, Helper, ByValue(()))], transport=Here())
    assert group.call("add", 1) == [5]
    group.shutdown()


INTERRUPTED = """
import time
from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup
from rlpyt.processes.pipe import Pipes
from rlpyt.utils import processes
from rlpyt.utils.serialize import ByValue

class Stays(Child):
    def close(self):
        time.sleep(1000)

stop = processes.stop

def interrupted(*args):
    processes.stop = stop
    raise KeyboardInterrupt

group = ChildGroup("child", [ChildSpec(0, Stays, ByValue(None))], transport=Pipes("fork"))
print(group.processes[0].pid, flush=True)
processes.stop = interrupted
group.shutdown()
"""


def test_children_are_stopped_at_exit_if_their_shutdown_was_interrupted():
    """multiprocessing waits at exit for children that are not daemonic."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60, check=False
    )
    assert b"KeyboardInterrupt" in done.stderr
    assert not psutil.pid_exists(int(done.stdout))
