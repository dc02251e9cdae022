"""Starting fails with an error that names the resource of which there is too little."""

import _multiprocessing
import errno
import multiprocessing as mp
import os
import socket
import subprocess
import threading
from functools import partial

import numpy as np
import pytest
import torch

from rlpyt.agents.weights import WeightMailbox
from rlpyt.errors import WorkerError
from rlpyt.samplers.layout import Hardware
from rlpyt.utils import memory, processes, shared
from rlpyt.utils.shared import Arena, SharedMemoryError
from rlpyt.utils.synchronize import RWLock
from tests.programs import run_script
from tests.samplers.trouble import CpuSampler, FaultyEnv, GpuSampler, run_into

pytestmark = pytest.mark.usefixtures("nothing_left")

SCRIPT = """
import resource
import warnings
from tests.samplers.trouble import *
warnings.simplefilter("ignore")
resource.setrlimit({limit})
try:
    sampler = {SamplerCls}(FaultyEnv, dict(fault="none"), batch_T=T, batch_B={B})
    sampler.initialize(EchoAgent(), affinity=dict(n_workers={n}), seed=1)
    sampler.obtain_samples(0)
except Exception as error:
    print(type(error).__name__, error)
    error.__traceback__ = None
    import tests.oracles.leaks
"""


def run_limited(limit, path, SamplerCls="CpuSampler", n=16, B=16):
    path.write_text(SCRIPT.format(limit=limit, SamplerCls=SamplerCls, n=n, B=B))
    done = run_script(path)
    assert done.stderr == "" and done.returncode == 0
    return done.stdout


def test_too_few_open_files_are_refused_before_anything_starts(tmp_path):
    said = run_limited("resource.RLIMIT_NOFILE, (64, 64)", tmp_path / "script.py")
    assert "WorkerError 16 child processes need up to 108 open files" in said
    assert "the limit is 64. Raise it (ulimit -n), or use fewer workers" in said


@pytest.mark.slow
def test_file_sizes_limit_shared_memory(tmp_path):
    said = run_limited("resource.RLIMIT_FSIZE, (2**19, 2**19)", tmp_path / "script.py", n=2)
    assert "SharedMemoryError cannot reserve 1.0 MiB of shared memory" in said
    assert "ulimit -f" in said


def test_more_memory_than_there_is_is_refused_with_numbers(monkeypatch):
    monkeypatch.setattr(shared, "available_memory", lambda: 3 * 2**20)
    Arena().allocate((2**20,), np.uint8)
    with pytest.raises(SharedMemoryError, match="^5.0 MiB .* 3.0 MiB"):
        Arena().allocate((5 * 2**20,), np.uint8)
    with pytest.raises(SharedMemoryError, match="more memory"):
        run_into(CpuSampler, "none", sampler=dict(batch_T=100_000))


def test_memory_that_the_kernel_refuses_is_named(monkeypatch):
    def refuse(fd, offset, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(SharedMemoryError, match=f"reserve 1.0 MiB .*{os.strerror(errno.ENOSPC)}"):
        Arena().allocate((1,), np.uint8)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_too_few_processes_are_named(number, monkeypatch):
    def refuse(self):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mp.context.ForkProcess, "start", refuse)
    with pytest.raises(WorkerError, match="limits on processes"):
        run_into(CpuSampler, "none", method="fork")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT, errno.EROFS])
@pytest.mark.parametrize("user", ["gpu", "async", "lock"])
def test_the_directory_of_semaphores_is_named(user, number, monkeypatch):
    def refuse(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_multiprocessing, "SemLock", refuse)
    if user == "gpu":
        remedy = "Free space in" if number == errno.ENOSPC else "Mount"
        with pytest.raises(WorkerError, match=f"action server .*{remedy} /dev/shm"):
            run_into(GpuSampler, "none")
    else:
        make = RWLock if user == "lock" else partial(WeightMailbox, torch.nn.Linear(1, 1), {})
        with pytest.raises(OSError, match=f"{os.strerror(number)}.*: '/dev/shm'"):
            make()


