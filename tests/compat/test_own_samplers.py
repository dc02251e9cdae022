"""Samplers, agents, algorithms and collectors of 2019's research code run as they are."""

import warnings
from collections import namedtuple

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.buffer import build_samples_buffer, get_example_outputs
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils import completion
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple

T, B = 5, 3
CARTPOLE = dict(id="CartPole-v1")


@pytest.fixture(autouse=True)
def warnings_anew(monkeypatch):
    monkeypatch.setattr(completion, "_warned", set())


class HomemadeSampler(BaseSampler):
    """Builds buffers and collectors itself, and takes nothing of ours but these."""

    def initialize(
        self, agent, affinity=None, seed=None, bootstrap_value=False, traj_info_kwargs=None,
        rank=0, world_size=1,
    ):  # fmt: skip
        envs = [self.EnvCls(**self.env_kwargs) for _ in range(self.batch_B)]
        agent.initialize(envs[0].spaces, share_memory=False, global_B=B, env_ranks=range(B))
        self.samples_pyt, samples_np, examples = build_samples_buffer(
            agent, envs[0], self.batch_spec, bootstrap_value, agent_shared=False, env_shared=False
        )
        for name, value in traj_info_kwargs.items():
            setattr(self.TrajInfoCls, f"_{name}", value)
        self.collector = self.CollectorCls(
            rank=0, envs=envs, samples_np=samples_np, batch_T=self.batch_T,
            TrajInfoCls=self.TrajInfoCls, agent=agent, global_B=B, env_ranks=list(range(B)),
        )  # fmt: skip
        self.eval_collector = self.eval_CollectorCls(
            envs=[self.EnvCls(**self.env_kwargs)], agent=agent, TrajInfoCls=self.TrajInfoCls,
            max_T=self.eval_max_steps, max_trajectories=1,
        )  # fmt: skip
        started = self.collector.start_envs(self.max_decorrelation_steps)
        self.agent_inputs, self.traj_infos = started
        self.collector.start_agent()
        self.agent = agent
        return examples

    def obtain_samples(self, itr):
        results = self.collector.collect_batch(self.agent_inputs, self.traj_infos, itr)
        self.agent_inputs, self.traj_infos, completed = results
        self.collector.reset_if_needed(self.agent_inputs)
        return self.samples_pyt, completed

    def evaluate_agent(self, itr):
        return self.eval_collector.collect_evaluation(itr)


class HomemadeSerialSampler(HomemadeSampler, SerialSampler):
    """The same as a subclass of a ready one."""


class TrainingInfo(TrajInfo):
    pass


@pytest.mark.parametrize("SamplerCls", [HomemadeSampler, HomemadeSerialSampler])
def test_a_custom_sampler_trains_evaluates_and_warns_once_of_lost_state(SamplerCls, tmp_path):
    def run(**kwargs):
        sampler = SamplerCls(
            EnvCls=make, env_kwargs=CARTPOLE, batch_T=T, batch_B=B,
            CollectorCls=CpuResetCollector, max_decorrelation_steps=3, TrajInfoCls=TrainingInfo,
            eval_n_envs=1, eval_CollectorCls=SerialEvalCollector, eval_max_steps=40,
        )  # fmt: skip
        runner = MinibatchRlEval(
            algo=A2C(), agent=CategoricalMlpAgent(), sampler=sampler, n_steps=4 * T * B, seed=1,
            log_interval_steps=2 * T * B, checkpoint_dir=tmp_path,
            checkpoint_interval_steps=T * B, **kwargs,
        )  # fmt: skip
        runner.train()
        return runner

    with pytest.warns(UserWarning, match="has no state_dict") as said:
        assert run().trained_itr == 3
    assert len([w for w in said if "has no state_dict" in str(w.message)]) == 1
    with pytest.warns(UserWarning, match="starts new episodes"):
        assert run(resume_from=tmp_path).start_itr == 4


