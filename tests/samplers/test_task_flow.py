"""Tasks on their way from a curriculum to environments, and results on their way back."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.agents.random import RandomAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.curricula.base import Curriculum
from rlpyt.curricula.domain_randomization import DomainRandomization
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.curricula.scores import GaeMagnitude, TdErrorMagnitude
from rlpyt.envs.cartpole_levels import CartPoleLevels
from rlpyt.envs.toy import BanditEnv, CountEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.checkpoint import load_checkpoint, save_checkpoint
from tests.parts import EchoAgent

WORKERS = [CpuSampler, GpuSampler, AlternatingSampler, NoOverlapAlternatingSampler]
T, B, N = 12, 4, 5


class LevelEnv(CountEnv):
    """Task k has episodes of k + 1 steps."""

    def __init__(self, **kwargs):
        super().__init__(fixed=True, **kwargs)

    def set_task(self, task):
        self.length = task + 1


class Diary(PrioritizedLevelReplay):
    """Notes what it chose and what it heard."""

    def initialize(self, rng):
        super().initialize(rng)
        self.chosen, self.heard = [], []

    def sample(self, n):
        tasks = super().sample(n)
        self.chosen += tasks.tolist()
        return tasks

    def update(self, task, result):
        super().update(task, result)
        self.heard.append((task, *result))


def start(SamplerCls, curriculum, agent=None, workers=2, seed=11, EnvCls=LevelEnv, **kwargs):
    settings = dict(env_kwargs={}, batch_T=T, batch_B=B, max_decorrelation_steps=0)
    sampler = SamplerCls(EnvCls=EnvCls, curriculum=curriculum, **{**settings, **kwargs})
    affinity = dict(n_workers=workers)
    sampler.initialize(agent or EchoAgent(), affinity, seed=seed, bootstrap_value=True)
    return sampler


def collect(sampler, n):
    out = []
    for itr in range(n):
        samples, _ = sampler.obtain_samples(itr)
        out.append(buffer_func(samples, lambda leaf: leaf.numpy().copy()))
    return out


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
            np.testing.assert_array_equal(x, y)


def test_every_layout_plays_the_same_tasks():
    kwargs = dict(max_decorrelation_steps=6)
    expected = Diary(N)
    serial = start(SerialSampler, expected, **kwargs)
    batches = collect(serial, 6)
    serial.shutdown()
    assert len(expected.heard) > 50
    for SamplerCls in WORKERS:
        diary = Diary(N)
        sampler = start(SamplerCls, diary, **kwargs)
        try:
            assert_same(collect(sampler, 6), batches)
        finally:
            sampler.shutdown()
        assert diary.heard == expected.heard and diary.chosen == expected.chosen


def test_results_by_hand():
    """Each episode is told once: its task, return, length, mean score and environment."""
    diary = Diary(N, score=lambda samples: samples.env.observation[..., 2])  # t of each step
    sampler = start(SerialSampler, diary)
    batches = collect(sampler, 5)
    sampler.shutdown()
    told = {b: [] for b in range(B)}
    for task, return_, length, score, progress, env in diary.heard:
        told[env].append((task, return_, length, score))
        assert progress == 0
    for b in range(B):
        task = np.concatenate([batch.env.env_info.task[:, b] for batch in batches])
        reward = np.concatenate([batch.env.reward[:, b] for batch in batches])
        ended = np.concatenate([batch.env.env_info.traj_done[:, b] for batch in batches])
        edges = [0, *(np.flatnonzero(ended) + 1)]
        expected = [
            (task[i], reward[i:j].sum(), j - i, (j - i - 1) / 2)
            for i, j in itertools.pairwise(edges)
        ]
        assert told[b] == expected
        assert all(length == task + 1 for task, _, length, _ in expected)


def test_tasks_are_played_in_the_order_in_which_they_were_chosen():
    class Numbers(Curriculum):
        """Chooses 0, 1, 2 and so on."""

        def initialize(self, rng):
            super().initialize(rng)
            self.n = 0

        def sample(self, n):
            self.n += n
            return np.arange(self.n - n, self.n)

    class Short(LevelEnv):
        def set_task(self, task):
            self.length = 3

    sampler = start(SerialSampler, Numbers(10_000), EnvCls=Short)
    batches = collect(sampler, 8)
    sampler.shutdown()
    last = [
        batch.env.env_info.task[:, b][batch.env.env_info.traj_done[:, b]]
        for b in range(B)
        for batch in batches
    ]
    per_batch = T // 3
    for b in range(B):
        played = np.concatenate(last[b * 8 : (b + 1) * 8])
        again = np.diff(played) == 0  # until it was known how many episodes a batch has
        assert (np.diff(played) >= 0).all() and again[per_batch:].sum() == 0
    everything = np.concatenate(last)
    # Only in the first batch did any environment repeat its last task, instead of three others.
    assert len(set(everything)) == 8 * B * per_batch - 3 * B


def test_few_tasks_wait_in_environments():
    """Choices are made for the near future only: about one batch ahead."""
    diary = Diary(N)
    sampler = start(SerialSampler, diary, EnvCls=LevelEnv)
    collect(sampler, 20)
    waiting = len(diary.chosen) - len(diary.heard)
    assert waiting <= B * (T + 2)
    sampler.shutdown()


def test_scores_are_those_of_the_algorithm():
    """|GAE| as plain loops, over an episode that ends and one that goes on."""
    sampler = start(SerialSampler, DomainRandomization(N))
    (samples,) = collect(sampler, 1)
    sampler.shutdown()
    gamma, lam = 0.9, 0.7
    got = GaeMagnitude(gamma, lam)(samples)
    value, reward, done = samples.agent.agent_info.value, samples.env.reward, samples.env.done
    for b in range(B):
        advantage = 0.0
        for t in reversed(range(T)):
            following = samples.agent.bootstrap_value[0, b] if t == T - 1 else value[t + 1, b]
            if done[t, b]:
                following, advantage = samples.agent.timeout_value[t, b], 0.0
            delta = reward[t, b] + gamma * following - value[t, b]
            advantage = delta + gamma * lam * advantage
            assert got[t, b] == pytest.approx(abs(advantage), rel=1e-5)
    assert TdErrorMagnitude(gamma).gae_lambda == 0


@pytest.mark.parametrize(
    "score, expected",
    [
        (None, GaeMagnitude(0.5, 0.8)),
        (GaeMagnitude(0.7), GaeMagnitude(0.7, 0.8)),
        (TdErrorMagnitude(), TdErrorMagnitude(0.5)),
    ],
)
def test_the_runner_gives_the_score_the_settings_of_the_algorithm(score, expected):
    """Its values are learned for that discount."""
    curriculum = PrioritizedLevelReplay(N, score=score)
    algo, agent = PPO(discount=0.5, gae_lambda=0.8), CategoricalMlpAgent()
    sampler = SerialSampler(LevelEnv, {}, batch_T=T, batch_B=B, curriculum=curriculum)
    runner = MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=T * B, seed=0)
    runner.train()
    assert sampler._task_flow._score == expected
    assert curriculum.score == (score or GaeMagnitude())  # for another run


def test_a_score_needs_values():
    sampler = SerialSampler(
        LevelEnv, {}, batch_T=T, batch_B=B, curriculum=PrioritizedLevelReplay(N)
    )
    sampler.initialize(RandomAgent(), seed=0)  # without bootstrap value
    with pytest.raises(ValueError, match="such as A2C or PPO"):
        sampler.obtain_samples(0)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler, GpuSampler])
def test_a_resumed_sampler_goes_on_with_the_same_tasks(SamplerCls, tmp_path):
    kwargs = dict(EnvCls=CartPoleLevels, env_kwargs=dict(n_levels=N), agent=CategoricalMlpAgent())
    first = start(SamplerCls, PrioritizedLevelReplay(N), **kwargs)
    try:
        collect(first, 4)
        save_checkpoint(tmp_path, {"sampler": first.state_dict()}, meta={})
        weights = kwargs["agent"].state_dict()
        expected = collect(first, 4)
    finally:
        first.shutdown()
    kwargs["agent"] = CategoricalMlpAgent(initial_model_state_dict=weights)
    second = start(SamplerCls, PrioritizedLevelReplay(N), seed=99, **kwargs)
    try:
        assert second.load_state_dict(load_checkpoint(tmp_path).state["sampler"])
        assert_same(collect(second, 4), expected)
    finally:
        second.shutdown()


def test_what_was_learnt_survives_new_episodes(tmp_path):
    first = start(CpuSampler, PrioritizedLevelReplay(N), workers=2)
    try:
        collect(first, 4)
        state = first.state_dict()
    finally:
        first.shutdown()
    curriculum = PrioritizedLevelReplay(N)
    second = start(SerialSampler, curriculum)
    assert not second.load_state_dict(state)
    assert curriculum.scores.tolist() == first.curriculum.scores.tolist() and curriculum.now > 20
    collect(second, 2)
    second.shutdown()


def test_evaluation_is_on_all_tasks_alike():
    class TaskInfo(TrajInfo):
        def step(self, observation, action, reward, done, agent_info, env_info):
            super().step(observation, action, reward, done, agent_info, env_info)
            self.Task = int(env_info.task)

    sampler = start(
        SerialSampler, DomainRandomization(N, among=[0]), TrajInfoCls=TaskInfo,
        eval_n_envs=4, eval_max_steps=4000, eval_max_trajectories=200,
    )  # fmt: skip
    _, infos = sampler.obtain_samples(0)
    assert {info.Task for info in infos} == {0}
    counts = np.bincount([info.Task for info in sampler.evaluate_agent(0)], minlength=N)
    assert counts.sum() == 200 and counts.min() > 15
    sampler.shutdown()


def test_what_cannot_have_a_curriculum_is_refused():
    with pytest.raises(ValueError, match="resets at once"):
        SerialSampler(
            LevelEnv,
            {},
            T,
            B,
            CollectorCls=CpuWaitResetCollector,
            curriculum=DomainRandomization(N),
        )
    with pytest.raises(TypeError, match="set_task"):
        start(SerialSampler, DomainRandomization(N), EnvCls=BanditEnv)

    class Odd(DomainRandomization):
        def sample(self, n):
            return np.full(n + 1, 0)

    with pytest.raises(ValueError, match=r"Odd.sample\(8\) .*9"):
        start(SerialSampler, Odd(N))


def test_without_a_curriculum_nothing_is_there():
    sampler = SerialSampler(LevelEnv, {}, T, B)
    sampler.initialize(EchoAgent(), seed=0)
    samples, _ = sampler.obtain_samples(0)
    assert sampler.EnvCls is LevelEnv and sampler._task_flow is None
    assert "task" not in samples.env.env_info._fields and sampler.statistics() == {}
    sampler.shutdown()


def run(tmp_path, n_steps, resume=None, SamplerCls=SerialSampler):
    curriculum = PrioritizedLevelReplay(N)
    sampler = SamplerCls(
        CartPoleLevels, dict(n_levels=N), batch_T=32, batch_B=4, curriculum=curriculum
    )
    agent = CategoricalMlpAgent()
    MinibatchRl(
        algo=PPO(linear_lr_schedule=False), agent=agent, sampler=sampler, n_steps=n_steps, seed=3,
        checkpoint_dir=tmp_path, resume_from=resume,
    ).train()  # fmt: skip
    return curriculum, agent.state_dict()


def test_a_resumed_run_is_the_run_that_was_not_interrupted(tmp_path):
    whole, expected = run(tmp_path / "whole", 32 * 4 * 8)
    run(tmp_path / "parts", 32 * 4 * 4)
    parts, got = run(tmp_path / "parts", 32 * 4 * 8, resume=tmp_path / "parts")
    assert parts.scores.tolist() == whole.scores.tolist() and parts.now == whole.now > 10
    for name, value in expected.items():
        np.testing.assert_array_equal(value, got[name])
    assert whole.statistics()["CurriculumTasksSeen"] > 2


def test_hosts_of_asynchronous_runs_have_their_own(tmp_path):
    sampler = AsyncSerialSampler(LevelEnv, {}, batch_T=T, batch_B=B, curriculum=Diary(N))
    agent = EchoAgent()
    sampler.async_initialize(agent, bootstrap_value=True, seed=1)
    sampler.initialize()
    try:
        for itr in range(4):
            sampler.obtain_samples(itr, itr % 2)
        task = np.asarray(sampler.slots[1].env.env_info.task)
        assert len(set(task.ravel())) > 1
        (host,) = sampler.state_dict()["hosts"]
        assert host["curriculum"]["curriculum"]["now"] > 10
    finally:
        sampler.shutdown()


def test_the_example_of_the_docs_runs():
    page = Path(__file__).parents[2] / "docs" / "curricula.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    scope = {}
    exec(compile(example, str(page), "exec"), scope)
    assert scope["sampler"].curriculum.n_tasks == 50


class Forgetful(LevelEnv):
    """An environment that has a state unless it is told to lose it."""

    def __init__(self, saves=True, **kwargs):
        super().__init__(**kwargs)
        self.saves = saves

    def get_state(self):
        return super().get_state() if self.saves else None


def test_episodes_that_a_resume_cuts_are_not_counted_on():
    """One sampler process has a state, and another one has none."""

    def started():
        sampler = AsyncSerialSampler(
            Forgetful, [dict(saves=saves) for saves in (True, False)], batch_T=4, batch_B=2,
            max_decorrelation_steps=0, curriculum=Always(5),
        )  # fmt: skip
        sampler.async_initialize(CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8])), seed=0)
        sampler.initialize([dict(set_affinity=False)] * 2)
        sampler.obtain_samples(0)
        return sampler

    first, second = started(), started()
    try:
        assert not second.load_state_dict(first.state_dict())
        second.start_anew(1)
        second.obtain_samples(1)
        second.obtain_samples(2)
        after = [host["curriculum"]["curriculum"] for host in second.lasting_state()["hosts"]]
        assert [list(state["lengths"]) for state in after] == [[5]] * 2
    finally:
        first.shutdown()
        second.shutdown()


class Always(Curriculum):
    """The last task; it keeps the lengths of its episodes."""

    def __init__(self, n):
        super().__init__(n)
        self.lengths = []

    def sample(self, n):
        return np.full(n, self.space.n - 1)

    def update(self, task, result):
        self.lengths.append(result.length)

    def state_dict(self):
        return {"lengths": list(self.lengths)}

    def load_state_dict(self, state):
        self.lengths = list(state["lengths"])


def test_a_message_about_an_environment_names_its_class():
    class Breaks(LevelEnv):
        def step(self, action):
            if self._t == 3:
                raise ValueError("oops")
            return super().step(action)

    sampler = SerialSampler(
        Breaks, {}, batch_T=9, batch_B=1, curriculum=Always(8), max_decorrelation_steps=0
    )
    sampler.initialize(RandomAgent(), seed=0)
    with pytest.raises(ValueError, match="oops") as raised:
        sampler.obtain_samples(0)
    assert any("Breaks()" in note for note in raised.value.__notes__)
    sampler.shutdown()
