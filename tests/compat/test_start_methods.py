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
for seed in range(2):
    sampler = CpuSampler(CountEnv, {}, batch_T=2, batch_B=2, **kwargs)
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=1), seed=seed)
    samples, _ = sampler.obtain_samples(0)
    print(type(sampler.workers[0]).__name__, tuple(samples.env.done.shape))
    sampler.shutdown()
"""


@pytest.mark.parametrize(
    "when,how,method,process",
    [
        ("after", "queue", "none", "ForkServerProcess"),
        ("before", "queue", "none", "ForkServerProcess"),
        ("both", "script", "fork", "ForkProcess"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("after", "script", "fork", "ForkProcess"),
                ("after", "script", "spawn", "SpawnProcess"),
                ("after", "argument", "fork", "ForkProcess"),
                ("after", "none", "none", "ForkServerProcess"),
                ("before", "script", "fork", "ForkServerProcess"),
                ("before", "script", "spawn", "SpawnProcess"),
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
    # Before the import, a default settled on and one asked for are the same.
    warned = done.stderr.count("used before rlpyt was imported")
    assert warned == (1 if (when, process) == ("before", "ForkServerProcess") else 0), done.stderr