def test_a_subclass_of_a_ready_sampler_may_drive_its_collector_itself():
    class Driven(SerialSampler):
        def obtain_samples(self, itr):
            results = self.collector.collect_batch(self.agent_inputs, self.traj_infos, itr)
            self.agent_inputs, self.traj_infos, completed = results
            self.collector.reset_if_needed(self.agent_inputs)
            return self.samples_pyt, completed

    def batches(SamplerCls):
        sampler = SamplerCls(EnvCls=make, env_kwargs=CARTPOLE, batch_T=T, batch_B=B)
        sampler.initialize(CategoricalMlpAgent(), seed=1)
        sampler.agent.sample_mode(0)
        rewards = [sampler.obtain_samples(i)[0].env.observation.clone() for i in range(3)]
        sampler.shutdown()
        return torch.stack(rewards)

    torch.manual_seed(0)
    own = batches(Driven)
    torch.manual_seed(0)
    assert torch.equal(own, batches(SerialSampler))


class OnlyResets:
    """A collector for a sampler that has no use for it."""

    mid_batch_reset = True


class GridSampler(BaseSampler):
    """Interprets its environments' arguments itself, and collects without a collector."""

    def initialize(
        self, agent, affinity, seed, bootstrap_value, traj_info_kwargs, rank, world_size
    ):
        assert self.env_kwargs == [dict(length=3), dict(length=5)]
        self.envs = [self.EnvCls(**kwargs) for kwargs in self.env_kwargs]
        agent.initialize(self.envs[0].spaces, share_memory=False, global_B=2, env_ranks=[0, 1])
        agent.collector_initialize(global_B=2, env_ranks=[0, 1])
        examples = {}
        get_example_outputs(agent, self.envs[0], examples)
        samples = build_samples_buffer(
            agent, self.envs[0], self.batch_spec, bootstrap_value, examples=examples
        )
        self.samples_pyt, self.samples_np = samples[:2]
        self.agent = agent
        self.observation = np.stack([env.reset() for env in self.envs])
        return examples

    def obtain_samples(self, itr):
        batch, finished = self.samples_np, []
        action, reward = np.zeros(2, np.int64), np.zeros(2, np.float32)
        for t in range(self.batch_spec.T):
            batch.env.observation[t] = self.observation
            action, info = self.agent.step(*torchify_buffer((self.observation, action, reward)))
            batch.agent.action[t] = action = action.numpy()
            batch.agent.agent_info[t] = info
            for b, env in enumerate(self.envs):
                o, reward[b], done, env_info = env.step(action[b])
                batch.env.done[t, b] = done
                batch.env.env_info[t, b] = env_info
                if done:
                    finished.append(TrajInfo())
                    o = env.reset()
                self.observation[b] = o
            batch.env.reward[t] = reward
        return self.samples_pyt, finished


def test_a_sampler_may_need_no_collector_and_read_a_list_of_env_kwargs_itself(capsys):
    sampler = GridSampler(CountEnv, [dict(length=3), dict(length=5)], 4, 2, OnlyResets)
    algo = DQN(min_steps_learn=8, batch_size=4, replay_size=100)
    MinibatchRl(algo=algo, agent=DqnMlpAgent(), sampler=sampler, n_steps=40, seed=1).train()
    assert algo.update_counter > 0
    assert "so truncated episodes count as terminated" in capsys.readouterr().out


Info = namedarraytuple("Info", ["value"])


class PlainAgent:
    """Everything of its own: no base class."""

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        self.model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(self.model.weight, 1.0)
        if share_memory:
            self.model.share_memory()

    def to_device(self, cuda_idx=None):
        pass

    def collector_initialize(self, global_B=1, env_ranks=None):
        pass

    def reset(self):
        pass

    def reset_one(self, idx):
        pass

    @torch.no_grad()
    def step(self, observation, prev_action, prev_reward):
        value = self.model.weight[0, 0].expand(prev_reward.shape)
        return torch.zeros(prev_reward.shape, dtype=torch.int64), Info(value)

    def train_mode(self, itr):
        self.model.train()

    def sample_mode(self, itr):
        self.model.eval()

    eval_mode = sample_mode

    def parameters(self):
        return self.model.parameters()