def test_fork_is_refused_once_a_gpu_is_in_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(RuntimeError, match="CUDA.* fork"):
        run_into(CpuSampler, "none", method="fork")
    run_into(CpuSampler, "none", method="forkserver")


@pytest.mark.parametrize("method", ["forkserver", "fork"])
@pytest.mark.parametrize("SamplerCls", [CpuSampler, GpuSampler])
def test_threads_and_openmp_of_the_parent_lock_up_nobody(SamplerCls, method):
    before, stop = torch.get_num_threads(), threading.Event()
    torch.set_num_threads(2)
    product = torch.randn(300, 300) @ torch.randn(300, 300)

    def be_busy():
        while not stop.is_set():
            product @ product

    thread = threading.Thread(target=be_busy, daemon=True)
    thread.start()
    try:
        run_into(SamplerCls, "none", method=method, sampler=dict(env_timeout=20.0))
    finally:
        stop.set()
        thread.join()
        torch.set_num_threads(before)


def test_workers_that_were_forked_keep_to_one_torch_thread():
    sampler = CpuSampler(FaultyEnv, dict(fault="none"), batch_T=3, batch_B=2)
    sampler.start_method = "fork"
    from tests.samplers.trouble import EchoAgent

    with pytest.warns(UserWarning, match="worker_torch_threads .*start_method"):
        sampler.initialize(EchoAgent(), affinity=dict(n_workers=2, worker_torch_threads=2), seed=1)
    sampler.shutdown()


@pytest.mark.parametrize("name", ["master_torch_threads", "worker_torch_threads"])
def test_more_torch_threads_than_a_machine_can_start_are_refused(name):
    assert getattr(Hardware.of({name: 40}), name) == 40  # a code of a larger machine
    with pytest.raises(ValueError, match=f"{name}=1000000 "):
        Hardware.of({name: 1_000_000})


def test_limits_of_containers_count(tmp_path, monkeypatch):
    group = tmp_path / "sys" / "job" / "step"
    group.mkdir(parents=True)
    for directory, limit, usage in ((group, "max", 100), (group.parent, 2**30, 2**29)):
        (directory / "memory.max").write_text(f"{limit}\n")
        (directory / "memory.current").write_text(f"{usage}\n")
        (directory / "memory.stat").write_text("anon 5\ninactive_file 1024\nactive_file 1024\n")
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/other\n0::/job/step\n")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "sys")
    monkeypatch.setattr(memory, "OWN_CGROUP", own)
    assert memory._available_in_cgroups() == [2**29 + 2048]
    assert memory.available_memory() <= 2**29 + 2048
    old = tmp_path / "sys" / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("4096")
    (old / "memory.usage_in_bytes").write_text("1024")
    (old / "memory.stat").write_text("total_inactive_file 512\ntotal_active_file 0\n")
    assert memory.available_memory() == 4096 - 1024 + 512


def test_a_starting_thread_that_ends_does_not_end_workers():
    """Linux would end the workers with it, were they told to die with their parent."""
    samplers = []

    def start():
        from tests.samplers.trouble import faulty

        samplers.append(faulty(CpuSampler, "none", method="fork"))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    samplers[0].obtain_samples(0)
    samplers[0].shutdown()
    assert processes.starter_lasts(mp.get_context("fork"))


def test_a_long_directory_for_temporary_files_is_named():
    named = pytest.raises(WorkerError, match="TMPDIR")
    with named, processes.explained_start_errors("the workers"):
        raise OSError("AF_UNIX path too long")


def test_a_deleted_socket_of_the_fork_server_is_named():
    named = pytest.raises(WorkerError, match="deleted while this program ran.*TMPDIR")
    client = socket.socket(socket.AF_UNIX)
    with client, named, processes.explained_start_errors("the workers"):
        client.connect("/no/socket")
    limits = pytest.raises(WorkerError, match="Check the limits")
    with limits, processes.explained_start_errors("the workers"):
        subprocess.run(["/no/program"], check=False)
