"""The same runner under torchrun, or told by its environment variables where it is."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
import torch.distributed as dist

from rlpyt.errors import RankError
from rlpyt.runners.distributed import _handshake
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.utils import torchrun
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.synchronize import find_port
from tests.programs import Program
from tests.runners.sync_parts import same, sync_runner

SCRIPT = """
import os, sys
from tests.runners.sync_parts import *
from pathlib import Path
from rlpyt.utils.logging.context import run_context
rank = int(os.environ["RANK"])
with run_context(Path({run!r}), 0, "torchrun", snapshot_mode="last"):
    {train}
"""


def script(tmp_path, train="sync_runner().train()"):
    """A user's script, which every rank runs."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(run=str(tmp_path / "run"), train=train))
    return path


def start_ranks(path, port, n=2, secrets=None):
    """Start a script in n ranks without torchrun's agent; returns the processes."""
    own = dict(WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    return [
        Program(
            path,
            environ={
                **own,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "RLPYT_SECRET": secrets[rank] if secrets else "",
            },
        )
        for rank in range(n)
    ]


def ends_of(processes, timeout_s=60):
    """(exit code, output, errors) of each."""
    try:
        ends = [p.wait(timeout_s) for p in processes]
    finally:
        for p in processes:
            p.kill()
    return [(done.returncode, done.stdout, done.stderr) for done in ends]


def test_places_come_from_the_environment(monkeypatch):
    assert torchrun.place() is None and torchrun.is_first()
    for name, value in dict(RANK=1, WORLD_SIZE=4, MASTER_ADDR="h", MASTER_PORT=1).items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert torchrun.place() == torchrun.RankInfo(1, 4, 1, 4, 0, "")
    assert not torchrun.is_first()
    monkeypatch.setenv("RANK", "4")
    with pytest.raises(ValueError, match="RANK=4 .*WORLD_SIZE=4"):
        torchrun.place()
    for value in ("first", "-1", "\N{SUPERSCRIPT TWO}", "9" * 5000):
        monkeypatch.setenv("RANK", value)
        with pytest.raises(ValueError, match=f"RANK='{value}' must be a whole number"):
            torchrun.place()
    monkeypatch.setenv("MASTER_PORT", "abc")
    with pytest.raises(ValueError, match="MASTER_PORT='abc'"):
        torchrun.place()


@pytest.mark.parametrize("given", [["WORLD_SIZE"], ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]])
def test_a_rank_that_is_not_said_is_asked_for(given, monkeypatch):
    for name in given:
        monkeypatch.setenv(name, "2")
    with pytest.raises(ValueError, match="RANK.* set, .*WORLD_SIZE='2'"):
        torchrun.place()


