"""Runs that belong together get one label, and the label says what tells them apart."""

import json
import re
import warnings
from pathlib import Path

import pytest

from rlpyt.vis.grouping import (
    RunRecord,
    describe,
    label_runs,
    natural_key,
    read_runs,
    read_settings,
    setting_text,
    telling_settings,
    varying_settings,
    warn_of_uneven_groups,
)
from rlpyt.vis.results import read_results


def make_run(path, config=None, params=None, variant=None):
    path.mkdir(parents=True)
    (path / "progress.csv").write_text("Diagnostics/CumSteps,ReturnAverage\n1,2\n")
    for name, content in (("config.json", config), ("params.json", params)):
        if content is not None:
            (path / name).write_text(json.dumps(content))
    if variant is not None:
        (path.parent / "variant_config.json").write_text(json.dumps(variant))
    return path


def labels(*paths, **how):
    return {run.path.name: run.label for run in read_runs(*paths, **how)}


def label_list(*paths, **how):
    return [run.label for run in read_runs(*paths, **how)]


def test_variants_are_named_by_the_parts_of_their_path_that_differ(tmp_path):
    for rate in ("1e-3", "1e-4"):
        for size in (32, 64):
            for seed in (0, 1):
                make_run(tmp_path / "exp" / f"lr_{rate}" / "adam" / f"b_{size}" / f"run_{seed}")
    assert label_list(tmp_path)[::2] == [
        "lr_1e-3/b_32", "lr_1e-3/b_64", "lr_1e-4/b_32", "lr_1e-4/b_64"
    ]  # fmt: skip
    assert set(label_list(tmp_path / "exp" / "lr_1e-3")) == {"b_32", "b_64"}
    assert set(label_list(tmp_path / "exp" / "lr_1e-3" / "adam" / "b_32")) == {"b_32"}


def test_paths_of_different_depth_are_named_below_what_they_share(tmp_path):
    make_run(tmp_path / "exp" / "run_0")
    make_run(tmp_path / "exp" / "lr" / "small" / "run_0")
    assert label_list(tmp_path) == ["lr/small", "exp"]


def test_launch_times_do_not_make_variants(tmp_path):
    for time in ("120000", "130500"):
        make_run(tmp_path / "20260101" / time / "ppo" / f"run_{time[0:2]}")
    assert set(label_list(tmp_path)) == {"ppo"}
    make_run(tmp_path / "20260102" / "120000" / "a2c" / "run_0")
    assert sorted(label_list(tmp_path)) == ["a2c", "ppo", "ppo"]


def test_other_numbers_make_variants(tmp_path):
    for size in ("100000", "500000", "10000000"):
        make_run(tmp_path / size / "run_0")
    assert label_list(tmp_path) == ["100000", "10000000", "500000"]


def test_numbers_that_are_almost_equal_make_variants(tmp_path):
    for i, discount in enumerate((0.9999999, 1.0)):
        make_run(tmp_path / f"run_{i}", {"seed": 0, "algo": {"discount": discount}})
    assert varying_settings(label_runs(read_runs(tmp_path))) == ["algo.discount"]
    assert setting_text(0.9999999) == "0.9999999" and setting_text(1e-4) == "0.0001"


def test_the_steps_that_were_asked_for_are_known(tmp_path):
    make_run(tmp_path / "a", config={"steps": 50})
    make_run(tmp_path / "b", params={"runner": {"n_steps": 1e6}})
    make_run(tmp_path / "c", config={"steps": "many"})
    sampler = {"batch_T": 5, "batch_B": 3}
    make_run(tmp_path / "d", config={"steps": 100, "sampler": sampler, "ranks": 2})
    make_run(tmp_path / "e", params={"runner": {"n_steps": 10}, "sampler": sampler})
    told = [run.total_steps for run in read_runs(tmp_path)]
    assert told == [50, 1_000_000, None, 90, 15]  # whole batches, where their size is known


def test_a_game_is_an_environment(tmp_path):
    for time, game in (("120000", "pong"), ("130000", "breakout")):
        make_run(tmp_path / "20260101" / time / "ppo" / "run_0", params={"game": game})
    runs = read_runs(tmp_path)
    assert [(run.environment, run.label) for run in runs] == [("pong", "ppo"), ("breakout", "ppo")]


