"""The tracer of ``benchmarks.data_path`` counts what is entered between two marks."""

import re
from pathlib import Path

import rlpyt
from benchmarks.data_path import (
    BLOCK,
    ENV_STEP,
    OPTIMIZER_STEP,
    PAGE,
    Call,
    Trace,
    Tracer,
    listing,
    row,
)
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


def test_the_written_way_names_functions_that_exist():
    package = Path(rlpyt.__file__).parent
    (way,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    entries = [line.split() for line in way.splitlines() if "/" in line]
    assert len(entries) > 80
    for name, file in entries:
        text = (package / file).read_text(encoding="utf-8")
        missing = [x for x in name.split(".") if not re.search(rf"\b(def|class) {x}\b", text)]
        assert not missing, (name, file)
