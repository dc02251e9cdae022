"""Workers start by the method that a script asks for."""

import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing as mp
import sys

when, how, method = sys.argv[1:]


def use_multiprocessing():
    if how == "script":
        mp.set_start_method(method, force=when == "both")
    if how == "queue" or when == "both":  # which makes multiprocessing settle on its default
        mp.Queue()


if when != "after":
    use_multiprocessing()

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

if when != "before":
    use_multiprocessing()
kwargs = dict(start_method=method) if how == "argument" else {}
table = dict(length=4)


def make_env():  # which workers get with the variable of the script
    return CountEnv(**table)


for seed in range(2):
    sampler = CpuSampler(make_env, {}, batch_T=2, batch_B=2, **kwargs)
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=1), seed=seed)
    samples, _ = sampler.obtain_samples(0)
    print(type(sampler.workers[0]).__name__, tuple(samples.env.done.shape))
    sampler.shutdown()
"""


@pytest.mark.parametrize(
    "when,how,method,process",
    [
        ("before", "queue", "none", "ForkServerProcess"),
        ("after", "argument", "fork", "ForkProcess"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("after", "script", "fork", "ForkServerProcess"),
                ("after", "script", "spawn", "SpawnProcess"),
                ("after", "none", "none", "ForkServerProcess"),
                ("after", "queue", "none", "ForkServerProcess"),
                ("both", "script", "spawn", "SpawnProcess"),
            ]
        ),
    ],
)
def test_workers_start_as_the_script_asks(when, how, method, process, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), when, how, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.splitlines() == [f"{process} (2, 2)"] * 2, done.stderr
    # Until Python 3.14, fork may have been asked for, or be the platform's default.
    default = sys.platform.startswith("linux") and sys.version_info < (3, 14)
    ambiguous = how == "queue" or (how, method) == ("script", "fork")
    assert done.stderr.count("RLPYT_START_METHOD=fork") == (default and ambiguous), done.stderr


def test_importing_rlpyt_leaves_the_default_context_of_multiprocessing():
    script = (
        "import multiprocessing as mp; before = vars(mp.context._default_context).copy(); "
        "import rlpyt.utils.processes; assert vars(mp.context._default_context) == before"
    )
    subprocess.run([sys.executable, "-c", script], timeout=200, check=True)


def test_starting_the_fork_server_sets_no_start_method():
    """Or the next sampler would warn of the platform's default."""
    script = (
        "import multiprocessing as mp; from rlpyt.utils.processes import start_fork_server; "
        "assert start_fork_server(); assert mp.get_start_method(allow_none=True) is None"
    )
    subprocess.run([sys.executable, "-c", script], timeout=200, check=True)