def test_a_directory_that_only_gives_the_environment_is_left_out(tmp_path):
    for env in ("Acrobot-v1", "CartPole-v1"):
        for rate in ("lr_1", "lr_2"):
            make_run(tmp_path / env / rate / "run_0", config={"env": env, "algo_name": "ppo"})
    assert label_list(tmp_path) == ["lr_1", "lr_2"] * 2
    only = [tmp_path / env / "lr_1" for env in ("Acrobot-v1", "CartPole-v1")]
    assert label_list(*only) == ["ppo", "ppo"]


def test_path_parts_that_only_give_the_environment_are_left_out(tmp_path):
    for kind, env in (("classic", "Acrobot-v1"), ("classic", "CartPole-v1"), ("robots", "Ant-v5")):
        for rate in ("lr_1", "lr_2"):
            path = tmp_path / "one" / kind / env / f"n_{len(env)}" / rate / "run_0"
            make_run(path, config={"env": env})
    assert label_list(tmp_path) == ["lr_1", "lr_2"] * 3


def test_environments_are_left_out_of_paths_of_different_depth(tmp_path):
    for env in ("Acrobot-v1", "CartPole-v1"):
        for rate in ("lr_1", "lr_2"):
            make_run(tmp_path / "one" / env / rate / "run_0", config={"env": env})
    make_run(tmp_path / "two" / "run_0", config={"env": "CartPole-v1"})
    assert label_list(tmp_path) == ["one/lr_1", "one/lr_2"] * 2 + ["two"]


def test_settings_that_only_give_the_environment_make_no_variants(tmp_path):
    for env, steps in (("pong", 100), ("qbert", 200)):
        for rate in (1, 2):
            variant = {"env": {"game": env}, "eval_env": {"game": env}, "n": steps, "lr": rate}
            make_run(tmp_path / env / str(rate) / "run_0", variant=variant)
    assert telling_settings(read_runs(tmp_path)) == ["lr"]
    assert telling_settings(read_runs(tmp_path / "pong")) == ["lr"]


def test_runs_in_arbitrary_directories_are_labeled_by_settings():
    runs = [
        RunRecord(Path(f"{ID}/{seed}"), {"ID": ID, "lr": ID / 10})
        for ID in (1, 2)
        for seed in (0, 1)
    ]
    labels_ = [run.label for run in label_runs(runs)]
    assert labels_ == ["ID=1, lr=0.1"] * 2 + ["ID=2, lr=0.2"] * 2


def test_plain_directories_are_grouped_by_settings_apart_from_the_seed(tmp_path):
    for i, (rate, seed) in enumerate([(1e-3, 0), (1e-3, 1), (1e-4, 0)]):
        algo = {"learning_rate": rate, "discount": 0.99}
        config = {"algo_name": "ppo", "env": "CartPole-v1", "seed": seed, "algo": algo}
        make_run(tmp_path / f"r{i}", config=config)
    assert labels(tmp_path) == {
        "r0": "learning_rate=0.001", "r1": "learning_rate=0.001", "r2": "learning_rate=0.0001"
    }  # fmt: skip
    assert labels(tmp_path / "r0", tmp_path / "r1") == {"r0": "ppo", "r1": "ppo"}
    make_run(tmp_path / "r3", config={"algo_name": "dqn", "env": "CartPole-v1", "algo": {"x": 1}})
    assert labels(tmp_path)["r3"] == "dqn"  # other algorithms have other settings anyway
    assert labels(tmp_path)["r2"] == "ppo, learning_rate=0.0001"


def test_presets_of_environments_do_not_make_variants(tmp_path):
    for env, rate in (("CartPole-v1", 1e-3), ("pong", 1e-4)):
        make_run(tmp_path / env, config={"algo_name": "ppo", "env": env, "algo": {"lr": rate}})
    assert set(label_list(tmp_path)) == {"ppo"}


