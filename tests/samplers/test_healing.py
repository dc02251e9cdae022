"""Faults are healed: the run goes on, and nothing that a broken episode recorded is used."""

import signal
from itertools import groupby

import numpy as np
import pytest

from rlpyt.agents.random import RandomAgent
from rlpyt.curricula.base import Curriculum
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.envs.vector.wrappers.standardize import StandardizeObservation
from rlpyt.errors import WorkerError
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func
from tests.cases import product_of
from tests.faulty import FaultyEnv
from tests.oracles.healed import HealedRows
from tests.parts import EchoAgent

pytestmark = pytest.mark.usefixtures("nothing_left")

PARALLEL = [CpuSampler, GpuSampler, AlternatingSampler]
ALL = [SerialSampler, *PARALLEL]
T, B, N = 16, 4, 5


def batches(SamplerCls, tmp_path, n=N, on_fault="restart", sampler=None, **env_kwargs):
    """Return copies of n batches and their trajectories; environment 1 fails in its 21st step."""
    env_kwargs = dict(at=21, victim=2, tally=str(tmp_path / "tally"), length=9) | env_kwargs
    sampler = SamplerCls(
        **dict(EnvCls=FaultyEnv, max_decorrelation_steps=0) | (sampler or {}),
        env_kwargs=env_kwargs,
        batch_T=T,
        batch_B=B,
        on_fault=on_fault,
        env_timeout=1.0,
    )
    affinity = dict(workers_cpus=[0, 1], set_affinity=False)
    try:
        sampler.initialize(EchoAgent(), affinity, seed=3, bootstrap_value=True)
        found = []
        for itr in range(n):
            samples, infos = sampler.obtain_samples(itr)
            found.append((_copied(samples), infos))
        return found, sampler.statistics()
    finally:
        sampler.shutdown()


def _copied(samples):
    return buffer_func(samples, lambda leaf: leaf.numpy().copy())


def check_rows(found, waits=False):
    """Check every row; return the numbers of void rows, [batches, B]."""
    rows = HealedRows(B)
    n_void = np.array([rows.check(samples, infos) for samples, infos in found])
    if waits:  # until the end of the batch
        voids = [samples.env.void for samples, _ in found]
        assert all((void[1:] >= void[:-1]).all() for void in voids)
    return n_void


@pytest.mark.parametrize(
    "SamplerCls, fault",
    product_of(
        ALL,
        ["raise", "nan", "observation shape", "exit"],
        fast=[
            *((SamplerCls, "raise") for SamplerCls in ALL),
            (CpuSampler, "nan"),
            (AlternatingSampler, "observation shape"),
            (GpuSampler, "exit"),
        ],
    ),
)
def test_an_environment_that_fails_is_built_anew(SamplerCls, fault, tmp_path):
    found, statistics = batches(SamplerCls, tmp_path, fault=fault)
    n_void = check_rows(found)
    assert statistics["EnvRestarts"] == 1 and statistics["WorkerRestarts"] == 0
    assert n_void.sum(1).tolist()[2:] == [0] * (N - 2) and n_void[0].sum() == 0
    assert (n_void[1] > 0).sum() == 1 and n_void[1].max() < 9


@pytest.mark.parametrize(
    "SamplerCls, fault",
    product_of(
        PARALLEL,
        ["kill", "hang"],
        fast=[
            *((SamplerCls, "kill") for SamplerCls in PARALLEL),
            (CpuSampler, "hang"),
        ],
    ),
)
def test_a_worker_that_is_lost_is_started_again(SamplerCls, fault, tmp_path):
    found, statistics = batches(SamplerCls, tmp_path, fault=fault)
    n_void = check_rows(found)
    assert sorted(n_void[1]) == [0, 0, T, T] and n_void.sum() == 2 * T
    expected = {"EnvRestarts": 0, "WorkerRestarts": 1, "DroppedEnvs": 0, "VoidSteps": 2 * T}
    assert statistics == expected


