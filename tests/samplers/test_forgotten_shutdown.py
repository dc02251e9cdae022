"""A script that forgets ``shutdown()`` ends all the same: environments closed, no process left."""

import subprocess
import sys

import psutil
import pytest

HANGS_S = 100

SCRIPT = """
import sys
from pathlib import Path
from tests.parts import EchoAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

class Closing(CountEnv):
    def close(self):
        with open({log!r}, "a") as file:
            file.write("closed\\n")

sampler = CpuSampler(Closing, {{}}, batch_T=5, batch_B=4)
sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=1)
sampler.obtain_samples(0)
Path({log!r}).write_text("")
print(*[p.pid for p in sampler.workers], flush=True)
{ending}
"""


@pytest.mark.parametrize(
    "ending,code",
    [
        pytest.param("", 0, id="end"),
        pytest.param("raise ValueError('mine')", 1, id="error", marks=pytest.mark.slow),
        pytest.param("del sampler", 0, id="deleted", marks=pytest.mark.slow),
    ],
)
def test_workers_go_with_the_script_and_close_their_environments(ending, code, tmp_path):
    log = tmp_path / "log"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(log=str(log), ending=ending))
    done = subprocess.run(
        [sys.executable, script], check=False, capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == code, done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert log.read_text() == "closed\n" * 4
    expected = "ValueError: mine" if "raise" in ending else ""
    assert done.stderr.strip().rpartition("\n")[2] == expected
