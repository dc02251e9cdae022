"""However a program ends, its workers end with it; Ctrl-C in training saves a checkpoint first."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

BOUND_S = 10.0
pytestmark = pytest.mark.timeout(300)  # programs start slowly where cores are shared
SAMPLERS = ["CpuSampler", "GpuSampler", "AlternatingSampler", "NoOverlapAlternatingSampler"]
METHODS = ["forkserver", "spawn", "fork"]
WHILE = {
    "waiting": dict(fault="none", where="step", at=1, collect=False),
    "collecting": dict(fault="none", where="step", at=1, collect=True),
    "in a long step": dict(fault="hang", where="step", at=7, collect=True),
    "in foreign code": dict(fault="freeze", where="step", at=7, collect=True),
    "stopped": dict(fault="stop", where="step", at=7, collect=True),
    "beside a session": dict(fault="session", where="reset", at=1, collect=True),
    "starting": dict(fault="hang", where="init", at=1, collect=False),
}


@contextmanager
def nursery(directory, programs):
    """Run programs of ``nursery.py`` side by side; gives (their processes by name, their ends)."""
    command = [sys.executable, "-W", "ignore", Path(__file__).with_name("nursery.py")]
    process = subprocess.Popen(
        [*command, directory, json.dumps(programs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started = {}
    ends = {}
    try:
        while len(started) < len(programs):
            name, pid = process.stdout.readline().split()
            started[name] = psutil.Process(int(pid))

        def end_of(name):
            while name not in ends:
                ended, _, code = process.stdout.readline().split()
                ends[ended] = int(code)
            return ends[name]

        yield started, end_of
    finally:
        for program in started.values():
            if program.is_running():
                program.kill()
        process.communicate()


def until(condition):
    deadline = time.monotonic() + 110
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def said(directory, name, ending="out"):
    path = directory / f"{name}.{ending}"
    return path.read_text() if path.exists() else ""


def assert_all_end(family):
    _, alive = psutil.wait_procs(family, timeout=BOUND_S)
    assert [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []


def held(tmp_path, cases):
    return [
        dict(
            name=str(i),
            kind="hold",
            SamplerCls=SamplerCls,
            method=method,
            tally=str(tmp_path / f"tally-{i}"),
            **WHILE[moment],
        )
        for i, (SamplerCls, method, moment) in enumerate(cases)
    ]


CASES = [
    ("CpuSampler", "fork", "waiting"),
    ("GpuSampler", "forkserver", "in foreign code"),
    ("CpuSampler", "forkserver", "beside a session"),
    ("AlternatingSampler", "fork", "in a long step"),
    ("NoOverlapAlternatingSampler", "fork", "collecting"),
    ("GpuSampler", "fork", "stopped"),
    ("CpuSampler", "forkserver", "starting"),
]
EVERY_CASE = [
    (s, method, moment)
    for s in SAMPLERS
    for method in METHODS
    for moment in WHILE
    if method == "forkserver" or moment != "beside a session"  # others have nobody to look after it
]


@pytest.mark.parametrize(
    "cases", [CASES[:3], *(pytest.param([case], marks=pytest.mark.slow) for case in EVERY_CASE)]
)
def test_workers_end_with_a_parent_that_is_killed(cases, tmp_path):
    with nursery(tmp_path, held(tmp_path, cases)) as (programs, _):
        for i, (_, _, moment) in enumerate(cases):
            until(lambda name=str(i): "ready" in said(tmp_path, name))
            if moment == "starting":  # the environment tried out, and one that hangs
                tally = tmp_path / f"tally-{i}"
                until(lambda tally=tally: tally.exists() and tally.stat().st_size > 1)
            time.sleep(random.uniform(0.1, 0.4))
            family = programs[str(i)].children(recursive=True)
            assert len(family) >= 2
            if moment == "beside a session":
                assert [p for p in family if p.cmdline()[:1] == ["sleep"]]
            programs[str(i)].kill()
            assert_all_end(family)
            assert "Traceback" not in said(tmp_path, str(i), "err")


def check_stop(code, out, err, run):
    assert code == 130, err
    (line,) = [line for line in out.splitlines() if "Stopped by signal" in line]
    assert "Traceback" not in err and "leaked" not in err
    if "before the first iteration" not in line:
        assert "checkpoint saved in" in line
        assert any((run / "checkpoint").iterdir())


TRAININGS = [
    ("CpuSampler", "forkserver"),
    ("GpuSampler", "fork"),
    ("AlternatingSampler", "fork"),
    ("NoOverlapAlternatingSampler", "fork"),
]
EVERY_TRAINING = [(s, method) for s in SAMPLERS for method in METHODS] * 3


@pytest.mark.parametrize(
    "cases", [TRAININGS[:1], *(pytest.param([c], marks=pytest.mark.slow) for c in EVERY_TRAINING)]
)
def test_ctrl_c_in_training_saves_a_checkpoint_and_says_one_line(cases, tmp_path):
    settings = [
        dict(name=s, kind="train", SamplerCls=s, method=method, run=str(tmp_path / f"run-{s}"))
        for s, method in cases
    ]
    with nursery(tmp_path, settings) as (programs, end_of):
        for name, program in programs.items():
            until(lambda name=name: "ready" in said(tmp_path, name))
            time.sleep(random.uniform(0, 1))
            family = program.children(recursive=True)
            os.killpg(program.pid, signal.SIGINT)  # as a terminal does: workers get it too
            code = end_of(name)
            out, err = said(tmp_path, name), said(tmp_path, name, "err")
            check_stop(code, out, err, tmp_path / f"run-{name}")
            assert_all_end(family)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(10))
@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_while_starting_says_one_line(method, repetition, tmp_path):
    own = dict(SamplerCls="GpuSampler", method=method, run=str(tmp_path / "run"))
    with nursery(tmp_path, [dict(name="one", kind="train", **own)]) as (programs, end_of):
        until(lambda: said(tmp_path, "one"))  # the run's first line
        time.sleep(random.uniform(0, {"fork": 0.3, "forkserver": 4.0, "spawn": 8.0}[method]))
        family = programs["one"].children(recursive=True)
        os.killpg(programs["one"].pid, signal.SIGINT)
        code = end_of("one")
        check_stop(code, said(tmp_path, "one"), said(tmp_path, "one", "err"), tmp_path / "run")
        assert_all_end(family)