class PlainAlgo:
    """Adds one to the only parameter, in every iteration."""

    opt_info_fields = ("loss",)
    bootstrap_value = False
    discount = 0.9

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, world_size, rank):
        self.agent = agent

    def optimize_agent(self, itr, samples):
        self.seen = samples.agent.agent_info.value.clone()
        with torch.no_grad():
            for parameter in self.agent.parameters():
                parameter.add_(1)
        return namedtuple("OptInfo", self.opt_info_fields)([0.5])

    def optim_state_dict(self):
        return {}


class PlainSampler:
    """Wraps one of ours without being one."""

    TrajInfoCls = TrajInfo
    mid_batch_reset = True

    def __init__(self, inner):
        self.inner = inner
        self.batch_spec = inner.batch_spec
        self.batch_size = inner.batch_size

    def initialize(
        self, agent, affinity, seed, bootstrap_value, traj_info_kwargs, rank, world_size
    ):
        return self.inner.initialize(agent, affinity, seed, bootstrap_value, traj_info_kwargs)

    def obtain_samples(self, itr):
        return self.inner.obtain_samples(itr)

    def shutdown(self):
        self.inner.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("wrapped", [False, True])
def test_parts_without_our_base_classes_train_and_workers_see_updates(
    SamplerCls, wrapped, tmp_path
):
    sampler = SamplerCls(CountEnv, {}, batch_T=T, batch_B=2)
    runner = MinibatchRl(
        algo=PlainAlgo(), agent=PlainAgent(), n_steps=3 * T * 2, seed=1,
        sampler=PlainSampler(sampler) if wrapped else sampler, affinity=dict(n_workers=2),
        checkpoint_dir=tmp_path,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner.train()
    assert isinstance(runner.agent, PlainAgent)
    assert (runner.algo.seen == 3).all()  # 1, and two updates


class PlainCollector:
    """Every method that rlpyt's workers call, and no base class."""

    mid_batch_reset = True

    def __init__(
        self, rank, envs, samples_np, batch_T, TrajInfoCls, agent, global_B=1, env_ranks=None
    ):
        self.envs, self.samples_np, self.batch_T, self.agent = envs, samples_np, batch_T, agent
        self.TrajInfoCls = TrajInfoCls

    def start_envs(self, max_decorrelation_steps=0):
        return [env.reset() for env in self.envs], [self.TrajInfoCls() for _ in self.envs]

    def start_agent(self):
        self.agent.collector_initialize()

    def collect_batch(self, agent_inputs, traj_infos, itr):
        finished = []
        for t in range(self.batch_T):
            for b, env in enumerate(self.envs):
                o, r, d, info = env.step(0)
                self.samples_np.env.observation[t, b] = o
                self.samples_np.env.reward[t, b] = r
                traj_infos[b].step(o, 0, r, d, None, info)
                if d:
                    finished.append(traj_infos[b].terminate(o))
                    traj_infos[b] = self.TrajInfoCls()
                    env.reset()
        return agent_inputs, traj_infos, finished


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
def test_a_collector_without_our_base_class_collects(SamplerCls):
    sampler = SamplerCls(
        CountEnv, dict(length=2, fixed=True), batch_T=4, batch_B=2, CollectorCls=PlainCollector
    )
    sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=1), seed=1)
    try:
        _, finished = sampler.obtain_samples(0)
        assert [info.Length for info in finished] == [2, 2, 2, 2]
        with pytest.warns(UserWarning, match="PlainCollector .*state_dict"):
            sampler.state_dict()
    finally:
        sampler.shutdown()