@pytest.mark.parametrize(
    "SamplerCls, fault",
    product_of(
        PARALLEL,
        ["raise", "kill", "hang"],
        fast=[
            (CpuSampler, "raise"),
            (AlternatingSampler, "raise"),
            (GpuSampler, "kill"),
            (CpuSampler, "hang"),
        ],
    ),
)
def test_a_worker_that_is_dropped_records_nothing_any_more(SamplerCls, fault, tmp_path):
    on_fault = dict.fromkeys(("env_error", "env_hang", "worker_death"), "drop_worker")
    found, statistics = batches(SamplerCls, tmp_path, on_fault=on_fault, fault=fault)
    n_void = check_rows(found)
    assert not n_void[0].any()
    assert all(sorted(row) == [0, 0, T, T] and (row == n_void[1]).all() for row in n_void[1:])
    assert statistics["WorkerRestarts"] == 0 and statistics["DroppedEnvs"] == 2
    assert statistics["VoidSteps"] == 2 * T * (N - 1)


def test_the_last_worker_is_not_dropped(tmp_path):
    on_fault = dict(env_error="drop_worker", max_per_hour=9)
    with pytest.raises(WorkerError, match="told to fail") as raised:
        batches(CpuSampler, tmp_path, on_fault=on_fault, fault="raise", victim=None)
    assert raised.value.worker in (0, 1) and "the last worker" in str(raised.value.__notes__)


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler, GpuSampler])
def test_a_restarted_environment_has_a_new_random_stream(SamplerCls, tmp_path):
    """The rank that CountEnv observes is its seed."""
    workers = "restart_worker" if SamplerCls is CpuSampler else "restart_env"
    on_fault = dict(env_error=workers, max_per_hour=1000, backoff_s=0)
    found, _ = batches(SamplerCls, tmp_path, on_fault=on_fault, fault="raise", victim=None)
    ranks = np.concatenate([np.where(s.env.void, -1, s.env.observation[..., 0]) for s, _ in found])
    lives = [groupby(column) for column in ranks.T]  # with -1 between them
    flat = [seed for life in lives for seed, _ in life if seed >= 0]
    assert len(flat) == len(set(flat)) >= 2 * B


class Levels(FaultyEnv):
    """Task k has episodes of 3 + k % 5 steps."""

    def set_task(self, task):
        self.length = 3 + task % 5


class Numbers(Curriculum):
    """Chooses 1, 2, 3 and so on; notes the results of episodes."""

    def initialize(self, rng):
        super().initialize(rng)
        self.n, self.results, self.n_dropped, self.n_ahead = 1, [], 0, 0

    def sample(self, n):
        self.n += n
        self.n_ahead = max(self.n_ahead, self.n - len(self.results))
        return np.arange(self.n - n, self.n)

    def update(self, task, result):
        self.results.append((result.env, task, result.length, result.return_))

    def drop_unfinished(self):
        self.n_dropped += 1