def test_group_by_takes_whole_names_and_ends(tmp_path):
    for i, (lr, batch) in enumerate([(1, 16), (1, 32), (2, 16)]):
        config = {"algo_name": "ppo", "algo": {"lr": lr}, "sampler": {"batch_T": batch, "B": i}}
        make_run(tmp_path / f"v{i}" / "run_0", config=config)
    assert label_list(tmp_path, group_by=["algo.lr"]) == ["lr=1", "lr=1", "lr=2"]
    assert label_list(tmp_path, group_by=["batch_T", "algo_name"])[0] == "batch_T=16, ppo"
    with pytest.raises(ValueError, match=r"'learning'.* algo.lr, sampler.batch_T"):
        read_runs(tmp_path, group_by=["learning"])
    with pytest.raises(ValueError, match="'batch_T'"):
        read_runs(tmp_path, group_by=["batch_t"])


def test_variant_files_give_settings_and_damaged_ones_a_warning(tmp_path):
    run = make_run(
        tmp_path / "v" / "run_3", params={"name": "x"}, variant={"algo": {"lr": 1}, "env": "pong"}
    )
    assert read_settings(run) == {"name": "x", "algo.lr": 1, "env": "pong"}
    (known,) = read_runs(run)
    assert known.environment == "pong" and known.seed == 3
    (run.parent / "variant_config.json").write_text('{"algo"')
    with pytest.warns(UserWarning, match="variant_config.json .*ignored"):
        assert read_settings(run) == {"name": "x"}


@pytest.mark.parametrize("seed", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "1.5", ""])
def test_seeds_that_are_not_whole_numbers_stay_texts(seed):
    assert RunRecord(Path("run"), {"seed": seed}).seed == seed
    assert RunRecord(Path("run"), {"seed": "012"}).seed == 12


def test_attempts_moved_aside_by_a_sweep_are_not_runs(tmp_path):
    make_run(tmp_path / "queue" / "00001" / "run_dir_of_attempt_1")
    kept = make_run(tmp_path / "v" / "run_0")
    assert [run.path for run in read_runs(tmp_path)] == [kept]


