import gc
import os
import random
import signal
import sys
import tempfile
import zlib
from pathlib import Path

# One thread everywhere: two cores are shared by pytest, workers and BLAS. This comes first, because
# libraries read the variables when they are imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Keep compiled modules, whatever the shell says: programs that tests start import rlpyt hundreds of
# times, and rewriting the assertions of all files takes longer than importing them.
sys.dont_write_bytecode = False

# Until all tests are collected: a fifth of the time that each process needs for that.
gc.disable()

import numpy as np
import pytest
import torch

from rlpyt.processes.call import run_in_child
from rlpyt.utils import processes
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit
from tests.oracles.leaks import left_since, take_stock

wait_for_helpers_at_exit()

# Programs that tests start import helpers as the tests do: from tests.parts import ...
paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(paths)

os.environ.setdefault("RLPYT_DEBUG", "1")

# Waiting for the disk is a quarter of the time of tests with many checkpoints, and none of them
# cuts the power.
os.fsync = lambda descriptor: None

# Not the developer's key for signatures (`rlpyt.utils.signed`).
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir(), f"rlpyt-tests-{os.getuid()}"))

# Optimizers import torch._dynamo, which takes 2 s in every child that trains: once in the fork
# server of the tests instead, with what their ranks and sampler processes need besides. Children
# that unpickle a class of a test file import the file, and so pytest.
processes.PRELOAD += [
    "pytest",
    "tests.parts",
    "torch._dynamo",
    "torch.nn.parallel",
    "gymnasium.envs.classic_control",
    "rlpyt.samplers.parallel.gpu.alternating_sampler",
    "rlpyt.samplers.serial.sampler",
    "rlpyt.runners.async_rl",
    "rlpyt.runners.sync_rl",
    "rlpyt.experiments.run",
    "tests.frozen",
]

# Under xdist, a file is run by one process, so the longest ones have to begin first.
LONGEST = [
    "test_population",
    "test_docs_site",
    "test_check_sampler",
    "test_commands",
    "test_examples",
    "test_research_scripts",
    "test_ray_sampler",
    "test_async_optimizers",
    "test_sync_faults",
    "test_faults",
    "test_matrix",
    "test_combinations",
    "test_ends",
    "test_async_vtrace",
    "test_async_rl",
    "test_check_replay",
    "test_vector_layouts",
    "test_async_faults",
    "test_sync_runs",
]


def pytest_collection_modifyitems(items):
    place = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish():
    """Leave what is imported by now out of garbage collections, which many tests ask for.

    With torch and all test files imported, a full collection takes 0.3 s.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def imports_left_out():
    """Leave out what the tests of the files before have imported, too."""
    pytest_collection_finish()


@pytest.fixture(autouse=True)
def seeded(request):
    """Give each test random numbers of its own, the same in every run with this offset."""
    offset = int(os.environ.get("RLPYT_TEST_SEED", "0"))
    seed = (zlib.crc32(request.node.nodeid.encode()) + offset) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(scope="module")
def warmed_up():
    """Open what stays open once per process; a test file that opens more overrides this."""
    run_in_child(os.getpid)


@pytest.fixture(scope="module")
def nothing_left(warmed_up):
    """Fail if the tests of a file leave a process, shared memory or an open file behind."""
    before = take_stock()
    yield
    left = left_since(before)
    assert not left, left


@pytest.fixture
def interruptible():
    """Handle SIGINT as in a terminal; shells ignore it in background jobs."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