@pytest.mark.parametrize(
    "SamplerCls, fault",
    [
        (SerialSampler, "raise"),
        *product_of(
            PARALLEL,
            ["raise", "kill", "drop"],
            fast=[
                (AlternatingSampler, "raise"),
                (CpuSampler, "kill"),
                (GpuSampler, "kill"),
                (AlternatingSampler, "drop"),
            ],
        ),
    ],
)
def test_tasks_go_on_after_a_fault_and_broken_episodes_have_no_result(SamplerCls, fault, tmp_path):
    on_fault = dict(worker_death="drop_worker") if fault == "drop" else "restart"
    own = dict(EnvCls=Levels, curriculum=(numbers := Numbers(10_000)))
    env = dict(fault="raise" if fault == "raise" else "kill", fixed=True)
    found, _ = batches(SamplerCls, tmp_path, sampler=own, on_fault=on_fault, n=8, **env)
    expected, running = [], [[] for _ in range(B)]
    for samples, _ in found:
        for b, t in np.ndindex(B, T):
            if samples.env.void[t, b]:
                running[b] = []
                continue
            running[b].append((samples.env.env_info.task[t, b], samples.env.reward[t, b]))
            if samples.env.done[t, b]:
                (task,), return_ = {k for k, _ in running[b]}, sum(r for _, r in running[b])
                assert len(running[b]) == 3 + task % 5
                expected.append((b, task, len(running[b]), return_))
                running[b] = []
    assert numbers.results == expected and numbers.n_dropped >= 1
    assert numbers.n_ahead < B * (T // 3 + 5)  # a batch, and what was lost
    n_void = check_rows(found)
    for b in range(B):
        played = [task for env, task, *_ in expected if env == b]
        repeated = np.flatnonzero(np.diff(played) <= 0)
        assert (repeated < T // 3).all(), played  # while it was not known how many are needed
        dropped = fault == "drop" and n_void[:, b].any()
        assert len(played) < 6 if dropped else len(played) > 15


class OwnInfo(TrajInfo):
    """Statistics step by step, since it is not the stock class."""


@pytest.mark.parametrize("CollectorCls", [CpuResetCollector, CpuWaitResetCollector])
def test_own_statistics_and_waiting_environments(CollectorCls, tmp_path):
    own = dict(TrajInfoCls=OwnInfo, CollectorCls=CollectorCls)
    found, _ = batches(CpuSampler, tmp_path, sampler=own, fault="raise")
    check_rows(found, waits=CollectorCls is CpuWaitResetCollector)


def faulty_pairs(**kwargs):
    """Batches of two rows whose episodes end at different times."""
    return SerialVectorEnv([FaultyEnv(rank=rank, **kwargs) for rank in (0, 4)])


@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize("SamplerCls", [SerialSampler, GpuSampler])
def test_all_rows_of_a_vector_environment_start_again(SamplerCls, where, tmp_path):
    own, at = dict(EnvCls=faulty_pairs), dict(step=21, reset=4)[where]
    found, _ = batches(SamplerCls, tmp_path, sampler=own, fault="raise", where=where, at=at)
    n_void = check_rows(found)
    assert 1 <= (n_void.sum(0) > 0).sum() <= 2 and n_void.sum() < 2 * 9


def normalized_pairs(**kwargs):
    return StandardizeObservation(faulty_pairs(**kwargs))


@pytest.mark.parametrize("SamplerCls", [CpuSampler, GpuSampler])
def test_a_new_worker_has_the_running_statistics_of_another_one(SamplerCls, tmp_path):
    sampler = SamplerCls(
        EnvCls=normalized_pairs,
        env_kwargs=dict(fault="kill", at=40, victim=2, tally=str(tmp_path / "tally")),
        batch_T=T,
        batch_B=2 * B,
        max_decorrelation_steps=0,
        on_fault="restart",
    )
    counts = []
    try:
        sampler.initialize(EchoAgent(), dict(n_workers=2, set_affinity=False), seed=3)
        for itr in range(4):
            sampler.obtain_samples(itr)
            parts = sampler._worker_group.call("statistics")
            counts.append(
                [x["StandardizeObservation"]["0"]["count"] for part in parts for x in part]
            )
        assert sampler.statistics()["WorkerRestarts"] == 1
    finally:
        sampler.shutdown()
    assert np.min(counts, 1) == pytest.approx(np.max(counts, 1), rel=0.1), counts
    assert np.shape(counts) == (4, B) and np.diff(counts, axis=0).min() > 0


@pytest.mark.parametrize("max_trajectories", [8, None])
@pytest.mark.parametrize("SamplerCls", PARALLEL)
def test_dropped_workers_evaluate_nothing(SamplerCls, max_trajectories, tmp_path):
    sampler = SamplerCls(
        EnvCls=FaultyEnv,
        env_kwargs=dict(fault="kill", at=21, victim=2, tally=str(tmp_path / "tally"), length=4),
        eval_env_kwargs=dict(fault="none", length=4),
        batch_T=T,
        batch_B=B,
        eval_n_envs=2,
        eval_max_steps=80,
        eval_max_trajectories=max_trajectories,
        max_decorrelation_steps=0,
        on_fault=dict(worker_death="drop_worker"),
    )
    try:
        sampler.initialize(EchoAgent(), dict(n_workers=2, set_affinity=False), seed=3)
        counts = []
        for itr in range(3):
            counts.append(len(sampler.evaluate_agent(itr)))
            sampler.obtain_samples(itr)
    finally:
        sampler.shutdown()
    assert counts[0] == counts[1] == 2 * counts[2] >= 8


@pytest.mark.parametrize("SamplerCls", ALL)
@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_a_fault_in_an_evaluation_costs_its_episode_only(SamplerCls, fault, tmp_path):
    if fault == "kill" and SamplerCls is SerialSampler:
        return
    sampler = SamplerCls(
        EnvCls=CountEnv,
        batch_T=T,
        batch_B=B,
        eval_n_envs=2,
        eval_max_steps=400,
        eval_max_trajectories=8,
        on_fault="restart",
    )
    tally = dict(victim=0, tally=str(tmp_path / "tally"))
    sampler.EnvCls = FaultyEnv
    sampler.env_kwargs = dict(fault="none")
    sampler.eval_env_kwargs = dict(fault=fault, at=5, length=4, **tally)
    try:
        sampler.initialize(EchoAgent(), dict(n_workers=2, set_affinity=False), seed=3)
        lengths = [[info.Length for info in sampler.evaluate_agent(itr)] for itr in range(2)]
        sampler.obtain_samples(2)
    finally:
        sampler.shutdown()
    assert len(lengths[1]) == 8
    assert len(lengths[0]) == (8 if fault == "raise" else 4)


@pytest.mark.parametrize(
    "SamplerCls, action",
    product_of(
        PARALLEL,
        ["restart_worker", "drop_worker"],
        fast=[
            (AlternatingSampler, "restart_worker"),
            (CpuSampler, "restart_worker"),
            (GpuSampler, "drop_worker"),
        ],
    ),
)
def test_the_rest_of_a_long_evaluation_goes_on_without_a_lost_worker(SamplerCls, action, tmp_path):
    sampler = SamplerCls(
        EnvCls=FaultyEnv,
        env_kwargs=dict(fault="none"),
        eval_env_kwargs=dict(
            fault="raise", at=5, length=100, fixed=True, victim=0, tally=str(tmp_path / "tally")
        ),
        batch_T=T,
        batch_B=B,
        eval_n_envs=2,
        eval_max_steps=2 * 400,
        eval_max_trajectories=8,
        on_fault=dict(env_error=action),
    )
    try:
        sampler.initialize(EchoAgent(), dict(n_workers=2, set_affinity=False), seed=3)
        n_episodes = [len(sampler.evaluate_agent(itr)) for itr in range(2)]
        assert sampler._worker_faults.lives == 1
    finally:
        sampler.shutdown()
    assert n_episodes == [4, 8 if action == "restart_worker" else 4]


@pytest.mark.parametrize("fault", ["raise", "kill"])
@pytest.mark.parametrize("SamplerCls", PARALLEL)
def test_faults_in_the_random_steps_at_the_start_are_healed(SamplerCls, fault, tmp_path):
    on_fault = dict(env_error="restart_worker", worker_death="restart_worker")
    long = dict(max_decorrelation_steps=50)
    found, statistics = batches(SamplerCls, tmp_path, 2, on_fault, long, fault=fault, at=3)
    assert statistics["WorkerRestarts"] == 1 and statistics["VoidSteps"] == 0
    assert all(not samples.env.void.any() and samples.env.done.any(0).all() for samples, _ in found)


def test_vector_environments_are_built_anew_while_rows_are_held(tmp_path):
    """In random steps, rows are held before their own; in an evaluation, after their last one."""
    tallies = [str(tmp_path / name) for name in ("train", "eval")]
    fault = dict(fault="raise", length=20)
    sampler = SerialSampler(
        EnvCls=normalized_pairs,
        env_kwargs=dict(fault, at=3, victim=2, tally=tallies[0]),
        eval_env_kwargs=dict(fault, at=10, victim=0, tally=tallies[1]),
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=40,
        eval_n_envs=2,
        eval_max_steps=400,
        eval_max_trajectories=2,
        on_fault=dict(env_error="restart_env", backoff_s=0.01),
    )
    try:
        sampler.initialize(EchoAgent(), seed=3)
        samples, _ = sampler.obtain_samples(0)
        sampler.state_dict()  # takes note of all faults
        assert not samples.env.void.any() and sampler.statistics()["EnvRestarts"] == 1
        lengths = sorted(info.Length for info in sampler.evaluate_agent(0))
        assert lengths == [4, 20] and sampler.statistics()["EnvRestarts"] == 2
        (env,) = sampler._env_worker.eval_envs
        counts = [
            x["StandardizeObservation"]["0"]["count"] for x in sampler._env_worker.statistics()
        ]
        assert env.statistics()["StandardizeObservation"]["0"]["count"] == sum(counts)
    finally:
        sampler.shutdown()


def test_a_broken_environment_that_waits_has_no_state(tmp_path):
    sampler = SerialSampler(
        EnvCls=FaultyEnv,
        env_kwargs=dict(at=21, victim=2, tally=str(tmp_path / "tally"), length=9, fixed=True),
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=0,
        CollectorCls=CpuWaitResetCollector,
        on_fault="restart",
    )
    try:
        sampler.initialize(EchoAgent(), seed=3)
        known = []
        for itr in range(4):
            sampler.obtain_samples(itr)
            (part,) = sampler.state_dict()["stations"]
            known.append([state is not None for state in part["envs"]])
    finally:
        sampler.shutdown()
    assert known == [[True] * B, [True] * B, [True, False, True, True], [True] * B]


def test_failed_resets_are_counted_although_they_void_nothing(tmp_path):
    sampler = SerialSampler(
        FaultyEnv, dict(where="reset", at=3, length=4), batch_T=T, batch_B=B,
        max_decorrelation_steps=0, on_fault=dict(env_error="restart_env", backoff_s=0.01),
    )  # fmt: skip
    sampler.initialize(EchoAgent(), seed=3)
    samples, _ = sampler.obtain_samples(0)
    assert not samples.env.void.any() and sampler.statistics()["EnvRestarts"] >= B
    sampler.shutdown()


def test_counts_of_sampler_processes_are_added(tmp_path):
    sampler = AsyncSerialSampler(
        FaultyEnv, dict(at=5, victim=1, tally=str(tmp_path / "tally"), fixed=True, length=9),
        batch_T=T, batch_B=B, max_decorrelation_steps=0, on_fault="restart",
    )  # fmt: skip
    sampler.async_initialize(RandomAgent(), seed=3)
    sampler.initialize([dict(set_affinity=False)] * 2)
    try:
        sampler.obtain_samples(0)
        counts = sampler.statistics()
    finally:
        sampler.shutdown()
    assert (counts["EnvRestarts"], counts["VoidSteps"]) == (1, 5)


def test_not_finite_numbers_are_no_faults_for_a_collector_that_takes_them():
    class Lenient(CpuResetCollector):
        check_finite = False

    kwargs = dict(fault="nan", at=4, length=9, fixed=True)
    sampler = SerialSampler(
        FaultyEnv, kwargs, batch_T=T, batch_B=B, max_decorrelation_steps=0, CollectorCls=Lenient,
        on_fault=dict(env_error="restart_env"),
    )  # fmt: skip
    sampler.initialize(RandomAgent(), seed=3)
    samples, _ = sampler.obtain_samples(0)
    assert samples.env.observation.isnan().any() and not samples.env.void.any()
    sampler.shutdown()


def test_a_signal_is_no_fault():
    class Stopped(CountEnv):
        def step(self, action):
            if self._t == 3:
                signal.raise_signal(signal.SIGUSR1)
            return super().step(action)

    def stop(number, frame):
        raise SystemExit(number)

    sampler = SerialSampler(
        Stopped, dict(length=9, fixed=True), batch_T=T, batch_B=B, max_decorrelation_steps=0,
        on_fault="restart",
    )  # fmt: skip
    sampler.initialize(RandomAgent(), seed=3)
    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(SystemExit):
            sampler.obtain_samples(0)
    finally:
        signal.signal(signal.SIGUSR1, before)
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
def test_faults_before_a_state_is_loaded_are_not_counted(SamplerCls, tmp_path):
    def started(tally):
        sampler = SamplerCls(
            EnvCls=FaultyEnv, batch_T=T, batch_B=B, max_decorrelation_steps=50, on_fault="restart",
            env_kwargs=dict(fault="raise", at=3, victim=2, tally=str(tmp_path / tally)),
        )  # fmt: skip
        sampler.initialize(EchoAgent(), dict(n_workers=2, set_affinity=False), seed=3)
        return sampler

    first, resumed = started("first"), started("second")
    try:
        first.obtain_samples(0)
        resumed.load_state_dict(first.state_dict())
        resumed.state_dict()  # takes note of all faults
        assert first.statistics()["EnvRestarts"] == resumed.statistics()["EnvRestarts"] == 1
    finally:
        first.shutdown()
        resumed.shutdown()


class BuiltOnce(CountEnv):
    """An environment that can be built by one process only."""

    def __init__(self, tally, **kwargs):
        super().__init__()
        with open(tally, "x"):
            pass


def test_a_worker_that_cannot_be_built_is_not_restarted(tmp_path):
    with pytest.raises(WorkerError, match="FileExistsError") as raised:
        batches(CpuSampler, tmp_path, sampler=dict(EnvCls=BuiltOnce))
    assert "faults" not in str(raised.value)


def test_a_sampler_without_workers_restarts_none(tmp_path):
    with pytest.raises(ValueError, match="env_error .*SerialSampler.*'restart_worker'"):
        batches(SerialSampler, tmp_path, on_fault=dict(env_error="restart_worker"), fault="raise")
