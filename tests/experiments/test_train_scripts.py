"""Train scripts: all can be built from all of their configurations, and some really train."""

import importlib
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import rlpyt.experiments.scripts as package
from rlpyt.experiments.configs.atari.pg import (
    atari_ff_a2c,
    atari_ff_ppo,
    atari_lstm_a2c,
    atari_lstm_ppo,
)
from rlpyt.experiments.options import UnknownName
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
from rlpyt.vis.curves import read_progress

ROOT = Path(package.__file__).parent
SCRIPTS = sorted(ROOT.glob("*/*/train/[!_]*.py"))
LAUNCHES = sorted(ROOT.glob("*/*/launch/[!_]*.py"))
ONE, ASYNC = "0slt_1cpu_0gpu_1cpr", "0slt_2cpu_0gpu_2cpr_1ass_0saf"


def module_of(path):
    return importlib.import_module(
        ".".join(["rlpyt.experiments.scripts", *path.relative_to(ROOT).with_suffix("").parts])
    )


def test_there_are_the_scripts_of_rlpyt():
    assert len(SCRIPTS) == 37 and len(LAUNCHES) == 5


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_built_from_all_their_configurations(path):
    script = module_of(path).build_and_train
    asynchronous = issubclass(script.SamplerCls, AsyncSamplerMixin)
    for config in script.configs.values():
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
QUICK = dict(
    mujoco_td3_serial=dict(
        algo=REPLAY, sampler=EVALUATION, runner=dict(n_steps=200, log_interval_steps=100)
    ),
    mujoco_sac_serial=dict(
        algo=REPLAY, sampler=EVALUATION, runner=dict(n_steps=200, log_interval_steps=100)
    ),
    mujoco_ff_ppo_serial=dict(
        algo=dict(epochs=1, minibatches=2),
        sampler=dict(batch_T=100),
        runner=dict(n_steps=200, log_interval_steps=100),
    ),
    mujoco_td3_async_cpu=dict(
        algo=REPLAY,
        sampler=dict(batch_B=2, **EVALUATION),
        runner=dict(n_steps=400, log_interval_steps=200),
    ),
    atari_dqn_serial=dict(
        algo=dict(REPLAY, batch_size=8, replay_ratio=1),
        sampler=dict(max_decorrelation_steps=0, **EVALUATION),
        runner=dict(n_steps=160, log_interval_steps=80),
        env=dict(game="breakout"),
        eval_env=dict(game="breakout"),
    ),
)
KEYS = dict(
    mujoco_td3_serial="td3_1M_serial", mujoco_sac_serial="sac_1M_serial",
    mujoco_ff_ppo_serial="ppo_1M_serial", mujoco_td3_async_cpu="async_cpu",
    atari_dqn_serial="serial",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "mujoco_td3_serial",
        "mujoco_ff_ppo_serial",
        pytest.param("mujoco_sac_serial", marks=pytest.mark.slow),
        pytest.param("mujoco_td3_async_cpu", marks=pytest.mark.slow),
        "atari_dqn_serial",
    ],
)
def test_scripts_train_as_their_variant_says(name, tmp_path):
    pytest.importorskip("ale_py" if name.startswith("atari") else "mujoco")
    [path] = [path for path in SCRIPTS if path.stem == name]
    save_variant(QUICK[name], str(tmp_path))
    script = module_of(path).build_and_train
    runner = script(ASYNC if "async" in name else ONE, str(tmp_path), "3", KEYS[name])
    assert runner.algo.update_counter > 0
    rows = read_progress(tmp_path / "run_3")
    assert rows["Diagnostics/CumSteps"][-1] == QUICK[name]["runner"]["n_steps"]
    if "env" in QUICK[name]:
        assert runner.sampler.env_kwargs["game"] == "breakout"


@pytest.mark.slow
def test_a_script_is_started_by_its_path(tmp_path):
    pytest.importorskip("mujoco")
    save_variant(QUICK["mujoco_ff_ppo_serial"], str(tmp_path))
    path = ROOT / "mujoco/pg/train/mujoco_ppo_serial.py"
    command = [sys.executable, path, ONE, tmp_path, "0", "ppo_1M_serial"]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "run_0" / "progress.csv").exists()
    done = subprocess.run(command[:3], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY" in done.stderr


def test_what_does_not_suit_a_script_is_refused(tmp_path):
    td3 = mujoco_td3_serial.build_and_train
    with pytest.raises(UnknownName, match="td3_1M_serial"):
        td3(ONE, str(tmp_path), "0", "td3_1M_seriel")
    with pytest.raises(ValueError, match="SerialSampler needs another .* take 1ass out of"):
        td3(ASYNC, str(tmp_path), "0", "td3_1M_serial")
    with pytest.raises(ValueError, match="AsyncCpuSampler needs another .* add 1ass"):
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
def test_what_does_not_suit_is_one_line_and_not_tried_again(tmp_path, capsys, key, variant, words):
    save_variant(variant, str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        mujoco_td3_serial.build_and_train.main([ONE, str(tmp_path), "0", key])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and words in said and said.count("\n") == 1


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_launch_scripts_name_what_there_is(path):
    module = module_of(path)
    [train] = [script for script in SCRIPTS if script == module.SCRIPT]
    name, key = path.read_text().split("launch(SCRIPT, ")[1].split('"')[1:4:2]
    script = module_of(train).build_and_train
    assert name == train.stem
    level = robots(*ROBOTS) if hasattr(module, "robots") else games(*GAMES)
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
    if "a core for each run" in about:
        assert (get_n_run_slots(code), decode_affinity(code)["gpu"]) == (8, 0)
    elif "without GPUs" in about:
        assert (get_n_run_slots(code), decode_affinity(code)["gpu"]) == (1, 0)
    else:
        assert (get_n_run_slots(code), decode_affinity(code)["gpu"]) == (2, 2)


@pytest.mark.slow
def test_an_experiment_is_launched(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path))
    quick = QUICK["mujoco_ff_ppo_serial"]
    level = VariantLevel(
        [("algo", "epochs"), ("algo", "minibatches"), ("sampler", "batch_T"),
         ("runner", "n_steps"), ("runner", "log_interval_steps")],
        [[epochs, 2, 100, *quick["runner"].values()] for epochs in (1, 2)],
        ["one", "two"],
    )  # fmt: skip
    script = ROOT / "mujoco/pg/train/mujoco_ff_ppo_serial.py"
    assert launch(script, "ppo", "ppo_1M_serial", level, runs_per_setting=1, argv=[ONE[5:]]) == 0
    found = sorted(path.parts[-3:] for path in tmp_path.rglob("progress.csv"))
    assert found == [(name, "run_0", "progress.csv") for name in ("one", "two")]
