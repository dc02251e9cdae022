"""The tracer of ``benchmarks.data_path`` counts what is entered between two marks."""

from benchmarks.data_path import ENV_STEP, OPTIMIZER_STEP, Call, Trace, Tracer, listing, row
from rlpyt.utils import text

MARKED = [
    Call(2, "", ENV_STEP),
    Call(1, "samplers/a.py", "act"),
    Call(2, "agents/b.py", "choose"),
    Call(2, "", ENV_STEP),
    Call(1, "samplers/a.py", "act"),
    Call(2, "", ENV_STEP),
    Call(0, "algos/c.py", "update"),
    Call(1, "", OPTIMIZER_STEP),
    Call(0, "algos/c.py", "update"),
    Call(1, "algos/d.py", "loss"),
    Call(1, "", OPTIMIZER_STEP),
]
STACK = [Call(0, "runners/r.py", "train"), Call(1, "envs/e.py", "step")]


def test_figures_count_the_first_way_and_all_calls():
    assert row([Trace(STACK, MARKED)]) == {
        "files": "3",
        "functions": "3",
        "calls a step": "1.5",
        "calls an update": "2.0",
        "calls an iteration": "6",
        "frames": "2 + 1",
    }


def test_a_worker_steps_and_the_main_process_updates():
    worker, main = Trace(STACK, MARKED[:6]), Trace(STACK[:1], MARKED[6:])
    figures = row([main, worker])
    assert figures["files"] == "3" and figures["frames"] == "2 + 1"
    assert (figures["calls a step"], figures["calls an update"]) == ("1.5", "2.0")


def test_the_way_lists_every_function_once_indented_by_depth():
    assert listing([Trace(STACK, MARKED)]).splitlines() == [
        "train  runners/r.py",
        "  step  envs/e.py",
        "    env.step",
        "  act  samplers/a.py",
        "    choose  agents/b.py",
        "update  algos/c.py",
        "  optimizer.step",
    ]


def test_functions_of_other_packages_are_not_recorded():
    tracer = Tracer("rlpyt")
    tracer.mark("before")  # not recorded
    tracer.start()
    tracer.mark("a")
    text.counted(2, "run")
    tracer.mark("b")
    text.duration(61)
    trace = tracer.stop()
    assert trace.stack == []
    outermost = [call.function for call in trace.calls if call.depth == 0]
    assert outermost == ["a", "counted", "b", "duration"]
    assert {call.file for call in trace.calls} == {"", "utils/text.py"}
