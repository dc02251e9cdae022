"""Train scripts: all can be built from all of their configurations, and some really train."""

import importlib
import json
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import rlpyt.experiments.scripts as package
from rlpyt.experiments.configs.atari.pg import (
    atari_ff_a2c,
    atari_ff_ppo,
    atari_lstm_a2c,
    atari_lstm_ppo,
)
from rlpyt.experiments.configs.data import FILE
from rlpyt.experiments.presets.compose import with_parts
from rlpyt.experiments.scripts import table
from rlpyt.experiments.scripts.launching import GAMES, ROBOTS, games, launch, robots
from rlpyt.experiments.scripts.mujoco.qpg.train import mujoco_td3_async_cpu, mujoco_td3_serial
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.collections import BatchSpec
from rlpyt.utils.launching.affinity import affinity_from_code, decode_affinity, get_n_run_slots
from rlpyt.utils.launching.machine import Machine
from rlpyt.utils.launching.variant import VariantLevel, make_variants, save_variant, update_config
from rlpyt.utils.logging import context
from rlpyt.utils.names import UnknownName
from rlpyt.vis.curves import read_progress

ROOT = Path(package.__file__).parent
SCRIPTS = sorted(ROOT.glob("*/*/train/[!_]*.py"))
LAUNCHES = sorted(ROOT.glob("*/*/launch/[!_]*.py"))
ONE, ASYNC = "0slt_1cpu_0gpu_1cpr", "0slt_2cpu_0gpu_2cpr_1ass_0saf"


def module_of(path):
    return importlib.import_module(
        ".".join(["rlpyt.experiments.scripts", *path.relative_to(ROOT).with_suffix("").parts])
    )


def test_configurations_hold_the_settings_of_rlpyt():
    """A few of them, as rlpyt's files of 2020 have them."""
    rlpyts = {
        "atari.dqn.atari_dqn": ("ernbw", "algo", "n_step_return", 3),
        "atari.dqn.atari_r2d1": ("r2d1", "algo", "store_rnn_state_interval", 40),
        "atari.pg.atari_lstm_a2c": ("0", "algo", "clip_grad_norm", 1.0),
        "mujoco.pg.mujoco_ppo": ("ppo_1M_serial", "algo", "ratio_clip", 0.2),
        "mujoco.qpg.mujoco_td3": ("td3_1M_serial", "algo", "policy_update_interval", 2),
    }
    for module, (key, part, name, value) in rlpyts.items():
        configs = importlib.import_module(f"rlpyt.experiments.configs.{module}").configs
        assert configs[key][part][name] == value


def test_rlpyts_launch_scripts_exist():
    assert len(LAUNCHES) == 5


@pytest.mark.parametrize("name", json.loads(FILE.read_text()))
def test_settings_of_every_name_are_imported_from_rlpyts_module(name):
    configs = importlib.import_module(f"rlpyt.experiments.configs.{name}").configs
    assert configs and all("algo" in config for config in configs.values())


@pytest.mark.parametrize("name", [*table.SCRIPTS, *table.ALIASES])
def test_every_script_of_the_table_can_be_imported(name):
    (path,) = (path for path in SCRIPTS if path.stem == name)
    assert callable(module_of(path).build_and_train)


def test_configurations_share_no_dictionary():
    configs = importlib.import_module("rlpyt.experiments.configs.atari.dqn.atari_dqn").configs
    parts = [part for config in configs.values() for part in config.values()]
    dictionaries = [part for part in parts if isinstance(part, dict)]
    assert len({id(part) for part in dictionaries}) == len(dictionaries)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_built_from_all_their_configurations(path):
    script = module_of(path).build_and_train
    asynchronous = issubclass(script.SamplerCls, AsyncSamplerMixin)
    for key, config in script.configs.items():
        if key == "rmsprop" and path.stem != "atari_dqn_gpu_rmsprop":
            continue  # the settings of an optimizer that the other scripts do not use
        runner = script.runner(config, affinity_from_code(ASYNC if asynchronous else ONE))
        evaluates = bool(config["sampler"].get("eval_n_envs"))
        kinds = (AsyncRl, AsyncRlEval) if asynchronous else (MinibatchRl, MinibatchRlEval)
        assert type(runner) is kinds[evaluates]
        assert runner.n_steps == config["runner"]["n_steps"]
        if not asynchronous:
            ranks = affinity_from_code("0slt_2cpu_0gpu_2cpr_2gpr")
            assert type(script.runner(config, ranks)) is (SyncRl, SyncRlEval)[evaluates]


