"""Every runner takes an affinity in all its forms, and its processes are where it says."""

import pytest
import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.launching.affinity import affinity_from_code, make_affinity
from rlpyt.utils.processes import available_cpus
from tests.parts import SmallMlp
from tests.programs import run_script
from tests.runners import test_async_rl
from tests.runners.sync_parts import sync_runner


def one_process(affinity, batch_B=2, **kwargs):
    sampler = CpuSampler(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=8, batch_B=batch_B)
    agent = CategoricalPgAgent(ModelCls=SmallMlp)
    return MinibatchRl(
        algo=A2C(), agent=agent, sampler=sampler, n_steps=16 * batch_B, affinity=affinity, **kwargs
    )


N = len(available_cpus())
SAF = "" if N > 1 else "_0saf"  # on a single core nothing can be pinned to two


@pytest.mark.parametrize(
    "affinity",
    [None, "auto", dict(n_workers=1), make_affinity(n_cpu_core=1), "0slt_1cpu_0gpu_1cpr"],
    ids=["none", "auto", "dict", "made", "code"],
)
def test_one_process_takes_any(affinity):
    before = available_cpus()
    runner = one_process(affinity)
    runner.train()
    assert runner.itr == 1
    assert available_cpus() == before  # for the next run in this process


@pytest.mark.filterwarnings("ignore:batch_B must be divisible")
def test_the_code_of_a_larger_machine_trains_without_pinning():
    runner = one_process("0slt_999cpu_0gpu_999cpr")
    with pytest.warns(UserWarning, match="code .*999 cores"):
        runner.train()
    assert runner.itr == 1


CODE = f"0slt_2cpu_0gpu_2cpr_2gpr_0hto{SAF}"


def test_ranks_come_from_codes():
    runner = sync_runner(SyncRl, affinity=CODE)
    assert runner.world_size == 2
    assert runner.affinities == sync_runner(SyncRl, affinity=affinity_from_code(CODE)).affinities
    runner.train()
    assert runner.itr == runner.n_itr - 1


def test_ranks_of_one():
    assert sync_runner(SyncRl, affinity="0slt_1cpu_0gpu_1cpr").world_size == 1
    assert sync_runner(SyncRl, affinity="auto").world_size == 1


CODE_ASYNC = f"0slt_2cpu_0gpu_2cpr_0hto_1ass{SAF}"


@pytest.mark.parametrize(
    "affinity, Sampler",
    [
        pytest.param(None, AsyncSerialSampler, id="none"),
        pytest.param("auto", AsyncCpuSampler, id="auto"),
        pytest.param(CODE_ASYNC, AsyncSerialSampler, id="code"),
        pytest.param(CODE_ASYNC, AsyncCpuSampler, id="code, workers", marks=pytest.mark.slow),
        pytest.param(affinity_from_code(CODE_ASYNC), AsyncSerialSampler, id="AttrDict"),
    ],
)
def test_asynchronous_runs_take_any(affinity, Sampler):
    before = available_cpus()
    runner = test_async_rl.run("dqn", AsyncRl, Sampler, affinity=affinity, max_lead=1)
    assert runner.algo.update_counter > 0
    assert available_cpus() == before


@pytest.mark.parametrize(
    "start, error, message",
    [
        (lambda: one_process("0slt_4cup").train(), ValueError, "'4cup'"),
        (
            lambda: one_process("2cpu_0gpu_2cpr").train(),
            ValueError,
            "lacks a run slot",
        ),
        (
            lambda: test_async_rl.run("dqn", AsyncRl, AsyncSerialSampler, affinity=CODE),
            TypeError,
            "or a code with 1ass",
        ),
        (
            lambda: sync_runner(SyncRl, affinity="5slt_2cpu_0gpu_1cpr"),
            ValueError,
            "run slot .* got 5",
        ),
    ],
)
def test_codes_that_do_not_suit_are_refused(start, error, message):
    with pytest.raises(error, match=message):
        start()


@pytest.mark.skipif(torch.cuda.is_available(), reason="here they could be")
def test_ranks_on_gpus_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"GPUs .*\(0\), got 0"):
        sync_runner(SyncRl, affinity="0slt_2cpu_2gpu_2gpr_0saf").train()


SCRIPT = """
import sys

import psutil
from tests.runners.test_affinity_runs import one_process

from rlpyt.runners.hooks import Hook


class Look(Hook):
    def on_iteration(self, runner, itr):
        own = psutil.Process()
        workers = [psutil.Process(p.pid).cpu_affinity() for p in runner.sampler.workers]
        print(own.cpu_affinity(), workers, flush=True)


if __name__ == "__main__":
    one_process("0slt_{n}cpu_0gpu_{n}cpr_0hto", batch_B={n}, hooks=[Look()]).train()
"""


def test_master_and_workers_are_pinned_where_the_code_says(tmp_path):
    script = tmp_path / "look.py"
    n, own = min(N, 4), available_cpus()[: min(N, 4)]
    script.write_text(SCRIPT.format(n=n))
    out = run_script(script)
    assert out.returncode == 0, out.stderr
    assert f"{own} {[[cpu] for cpu in own]}" in out.stdout.splitlines()
