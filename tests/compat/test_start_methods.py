"""Workers start by the method that a script asks for."""

import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing as mp
import sys

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

how, method = sys.argv[1:]
if how == "script":
    mp.set_start_method(method)
if how == "queue":  # which makes multiprocessing settle on its default
    mp.Queue()
kwargs = dict(start_method=method) if how == "argument" else {}
sampler = CpuSampler(CountEnv, {}, batch_T=2, batch_B=2, **kwargs)
sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=1), seed=1)
samples, _ = sampler.obtain_samples(0)
print(type(sampler.workers[0]).__name__, tuple(samples.env.done.shape))
sampler.shutdown()
"""


@pytest.mark.parametrize(
    "how,method,process",
    [
        ("script", "fork", "ForkProcess"),
        ("script", "spawn", "SpawnProcess"),
        ("argument", "fork", "ForkProcess"),
        ("none", "none", "ForkServerProcess"),
        ("queue", "none", "ForkServerProcess"),
    ],
)
def test_workers_start_as_the_script_asks(how, method, process, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), how, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert f"{process} (2, 2)" in done.stdout, done.stderr