@pytest.mark.parametrize(
    "module, keys",
    [
        (atari_ff_a2c, ["0", "low_lr", "2gpu"]),
        (atari_ff_ppo, ["0"]),
        (atari_lstm_a2c, ["0", "4frame", "like_ff"]),
        (atari_lstm_ppo, ["0"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_settings_of_policy_gradients_suit_the_games(module, keys):
    pytest.importorskip("ale_py")
    assert list(module.configs) == keys
    name = module.__name__.rsplit(".", 1)[1]
    script = module_of(ROOT / f"atari/pg/train/{name}_gpu.py").build_and_train
    config = module.configs["0"]
    env = script.EnvCls(**config["env"])
    runner = script.runner(config, affinity_from_code(ONE))
    runner.agent.initialize(env.spaces)
    spec = BatchSpec(config["sampler"]["batch_T"], config["sampler"]["batch_B"])
    runner.algo.initialize(runner.agent, 10, spec)
    assert env.observation_space.shape[0] == (1 if "lstm" in name else 4)


EVALUATION = dict(eval_n_envs=1, eval_max_steps=20, eval_max_trajectories=1)
REPLAY = dict(min_steps_learn=100, batch_size=16, replay_ratio=2, replay_size=1000)
CONTROL = dict(algo=REPLAY, sampler=EVALUATION)
GAME = dict(
    algo=dict(REPLAY, batch_size=8, replay_ratio=1),
    sampler=dict(EVALUATION, batch_T=4, batch_B=2, max_decorrelation_steps=0),
)
R2D1 = dict(
    GAME,
    algo=dict(
        min_steps_learn=100,
        replay_ratio=1,
        replay_size=2000,
        batch_T=4,
        batch_B=2,
        warmup_T=4,
        store_rnn_state_interval=4,
        n_step_return=1,
    ),
)
GAMES_ONLY = dict(sampler=dict(batch_T=8, batch_B=2, max_decorrelation_steps=0))
SMALL_PPO = dict(algo=dict(epochs=1, minibatches=2), sampler=dict(batch_T=100))
# Script and configuration; the steps of a small run, and the settings that make it small.
SMALL = {
    "mujoco_td3_serial td3_1M_serial": (200, CONTROL),
    "mujoco_sac_serial sac_1M_serial": (200, CONTROL),
    "mujoco_sac_v_serial sac_serial_bstl": (200, CONTROL),
    "mujoco_ddpg_serial ddpg_from_td3_1M_serial": (200, CONTROL),
    "mujoco_ff_ppo_serial ppo_1M_serial": (200, SMALL_PPO),
    "mujoco_ff_a2c_cpu a2c_1M": (200, dict(sampler=dict(batch_T=50, batch_B=2))),
    "mujoco_td3_async_cpu async_cpu": (400, with_parts(CONTROL, sampler=dict(batch_B=2))),
    "mujoco_ddpg_async_serial async_serial": (400, CONTROL),
    "mujoco_sac_async_gpu async_gpu": (400, with_parts(CONTROL, sampler=dict(batch_B=2))),
    "atari_dqn_serial serial": (160, GAME),
    "atari_dqn_gpu_rmsprop rmsprop": (160, GAME),
    "atari_catdqn_gpu ernbw": (160, GAME),
    "atari_dqn_cpu_debug uniform_noframe": (160, GAME),
    "atari_dqn_gpu_debug reset_collector": (160, GAME),
    "atari_dqn_async_cpu async_big": (160, GAME),
    "atari_r2d1_gpu r2d1": (160, R2D1),
    "atari_r2d1_async_alt async_alt_got": (160, R2D1),
    "atari_ff_a2c_gpu low_lr": (64, GAMES_ONLY),
    "atari_lstm_ppo_gpu 0": (64, with_parts(GAMES_ONLY, algo=dict(minibatches=2, epochs=1))),
}
FAST = {
    "mujoco_td3_serial td3_1M_serial",
    "mujoco_ff_ppo_serial ppo_1M_serial",
    "atari_dqn_serial serial",
}


@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in SMALL]
)
@pytest.mark.filterwarnings("ignore:'Hopper-v3' is no longer available")
def test_scripts_train_as_their_variant_says(case, tmp_path):
    (name, key), (n_steps, small) = case.split(), SMALL[case]
    atari = name.startswith("atari")
    pytest.importorskip("ale_py" if atari else "mujoco")
    [path] = [path for path in SCRIPTS if path.stem == name]
    script = module_of(path).build_and_train
    half = dict(n_steps=n_steps // 2, log_interval_steps=n_steps // 2)
    script = replace(script, configs={key: with_parts(script.configs[key], runner=half, **small)})
    variant = {"runner": {"n_steps": n_steps}}
    if atari:
        parts = [part for part in ("env", "eval_env") if part in script.configs[key]]
        variant.update({part: {"game": "breakout"} for part in parts})
    save_variant(variant, str(tmp_path))
    runner = script(ASYNC if "async" in name else ONE, str(tmp_path), "3", key)
    assert runner.algo.update_counter > 0
    rows = read_progress(tmp_path / "run_3")
    assert rows["Diagnostics/CumSteps"][-1] == n_steps
    if atari:
        assert runner.sampler.env_kwargs["game"] == "breakout"


@pytest.mark.slow
def test_a_script_is_started_by_its_path(tmp_path):
    pytest.importorskip("mujoco")
    save_variant(dict(SMALL_PPO, runner=dict(n_steps=200)), str(tmp_path))
    path = ROOT / "mujoco/pg/train/mujoco_ppo_serial.py"
    command = [sys.executable, path, ONE, tmp_path, "0", "ppo_1M_serial"]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "run_0" / "progress.csv").exists()
    done = subprocess.run(command[:3], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY" in done.stderr


def test_invalid_arguments_of_a_script_are_refused(tmp_path):
    td3 = mujoco_td3_serial.build_and_train
    with pytest.raises(UnknownName, match="td3_1M_serial"):
        td3(ONE, str(tmp_path), "0", "td3_1M_seriel")
    with pytest.raises(ValueError, match="SerialSampler .*remove 1ass"):
        td3(ASYNC, str(tmp_path), "0", "td3_1M_serial")
    with pytest.raises(ValueError, match="AsyncCpuSampler .*add 1ass"):
        mujoco_td3_async_cpu.build_and_train(ONE, str(tmp_path), "0", "async_cpu")
    save_variant({"algo": {"learning_rat": 1e-3}}, str(tmp_path))
    with pytest.raises(KeyError, match=r"algo\.learning_rat"):
        td3(ONE, str(tmp_path), "0", "td3_1M_serial")


@pytest.mark.parametrize(
    ("key", "variant", "words"),
    [
        ("td3_1M_seriel", {}, "unknown configuration 'td3_1M_seriel'; did you mean"),
        ("td3_1M_serial", {"algo": {"learning_rat": 1e-3}}, "'algo.learning_rat' is not in the"),
        ("td3_1M_serial", {"algo": {"batch_size": -1}}, "batch_size=-1"),
    ],
)
def test_invalid_arguments_are_one_line_and_not_retried(tmp_path, capsys, key, variant, words):
    save_variant(variant, str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        mujoco_td3_serial.build_and_train.main([ONE, str(tmp_path), "0", key])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and words in said and said.count("\n") == 1


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_launch_scripts_name_existing_scripts_and_keys(path):
    module = module_of(path)
    [train] = [script for script in SCRIPTS if script == module.SCRIPT]
    name, key = path.read_text().split("launch(SCRIPT, ")[1].split('"')[1:4:2]
    script = module_of(train).build_and_train
    assert name == train.stem
    evaluated = "eval_env" in script.configs[key]
    level = robots(*ROBOTS) if hasattr(module, "robots") else games(*GAMES, evaluated=evaluated)
    for variant in make_variants(level)[0]:
        update_config(script.configs[key], variant)


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_launch_scripts_share_out_the_machine_as_they_say(path, monkeypatch):
    machine, seen = Machine(tuple(range(8)), 8), {}
    monkeypatch.setattr(Machine, "here", lambda: machine)
    monkeypatch.setattr("rlpyt.utils.launching.affinity.n_gpus", lambda: 2)
    monkeypatch.setattr(
        "rlpyt.experiments.scripts.launching.run_experiments", lambda **given: seen.update(given)
    )
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit):
        runpy.run_path(str(path), run_name="__main__")
    about, code = module_of(path).__doc__, seen["affinity_code"]
    if "one core per run" in about:
        assert (get_n_run_slots(code), decode_affinity(code)["gpu"]) == (8, 0)
    elif "without GPUs" in about:
        assert (get_n_run_slots(code), decode_affinity(code)["gpu"]) == (1, 0)
    else:
        assert (get_n_run_slots(code), decode_affinity(code)["gpu"]) == (2, 2)


@pytest.mark.slow
def test_an_experiment_is_launched(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path))
    level = VariantLevel(
        [("algo", "epochs"), ("algo", "minibatches"), ("sampler", "batch_T"),
         ("runner", "n_steps"), ("runner", "log_interval_steps")],
        [[epochs, 2, 100, 200, 100] for epochs in (1, 2)],
        ["one", "two"],
    )  # fmt: skip
    script = ROOT / "mujoco/pg/train/mujoco_ff_ppo_serial.py"
    assert launch(script, "ppo", "ppo_1M_serial", level, runs_per_setting=1, argv=[ONE[5:]]) == 0
    found = sorted(path.parts[-3:] for path in tmp_path.rglob("progress.csv"))
    assert found == [(name, "run_0", "progress.csv") for name in ("one", "two")]
