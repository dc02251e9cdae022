"""Deep Q-learning with loops of the user's, which record no final observations."""

import pytest

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.collectors import BaseCollector, Collector, DecorrelatingStartCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.algos.dqn.parts_dqn import T
from tests.samplers import test_served_user_collectors, test_user_parts

B = 4
STOCK = {
    SerialSampler: CpuResetCollector,
    CpuSampler: CpuResetCollector,
    GpuSampler: GpuResetCollector,
    AlternatingSampler: GpuResetCollector,
}
OWN = {
    SerialSampler: test_user_parts.HandWrittenCollector,
    CpuSampler: test_user_parts.HandWrittenCollector,
    GpuSampler: test_served_user_collectors.HandWrittenCollector,
    AlternatingSampler: test_served_user_collectors.HandWrittenCollector,
}


def replayed(SamplerCls, CollectorCls):
    """A large batch from the replay, where every episode is truncated; and the sampler's last."""
    sampler = SamplerCls(
        EnvCls=CountEnv, env_kwargs=dict(end="truncation"), batch_T=T, batch_B=B,
        CollectorCls=CollectorCls,
    )  # fmt: skip
    agent, algo = DqnMlpAgent(), DQN(min_steps_learn=1, replay_size=20 * T * B)
    try:
        examples = sampler.initialize(
            agent, affinity=dict(n_workers=2), seed=3, final_observation=True
        )
        algo.initialize(agent, 100, sampler.batch_spec, True, examples)
        for itr in range(4):
            samples, _ = sampler.obtain_samples(itr)
            algo.store(samples)
        return algo.replay_buffer.sample_batch(200), samples.env._fields
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", STOCK)
def test_truncated_windows_go_on_where_final_observations_are_recorded(SamplerCls, capsys):
    batch, fields = replayed(SamplerCls, STOCK[SamplerCls])
    assert "final_observation" in fields
    assert batch.done.any() and (batch.discount_n > 0).all()
    rank, episode, t = batch.agent_inputs.observation.T
    next_rank, next_episode, next_t = batch.target_inputs.observation.T
    assert (next_rank == rank).all() and (next_episode == episode).all() and (next_t == t + 1).all()
    assert "records_final_observations" not in capsys.readouterr().out


@pytest.mark.parametrize("SamplerCls", OWN)
def test_truncated_windows_end_where_they_are_not_which_is_said_once(SamplerCls, capsys):
    batch, fields = replayed(SamplerCls, OWN[SamplerCls])
    assert "final_observation" not in fields
    assert batch.done.any() and ((batch.discount_n == 0) == batch.done).all()
    assert capsys.readouterr().out.count("records_final_observations") == 1


def test_who_records_final_observations():
    class Own(CpuResetCollector):
        def collect_batch(self, agent_inputs, traj_infos, itr):
            """As people write it, without them."""

    class Says(Own):
        records_final_observations = True

        def collect_batch(self, agent_inputs, traj_infos, itr):
            """With them."""

    class Further(CpuResetCollector):
        """Another start, the stock loop."""

        def start_envs(self, max_decorrelation_steps=0):
            return super().start_envs(0)

    recording = [Collector, CpuResetCollector, CpuWaitResetCollector, GpuResetCollector]
    assert all(cls.records_final_observations for cls in [*recording, Says, Further])
    without = [BaseCollector, DecorrelatingStartCollector, Own]
    assert not any(cls.records_final_observations for cls in without)
