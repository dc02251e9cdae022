"""Whole runs of several processes with a CUDA device; run with ``make test-gpu``."""

import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.toy import DelayEnv, ReachEnv
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import load_checkpoint

pytestmark = pytest.mark.gpu

DEVICE = dict(cuda_idx=0)
T, B, N_ITR = 10, 4, 20
SMALL = dict(batch_size=32, min_steps_learn=4 * T * B, replay_size=2000, replay_ratio=4)
NARROW = dict(hidden_sizes=[16])
LEARNERS = {
    "dqn": lambda: (DQN(**SMALL), DqnMlpAgent(model_kwargs=NARROW), DelayEnv),
    "sac": lambda: (
        SAC(**SMALL), SacAgent(model_kwargs=NARROW, q_model_kwargs=NARROW), ReachEnv
    ),
    "vtrace": lambda: (VTrace(), CategoricalMlpAgent(model_kwargs=NARROW), DelayEnv),
    "ppo": lambda: (PPO(minibatches=1), CategoricalMlpAgent(model_kwargs=NARROW), DelayEnv),
}  # fmt: skip


class OnDevice(Hook):
    """All that is trained is on the device, and finite."""

    def on_end(self, runner):
        assert runner.algo.update_counter > 0
        for parameter in runner.agent.parameters():
            assert parameter.device.type == "cuda" and parameter.isfinite().all()


def run(name, Runner, Sampler, affinity, **kwargs):
    algo, agent, EnvCls = LEARNERS[name]()
    sampler = Sampler(EnvCls=EnvCls, env_kwargs={}, batch_T=T, batch_B=B)
    runner = Runner(
        algo=algo, agent=agent, sampler=sampler, n_steps=N_ITR * T * B, seed=1, affinity=affinity,
        log_interval_steps=N_ITR * T * B, hooks=[OnDevice()], **kwargs,
    )  # fmt: skip
    runner.train()
    return runner


@pytest.mark.parametrize("name", ["dqn", "sac", "vtrace"])
@pytest.mark.parametrize(
    "Sampler, sampling",
    [
        (AsyncCpuSampler, dict(n_workers=2)),
        (AsyncGpuSampler, dict(n_workers=2, **DEVICE)),
        (AsyncGpuSampler, [dict(n_workers=1, **DEVICE)] * 2),
    ],
    ids=["cpu", "server", "two servers"],
)
def test_an_asynchronous_run_learns_on_the_device_and_is_saved(name, Sampler, sampling, tmp_path):
    affinity = dict(sampler=sampling, optimizer=[DEVICE])
    run(name, AsyncRl, Sampler, affinity, checkpoint_dir=tmp_path)
    assert load_checkpoint(tmp_path).state["itr"] == N_ITR - 1


def test_several_optimizers_share_a_device():
    affinity = dict(sampler=dict(n_workers=2), optimizer=[DEVICE] * 2)
    run("dqn", AsyncRl, AsyncCpuSampler, affinity, max_lead=1)


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_ranks_share_a_device(name):
    run(name, SyncRl, SerialSampler, [DEVICE] * 2)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL wants a device for each rank")
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_ranks_with_devices_of_their_own_speak_by_nccl(name):
    runner = run(name, SyncRl, SerialSampler, [dict(cuda_idx=0), dict(cuda_idx=1)], backend="nccl")
    assert runner.world_size == 2