def test_a_meeting_point_alone_is_nobody_of_several(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert torchrun.place() is None


def test_ranks_that_others_started_train_like_one_process(tmp_path):
    ends = ends_of(start_ranks(script(tmp_path), find_port(os.getpid())))
    assert [code for code, _, _ in ends] == [0, 0], ends
    one = sync_runner(MinibatchRl)
    one.train()
    saved = torch.load(tmp_path / "run" / "params.pkl")["agent_state_dict"]
    assert same(one.agent.state_dict(), saved, atol=1e-5)
    assert len([*(tmp_path / "run" / "checkpoint").iterdir()]) == 1


def test_ranks_that_share_a_secret_meet(tmp_path):
    train = "sync_runner(n_itr=1).train()"
    path, port = script(tmp_path, train), find_port(os.getpid())
    ends = ends_of(start_ranks(path, port, secrets=["correct horse"] * 2))
    assert [code for code, _, _ in ends] == [0, 0], ends


@pytest.mark.parametrize("other", ["battery staple", ""])
def test_a_rank_without_the_secret_takes_no_part(other, tmp_path):
    path, port = script(tmp_path), find_port(os.getpid())
    for code, _, err in ends_of(start_ranks(path, port, secrets=["correct horse", other])):
        assert code == 1
        assert (
            "RankError: rank 1 must have the RLPYT_SECRET of rank 0, got another value. Set the"
            in err
        )


def test_a_recorded_confirmation_does_not_pass_for_the_secret():
    """A process that has seen the notes of an earlier attempt cannot confirm the next one."""
    recorded = dist.HashStore()

    def greet(store, rank):
        return _handshake(store, rank, 2, 30, b"secret")

    with ThreadPoolExecutor(2) as pool:
        prefixes = [*pool.map(partial(greet, recorded), range(2))]
        assert prefixes[0] == prefixes[1]
        hello = recorded.get("hello/1").decode()
        attempt = recorded.get(f"answer/{hello}").split()[0].decode()
        confirmation = recorded.get(f"confirmed/{attempt}/1")
        again = dist.HashStore()
        again.set("hello/1", "mallory")
        first = pool.submit(greet, again, 0)
        again.wait(["answer/mallory"])
        name = again.get("answer/mallory").split()[0].decode()
        again.set(f"confirmed/{name}/1", confirmation)
        with pytest.raises(RankError, match="rank 1 .*RLPYT_SECRET"):
            first.result(30)
    assert attempt not in prefixes[0]  # which cannot be told without the secret


@pytest.mark.parametrize(
    "different,told",
    [
        ("algo=A2C(learning_rate=0.001 * (1 + rank))", "algo.learning_rate=0.002 (rank 0: 0.001)"),
        pytest.param("n_ranks=2 ** rank * 2", "batch_B=1 (rank 0: 2)", marks=pytest.mark.slow),
        pytest.param("seed=rank", "seed=1 (rank 0: 0)", marks=pytest.mark.slow),
    ],
)
def test_ranks_that_differ_all_say_so(different, told, tmp_path):
    train = f"r = sync_runner({different}, affinity=[CPU] * 2); r.train()"
    ends = ends_of(start_ranks(script(tmp_path, train), find_port(os.getpid())))
    for code, _, err in ends:
        assert code == 1
        assert (
            "ValueError: rank 1 must have the settings of rank 0, except affinity, got " in err
            and told in err
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault,told",
    [
        pytest.param("raise", "ZeroDivisionError", marks=pytest.mark.slow),
        ("kill", "it sends no heartbeats"),
    ],
)
def test_the_rank_that_failed_is_named_by_the_others(fault, told, tmp_path):
    train = f"sync_runner(algo=failing({fault!r}, 1)).train()"
    ends = ends_of(start_ranks(script(tmp_path, train), find_port(os.getpid())))
    code, _, err = ends[0]
    assert code == 1 and "RankError: rank 1 of 2 (pid " in err and told in err, err


@pytest.mark.slow
def test_a_port_of_another_program_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first, second = start_ranks(script(tmp_path), port)
        code, _, err = ends_of([first])[0]
        second.kill()
    assert code == 1 and f"ranks cannot connect at 127.0.0.1:{port}" in err


def agent_of_host(path, node_rank, port, said, nnodes="2"):
    """One host's torchrun; both are on this one."""
    with open(said, "w") as file:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={nnodes}"),
                *("--nproc-per-node=1", f"--node-rank={node_rank}", "--rdzv-backend=c10d"),
                *(f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=a-job", "--max-restarts=3"),
                f"--rdzv-conf=is_host={int(node_rank == 0)}",
                *("--local-addr=127.0.0.1", str(path)),
            ],
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def wait_for_two_checkpoints(tmp_path):
    """Return the directory of the run's checkpoints when it has two."""
    checkpoints = tmp_path / "run" / "checkpoint"
    deadline = time.monotonic() + 100
    while len([*checkpoints.glob("checkpoint-*")]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return checkpoints


@pytest.mark.slow
@pytest.mark.parametrize("whole_host", [False, True])
def test_two_hosts_of_which_one_loses_its_rank_or_all_go_on(whole_host, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # see docs/multi_process.md
    train = (
        "every = dict(checkpoint_interval_steps=50 * T * B, log_interval_steps=100 * T * B)\n"
        "    runner = sync_runner(n_itr=1500, **every)\n"
        f"    (Path({str(tmp_path)!r}) / f'pid-{{rank}}').write_text(str(os.getpid()))\n"
        "    runner.train()"
    )
    path, port = script(tmp_path, train), find_port(os.getpid())
    said = [tmp_path / f"host-{node}.txt" for node in range(2)]
    agents = [agent_of_host(path, node, port, said[node]) for node in range(2)]
    try:
        checkpoints = wait_for_two_checkpoints(tmp_path)
        if whole_host:
            agents[1].kill()
            agents[1].wait(10)
        os.kill(int((tmp_path / "pid-1").read_text()), signal.SIGKILL)
        if whole_host:
            agents[1] = agent_of_host(path, 1, port, tmp_path / "host-1-again.txt")
        codes = [agent.wait(150) for agent in agents]
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait(60)
    assert codes == [0, 0], said[0].read_text()[-3000:]
    told = (tmp_path / "run" / "debug.log").read_text()
    assert "Resumed from " in told
    assert load_checkpoint(checkpoints).state["itr"] == 1499
    rows = (tmp_path / "run" / "progress.csv").read_text().splitlines()
    assert len(rows) == 1 + 15


@pytest.mark.slow
def test_of_two_hosts_the_one_that_is_left_goes_on_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    train = (
        "every = dict(checkpoint_interval_steps=50 * T * B, log_interval_steps=100 * T * B)\n"
        "    n = int(os.environ['WORLD_SIZE'])\n"
        "    runner = sync_runner(n_itr=1500, n_ranks=n, **every)\n"
        "    runner.sampler.batch_spec = BatchSpec(T, B // 2)\n"
        f"    (Path({str(tmp_path)!r}) / f'pid-{{rank}}').write_text(str(os.getpid()))\n"
        "    runner.train()"
    )
    path, port = script(tmp_path, train), find_port(os.getpid())
    path.write_text("from rlpyt.envs.base import BatchSpec\n" + path.read_text())
    said = [tmp_path / f"host-{node}.txt" for node in range(2)]
    agents = [agent_of_host(path, node, port, said[node], "1:2") for node in range(2)]
    try:
        checkpoints = wait_for_two_checkpoints(tmp_path)
        agents[1].kill()
        agents[1].wait(10)
        os.kill(int((tmp_path / "pid-1").read_text()), signal.SIGKILL)
        code = agents[0].wait(150)
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait(60)
    assert code == 0, said[0].read_text()[-3000:]
    told = (tmp_path / "run" / "debug.log").read_text()
    assert "the checkpoint is of 2 ranks, this run has 1" in told
    assert load_checkpoint(checkpoints).state["itr"] == 2999
    rows = (tmp_path / "run" / "progress.csv").read_text().splitlines()
    steps = [
        int(row.split(",")[rows[0].split(",").index("Diagnostics/CumSteps")]) for row in rows[1:]
    ]
    assert steps == sorted({*steps}) and steps[-1] == 1500 * 8 * 4
