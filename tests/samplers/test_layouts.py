"""Every sampler gives the same batches; what they hold is checked against a plain loop."""

import numpy as np
import psutil
import pytest

from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.layout import SamplerLayout
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import env_seed, stream
from tests.parts import EchoAgent

T, B = 7, 4


def collect(SamplerCls, n_batches=3, workers=2, T=T, B=B, **kwargs):
    kwargs = {"env_kwargs": dict(length=5, life=3), "max_decorrelation_steps": 6, **kwargs}
    sampler = SamplerCls(EnvCls=CountEnv, batch_T=T, batch_B=B, **kwargs)
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=workers), seed=11, bootstrap_value=True)
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


class ThreeGroups(AlternatingSampler):
    layout = SamplerLayout(processes=True, agent="served", groups=3)


def test_three_groups_of_workers_take_turns():
    serial, grouped = collect(SerialSampler, B=6), collect(ThreeGroups, workers=3, B=6)
    for (a, _), (b, _) in zip(serial, grouped, strict=True):
        assert all(map(np.array_equal, leaves_of(a), leaves_of(b)))


def test_groups_without_overlap_are_two():
    with pytest.raises(ValueError, match="overlap must be True unless there are two groups"):
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
