"""Behavior of an actor, independent of Ray."""

from rlpyt.processes.child import Child
from rlpyt.processes.ray import RayChild, WithArrays
from rlpyt.processes.status import ACTIVITY, IDLE, WorkerStatus
from rlpyt.utils.serialize import dumps, loads


class Counter(Child):
    """Counts calls from its payload on."""

    def start(self):
        self.n = self.spec.payload.value
        self.spec.progress[ACTIVITY] = IDLE

    def count(self, step, more=0):
        self.n += step + more
        return self.n

    def arrays(self):
        return WithArrays("both", (1, 2))

    def life(self):
        return self.spec.rank, self.spec.life

    def fail(self):
        raise ArithmeticError("told to fail")

    def where(self):
        return WorkerStatus(IDLE, text="while counting")

    def close(self):
        self.n = None


def actor(payload=10):
    return RayChild(dumps((4, Counter, payload, None, "highest")))


def run(child, number, method, *arguments, objects=()):
    return child.run(number, method, dumps(arguments), *objects)


def test_nothing_runs_before_the_start():
    child = actor()
    assert run(child, 1, "count", 1).kind == "fresh"
    assert run(child, 2, "start", 3).kind == "ok"
    assert loads(run(child, 3, "life").result) == (4, 3)
    assert child.read_progress()[ACTIVITY] == IDLE


def test_a_command_that_is_repeated_is_not_run_again():
    child = actor()
    run(child, 1, "start", 0)
    replies = [run(child, 2, "count", 1), run(child, 2, "count", 1), run(child, 3, "count", 1)]
    assert [loads(reply.result) for reply in replies] == [11, 11, 12]


def test_objects_of_the_store_are_further_arguments():
    child = actor()
    run(child, 1, "start", 0)
    assert loads(run(child, 2, "count", 1, objects=(100,)).result) == 111


def test_arrays_travel_beside_the_result():
    child = actor()
    run(child, 1, "start", 0)
    reply = run(child, 2, "arrays")
    assert loads(reply.result) == "both" and reply.arrays == (1, 2)


def test_an_exception_is_told_with_status_and_traceback():
    child = actor()
    run(child, 1, "start", 0)
    reply = run(child, 2, "fail")
    summary, traceback, status = loads(reply.result)
    assert reply.kind == "error" and summary == "ArithmeticError: told to fail"
    assert "in fail" in traceback and str(status) == "while counting"
    assert reply.progress[ACTIVITY] == IDLE and reply.pid > 0
    failed = actor(payload=None)
    assert run(failed, 1, "start", 0).kind == "ok"
    assert run(failed, 2, "count", 1).kind == "error"
    failed.close()
    assert run(failed, 3, "count", 1).kind == "fresh"
