"""Faults of what is around samplers: memory, disk, ranks, and nodes of a cluster.

Each function lets something fail n times, and returns what that has cost. Some need the rights of
root, or Ray.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import rlpyt
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.hooks import Hook
from rlpyt.utils import processes
from tests.parts import EchoAgent

# Directory of memory cgroups, and name of the limit: of versions 1 and 2.
CGROUPS = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
MEMORY = 64 << 20  # bytes, of a process and its file system
T, B, INTERVAL = 16, 4, 4  # INTERVAL: iterations between checkpoints


def limit_of(group: Path) -> Path | None:
    """Return the file for the memory limit of a new cgroup, if there can be one."""
    name = CGROUPS[str(group.parent)]
    with contextlib.suppress(OSError):
        group.mkdir()
        if (group / name).exists() and os.access(group / name, os.W_OK):
            return group / name
        group.rmdir()
    return None


def can_run_out_of_memory() -> bool:
    """Return True if processes can be put into a memory cgroup."""
    for parent in map(Path, CGROUPS):
        group = parent / f"rlpyt-{os.getpid()}"
        if limit_of(group):
            group.rmdir()
            return True
    return False


def run_out_of_memory() -> None:
    """Let the kernel kill this process, which exceeds the memory of its cgroup."""
    for parent in map(Path, CGROUPS):
        group = parent / f"rlpyt-{os.getpid()}"
        if limit := limit_of(group):
            limit.write_text(str(MEMORY))
            (group / "cgroup.procs").write_text(str(os.getpid()))
            held = []
            while True:
                held.append(bytearray(b"1" * (1 << 22)))


def remove_cgroups() -> None:
    """Remove the cgroups of killed processes."""
    for parent in map(Path, CGROUPS):
        for group in parent.glob("rlpyt-*"):
            group.rmdir()


def train(run_dir: Path, n_faults: int, **options: Any) -> tuple[list[int], float]:
    """Train long enough for n faults; return the steps of the rows, and the time taken."""
    start = time.monotonic()
    steps = 4 * INTERVAL * T * B * (n_faults + 1) * options.get("ranks", 1)
    given = {"batch_T": T, "batch_B": B, "kind": "serial"}
    rlpyt.train(
        options.pop("algo", "a2c"), options.pop("env", CountEnv), steps=steps, sampler=given,
        checkpoint_interval_steps=INTERVAL * T * B * options.get("ranks", 1),
        log_interval_steps=T * B * options.get("ranks", 1),
        run_dir=run_dir, eval_episodes=0, video=False, progress=False, **options,
    )  # fmt: skip
    with open(run_dir / "progress.csv") as file:
        rows = [int(row["Diagnostics/CumSteps"]) for row in csv.DictReader(file)]
    assert rows[-1] == steps and all(b > a for a, b in itertools.pairwise(rows)), rows
    return rows, time.monotonic() - start


class FillsDisk(Hook):
    """Fills the file system during every fourth checkpoint."""

    def __init__(self, directory: Path, n: int) -> None:
        self.filler, self.n = directory / "filler", n

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Fill the disk for one interval of checkpoints, and free it for three."""
        if itr % (4 * INTERVAL) == INTERVAL + 1:
            self.filler.unlink(missing_ok=True)
        elif itr % (4 * INTERVAL) == 1 and self.n:
            self.n -= 1
            with contextlib.suppress(OSError), open(self.filler, "wb", buffering=0) as file:
                for size in (1 << 16, 1):
                    with contextlib.suppress(OSError):
                        while True:
                            file.write(bytes(size))


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Mount a small file system in a directory, for root."""
    size = f"size={MEMORY}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def full_disk(directory: Path, n: int) -> Mapping[str, Any]:
    """Fill the disk during n checkpoints."""
    with small_disk(directory):
        rows, _ = train(directory / "run", n, hooks=[FillsDisk(directory, n)])
        assert len(rows) == 4 * INTERVAL * (n + 1)
        numbers = [
            int(path.name.partition("-")[2])
            for path in (directory / "run" / "checkpoint").iterdir()
        ]
        assert max(numbers) == len(rows) // INTERVAL - n, numbers
    return {"faults": n}


class KillsRank(CountEnv):
    """Environment that kills the process of a further rank in its 200th step, up to n times."""

    n_steps = 0

    def __init__(self, tally: str, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tally, self.n = Path(tally), n

    def step(self, action: Any) -> Any:
        """Step, or kill."""
        self.n_steps += 1
        if processes.is_child and self.n_steps == 200:
            with open(self.tally, "a+") as file:
                if file.tell() < self.n:
                    file.write("x")
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def lost_rank(directory: Path, n: int) -> Mapping[str, Any]:
    """Kill one of two ranks n times."""
    policy = {"rank_death": "restart_run", "max_per_hour": 10**6, "backoff_s": 0.1}
    tally, times = directory / "tally", []
    for kills in (0, n):
        arguments = {"tally": str(tally), "n": kills, "length": 9}
        rows, seconds = train(
            directory / f"run_{kills}", n, env=KillsRank, env_args=arguments, ranks=2,
            on_fault=policy,
        )  # fmt: skip
        assert len(rows) == 4 * INTERVAL * (n + 1)
        times.append(seconds)
    assert len(tally.read_text()) == n
    return {"faults": n, "extra_s": (times[1] - times[0]) / n}


def lost_node(directory: Path, n: int) -> Mapping[str, Any]:
    """Remove one of two nodes of a Ray cluster n times, and add another one."""
    import ray
    from ray.cluster_utils import Cluster

    from rlpyt.samplers.ray_sampler import RaySampler

    size = {"object_store_memory": 100_000_000}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **size})
    extra = []
    try:
        known = [nodes.add_node(num_cpus=2, **size) for _ in range(2)]
        nodes.wait_for_nodes()
        sampler = RaySampler(
            CountEnv, {"length": 30}, T, B, n_actors=2, address=nodes.address,
            actor_options={"scheduling_strategy": "SPREAD"}, max_restarts=10 * n,
            ray_init_kwargs={"log_to_driver": False},
        )  # fmt: skip
        sampler.initialize(EchoAgent(), affinity={"n_workers": 1}, seed=3)
        try:
            for itr in range(n):
                sampler.obtain_samples(2 * itr)
                known.append(nodes.add_node(num_cpus=2, **size))
                nodes.remove_node(known.pop(0))
                start = time.monotonic()
                sampler.obtain_samples(2 * itr + 1)
                extra.append(time.monotonic() - start)
        finally:
            sampler.shutdown()
        assert not ray.is_initialized()
    finally:
        nodes.shutdown()
    return {"faults": n, "extra_s": sum(extra) / n}


AROUND = {"full disk": full_disk, "lost rank": lost_rank, "lost node": lost_node}
