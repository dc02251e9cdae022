"""Ranks with a share of the batch each learn what one process learns from all of it."""

import csv

import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent, GaussianMlpAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.models.pg.vector import CategoricalMlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import run_context
from tests.agents.test_observation_groups import MEMORIES, agent_of, make
from tests.runners.sync_parts import B, T, same, steady_sac, sync_runner

NORMALIZED = dict(hidden_sizes=[16], normalize_observation=True)
ALGOS = {
    "a2c": lambda n: dict(algo=A2C()),
    "ppo": lambda n: dict(algo=PPO(minibatches=1, epochs=2, gae_lambda=0.95)),
    "normalized": lambda n: dict(
        algo=PPO(minibatches=1, epochs=2, normalize_reward=True),
        agent=CategoricalMlpAgent(model_kwargs=NORMALIZED),
    ),
    "recurrent": lambda n: dict(
        algo=PPO(minibatches=1, epochs=2),
        agent=CategoricalLstmAgent(model_kwargs=dict(hidden_sizes=[8], lstm_size=8)),
    ),
    "sac": lambda n: dict(zip(("algo", "agent"), steady_sac(n)), env="Pendulum-v1"),
}


class Normalizing(CategoricalMlpModel):
    """Model with batch normalization of torch, which compares its statistics in training."""

    def __init__(self, observation_shape, output_size):
        super().__init__(observation_shape, output_size, [8])
        self.norm = torch.nn.BatchNorm1d(self.observation_size)

    def forward(self, observation, *previous):
        if self.training and torch.distributed.is_initialized():
            mean = self.norm.running_mean.clone()
            torch.distributed.broadcast(mean, 0)
            assert torch.equal(mean, self.norm.running_mean), "ranks have other buffers"
        flat = self.norm(observation.flatten(0, -2))
        return super().forward(flat.view(observation.shape), *previous)


def test_ranks_have_equal_buffers_of_custom_modules():
    two = sync_runner(SyncRl, agent=CategoricalMlpAgent(ModelCls=Normalizing), n_itr=3)
    two.train()
    buffers = two.agent.buffers_to_share()
    assert [len(x.shape) for x in buffers] == [1, 1, 0]  # mean, variance, number of batches
    assert int(buffers[2]) >= 3


def train_both(make, **kwargs):
    one = sync_runner(MinibatchRl, **make(1), **kwargs)
    one.train()
    two = sync_runner(SyncRl, **make(2), **kwargs)
    two.train()
    return one, two


@pytest.mark.parametrize("name", ALGOS)
def test_two_ranks_learn_what_one_process_does(name):
    one, two = train_both(ALGOS[name])
    assert one.algo.update_counter == two.algo.update_counter > 0
    assert same(one.agent.state_dict(), two.agent.state_dict(), atol=1e-5)
    start = sync_runner(MinibatchRl, **ALGOS[name](1))
    start.startup()
    assert not same(start.agent.state_dict(), two.agent.state_dict(), atol=1e-3)
    start.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORIES)
def test_so_they_do_with_critics_that_read_other_parts(memory):
    env = dict(EnvCls=make, env_kwargs=dict(length=3))
    ppo = lambda n: dict(algo=PPO(minibatches=1, epochs=2), agent=agent_of(memory), **env)
    one, two = train_both(ppo)
    assert one.algo.update_counter == two.algo.update_counter > 0
    assert same(one.agent.state_dict(), two.agent.state_dict(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("Sampler", [CpuSampler, GpuSampler])
def test_so_they_do_with_workers(Sampler):
    one, two = train_both(ALGOS["a2c"], Sampler=Sampler)
    assert same(one.agent.state_dict(), two.agent.state_dict(), atol=1e-5)


def test_rows_describe_the_trajectories_of_all_ranks(tmp_path):
    rows = {}
    for Runner in (MinibatchRl, SyncRl):
        path = tmp_path / Runner.__name__
        with run_context(path, 0, "run", snapshot_mode="last"):
            sync_runner(Runner, n_itr=20).train()
        with open(path / "progress.csv") as file:
            rows[Runner] = list(csv.DictReader(file))
    assert len(rows[MinibatchRl]) == 10
    for one, two in zip(rows[MinibatchRl], rows[SyncRl], strict=True):
        assert one.keys() == two.keys()
        for key in one:
            if key.startswith(("Return", "Length")) or key.endswith(("Steps", "Trajs", "Window")):
                assert one[key] == two[key], key
    last = rows[SyncRl][-1]
    assert float(last["Diagnostics/CumSteps"]) == 20 * T * B
    assert float(last["Diagnostics/CumCompletedTrajs"]) > 4
    agent = torch.load(tmp_path / "SyncRl" / "params.pkl")["agent_state_dict"]
    assert not any(name.startswith("module.") for name in agent)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: dict(
            algo=DQN(min_steps_learn=T * B, replay_size=500, prioritized_replay=True),
            agent=DqnMlpAgent(),
        ),
        lambda: dict(
            algo=TD3(min_steps_learn=T * B, replay_size=500, batch_size=16, replay_ratio=4),
            agent=Td3Agent(model_kwargs=dict(hidden_sizes=[8])),
            env="Pendulum-v1",
        ),
        lambda: dict(
            algo=PPO(minibatches=2, epochs=2), agent=GaussianMlpAgent(), env="Pendulum-v1"
        ),
    ],
    ids=["dqn", "td3", "gaussian ppo"],
)
def test_others_run(make):
    runner = sync_runner(**make(), Sampler=SerialSampler)
    runner.train()
    assert runner.algo.update_counter > 2
    assert all(p.isfinite().all() for p in runner.agent.model.parameters())


def test_a_parameter_without_gradient_is_named():
    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)

        def forward(self, observation, prev_action, prev_reward):
            out = self.used(observation)
            return torch.softmax(out[..., :2], -1), out[..., 2]

    agent = CategoricalPgAgent(ModelCls=Half)
    with pytest.raises(ValueError, match="every parameter.*unused"):
        sync_runner(agent=agent).train()
