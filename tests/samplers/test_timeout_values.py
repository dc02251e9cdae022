"""Values of truncated episodes are computed for their rows alone, where the agent has no state."""

import pytest
import torch

from rlpyt.agents.pg.vector import agent_for
from rlpyt.envs.toy import TruncationEnv
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

T, B = 12, 4


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("Sampler", [SerialSampler, GpuSampler])
def test_the_rows_that_timed_out_are_evaluated(Sampler, recurrent, tiled, monkeypatch):
    agent, sizes = agent_for(TruncationEnv().spaces, recurrent=recurrent), []
    plain_value = type(agent).value

    def value(self, observation, *others):
        sizes.append(len(observation))
        return plain_value(self, observation, *others)

    monkeypatch.setattr(type(agent), "value", value)
    sampler = Sampler(
        EnvCls=TruncationEnv, env_kwargs={}, batch_T=T, batch_B=B, max_decorrelation_steps=7,
        deterministic_acting=tiled,
    )  # fmt: skip
    kwargs = dict(bootstrap_value=True, final_observation=True)
    sampler.initialize(agent, affinity=dict(n_workers=1), seed=1, **kwargs)
    try:
        sizes.clear()
        samples, _ = sampler.obtain_samples(0)
        timeouts = samples.env.env_info.timeout
        values = samples.agent.timeout_value
        assert timeouts.any() and (values[~timeouts] == 0).all() and values[timeouts].all()
        if recurrent or tiled:
            return
        at_once = timeouts.sum(1)
        assert sizes == [*at_once[at_once > 0].tolist(), B]  # the last one bootstraps
        action, reward = samples.agent.action, samples.env.reward
        inputs = [x[timeouts] for x in (samples.env.final_observation, action, reward)]
        torch.testing.assert_close(values[timeouts], plain_value(agent, *inputs))
    finally:
        sampler.shutdown()
