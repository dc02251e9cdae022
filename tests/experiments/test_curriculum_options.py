"""A curriculum by name: in training, after it, and where it does not fit."""

import numpy as np
import pytest

from rlpyt.curricula.env import TaskEnvs
from rlpyt.curricula.learning_progress import LearningProgress
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.experiments.build import build_runner
from rlpyt.experiments.curriculum import CURRICULA, build_curriculum
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.run import load, train
from rlpyt.experiments.settings import setting_types
from rlpyt.utils.names import UnknownName
from rlpyt.vis.progress import read_progress

ENV = "rlpyt.envs.cartpole_levels:CartPoleLevels"
SMALL = dict(kind="serial", batch_T=16, batch_B=4)


def options_for(name, n_tasks=6, algo="ppo", env=ENV, **sampler):
    args = {"n_levels": 6} if env == ENV else {}
    sampler = {**SMALL, "curriculum": name, "n_tasks": n_tasks, **sampler}
    options = RunOptions(algo_name=algo, env=env, env_args=args, steps=16 * 4 * 10)
    few = {"epochs": 1} if algo == "ppo" else {}
    return options.updated({"sampler": sampler, "algo": few, "log_interval_steps": 16 * 4 * 5})


def test_every_name_is_one_of_the_options():
    known = setting_types("ppo")["sampler.curriculum"].__args__
    assert sorted(known) == sorted(["none", *CURRICULA])


@pytest.mark.parametrize("name", CURRICULA)
def test_a_run_trains_with_a_curriculum_and_evaluates_all_tasks(name, tmp_path):
    train(options_for(name), tmp_path / "run")
    progress = read_progress(tmp_path / "run")
    if name != "uniform":
        assert progress["Diagnostics/CurriculumTasksSeen"][-1] > 2
    run = load(tmp_path / "run")
    env = run.env()
    played = set()
    for seed in range(60):
        env.seed(seed)
        env.reset()
        played.add(env.task)
    env.close()
    assert played == set(range(6))
    assert len(run.evaluate(episodes=2).returns) == 2


def test_runners_get_what_the_options_say(tmp_path):
    replay = build_runner(options_for("level-replay"), tmp_path).sampler
    assert isinstance(replay.curriculum, PrioritizedLevelReplay) and replay.curriculum.n_tasks == 6
    assert isinstance(replay.EnvCls, TaskEnvs) and not isinstance(replay.EnvCls.EnvCls, TaskEnvs)
    beside = options_for("learning-progress", algo="vtrace", asynchronous=True)
    assert isinstance(build_runner(beside, tmp_path).sampler.curriculum, LearningProgress)
    assert build_runner(options_for("none", n_tasks=0), tmp_path).sampler.curriculum is None


def test_invalid_combinations_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'uniform' .*sampler.n_tasks"):
        build_curriculum(options_for("uniform", n_tasks=0))
    with pytest.raises(ValueError, match="n_tasks=6 .*sampler.curriculum"):
        build_curriculum(options_for("none"))
    with pytest.raises(UnknownName, match="'unifrom'; .*'uniform'"):
        build_curriculum(options_for("unifrom"))
    with pytest.raises(TypeError, match="set_task"):
        build_runner(options_for("uniform", env="CartPole-v1"), tmp_path)
    with pytest.raises(ValueError, match="lets environments wait"):
        build_runner(options_for("uniform", algo="cmaes"), tmp_path)


def test_videos_of_levels_show_the_length_of_the_pole(tmp_path):
    """The longest and the shortest: columns of the picture's upper half that are not white."""
    pytest.importorskip("pygame")
    from rlpyt.vis.images import picture_of

    recipe = build_runner(options_for("uniform"), tmp_path).sampler.EnvCls
    heights = []
    for task in (0, 5):
        env = recipe(n_levels=6, render_mode="rgb_array")
        env.assign([task])
        env.reset()
        brown = np.abs(picture_of(env).astype(int) - [202, 152, 101]).sum(-1) < 30
        heights.append(np.flatnonzero(brown.any(1)).size)
        env.close()
    assert heights[0] > 3 * heights[1] > 0
