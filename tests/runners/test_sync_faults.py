"""A failing rank ends all of them, soon, with an error that names it, and leaves nothing behind."""

import os
import signal
import socket
import time

import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.errors import NonFiniteError, RankError, RankTimeout, WorkerError
from rlpyt.runners.hooks import Hook
from rlpyt.runners.sync_rl import SyncWorker
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from tests.faulty import FaultyEnv
from tests.runners.sync_parts import HangingAdam, HangingLoss, SyncRl, failing, sync_runner

pytestmark = pytest.mark.usefixtures("nothing_left")
SOON_S = 15.0  # on a machine with other things to do; a few seconds on an idle one


@pytest.fixture(scope="module")
def warmed_up():
    """Train once: multiprocessing and the store open files that stay open."""
    sync_runner(n_itr=1).train()


def run_into(error, match, **kwargs):
    """Train until the error comes; returns it."""
    runner = sync_runner(**{"start_timeout_s": 60.0, **kwargs})
    with pytest.raises(error, match=match) as caught:
        runner.train()
    return caught.value


@pytest.mark.parametrize(
    "fault,match",
    [
        ("raise", r"failed with ZeroDivisionError: told to fail, in iteration 3\. All ranks are"),
        ("kill", r"was killed by SIGKILL \(out of memory\?\), last seen"),
        pytest.param("exit", r"exited with code 3, last seen", marks=pytest.mark.slow),
        ("nan", r"failed with NonFiniteError: FailingA2C, iteration 3, .*the loss is nan"),
    ],
)
def test_another_rank_that_fails_is_named_with_its_cause(fault, match):
    started = time.monotonic()
    error = run_into(RankError, rf"rank 1 of 2 \(pid \d+ on .*\) {match}", algo=failing(fault, 1))
    assert time.monotonic() - started < SOON_S
    assert error.rank == 1 and error.pid > 0
    assert ("sync_parts.py" in error.traceback) == (fault in ("raise", "nan"))
    assert error.traceback in str(error)


@pytest.mark.parametrize(
    "fault,kind,match",
    [
        ("raise", ZeroDivisionError, "told to fail"),
        ("nan", NonFiniteError, "iteration 3, .*the loss is nan"),
    ],
)
def test_rank_0_that_fails_keeps_its_error_and_ends_the_others(fault, kind, match):
    error = run_into(kind, match, algo=failing(fault, 0))
    assert "(in rank 0 of 2)" in error.__notes__


@pytest.mark.parametrize("fault,where", [("hang", "fail in"), ("stop", "")])
def test_a_rank_that_hangs_is_named(fault, where):
    started = time.monotonic()
    error = run_into(
        RankTimeout,
        r"rank 1 of 2 .* 2 s \(rank_timeout_s\)",
        algo=failing(fault, 1),
        rank_timeout_s=2.0,
    )
    assert time.monotonic() - started < SOON_S + 2
    assert error.rank == 1 and where in str(error)
    if fault == "hang":
        assert "sync_parts.py" in error.stacks


@pytest.mark.parametrize(
    "make,where",
    [
        (lambda: A2C(OptimCls=HangingAdam), "step in"),
        pytest.param(HangingLoss, "backward in", marks=pytest.mark.slow),
    ],
    ids=["optimizer", "gradient"],
)
def test_a_rank_that_hangs_in_its_own_step_does_not_count_as_waiting(make, where):
    error = run_into(
        RankTimeout,
        rf"rank 1 of 2 .* 2 s .*at fail in .* < {where} .*sync_",
        algo=make(),
        rank_timeout_s=2.0,
    )
    assert error.rank == 1


@pytest.mark.slow
def test_rank_0_that_hangs_is_named():
    error = run_into(
        RankTimeout,
        r"rank 0 of 2 .* 2 s .*at fail in .*sync_parts.py",
        algo=failing("hang", 0),
        rank_timeout_s=2.0,
    )
    assert error.rank == 0


@pytest.mark.slow
def test_a_fault_deep_in_another_ranks_worker_is_told(tmp_path):
    env = dict(fault="raise", at=40, victim=5, tally=str(tmp_path / "tally"))
    error = run_into(
        (RankError, WorkerError),
        "FaultError: told to fail",
        Sampler=CpuSampler,
        EnvCls=FaultyEnv,
        env_kwargs=env,
        agent=CategoricalMlpAgent(),
        n_itr=20,
    )
    assert "while stepping environment" in str(error)


@pytest.mark.slow
def test_four_ranks_end_together():
    error = run_into(RankError, "rank 2 of 4 ", algo=failing("kill", 2), n_ranks=4)
    assert error.rank == 2


@pytest.mark.slow
def test_a_death_is_noticed_while_rank_0_is_busy_elsewhere():
    class Busy(Hook):
        def on_iteration(self, runner, itr):
            if itr == 1:
                os.kill(runner._processes.processes[0].pid, signal.SIGKILL)
                time.sleep(100)

    started = time.monotonic()
    run_into(RankError, "rank 1 of 2 .*SIGKILL", hooks=[Busy()])
    assert time.monotonic() - started < SOON_S


def test_a_rank_that_fails_before_it_meets_the_others_is_named_with_its_traceback():
    class Lost(SyncWorker):
        def open_store(self):
            raise PermissionError("no way in")

    class Run(SyncRl):
        WorkerCls = Lost

    expected = "rank 1 of 2 .*PermissionError: no way in, .*before the first"
    error = run_into(RankError, expected, Runner=Run)
    assert error.rank == 1 and "in open_store" in error.traceback


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run_into(RuntimeError, rf"port {port}: .*port=None", port=port)


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named():
    class Late(SyncRl):
        def launch_workers(self):
            super().launch_workers()
            os.kill(self._processes.processes[0].pid, signal.SIGSTOP)

    error = run_into(
        RankTimeout,
        r"rank 1 of 2 .* 3 s \(start_timeout_s\); 1 of 2 ranks "
        ".*rank 1, .*start_timeout_s",
        Runner=Late,
        start_timeout_s=3.0,
    )
    assert error.rank == 1
