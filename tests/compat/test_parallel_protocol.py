"""Parallel samplers run by the hooks and barriers of rlpyt (2019)."""

import os
import signal

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.compat.parallel_sampler import uses_old_protocol
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import WorkerError
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

T, B = 4, 4


class WithHooks(CpuSampler):
    def _build_parallel_ctrl(self, n_worker):
        super()._build_parallel_ctrl(n_worker)


class ServedWithHooks(GpuSampler):
    def _build_parallel_ctrl(self, n_worker):
        super()._build_parallel_ctrl(n_worker)


class ReadsFlags(CpuSampler):
    def evaluate_agent(self, itr):
        def barrier():
            return self.ctrl.barrier_in

        barrier().wait()


class OwnWithoutHooks(CpuSampler):
    def obtain_samples(self, itr):
        return super().obtain_samples(itr)


def test_only_what_a_users_class_overrides_or_reads_decides():
    assert uses_old_protocol(WithHooks) and uses_old_protocol(ReadsFlags)
    assert not any(map(uses_old_protocol, (CpuSampler, GpuSampler, OwnWithoutHooks)))


def batches(SamplerCls, **kwargs):
    sampler = SamplerCls(
        CountEnv, dict(length=3), batch_T=T, batch_B=B, eval_n_envs=2, eval_max_steps=60,
        eval_max_trajectories=4, **kwargs,
    )  # fmt: skip
    torch.manual_seed(0)
    sampler.initialize(
        CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[4])), affinity=dict(n_workers=2),
        seed=3, bootstrap_value=True,
    )  # fmt: skip
    try:
        samples, _ = sampler.obtain_samples(0)
        leaves = [samples.env.observation.numpy().copy(), samples.agent.action.numpy().copy()]
        lengths = sorted(info.Length for info in sampler.evaluate_agent(1))
        return [*leaves, np.array(lengths)], sampler.workers
    finally:
        sampler.shutdown()


def test_the_old_protocol_gives_the_same_batches_and_evaluations():
    (stock, _), (old, workers) = batches(CpuSampler), batches(WithHooks)
    for one, other in zip(stock, old, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("SamplerCls", [WithHooks, ServedWithHooks])
def test_a_killed_worker_is_noticed_and_nothing_remains(SamplerCls):
    sampler = SamplerCls(CountEnv, {}, batch_T=T, batch_B=B)
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=2), seed=3)
    workers = sampler.workers
    try:
        sampler.obtain_samples(0)
        os.kill(workers[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="worker 1 has ended"):
            for itr in range(1, 3):
                sampler.obtain_samples(itr)
    finally:
        sampler.shutdown()
    assert not any(worker.is_alive() for worker in workers)


def test_an_error_in_a_worker_comes_home_with_its_traceback():
    class Broken(WithHooks):
        def _assemble_common_kwargs(self, affinity, global_B=1):
            return super()._assemble_common_kwargs(affinity, global_B) | dict(env_kwargs=dict(no=1))

    sampler = Broken(CountEnv, {}, batch_T=T, batch_B=B)
    with pytest.raises(WorkerError, match="worker . .*TypeError") as caught:
        sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=2), seed=3)
    assert "_make_envs" in caught.value.traceback
    assert not any(worker.is_alive() for worker in vars(sampler)["workers"])
