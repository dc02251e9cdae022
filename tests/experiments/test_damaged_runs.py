"""Edited, damaged or foreign run directories: one line says what is wrong."""

import json
import os
import random
import re
import shutil

import pytest
import torch

from rlpyt.cli.main import main
from rlpyt.errors import DamagedFile
from rlpyt.experiments.options import RunOptions, read_options
from rlpyt.experiments.run import load, train
from rlpyt.utils.checkpoint import load_checkpoint, save_checkpoint
from rlpyt.utils.logging.snapshots import read_snapshot


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("runs") / "run"
    sampler = {"kind": "serial", "batch_T": 8, "batch_B": 2, "max_decorrelation_steps": 0}
    options = RunOptions(
        algo_name="a2c", env="CartPole-v1", steps=48, log_interval_steps=16, eval_episodes=0
    )
    train(options.updated({"sampler": sampler, "video": False}), run_dir)
    return run_dir


@pytest.fixture
def run_dir(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def fails(capsys, *args):
    """Run the command, which must fail without a traceback; return what it says."""
    with pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert caught.value.code in (1, 2) and said.startswith("rlpyt: error: ")
    return said


def configure(run_dir, **changes):
    path = run_dir / "config.json"
    config = json.loads(path.read_text())
    for name, value in changes.items():
        *groups, last = name.split("__")
        target = config
        for group in groups:
            target = target[group]
        target[last] = value
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    "changes,said",
    [
        (dict(env=None), "env=None must be a str"),
        (dict(env=["x"]), "env=.* must be a str"),
        (dict(algo_name=3), "algo_name=3 must be a str"),
        (dict(steps=1e30), "steps=1e.30 must be at most"),
        (dict(steps="x"), r"steps='x' must be a whole number\.$"),
        (dict(video="no"), "video='no' must be True or False"),
        (dict(tensorboard=3), "tensorboard=3 must be True or False"),
        (dict(device=None), "device=None must be a str"),
        (dict(sampler=[]), "sampler=.* must be a dictionary"),
        (dict(env_args=3), "env_args=3 must be a dictionary"),
        (dict(sampler__kind="x"), "unknown sampler.kind 'x'"),
        (dict(sampler__curriculum=None), "unknown sampler.curriculum None"),
        (dict(sampler__n_workers=-1), "sampler.n_workers=-1 must be at least 1"),
        (dict(sampler__batch_T=10**12), "asks for sampler.batch_T=.*at most 100,000"),
        (dict(agent__hidden_sizes=3), "agent.hidden_sizes=3 must be a list of numbers"),
        (dict(agent__hidden_sizes=[10**6, 10**6]), r"agent.hidden_sizes\[0\]=.*at most 4,096"),
        (dict(agent__hidden_sizes=[4096] * 128), r"hidden_sizes.*layers of at most 100,000,000 w"),
        (dict(agent__normalize_observation=True), "checkpoint does not match this run's settings"),
        (dict(algo={"value_loss_coeff": -1}), "value_loss_coeff=-1 must be in"),
        (dict(algo={"value_loss_coeff": float("nan")}), "value_loss_coeff=nan must be in"),
        (dict(algo={"normalize_advantage": "no"}), "normalize_advantage='no' must be True"),
        (dict(ranks=10**9), "ranks=1000000000, but a file .* at most 128"),
    ],
)
def test_settings_that_make_no_sense_are_named_in_one_line(run_dir, capsys, changes, said):
    configure(run_dir, **changes)
    args = [] if "steps" in changes else ["--steps", 96]
    assert re.search(said, fails(capsys, "resume", run_dir, *args))


def test_whole_floats_are_taken_for_integers(run_dir):
    configure(run_dir, steps=96.0, video=0)
    options = read_options(run_dir)
    assert type(options.steps) is int and options.steps == 96 and options.video is False