def test_missing_seeds_and_mixed_settings_cause_warnings(tmp_path):
    for label, seeds in (("a", (0, 1, 2)), ("b", (0,))):
        for seed in seeds:
            algo = {"lr": seed // 2}
            make_run(tmp_path / label / f"run_{seed}", config={"seed": seed, "algo": algo})
    with pytest.warns(UserWarning) as caught:
        warn_of_uneven_groups(read_runs(tmp_path))
    expected = "the runs of a differ in algo.lr (see --group-by); b lacks seed 1, 2."
    assert str(caught[0].message) == expected
    for env in ("pong", "qbert"):
        for rate, seeds in (("e_1", (0, 1)), ("e_2", (0,) if env == "qbert" else (0, 1))):
            for seed in seeds:
                config = {"env": env, "seed": seed}
                make_run(tmp_path / "envs" / env / rate / f"run_{seed}", config=config)
    with pytest.warns(UserWarning, match="e_2 in qbert lacks seed 1.$"):
        warn_of_uneven_groups(read_runs(tmp_path / "envs"))
    with warnings.catch_warnings():  # other seeds altogether are nothing to wonder about
        warnings.simplefilter("error")
        runs = [make_run(tmp_path / "c" / k / f"run_{k}", config={}) for k in ("5", "6")]
        warn_of_uneven_groups(read_runs(*runs))


def test_runs_with_equal_settings_and_seeds_cause_a_warning(tmp_path):
    """One command that is started several times, each time with its default seed, makes them."""
    for name, seed, video in (("a", 0, True), ("b", 1, True), ("c", 0, False)):
        make_run(tmp_path / name, config={"algo_name": "ppo", "seed": seed, "video": video})
    runs = read_runs(tmp_path)
    equal = re.escape(f"2 runs of ppo have seed 0 ({tmp_path / 'a'}, {tmp_path / 'c'}), so")
    for seeds_too in (True, False):
        with pytest.warns(UserWarning, match=equal):
            warn_of_uneven_groups(runs, seeds_too)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_uneven_groups(runs[:2])
        for name in ("d", "e"):  # without a seed every start has another one
            make_run(tmp_path / "none" / name, config={"algo_name": "ppo", "seed": None})
        warn_of_uneven_groups(read_runs(tmp_path / "none"))


def test_runs_of_scripts_are_told_apart_by_their_parts(tmp_path):
    def parts(seed, id="CartPole-v1", **algo):
        env = {"EnvCls": {"$name": "rlpyt.envs.gym:make"}, "env_kwargs": {"id": id}}
        described = {
            "algo": {"$call": "rlpyt.algos.pg.ppo:PPO", "kwargs": algo},
            "agent": {"$call": "mine:Agent", "kwargs": {"net": {"$missing": f"<object {seed}>"}}},
            "sampler": {"$call": "rlpyt.samplers.serial.sampler:SerialSampler", "kwargs": env},
            "seed": seed,
        }
        return {"runner": {"$call": "rlpyt.runners.minibatch_rl:MinibatchRl", "kwargs": described}}

    def make(where, *several):
        for i, content in enumerate(several):
            params = {"name": "ppo", "run_ID": i}
            run = make_run(tmp_path / where / f"run_{i}", params=params)
            (run / "parts.json").write_text(json.dumps(content))
        return read_runs(tmp_path / where)

    with pytest.warns(UserWarning) as caught:
        warn_of_uneven_groups(make("rates", parts(0), parts(1, learning_rate=0.1)))
        read_results(tmp_path / "rates", "ReturnAverage")
    differ = "the runs of {} differ in {} (see --group-by)."
    assert [str(w.message) for w in caught] == [
        differ.format("rates", "algo.learning_rate"),
        differ.format("rates", "algo.learning_rate"),
    ]
    grouped = read_runs(tmp_path / "rates", group_by=["learning_rate"])
    assert [run.label for run in grouped] == ["learning_rate=default", "learning_rate=0.1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_uneven_groups(make("seeds", parts(0), parts(1)))
        environments = make("envs", parts(0), parts(1, "Acrobot-v1"))
        warn_of_uneven_groups(environments)
    assert [run.environment for run in environments] == ["CartPole-v1", "Acrobot-v1"]


def test_numbers_in_names_order_by_size():
    names = ["lr=0.01", "lr=1e-4", "x10", "x9", "lr=0.003"]
    assert sorted(names, key=natural_key) == ["lr=1e-4", "lr=0.003", "lr=0.01", "x9", "x10"]


def test_lists_and_ambiguous_names_are_described():
    settings = {"agent.sizes": [64, 64], "agent.args.n": 1, "model.n": 2.5, "env": "pong"}
    assert describe(settings, list(settings)) == "sizes=64x64, args.n=1, model.n=2.5, pong"
    assert describe({}, ["algo.lr"]) == "lr=default"


def test_varying_settings_leave_seeds_out(tmp_path):
    for seed in (0, 1):
        config = {"seed": seed, "a": seed, "b": [1], "run_ID": seed}
        make_run(tmp_path / f"r{seed}", config=config)
    assert varying_settings(label_runs(read_runs(tmp_path))) == ["a"]


def test_arguments_of_environments_make_variants_whatever_their_names(tmp_path):
    for i, name in enumerate(["easy", "hard"] * 2):
        config = {"algo_name": "ppo", "env": "m:Maze", "seed": i // 2, "env_args": {"name": name}}
        make_run(tmp_path / f"r{i}", config=config)
    assert sorted(label_list(tmp_path)) == ["name=easy"] * 2 + ["name=hard"] * 2


def test_a_variant_has_the_same_label_in_all_environments(tmp_path):
    runs = [("Hopper-v5", 1e-3), ("Hopper-v5", 3e-4), ("Walker2d-v5", 1e-3)]
    for i, (env, rate) in enumerate(runs):
        config = {"algo_name": "sac", "env": env, "algo": {"learning_rate": rate}}
        make_run(tmp_path / f"r{i}", config=config)
    found = labels(tmp_path)
    assert found["r0"] == found["r2"] == "learning_rate=0.001" != found["r1"]


def test_settings_that_cannot_change_a_curve_make_no_variants(tmp_path):
    for i, video in enumerate([True, False]):
        run = {"algo_name": "ppo", "env": "CartPole-v1", "seed": i, "video": video}
        make_run(tmp_path / f"r{i}", config={**run, "tensorboard": video})
    assert labels(tmp_path) == {"r0": "ppo", "r1": "ppo"}
