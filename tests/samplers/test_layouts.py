"""Every sampler gives the same batches; what they hold is checked against a plain loop."""

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces

from rlpyt.agents.random import RandomAgent
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import env_seed, stream
from tests.parts import EchoAgent

T, B = 7, 4


def collect(
    SamplerCls, n_batches=3, workers=2, T=T, B=B, EnvCls=CountEnv, AgentCls=EchoAgent, **kwargs
):
    kwargs = {"env_kwargs": dict(length=5, life=3), "max_decorrelation_steps": 6, **kwargs}
    sampler = SamplerCls(EnvCls=EnvCls, batch_T=T, batch_B=B, **kwargs)
    sampler.initialize(AgentCls(), affinity=dict(n_workers=workers), seed=11, bootstrap_value=True)
    try:
        out = []
        for itr in range(n_batches):
            samples, infos = sampler.obtain_samples(itr)
            out.append((buffer_func(samples, lambda x: x.numpy().copy()), infos))
        return out
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("Collector", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_batches_equal_serial_for_any_number_of_workers(Collector, workers):
    serial = collect(SerialSampler, CollectorCls=Collector)
    parallel = collect(CpuSampler, workers=workers, CollectorCls=Collector)
    for (a, infos_a), (b, infos_b) in zip(serial, parallel, strict=True):
        for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
            assert np.array_equal(x, y)
        key = lambda info: sorted(info.items())
        assert sorted(map(key, infos_a)) == sorted(map(key, infos_b))


class OwnSpaces(gymnasium.Env):
    """An environment with spaces of its own, whose observation shows its last actions."""

    def __init__(self):
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(7)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.last = 0, 0
        return self.observe()

    def step(self, action):
        self.t += 1
        self.last = 10 * self.last % 1000 + int(action)
        observation, info = self.observe()
        return observation, 1.0, False, self.t == 9, info

    def observe(self):
        return np.array([self.t, self.last], np.float32), {}


class SharedSpaces(OwnSpaces):
    observation_space = OwnSpaces().observation_space
    action_space = OwnSpaces().action_space

    def __init__(self):
        pass


class SamplesItsSpaces(SharedSpaces):
    def step(self, action):
        noise = self.observation_space.sample()
        observation, *others = super().step(int(self.action_space.sample()))
        return np.concatenate([observation[:1], noise[:1]]), *others


class MaskedSharedSpaces(SharedSpaces):
    def observe(self):
        mask = np.ones(7, np.int8)
        mask[: self.t % 5] = 0
        return super().observe()[0], {"action_mask": mask}


class SpacesOfModule(SharedSpaces):
    action_space = property(lambda self: SharedSpaces.action_space)


def rows_that_sample_their_spaces(num_envs):
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    return gymnasium.vector.SyncVectorEnv([SamplesItsSpaces] * num_envs, autoreset_mode=mode)


rows_that_sample_their_spaces.batched = True
SHARE = [SamplesItsSpaces, MaskedSharedSpaces, SpacesOfModule, rows_that_sample_their_spaces]
PARALLEL = [(CpuSampler, 1), (CpuSampler, 4), (GpuSampler, 2), (AlternatingSampler, 4)]


@pytest.mark.parametrize("EnvCls", SHARE)
def test_environments_that_share_spaces_draw_the_same_in_every_layout(EnvCls):
    kwargs = dict(EnvCls=EnvCls, AgentCls=RandomAgent, env_kwargs={}, n_batches=1)
    serial = collect(SerialSampler, **kwargs)[0][0]
    assert len(np.unique(leaves_of(serial.env.observation)[0][-1], axis=0)) == B
    for SamplerCls, workers in PARALLEL:
        batch = collect(SamplerCls, workers=workers, **kwargs)[0][0]
        assert all(map(np.array_equal, leaves_of(serial), leaves_of(batch)))


def test_shared_spaces_draw_what_own_ones_do_and_stay_as_they_were():
    kwargs = dict(AgentCls=RandomAgent, env_kwargs={}, n_batches=1)
    own = collect(SerialSampler, EnvCls=OwnSpaces, **kwargs)[0][0]
    SharedSpaces.action_space.seed(1)
    shared = collect(SerialSampler, EnvCls=SharedSpaces, **kwargs)[0][0]
    assert all(map(np.array_equal, leaves_of(own), leaves_of(shared)))
    again = spaces.Discrete(7, seed=1)
    assert SharedSpaces.action_space.sample() == again.sample()
    # The numbers of earlier releases.
    assert own.env.observation[0, :, 1].tolist() == [0, 332, 10, 0]


class ThreeGroups(AlternatingSampler):
    layout = SamplerLayout(processes=True, agent="served", groups=3)


def test_three_groups_of_workers_take_turns():
    serial, grouped = collect(SerialSampler, B=6), collect(ThreeGroups, workers=3, B=6)
    for (a, _), (b, _) in zip(serial, grouped, strict=True):
        assert all(map(np.array_equal, leaves_of(a), leaves_of(b)))


def test_groups_without_overlap_are_two():
    with pytest.raises(ValueError, match="overlap .*two groups"):
        SamplerLayout(processes=True, agent="served", groups=3, overlap=False)


def plain_loop(n_steps, rank, life, length=5):
    """Return what one environment must record, by a slow definition, one row a step."""
    env = CountEnv(length=length, life=life)
    env.seed(env_seed(11, rank, "env"))
    noise = stream(11, "action", rank)
    o, a, r, memory = env.reset(), 0, 0.0, 0
    rows = []
    for _ in range(n_steps):
        u = noise.random(dtype=np.float32)
        action = int(memory + a + np.floor(3 * u)) % 3
        row = dict(o=o.copy(), prev_a=a, prev_r=r, a=action, v=o[2] + r, memory=memory)
        o, reward, done, info = env.step(action)
        row.update(r=reward, done=done, tv=o[2] + reward if done and info.timeout else 0.0)
        row.update(timeout=info.timeout, traj_done=info.traj_done)
        a, r, memory = (0, 0.0, 0) if done else (action, reward, memory + 1)
        if info.traj_done:
            o = env.reset()
        rows.append(row)
    return rows


@pytest.mark.parametrize("life", [0, 3])
def test_rows_are_those_of_a_plain_loop(life):
    batches = collect(
        SerialSampler, env_kwargs=dict(length=5, life=life), max_decorrelation_steps=0
    )
    for b in range(B):
        rows = iter(plain_loop(3 * T, b, life))
        for samples, _ in batches:
            previous_done = True  # prev_action[0] is nulled by the collector in any case
            for t in range(T):
                row = next(rows)
                agent, env = samples.agent, samples.env
                assert env.observation[t, b].tolist() == row["o"].tolist()
                assert agent.action[t, b] == row["a"]
                assert env.reward[t, b] == row["r"]
                assert env.done[t, b] == row["done"]
                assert env.env_info.timeout[t, b] == row["timeout"]
                assert env.env_info.traj_done[t, b] == row["traj_done"]
                assert agent.agent_info.memory[t, b] == row["memory"]
                assert agent.agent_info.value[t, b] == row["v"]
                assert agent.timeout_value[t, b] == row["tv"]
                if t == 0 or not previous_done:
                    assert agent.prev_action[t, b] == row["prev_a"]
                    assert env.prev_reward[t, b] == row["prev_r"]
                previous_done = row["done"]


def test_bootstrap_value_is_of_the_observation_after_the_batch():
    batches = collect(SerialSampler, T=3, max_decorrelation_steps=0)
    following = batches[1][0]
    value = following.env.observation[0, :, 2] + following.env.prev_reward[0]
    assert batches[0][0].agent.bootstrap_value[0].tolist() == value.tolist()


def test_waiting_environments_record_zeros_and_start_afresh():
    batches = collect(
        SerialSampler,
        CollectorCls=CpuWaitResetCollector,
        env_kwargs=dict(length=5, end="termination"),
        max_decorrelation_steps=0,
    )
    for b in range(B):
        for e, (samples, _) in enumerate(batches):
            env, done = samples.env, samples.env.done[:, b]
            last = int(np.argmax(done))
            assert done[last:].all() and not done[:last].any()
            steps = env.observation[: last + 1, b, 1:].tolist()
            assert steps == [[e, t] for t in range(last + 1)]
            for leaf in leaves_of((env.observation, env.reward, samples.agent.action)):
                assert not leaf[last + 1 :, b].any()
            assert samples.agent.agent_info.memory[0, b] == 0


def test_life_lost_while_waiting_goes_on_where_it_was():
    kwargs = dict(env_kwargs=dict(length=9, fixed=True, life=2), max_decorrelation_steps=0)
    batches = collect(SerialSampler, CollectorCls=CpuWaitResetCollector, B=1, **kwargs)
    seen = [s.env.observation[:2, 0, 1:].tolist() for s, _ in batches]
    assert seen == [[[0, 0], [0, 1]], [[0, 2], [0, 3]], [[0, 4], [0, 5]]]


class CountingInfo(TrajInfo):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Actions = 0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        assert env_info.action == action
        self.Actions += int(action) + 100 * int(observation[2])


def test_subclassed_traj_info_is_called_at_every_step():
    stock = collect(SerialSampler)
    own = collect(SerialSampler, TrajInfoCls=CountingInfo)
    parallel = collect(CpuSampler, TrajInfoCls=CountingInfo)
    for (_, a), (_, b), (_, c) in zip(stock, own, parallel, strict=True):
        key = lambda info: (info.Return, info.Length)
        assert sorted(map(key, a)) == sorted(map(key, b)) == sorted(map(key, c))
        assert {i.Actions for i in b} == {i.Actions for i in c}
        assert all("Actions" in info for info in b)


def test_evaluation_shares_out_episodes_and_leaves_sampling_alone():
    def run(SamplerCls, evaluate):
        sampler = SamplerCls(
            EnvCls=CountEnv, env_kwargs={}, batch_T=T, batch_B=B, eval_n_envs=2,
            eval_max_steps=1000, eval_max_trajectories=7,
        )  # fmt: skip
        sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=3, bootstrap_value=False)
        try:
            sampler.obtain_samples(0)
            infos = sampler.evaluate_agent(0) if evaluate else []
            return infos, buffer_func(sampler.obtain_samples(1)[0], lambda x: x.numpy().copy())
        finally:
            sampler.shutdown()

    infos, after = run(SerialSampler, True)
    parallel, _ = run(CpuSampler, True)
    assert len(infos) == 7
    key = lambda info: sorted(info.items())
    assert sorted(map(key, infos)) == sorted(map(key, parallel))
    _, undisturbed = run(SerialSampler, False)
    for x, y in zip(leaves_of(after), leaves_of(undisturbed), strict=True):
        assert np.array_equal(x, y)


def test_shutdown_leaves_no_worker_and_can_be_repeated():
    sampler = CpuSampler(EnvCls=CountEnv, env_kwargs={}, batch_T=T, batch_B=B)
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=3)
    pids = [p.pid for p in sampler._worker_group.processes]
    sampler.shutdown()
    sampler.shutdown()
    assert not any(psutil.pid_exists(pid) for pid in pids)