def test_a_configuration_that_is_nested_too_deeply_is_named(run_dir, capsys):
    (run_dir / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    assert "is not a run's configuration" in fails(capsys, "resume", run_dir)


@pytest.mark.parametrize(
    "content", [{}, [1], {"agent_state_dict": {"x": torch.zeros(1)}, "itr": 1}, {"itr": 3}, None]
)
def test_a_foreign_snapshot_is_named(run_dir, capsys, content):
    torch.save(content, run_dir / "params.pkl")
    said = fails(capsys, "eval", run_dir, "--episodes", 1)
    assert "params.pkl is damaged" in said or "saved agent in" in said


@pytest.mark.parametrize("lost", ["agent", "algo", "sampler", "counters", "random", "itr"])
def test_a_checkpoint_without_a_part_is_named(run_dir, capsys, lost):
    found = load_checkpoint(run_dir / "checkpoint")
    state = {name: value for name, value in found.state.items() if name != lost}
    shutil.rmtree(run_dir / "checkpoint")
    save_checkpoint(run_dir / "checkpoint", state, meta=found.meta)
    said = fails(capsys, "resume", run_dir, "--steps", 96)
    assert "checkpoint does not match this run's settings" in said and lost in said


def test_a_checkpoint_before_the_first_iteration_is_named(run_dir, capsys):
    found = load_checkpoint(run_dir / "checkpoint")
    shutil.rmtree(run_dir / "checkpoint")
    save_checkpoint(run_dir / "checkpoint", {**found.state, "itr": -5}, meta=found.meta)
    assert "iteration=-5 must be at least 0" in fails(capsys, "resume", run_dir, "--steps", 96)


@pytest.mark.parametrize(
    "content", ["", "other,columns\n1,2\n", None], ids=["emptied", "another", "last row edited"]
)
def test_a_replaced_table_is_warned_of_at_resume(run_dir, content):
    path = run_dir / "progress.csv"
    if content is None:
        *rows, last = path.read_text().splitlines()
        content = "\n".join([*rows, "9" + last, ""])
    path.write_text(content)
    with pytest.warns(UserWarning, match="progress.csv .*checkpoint"):
        train(read_options(run_dir).updated({"steps": 64}), run_dir, resume=True)


def test_a_table_with_rows_after_the_checkpoint_is_not_warned_of(run_dir, recwarn):
    path = run_dir / "progress.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header + ",new", *(row + "," for row in [*rows, rows[-1]]), ""]))
    train(read_options(run_dir).updated({"steps": 64}), run_dir, resume=True)
    assert not [w for w in recwarn if "progress.csv" in str(w.message)]


@pytest.mark.parametrize(
    "path, value, said",
    [
        (("algo", "optimizer", "state", 0, "exp_avg"), {}, "optimizer's exp_avg must"),
        (("algo", "optimizer", "state", 0, "exp_avg"), torch.ones(1), "exp_avg must have shape"),
        (("algo", "optimizer", "state", 0, "step"), torch.ones(0), r"step must have shape ()"),
        (("counters", "opt_infos", "loss"), ["x"], "does not match"),
        (("counters", "last_logged_itr"), None, "does not match"),
        (("counters", "time_since_row"), torch.ones(1), "must be a number"),
        pytest.param(("counters", "time_since_row"), 10**400, "does not match", id="digits"),
        (("counters", "traj_infos"), [{}], "does not match"),
        (("counters", "traj_infos"), [{"Length": 1, "Return": "x"}], "does not match"),
        (("tables", "progress.csv"), {"columns": []}, "does not match"),
        (("sampler", "stations", 0, "agent"), "x", "does not match"),
        (("sampler", "stations", 0, "envs", 0, "rng", "uinteger"), -1, "does not match"),
        (("algo", "update_counter"), {}, "update_counter={} must be a whole number"),
        (("sampler", "stations", 0, "envs", 0, "next_seed"), 1.5, "next_seed=1.5 must be a whole"),
        (("sampler", "stations", 0, "envs", 0, "next_seed"), -1, "next_seed=-1 must be at least 0"),
    ],
)
def test_states_of_other_types_in_a_valid_checkpoint_are_named(run_dir, capsys, path, value, said):
    directory = run_dir / "checkpoint"
    loaded = load_checkpoint(directory)
    target = loaded.state
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    save_checkpoint(directory, loaded.state, meta=loaded.meta)
    assert said in fails(capsys, "resume", run_dir, "--steps", 96)


@pytest.mark.parametrize("name", ["progress.csv", "config.json", "params.pkl", "debug.log"])
@pytest.mark.parametrize("endless", [False, True], ids=["pipe", "device"])
def test_pipes_and_devices_are_not_read(run_dir, capsys, name, endless):
    (run_dir / name).unlink()
    if endless:
        (run_dir / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(run_dir / name)
    for args in (["resume", run_dir, "--steps", 96], ["eval", run_dir, "--episodes", 1]):
        assert f"{name} must be a regular file" in fails(capsys, *args)


@pytest.mark.parametrize("name", ["evaluation.json", "progress.csv", "config.json", "video.mp4"])
def test_directories_instead_of_files_are_named(run_dir, capsys, name):
    (run_dir / name).unlink(missing_ok=True)
    (run_dir / name).mkdir()
    for args in (["resume", run_dir, "--steps", 96], ["eval", run_dir, "--episodes", 1]):
        assert f"{name} must be a regular file" in fails(capsys, *args)


@pytest.mark.parametrize("name", ["progress.csv", "evaluation.json", "params.json", "config.json"])
def test_plots_do_not_wait_for_pipes(run_dir, tmp_path, name):
    (run_dir / name).unlink(missing_ok=True)
    os.mkfifo(run_dir / name)
    with pytest.raises(SystemExit):
        main(["plot", str(run_dir), "-o", str(tmp_path / "curve.png")])
    with pytest.raises(SystemExit):
        main(["report", str(run_dir), "-o", str(tmp_path / "report.html")])


def test_a_flipped_bit_of_the_agent_is_found(run_dir):
    path = run_dir / "params.pkl"
    content, rng = path.read_bytes(), random.Random(0)
    expected = torch.load(path, weights_only=True)["agent_state_dict"]
    found = 0
    for _ in range(100):
        data = bytearray(content)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            state = read_snapshot(path)["agent_state_dict"]
        except DamagedFile:
            found += 1
        else:  # padding, or a time stamp
            assert state.keys() == expected.keys()
            assert all(torch.equal(state[key], expected[key]) for key in expected)
    assert found > 20


@pytest.mark.parametrize("old", [False, True], ids=["as now", "before archives"])
def test_snapshots_of_torch_are_read(run_dir, old):
    path = run_dir / "params.pkl"
    content = torch.load(path, weights_only=True)
    torch.save(content, path, _use_new_zipfile_serialization=not old)
    assert read_snapshot(path)["itr"] == content["itr"]
    assert load(run_dir).itr >= 1


@pytest.mark.parametrize(
    "changes,said",
    [
        (dict(sampler__batch_B=10**9), "sampler.batch_B=1000000000, but .* at most 4,096"),
        (dict(agent__memory="gru", agent__memory_args={"num_layers": 10**9}), "at most 128"),
        (dict(env="Ant-v5", env_args={"frame_skip": 10**9}), "env_args.frame_skip=.*at most 128"),
        (dict(env="pong", env_args={"frame_shape": [10**6, 8]}), "frame_shape.*at most 4,096"),
        (dict(algo={"x": [0] * 1000}), "a list of at most 128 items"),
        (dict(seed=10**399), r"seed must be at most 2\*\*64, got 400 digits"),
    ],
)
def test_what_a_changed_file_may_ask_for_is_limited(run_dir, capsys, changes, said):
    configure(run_dir, **changes)
    assert re.search(said, fails(capsys, "eval", run_dir, "--episodes", 1))


def test_arguments_with_which_an_environment_fails_are_named(tmp_path, capsys):
    options = RunOptions(algo_name="a2c", env="Pendulum-v1", steps=16, eval_episodes=0)
    sampler = {"kind": "serial", "batch_T": 8, "batch_B": 2, "max_decorrelation_steps": 0}
    path = tmp_path / "pendulum"
    train(options.updated({"sampler": sampler, "video": False}), path)
    configure(path, env_args={"g": {}})
    said = fails(capsys, "eval", path, "--episodes", 1)
    assert "config.json describes no run" in said and "unsupported operand" in said


def test_a_snapshot_that_contains_itself_is_damaged(tmp_path):
    content = {"itr": 1}
    content["again"] = content
    torch.save(content, tmp_path / "params.pkl")
    with pytest.raises(DamagedFile, match="params.pkl .*damaged"):
        read_snapshot(tmp_path / "params.pkl")


def test_a_deeply_nested_snapshot_is_damaged(tmp_path):
    content = {}
    for _ in range(400):  # Python itself allows about 1,000 calls
        content = {"itr": content}
    torch.save(content, tmp_path / "params.pkl")
    with pytest.raises(DamagedFile, match="params.pkl .*nested at most"):
        read_snapshot(tmp_path / "params.pkl")
