"""Tasks that come to nothing; curricula in processes beside the optimizer, and over Ray."""

import os
import signal

import cloudpickle
import numpy as np
import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.curricula.sequential import Sequential, Stage
from rlpyt.envs.cartpole_levels import CartPoleLevels
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.task_flow import TaskFlow
from rlpyt.utils.logging.context import logger_context
from rlpyt.vis.progress import read_progress
from tests.samplers import test_task_flow
from tests.samplers.ray_parts import cluster, importable  # noqa: F401
from tests.samplers.test_task_flow import B, Diary, LevelEnv, N, T, assert_same, collect, start

SEEN = "CurriculumTasksSeen"


def test_random_steps_at_the_start_use_up_no_tasks():
    """Nobody hears of them; a level that was begun and never heard of would never be replayed."""
    diary = Diary(60)
    sampler = start(SerialSampler, diary, max_decorrelation_steps=100)
    first = diary.chosen.copy()
    collect(sampler, 12)
    sampler.shutdown()
    assert len(first) == 2 * B and set(first) <= {task for task, *_ in diary.heard}


@pytest.mark.parametrize("inside", [False, True])
def test_levels_under_way_when_a_run_ended_can_be_begun_again(inside):
    def make():
        replay = PrioritizedLevelReplay(60)
        return replay, (Sequential([Stage(replay)]) if inside else replay)

    replay, curriculum = make()
    first = start(SerialSampler, curriculum)
    collect(first, 2)
    state = first.state_dict()
    first.shutdown()
    assert (replay.begun & ~replay.seen).any()

    again, curriculum = make()
    second = start(SerialSampler, curriculum)
    assert not second.load_state_dict({**state, "kind": ["of another sampler"]})
    second.shutdown()
    assert again.seen.tolist() == replay.seen.tolist() == again.begun.tolist()


def test_after_an_interruption_episodes_count_from_the_batch_on():
    sampler = start(SerialSampler, Diary(N))
    first, second = collect(sampler, 1), collect(sampler, 1)
    sampler.shutdown()
    told = {}
    for interrupted in (False, True):
        flow = TaskFlow(Diary(N), B, seed=0)
        flow.report(first[0])
        n = len(flow.curriculum.heard)
        flow.report(second[0], interrupted)
        told[interrupted] = [length for _, _, length, *_ in flow.curriculum.heard[n:]]
    ends = second[0].env.env_info.traj_done
    expected = [n for b in range(B) for n in np.diff([-1, *np.flatnonzero(ends[:, b])]).tolist()]
    assert told[True] == expected != told[False]


def test_hosts_say_how_their_curricula_are(tmp_path):
    sampler = AsyncSerialSampler(
        CartPoleLevels, dict(n_levels=N), batch_T=32, batch_B=4, curriculum=Diary(N)
    )
    runner = AsyncRl(
        algo=VTrace(), agent=CategoricalMlpAgent(), sampler=sampler, n_steps=6 * 32 * 4, seed=3,
        affinity=dict(sampler=[{}, {}], optimizer=[{}]), log_interval_steps=2 * 32 * 4,
    )  # fmt: skip
    with logger_context(tmp_path, 0, "run", snapshot_mode="none"):
        runner.train()
    (file,) = tmp_path.rglob("progress.csv")
    seen = read_progress(file)[f"Diagnostics/{SEEN}"]
    assert len(seen) == 3 and seen[-1] > 2 and (seen <= N).all()


def test_what_hosts_say_is_averaged_and_known_before_the_first_batch():
    sampler = AsyncSerialSampler(LevelEnv, {}, batch_T=T, batch_B=B, curriculum=Diary(N))
    assert sampler.statistics() == {}
    sampler.async_initialize(CategoricalMlpAgent(), bootstrap_value=True, seed=1)
    sampler.initialize([{}, {}])
    try:
        assert sampler.statistics()[SEEN] == 0
        sampler.obtain_samples(0)
        hosts = sampler.state_dict()["hosts"]
        seen = [np.sum(host["curriculum"]["curriculum"]["seen"]) for host in hosts]
        assert 0 < sampler.statistics()[SEEN] == sum(seen) / 2
    finally:
        sampler.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_ray_actors_play_the_same_tasks_and_a_restart_spoils_no_result():
    from rlpyt.samplers.ray_sampler import RaySampler

    expected, diary = Diary(N), Diary(N)
    serial = start(SerialSampler, expected)
    batches = collect(serial, 5)
    serial.shutdown()
    cloudpickle.register_pickle_by_value(test_task_flow)  # actors cannot import it
    sampler = start(RaySampler, diary)
    try:
        assert_same(collect(sampler, 5), batches)
        assert diary.heard == expected.heard and diary.chosen == expected.chosen
        n = len(diary.heard)
        os.kill(sampler.workers[0].pid, signal.SIGKILL)
        batches = collect(sampler, 1)
        assert sampler.interrupted
        batches += collect(sampler, 8)
    finally:
        sampler.shutdown()
        cloudpickle.unregister_pickle_by_value(test_task_flow)
    told = [[r[2] for r in diary.heard[n:] if r[5] == b] for b in range(B)]
    for b in range(B):
        ended = np.concatenate([batch.env.env_info.traj_done[:, b] for batch in batches])
        assert told[b] == np.diff([-1, *np.flatnonzero(ended)]).tolist()
    assert sum(map(len, told)) > B
