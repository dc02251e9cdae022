"""Time limits while ranks connect, and counts of their collective operations."""

import errno
import socket

import numpy as np
import pytest
import torch
from torch import distributed as dist

from rlpyt.errors import RankError, RankTimeout
from rlpyt.runners.distributed import Ranks, join_store, serve_store, torchrun_store
from rlpyt.utils.processes import start_context


class NoAgent:
    def end_data_parallel(self):
        pass


@pytest.fixture
def silent_port():
    """Port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def first():
    """Rank 0 of two, of which the other never connects."""
    ranks = Ranks(0, 2)
    ranks.store = dist.HashStore()
    yield ranks
    ranks.leave(NoAgent())


MISSING = r"rank 1 of 2 .* 1 s \(start_timeout_s\)"
REMEDY = "1 of 2 ranks .*rank 1, .*start_timeout_s"


def test_a_rank_that_never_arrives_is_named(first):
    with pytest.raises(RankTimeout, match=f"{MISSING}; {REMEDY}") as caught:
        first.exchange_notes({}, 1.0)
    assert caught.value.rank == 1
    with pytest.raises(RankTimeout, match=rf"{MISSING} \(.*\); {REMEDY}") as caught:
        first.connect("gloo", 1.0)
    assert caught.value.rank == 1


def test_ranks_that_do_not_reach_each_other_are_told_apart_from_missing_ones(first):
    first.store.set("connecting/1", "")
    with pytest.raises(RankTimeout, match="all 2 ranks .* 1 s"):
        first.connect("gloo", 1.0)


def test_a_store_that_does_not_answer_is_named(silent_port, monkeypatch):
    with pytest.raises(RankTimeout, match="rank 0 of 2 .* 1 s .*answer"):
        join_store(silent_port, 2, 1.0)
    place = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=silent_port, RANK=1, WORLD_SIZE=2)
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    message = rf"127.0.0.1:{silent_port} .*answer"
    with pytest.raises(RuntimeError, match=message):
        torchrun_store(1, 2, 1.0)


def exchange(rank, path):
    torch.set_num_threads(1)
    ranks = Ranks(rank, 3)
    ranks.store = dist.FileStore(path, 3)
    ranks.connect("gloo", 60.0)
    before = ranks.n_collectives
    try:
        states = ranks.gather_states({"rank": np.arange(rank)})
        assert [len(state["rank"]) for state in states] == ([] if rank else [1, 2])
        own = ranks.scatter_states([{"rank": np.arange(k)} for k in range(3)] if rank == 0 else [])
        assert len(own["rank"]) == rank
        assert ranks.n_collectives > before
        assert len(set(ranks.all_gather(ranks.n_collectives))) == 1
    finally:
        ranks.leave(NoAgent())


def join(path):
    ranks = Ranks(1, 2)
    ranks.store = dist.FileStore(path, 2)
    ranks.connect("gloo", 60.0)
    ranks.leave(NoAgent())


def test_ranks_connect_after_a_start_that_failed_in_one_of_them(first, tmp_path):
    with pytest.raises(RankTimeout):
        first.connect("gloo", 0.1)
    path = str(tmp_path / "store")
    first.store = dist.FileStore(path, 2)
    other = start_context("forkserver").Process(target=join, args=(path,))
    other.start()
    first.connect("gloo", 60.0)
    first.leave(NoAgent())
    other.join()
    assert other.exitcode == 0


def test_messages_between_two_of_three_ranks_do_not_count_as_collectives(tmp_path):
    start_context("forkserver")  # which imports torch once for all
    arguments = (str(tmp_path / "store"),)
    torch.multiprocessing.start_processes(exchange, arguments, 3, start_method="forkserver")


def test_ranks_without_a_loopback_interface_end_at_once(monkeypatch):
    def unreachable(*args, **kwargs):  # as by `unshare --net`
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    with pytest.raises(RankError, match=r"Network is unreachable\. Enable the loopback interface"):
        serve_store(None, 2, 5.0)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(RankError, match="Enable the loopback interface"):
        torchrun_store(0, 2, 5.0)
