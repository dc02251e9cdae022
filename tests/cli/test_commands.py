"""The commands, from words to exit codes and run directories."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import gymnasium
import psutil
import pytest
import torch

import rlpyt
from rlpyt.algos.pg.ppo import PPO
from rlpyt.cli import resume, train
from rlpyt.cli.main import COMMANDS, has_workers, main, shown_warning
from rlpyt.errors import NonFiniteError
from rlpyt.experiments.export import SUFFIXES
from rlpyt.experiments.options import read_config
from rlpyt.experiments.run import train as train_run
from rlpyt.experiments.settings import default_options
from rlpyt.utils.logging.lock import RunDirectoryError, RunLock
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.names import UnknownName

TINY = [
    *("--sampler.kind", "serial", "--sampler.batch-T", "8", "--sampler.batch-B", "2"),
    *("--algo.minibatches", "2", "--algo.epochs", "1", "--agent.hidden-sizes", "8"),
    *("--log-interval-steps", "32", "--eval-episodes", "2", "--no-video"),
]


def rlpyt_command(*argv):
    """Run in this process; the exit code."""
    with pytest.raises(SystemExit) as stop:
        main(argv)
    return stop.value.code


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny run, made by the command line."""
    run_dir = tmp_path_factory.mktemp("runs") / "tiny"
    code = rlpyt_command(
        *("train", "ppo", "CartPole-v1", "--run-dir", str(run_dir), "--steps", "64", "--seed", "3"),
        *TINY,
    )
    assert code == 0
    return run_dir


def test_a_run_leaves_its_directory(trained):
    names = {path.name for path in trained.iterdir()}
    assert names >= {
        *("progress.csv", "config.json", "params.json", "params.pkl", "checkpoint"),
        *("evaluation.json", "learning_curve.png"),
    }
    header, *rows = (trained / "progress.csv").read_text().splitlines()
    assert "ReturnAverage" in header and len(rows) == 2
    assert json.loads((trained / "config.json").read_text())["seed"] == 3
    assert len(json.loads((trained / "evaluation.json").read_text())["returns"]) == 2


def test_a_second_run_is_refused_in_the_same_directory(trained, capsys):
    before = (trained / "config.json").read_bytes()
    code = rlpyt_command("train", "ppo", "CartPole-v1", "--run-dir", str(trained), *TINY)
    assert code == 2
    assert "another run" in capsys.readouterr().err
    assert (trained / "config.json").read_bytes() == before


def test_eval_reports_the_same_returns_each_time(trained, capsys):
    reports = []
    for _ in range(2):
        assert rlpyt_command("eval", str(trained), "--episodes", "3", "--json") == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert len(reports[0]["returns"]) == 3
    assert reports[0]["returns"] == [float(n) for n in reports[0]["lengths"]]  # CartPole pays 1


def test_a_damaged_snapshot_is_named_with_what_to_play_instead(trained, tmp_path, capsys):
    run_dir = tmp_path / "run"
    shutil.copytree(trained, run_dir)
    evaluate = ("eval", str(run_dir), "--episodes", "3", "--json")
    assert rlpyt_command(*evaluate) == 0
    whole = capsys.readouterr().out
    snapshot = run_dir / "params.pkl"
    snapshot.write_bytes(snapshot.read_bytes()[:500])
    assert rlpyt_command(*evaluate) == 2
    err = capsys.readouterr().err
    assert f"{snapshot} is damaged" in err and f"checkpoint in {run_dir / 'checkpoint'}" in err
    assert err.count("\n") == 1
    snapshot.unlink()
    assert rlpyt_command(*evaluate) == 0
    assert capsys.readouterr().out == whole
    shutil.rmtree(run_dir / "checkpoint")
    assert rlpyt_command(*evaluate) == 2
    assert "no params.pkl yet" in capsys.readouterr().err


def test_plot_saves_an_image(trained, tmp_path, capsys):
    output = tmp_path / "curve.png"
    assert rlpyt_command("plot", str(trained), "-o", str(output)) == 0
    assert output.read_bytes().startswith(b"\x89PNG")


def test_record_saves_a_video(trained, tmp_path, capsys):
    output = tmp_path / "film.mp4"
    assert rlpyt_command("record", str(trained), str(output), "--max-steps", "5") == 0
    assert "5 frames" in capsys.readouterr().out
    assert b"ftyp" in output.read_bytes()[:16]


def test_record_saves_a_grid(trained, tmp_path, capsys):
    output = tmp_path / "film.gif"
    args = ("record", str(trained), str(output), "--max-steps", "3")
    assert rlpyt_command(*args, "--grid", "2x1", "--gif") == 0
    assert "3 frames" in capsys.readouterr().out and output.read_bytes().startswith(b"GIF8")
    assert rlpyt_command(*args, "--grid", "2by1") == 2
    assert "such as 2x3" in capsys.readouterr().err
    assert rlpyt_command("record", str(trained), "film.mp4", "--gif") == 2
    assert "ends in .gif" in capsys.readouterr().err


def test_resume_continues_and_refuses_a_complete_run(tmp_path, capsys):
    run_dir = str(tmp_path / "run")
    train = ("train", "ppo", "CartPole-v1", "--run-dir", run_dir, "--steps", "64", *TINY)
    assert rlpyt_command(*train) == 0
    assert rlpyt_command("resume", run_dir) == 2
    assert "Give a larger total with --steps" in capsys.readouterr().err
    assert rlpyt_command("resume", run_dir, "--steps", "128") == 0
    said = capsys.readouterr().out
    assert "up to 128 steps" in said
    assert "The schedules of " in said and "now span 128 steps, " in said
    rows = (tmp_path / "run" / "progress.csv").read_text().splitlines()[1:]
    assert len(rows) == 4
    for name in ("config.json", "params.json"):
        assert json.loads((tmp_path / "run" / name).read_text())["steps"] == 128


def test_a_run_is_resumed_on_another_device(trained, tmp_path, capsys):
    run_dir, resume = tmp_path / "run", ("resume", str(tmp_path / "run"), "--steps", "128")
    shutil.copytree(trained, run_dir)
    config = json.loads((run_dir / "config.json").read_text())
    (run_dir / "config.json").write_text(json.dumps({**config, "device": "cuda:99"}))
    assert rlpyt_command(*resume) == 2
    err = capsys.readouterr().err
    assert "'cuda:99' must be a GPU" in err and "--device cpu" in err
    assert rlpyt_command(*resume, "--device", "cpu") == 0
    assert json.loads((run_dir / "config.json").read_text())["device"] == "cpu"


def test_a_configuration_of_another_algorithm_is_not_mistaken_for_this_one(trained, capsys):
    own = ["--config", str(trained), "--algo.minibatches", "999"]
    assert rlpyt_command("train", "td3", "Pendulum-v1", *own) == 2
    err = capsys.readouterr().err
    assert "is a run of ppo on CartPole-v1, got td3 Pendulum-v1." in err
    assert rlpyt_command("train", "ppo", "CartPole-v1", *own) == 2
    assert "minibatches=999" in capsys.readouterr().err


def test_a_refused_resume_changes_nothing(trained, tmp_path, capsys):
    run_dir = tmp_path / "run"
    shutil.copytree(trained, run_dir)
    kept = ("config.json", "params.json", "progress.csv")
    before = {name: (run_dir / name).read_bytes() for name in kept}
    for steps in ("32", "4"):
        assert rlpyt_command("resume", str(run_dir), "--steps", steps) == 2
        out, err = capsys.readouterr()
        assert "already has all its 64 steps" in err and err.count("\n") == 1 and not out
        assert all((run_dir / name).read_bytes() == was for name, was in before.items())
    assert " | failed" not in (run_dir / "debug.log").read_text()
    options, _ = read_config(run_dir)
    with pytest.warns(UserWarning, match="steps=32 is less than the 64"):
        train_run(options.updated({"steps": 32}), run_dir, resume=True)
    assert (run_dir / "config.json").read_bytes() == before["config.json"]


def test_resume_refuses_the_checkpoint_of_another_algorithm(trained, tmp_path, capsys):
    run_dir = tmp_path / "run"
    shutil.copytree(trained, run_dir)
    config = json.loads((run_dir / "config.json").read_text())
    (run_dir / "config.json").write_text(json.dumps({**config, "algo_name": "a2c", "algo": {}}))
    assert rlpyt_command("resume", str(run_dir), "--steps", "128") == 2
    err = capsys.readouterr().err
    assert "algo is 'PPO' in the checkpoint and 'A2C' in this run" in err and err.count("\n") == 1


def test_the_optimizer_is_chosen_kept_and_resumed(tmp_path):
    run_dir = tmp_path / "run"
    optimizer = ["--algo.optim-cls", "RMSprop", "--algo.optim-kwargs", '{"alpha": 0.9}']
    train = ("train", "ppo", "CartPole-v1", "--run-dir", str(run_dir), "--steps", "64")
    assert rlpyt_command(*train, *TINY, *optimizer) == 0
    assert rlpyt_command("resume", str(run_dir), "--steps", "128") == 0
    config = json.loads((run_dir / "config.json").read_text())["algo"]
    assert (config["OptimCls"], config["optim_kwargs"]) == ("RMSprop", {"alpha": 0.9})
    saved = torch.load(run_dir / "params.pkl")["optimizer_state_dict"]
    assert saved["param_groups"][0]["alpha"] == 0.9


def test_plotting_nothing_is_one_line(trained, tmp_path, capsys):
    (tmp_path / "progress.csv").write_text("Iteration,ReturnAverage\n")
    assert rlpyt_command("plot", str(tmp_path), "-o", str(tmp_path / "x.png")) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_default_directory_is_below_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rlpyt_command("train", "a2c", "toy/bandit", "--steps", "64", *_without_ppo(TINY)) == 0
    (run_dir,) = (tmp_path / "data").iterdir()
    assert run_dir.name.startswith("a2c-toy-bandit-")
    said = capsys.readouterr().out
    assert said.startswith("Training a2c on toy/bandit for 64 steps")
    assert str(run_dir.relative_to(tmp_path)) in said
    assert "Evaluation: return" in said and "Try next:" in said
    assert "train ppo Acrobot-v1" in said and "make " not in said  # there is no Makefile here


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["trian"], ["unknown command 'trian'", "did you mean 'train'?"]),
        (["train"], ["rlpyt train ppo CartPole-v1"]),
        (["train", "pop", "CartPole-v1"], ["unknown algorithm 'pop'", "did you mean 'ppo'?"]),
        (["train", "ppo", "CartPoel-v1"], ["CartPoel-v1", "CartPole-v1"]),
        (["train", "ppo", "toy/memroy"], ["did you mean 'memory'?"]),
        (["train", "ppo", "ALE/Pnog-v5"], ["pong"]),
        (["train", "ppo", "CartPole-v1", "--preset", "atarri"], ["did you mean 'atari'?"]),
        (
            ["train", "ppo", "no_such_module:Env"],
            ["No module named 'no_such_module'", "in the current directory", "PYTHONPATH"],
        ),
        (
            ["train", "ppo", "CartPole-v1", "--algo.learning-rate", "-1"],
            ["--algo.learning-rate: learning_rate=-1"],
        ),
        (["train", "ppo", "CartPole-v1", "--algo.learning-rate", "nan"], ["learning_rate", "nan"]),
        (["train", "ppo", "CartPole-v1", "--algo.discount", "1.5"], ["discount", "1.5"]),
        (["train", "ppo", "CartPole-v1", "--algo.gae-lambda", "-0.1"], ["gae_lambda", "-0.1"]),
        (["train", "ppo", "CartPole-v1", "--algo.ratio-clip", "0"], ["ratio_clip", "0"]),
        (
            ["train", "ppo", "CartPole-v1", "--sampler.batch-T", "0"],
            ["--sampler.batch-T: batch_T=0"],
        ),
        (["train", "ppo", "CartPole-v1", "--seed", "-1"], ["seed", "-1"]),
        (["train", "ppo", "CartPole-v1", "--device", "gpu"], ["'gpu'", "cuda:0"]),
        (
            ["train", "ppo", "CartPole-v1", "--device", "cuda:9"],
            ["'cuda:9' must be a GPU", "--device cpu"],
        ),
        (["train", "ppo", "CartPole-v1", "--eval-episodes", "-1"], ["eval_episodes=-1"]),
        (["train", "ppo", "CartPole-v1", "--torch-threads", "-1"], ["torch_threads=-1"]),
        (
            ["train", "ppo", "CartPole-v1", "--torch-threads", "1000000"],
            ["(--torch-threads) must be at most", "got 1000000"],
        ),
        (["train", "ppo", "CartPole-v1", "--env-args", '{"bogus": 1}'], ["'bogus'"]),
        (["train", "ppo", "CartPole-v1", "--agent.model", '{"bogus": 1}'], ["'bogus'"]),
        (["train", "ppo", "CartPole-v1", "--algo.minibatches", "999"], ["minibatches=999"]),
        (
            ["train", "ppo", "CartPole-v1", "--agent.hidden-sizes", "0"],
            ["hidden_sizes=[0]", "size=0"],
        ),
        (["train", "dqn", "CartPole-v1", "--agent.hidden-sizes", "8", "-3"], ["size=-3"]),
        (
            ["train", "sac", "Pendulum-v1", "--agent.hidden-sizes", "-3"],
            ["size=-3 must be at least"],
        ),
        (["train", "ppo", "CartPole-v1", "--algo.optim-cls", "RMSprob"], ["mean 'RMSprop'?"]),
        (["train", "ppo", "CartPole-v1", "--algo.optim-cls", "LBFGS"], ["unknown optimizer"]),
        (
            ["train", "ppo", "CartPole-v1", "--algo.optim-kwargs", '{"momentum": 1}'],
            ["Adam does not take ['momentum']", "'weight_decay'"],
        ),
        (
            ["train", "ppo", "CartPole-v1", "--algo.optim-kwargs", '{"lr": 1}'],
            ["must not hold lr", "learning_rate"],
        ),
        (
            ["train", "ppo", "CartPole-v1", "--algo.optim-kwargs", '{"eps": "x"}'],
            ["Adam rejects {'eps': 'x', 'lr': 0.001}"],
        ),
        (["train", "ppo", "CartPole-v1", "--run-dir", __file__], [__file__, "is a file"]),
        (["eval", "nowhere"], ["nowhere"]),
        (["resume", "nowhere"], ["nowhere"]),
        (["plot"], ["rlpyt plot"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_requests_are_one_line_and_code_2(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if argv[:1] == ["train"] and len(argv) > 3:
        argv = [*argv, "--sampler.kind", "serial"]
    assert rlpyt_command(*argv) == 2
    out, err = capsys.readouterr()
    assert err.startswith("rlpyt: error: ") and err.count("\n") == 1 and not out
    for word in words:
        assert word in err


def test_what_fails_in_a_child_is_one_line_as_well(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rlpyt_command("train", "ppo", "CartPole-v1", "--env-args", '{"bogus": 1}') == 2
    err = capsys.readouterr().err
    assert "'bogus'" in err and err.count("\n") == 1


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_a_failing_environment_ends_the_run_with_its_name(fault, tmp_path, capsys):
    code = rlpyt_command(
        *("train", "ppo", "tests.faulty:FaultyEnv", "--no-video"),
        *("--run-dir", str(tmp_path / "run")),
        *("--env-args", json.dumps({"fault": fault, "at": 300})),
    )
    assert code == 1
    err = capsys.readouterr().err
    assert "worker " in err and "environment " in err and "step " in err
    assert ("told to fail in step" if fault == "raise" else "SIGKILL") in err
    assert _only_helpers()


OWN_ENVS = """
import gymnasium
from rlpyt.envs.toy import BanditEnv

class Good(BanditEnv):
    pass

class Dies(BanditEnv):
    n = 0
    def step(self, action):
        self.n += 1
        if self.n > 700:
            raise RuntimeError("my own fault.")
        return super().step(action)

class Refuses(BanditEnv):
    n = 0
    def step(self, action):
        self.n += 1
        if self.n > 700:
            raise ValueError("my own refusal.")
        return super().step(action)

class Unseen(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), "float32")
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        return self.observation_space.sample(), {}
    def step(self, action):
        return self.observation_space.sample(), 0.0, True, False, {}

class FailsToClose(BanditEnv):
    def close(self):
        raise SystemExit("not closed")

class Batch(BanditEnv):
    batched = True
"""
SMALL = ["--sampler.batch-T", "64", "--sampler.batch-B", "4", "--no-video"]
SMALL += ["--sampler.n-workers", "2", "--log-interval-steps", "256", "--algo.epochs", "1"]


@pytest.fixture
def own_envs(tmp_path, monkeypatch):
    """A module of the user's own in the current directory."""
    (tmp_path / "own_envs.py").write_text(OWN_ENVS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # and taken away again
    yield
    sys.modules.pop("own_envs", None)


def test_a_custom_environment_is_trained_and_evaluated(own_envs, tmp_path, capsys):
    assert rlpyt_command("train", "ppo", "own_envs:Good", "--steps", "512", *SMALL) == 0
    (run_dir,) = (tmp_path / "data").iterdir()
    assert run_dir.name.startswith("ppo-own_envs-Good-")
    assert rlpyt_command("eval", str(run_dir), "--episodes", "2") == 0
    assert rlpyt_command("train", "ppo", "own_envs:Bad") == 2
    assert "own_envs has no 'Bad'" in capsys.readouterr().err
    assert rlpyt_command("train", "ppo", "own_envs:Batch", "--sampler.kind", "serial") == 2
    assert "Batch makes batches of environments" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["serial", "cpu"])
def test_an_environment_that_fails_to_close_is_trained_and_evaluated(own_envs, kind):
    asked = ["--steps", "512", "--run-dir", "run", "--sampler.kind", kind, *SMALL]
    assert rlpyt_command("train", "ppo", "own_envs:FailsToClose", *asked) == 0
    assert rlpyt_command("eval", "run", "--episodes", "2") == 0


def test_an_environment_that_cannot_render_is_named(own_envs, capsys):
    run = ["--run-dir", "run", "--steps", "256", *(f for f in SMALL if f != "--no-video")]
    assert rlpyt_command("train", "ppo", "own_envs:Unseen", *run, "--sampler.kind", "serial") == 0
    said = "Unseen cannot render images: render is not implemented"
    assert f"rlpyt: warning: no video: {said}" in capsys.readouterr().err
    assert rlpyt_command("record", "run") == 2
    err = capsys.readouterr().err
    assert err.startswith(f"rlpyt: error: {said}. ") and 'render_mode="rgb_array"' in err


def test_the_death_of_a_worker_leaves_a_checkpoint_and_says_how_to_resume(own_envs, capsys):
    own = ["train", "ppo", "own_envs:Dies", "--run-dir", "run", "--steps", "10240"]
    assert rlpyt_command(*own, *SMALL) == 1
    err = capsys.readouterr().err
    assert "my own fault, while stepping" in err  # and no second full stop
    assert f"Checkpoint after iteration 8 in {Path.cwd()}/run" in err and "resume run\n" in err
    with pytest.warns(UserWarning, match="starts new episodes"):
        assert rlpyt_command("resume", "run", "--steps", "3072") == 0
    rows = Path("run/progress.csv").read_text().splitlines()
    steps = [
        int(row.split(",")[rows[0].split(",").index("Diagnostics/CumSteps")]) for row in rows[1:]
    ]
    assert steps == list(range(256, 3073, 256))


def test_an_environment_error_in_this_process_is_not_a_bad_request(own_envs, tmp_path, capsys):
    own = ["train", "ppo", "own_envs:Refuses", "--run-dir", "run", "--steps", "10240"]
    with pytest.raises(ValueError, match="my own refusal") as failed:  # shown by Python, code 1
        main([*own, *SMALL, "--sampler.kind", "serial"])
    place, saved, way = failed.value.__notes__
    assert "while stepping environment 2, " in place and "seed " in place and "step " in place
    assert f"Checkpoint after iteration 8 in {Path.cwd()}/run" in saved and "resume run" in way
    log = Path("run/debug.log").read_text()
    assert "my own refusal" in log and "in step" in log and place in log and saved in log
    with pytest.warns(UserWarning, match="starts new episodes"):
        assert rlpyt_command("resume", "run", "--steps", "3072") == 0


def test_a_run_that_failed_is_resumed_with_faults_healed(own_envs, capsys):
    own = ["train", "ppo", "own_envs:Refuses", "--run-dir", "run", "--steps", "10240"]
    with pytest.raises(ValueError, match="my own refusal"):
        main([*own, *SMALL, "--sampler.kind", "serial"])
    with pytest.warns(UserWarning, match="starts new episodes"):
        assert rlpyt_command("resume", "run", "--on-fault", "restart") == 0
    assert "healed (on_fault)" in Path("run/debug.log").read_text()
    assert json.loads(Path("run/config.json").read_text())["on_fault"]["env_error"] == "restart_env"
    assert read_progress("run")["Diagnostics/CumSteps"][-1] == 10240


def test_a_run_that_ended_before_its_first_checkpoint_names_the_remedy(trained, tmp_path, capsys):
    run_dir = tmp_path / "run"
    shutil.copytree(trained, run_dir)
    shutil.rmtree(run_dir / "checkpoint")
    train = ("train", "ppo", "CartPole-v1", "--run-dir", str(run_dir), "--steps", "64", *TINY)
    with RunLock(run_dir):  # it is still alive
        for command in (("resume", str(run_dir)), train):
            assert rlpyt_command(*command) == 2
            err = capsys.readouterr().err
            assert f"in use by process {os.getpid()}" in err and "delet" not in err
    assert rlpyt_command("resume", str(run_dir)) == 2
    assert "no checkpoint to resume from" in capsys.readouterr().err
    assert rlpyt_command(*train) == 2
    err = capsys.readouterr().err
    assert "cannot be resumed. Delete it" in err and "rlpyt resume" not in err
    (run_dir / "progress.csv").write_text("")  # nothing of value
    assert rlpyt_command(*train) == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["--sampler.kind", "alternating", "--sampler.batch-B", "7"],
        ["--sampler.n-workers", "0"],
        ["--sampler.kind", "serial", "--device", "cuda:99"],
        ["--logger", "wandbb"],
    ],
)
def test_refused_requests_leave_no_directory(flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rlpyt_command("train", "ppo", "CartPole-v1", *flags) == 2
    assert [*tmp_path.rglob("*.*")] == [] and not [*tmp_path.glob("data/*")]


def test_notes_of_failures_are_shown_and_bad_requests_stay_one_line(monkeypatch, capsys):
    for itr, code in ((3, 1), (-1, 2)):
        error = UnknownName("thing", "x", ["y"]) if itr < 0 else NonFiniteError("the loss is nan.")
        error.itr = itr
        error.add_note("(in rank 0 of 2)")
        error.add_note("(while stepping environment 3)")
        monkeypatch.setattr("rlpyt.cli.main.run", Mock(side_effect=error))
        assert rlpyt_command("train") == code
        err = capsys.readouterr().err
        assert ("(in rank 0 of 2)\n" in err) == (code == 1)
        assert "(while stepping environment 3)\n" in err and err.count("\n") == {1: 3, 2: 1}[code]


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="algorithm 'pop'"):
        main(["train", "pop", "CartPole-v1", "--debug"])


@pytest.mark.parametrize("name", ["Cart\x1b]0;t\x07\x1b[2J", "Cart\x1b[8m", "Cart\x1b[30m-v1"])
def test_control_characters_in_a_file_do_not_reach_the_terminal(name, trained, tmp_path, capsys):
    run_dir = shutil.copytree(trained, tmp_path / "run")
    settings = json.loads((run_dir / "config.json").read_text())
    del settings["signature"]
    (run_dir / "config.json").write_text(json.dumps({**settings, "env": name}))
    assert rlpyt_command("eval", str(run_dir)) == 2
    error = capsys.readouterr().err
    assert error.rstrip("\n").isprintable() and r"\x1b[" in error
    with pytest.raises(ValueError, match=r"\\x1b\[") as caught:
        rlpyt.load(run_dir)
    assert str(caught.value).isprintable()


def test_warnings_are_printed_without_control_characters():
    assert shown_warning("a\x1b[8mb\x9b") == "rlpyt: warning: a\\x1b[8mb\\x9b\n"
    with pytest.warns(UserWarning) as caught:
        gymnasium.logger.warn("Two\nlines.")
    assert shown_warning(caught[0].message) == "rlpyt: warning: WARN: Two\nlines.\n"


def test_help_of_export_names_the_formats_that_exist(capsys):
    assert f"--to {'|'.join(SUFFIXES)}" in COMMANDS["export"]
    assert rlpyt_command("export", "--help") == 0
    assert f"{{{','.join(SUFFIXES)}}}" in capsys.readouterr().out


def test_help_is_there_for_every_command(capsys):
    assert rlpyt_command("--help") == 0
    overview = capsys.readouterr().out
    for command in COMMANDS:
        assert command in overview
        assert rlpyt_command(command, "--help") == 0
        shown = capsys.readouterr().out
        assert "--help" in shown and "default: )" not in shown
    assert rlpyt_command("help", command) == 0 and capsys.readouterr().out == shown
    assert rlpyt_command("help") == 0 and capsys.readouterr().out == overview


def test_help_of_train_shows_presets_and_hyperparameters(capsys):
    assert rlpyt_command("train", "ppo", "Pendulum-v1", "--help") == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert (
        "--algo.ratio-clip NUMBER|SCHEDULE epsilon, PPO eq. 7; 0.1-0.3 [> 0] (default: 0.2)"
        in shown
    )
    assert "(default: 0.9)" in shown  # Pendulum's own discount


@pytest.mark.parametrize("algo_name", ["dqn", "ddpg", "td3", "sac", "sac_v"])
def test_help_of_an_algorithm_is_about_an_environment_that_it_can_play(algo_name, capsys):
    assert rlpyt_command("train", algo_name, "--help") == 0
    env_id = "CartPole-v1" if algo_name == "dqn" else "Pendulum-v1"
    assert f"rlpyt train {algo_name} {env_id}" in capsys.readouterr().out


def test_version(capsys):
    assert rlpyt_command("--version") == 0
    assert rlpyt.__version__ in capsys.readouterr().out


ENDLESS = {
    "threads were running: endless": "Thread(target=Event().wait, name='endless').start()",
    "threads were running: ThreadPoolExecutor-1_0": "pool.submit(Event().wait)",
    "processes were running: endless": (
        "get_context('fork').Process(target=time.sleep, args=[99], name='endless').start()"
    ),
    "": "get_context('fork').Process(target=time.sleep, args=[99], daemon=True).start()",
}


@pytest.mark.parametrize("warning", ENDLESS)
def test_the_command_ends_although_threads_and_processes_run(warning):
    code = (
        "import time, rlpyt.cli.main as cli; cli.THREADS_S = 0.1; "
        "from concurrent.futures import ThreadPoolExecutor; "
        "from multiprocessing import get_context; from threading import Event, Thread; "
        "pool = ThreadPoolExecutor(1, 'ThreadPoolExecutor-1'); pool.submit(len, '').result(); "
        f"{ENDLESS[warning]}; cli.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0 and "rlpyt" in ended.stdout
    said = f"rlpyt: warning: ended although {warning}\n"
    assert ended.stderr == (said if warning else "")


def test_a_wait_for_an_exit_handler_is_said_and_can_be_interrupted(interruptible):
    code = (
        "import atexit, time, rlpyt.cli.main as cli; cli.THREADS_S = 0.1; "
        "atexit.register(time.sleep, 99); cli.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "--version"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert "waits for an exit handler" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def test_an_interrupted_command_ends_while_nobody_reads_its_errors(monkeypatch):
    read, write = os.pipe()
    os.set_blocking(write, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write, b"x")
    os.set_blocking(write, True)
    monkeypatch.setattr("rlpyt.cli.main.run", Mock(side_effect=KeyboardInterrupt))
    with os.fdopen(write, "w") as pipe, os.fdopen(read, "rb"):
        monkeypatch.setattr("sys.stderr", pipe)
        assert rlpyt_command("status") == 130


@pytest.mark.parametrize("argv", [["--help"], ["compare", "--help"]])
def test_a_command_ends_silently_with_the_reader_of_its_output(argv):
    command = [sys.executable, "-m", "rlpyt", *argv]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_importing_the_package_is_cheap():
    code = (
        "import sys, time; began = time.perf_counter(); import rlpyt; "
        "assert time.perf_counter() - began < 0.3; "
        "heavy = {'torch', 'gymnasium', 'ale_py'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def interrupt(process):
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does with Ctrl-C


def warn_of_end(process):
    for _ in range(2):
        os.killpg(process.pid, signal.SIGUSR1)  # as SLURM does with --signal=USR1


def close_terminal(process):
    for _ in range(2):  # the shell and the system both say it
        os.killpg(process.pid, signal.SIGHUP)


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (interrupt, 130),
        pytest.param(subprocess.Popen.terminate, 143, marks=pytest.mark.slow),
        pytest.param(close_terminal, 129, marks=pytest.mark.slow),
        (warn_of_end, 138),
    ],
)
def test_a_signal_saves_a_checkpoint_and_leaves_nothing_running(stop, code, tmp_path):
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "rlpyt", "train", "ppo", "CartPole-v1"),
            *("--run-dir", str(run_dir), "--steps", "100000000", "--log-interval-steps", "256"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        progress = run_dir / "progress.csv"
        _wait_until(lambda: progress.exists() and progress.read_text().count("\n") >= 2, process)
        children = psutil.Process(process.pid).children(recursive=True)
        stop(process)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert f"resume {run_dir}\n" in out and "resume_from" not in out
    assert any(path.name.startswith("checkpoint-") for path in (run_dir / "checkpoint").iterdir())
    assert children
    assert not [child for child in children if child.is_running()]


TALKATIVE = """
from rlpyt.envs.toy import CountEnv

class Talkative(CountEnv):
    def step(self, action):
        print("." * 10_000, flush=True)
        return super().step(action)
"""


@pytest.mark.parametrize(
    ("kind", "redirected"),
    [
        ("cpu", "2> /dev/full | head -1"),
        pytest.param("serial", ">&- 2> /dev/full", marks=pytest.mark.slow),
        pytest.param("serial", "<&- 2>&- | head -1", marks=pytest.mark.slow),
    ],
)
def test_training_goes_on_without_a_terminal(kind, redirected, tmp_path, monkeypatch):
    (tmp_path / "talk.py").write_text(TALKATIVE)
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "rlpyt", "train", "ppo", "talk:Talkative"]
    command += [*TINY, "--run-dir", str(tmp_path / "run"), "--steps", "64"]
    command[command.index("--sampler.kind") + 1] = kind
    script = f"set -o pipefail; {shlex.join(command)} {redirected}"
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 0
    assert (tmp_path / "run" / "evaluation.json").exists()


def _only_helpers():
    """Return True if only multiprocessing's fork server and its tracker are left."""
    left = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    return all("forkserver import main" in line or "resource_tracker" in line for line in left)


def _wait_until(condition, process, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not get going"
        time.sleep(0.1)


def _without_ppo(argv):
    at = argv.index("--algo.minibatches")
    return [*argv[:at], *argv[at + 4 :]]


def test_deterministic_acting_trains_the_same_network_with_every_sampler(tmp_path):
    learnt = []
    sizes = [*TINY[2:4], "--sampler.batch-B", "4", *TINY[6:10], "--steps", "96", "--no-video"]
    for kind in ("serial", "alternating"):
        run = ["--run-dir", str(tmp_path / kind), "--eval-episodes", "0", "--sampler.kind", kind]
        flags = [*sizes, *run, "--sampler.deterministic-acting"]
        assert rlpyt_command("train", "ppo", "CartPole-v1", *flags) == 0
        learnt.append(rlpyt.load(tmp_path / kind).agent.state_dict())
    serial, alternating = learnt
    assert all(torch.equal(serial[name], own) for name, own in alternating.items())


def same_command(run_dir, *flags):
    args = ("--run-dir", str(run_dir), "--resume", "auto", *flags)
    return rlpyt_command("train", "ppo", "CartPole-v1", *TINY, *args)


def test_the_same_command_starts_resumes_and_completes_a_run(tmp_path, capsys, monkeypatch):
    run_dir = tmp_path / "run"
    iterations, optimize = [], PPO.optimize_agent

    def noted(algo, itr, samples):
        iterations.append(itr)
        if itr == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        return optimize(algo, itr, samples)

    monkeypatch.setattr(PPO, "optimize_agent", noted)
    assert same_command(run_dir, "--steps", "64") == 138
    assert same_command(run_dir, "--steps", "64") == 0
    assert iterations == [0, 1, 2, 3]
    (run_dir / "evaluation.json").unlink()
    assert same_command(run_dir, "--steps", "64") == 0  # the evaluation is missing
    assert iterations == [0, 1, 2, 3] and (run_dir / "evaluation.json").exists()
    curve = run_dir / "learning_curve.png"
    for drawn in (None, 1, 4e9):  # 4e9: a clock was wrong
        curve.unlink() if drawn is None else os.utime(curve, (drawn, drawn))
        before = (run_dir / "evaluation.json").stat().st_mtime_ns
        assert same_command(run_dir, "--steps", "64") == 0  # a signal came while it was drawn
        assert 1 < curve.stat().st_mtime < 4e9
        assert (run_dir / "evaluation.json").stat().st_mtime_ns == before
    capsys.readouterr()
    assert same_command(run_dir, "--steps", "64") == 0
    assert capsys.readouterr().out == f"{run_dir} is complete: it has all its 64 steps.\n"
    assert same_command(run_dir, "--steps", "80") == 0
    assert iterations == [0, 1, 2, 3, 4]


def effects(recwarn):
    """Flags that a warning since the last call names as without effect."""
    said = [str(w.message) for w in recwarn if "have no effect" in str(w.message)]
    recwarn.clear()
    return [text.partition("effect: ")[2].partition(". For")[0] for text in said]


def test_flags_that_a_resumed_run_does_not_take_are_named(tmp_path, capsys, recwarn):
    run_dir = tmp_path / "run"
    assert same_command(run_dir, "--steps", "32") == 0
    assert same_command(run_dir, "--steps", "48", "--device", "cpu") == 0
    assert effects(recwarn) == []
    changed = ("--algo.learning-rate", "0.01", "--seed", "5")
    assert same_command(run_dir, "--steps", "48", *changed) == 0
    assert effects(recwarn) == ["--algo.learning-rate, --seed"]
    other = ("dqn", "CartPole-v1", "--run-dir", str(run_dir), "--resume", "auto")
    assert rlpyt_command("train", *other) == 2
    assert "is a run of ppo on CartPole-v1, got dqn on" in capsys.readouterr().err


def test_settings_that_are_tuples_do_not_differ_from_those_of_a_file(tmp_path):
    options = default_options("ppo", "CartPole-v1")
    options = options.updated({"algo": {"optim_kwargs": {"betas": (0.5, 0.9)}}})
    options.write(tmp_path)
    own, _ = read_config(tmp_path, trust=True)
    assert train._by_flag(own, {}, recorded=True) == train._by_flag(options, {})


def test_other_seeds_than_those_of_a_resumed_population_are_named(tmp_path, recwarn):
    flags = ("--steps", "32", "--eval-episodes", "0", "--seeds")
    for seeds in ("0,1", "0-1", "0-2"):
        assert same_command(tmp_path / "runs", *flags, seeds) == 0
    assert effects(recwarn) == ["--seeds"]


def test_runs_of_a_population_that_are_complete_are_left_as_they_are(tmp_path, capsys):
    runs, flags = tmp_path / "runs", ("--steps", "32", "--seeds", "0,1")
    evaluations = [runs / f"seed_{seed}" / "evaluation.json" for seed in (0, 1)]
    assert same_command(runs, *flags) == 0
    evaluations[1].unlink()
    before = evaluations[0].stat().st_mtime_ns
    assert same_command(runs, *flags) == 0
    assert evaluations[1].exists() and evaluations[0].stat().st_mtime_ns == before
    capsys.readouterr()
    assert same_command(runs, *flags) == 0
    assert capsys.readouterr().out == f"{runs} is complete: its 2 runs have all their steps.\n"


def test_a_run_without_checkpoint_is_started_anew(tmp_path, capsys):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "progress.csv").write_text("a,b\n1,2\n")
    with pytest.warns(UserWarning, match=f"moved to {run_dir}.1"):
        assert same_command(run_dir, "--steps", "32") == 0
    assert (tmp_path / "run.1" / "progress.csv").read_text() == "a,b\n1,2\n"
    assert (run_dir / "evaluation.json").exists()
    assert rlpyt_command("train", "ppo", "CartPole-v1", "--resume", "auto") == 2
    assert "--run-dir" in capsys.readouterr().err


def test_a_settings_file_of_another_program_is_kept(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"my": "own"}')
    assert same_command(tmp_path, "--steps", "32") != 0
    assert "config.json is a file of another program" in capsys.readouterr().err
    assert (tmp_path / "config.json").read_text() == '{"my": "own"}'


def test_the_working_directory_can_be_that_of_a_run_without_checkpoint(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    Path("progress.csv").write_text("a,b\n1,2\n")
    with pytest.warns(UserWarning, match="moved to"):
        assert same_command(".", "--steps", "32") == 0
    assert Path("evaluation.json").exists()
    assert (tmp_path / "run.1" / "progress.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize("kept", [(), (0,)])
def test_runs_of_a_population_without_checkpoint_are_started_anew(tmp_path, kept):
    runs, flags = tmp_path / "runs", ("--steps", "32", "--seeds", "0,1")
    assert same_command(runs, *flags) == 0
    whole = [rlpyt.load(runs / f"seed_{seed}").agent.state_dict() for seed in (0, 1)]
    for seed in {0, 1} - {*kept}:
        shutil.rmtree(runs / f"seed_{seed}" / "checkpoint")
        (runs / f"seed_{seed}" / "params.pkl").unlink()
        (runs / f"seed_{seed}" / "evaluation.json").unlink()
    with pytest.warns(UserWarning, match="moved to"):
        assert same_command(runs, *flags) == 0
    for seed, state in enumerate(whole):
        again = rlpyt.load(runs / f"seed_{seed}").agent.state_dict()
        assert all(torch.allclose(value, again[name]) for name, value in state.items())
        assert (runs / f"seed_{seed}" / "evaluation.json").exists()
        assert (runs / f"seed_{seed}.1").exists() == (seed not in kept)


def test_resume_waits_for_the_runs_of_a_population(tmp_path, capsys, monkeypatch):
    for seed in (0, 1):
        (tmp_path / f"seed_{seed}").mkdir()
        (tmp_path / f"seed_{seed}" / "config.json").touch()
    owners = iter(["", "", "pid 1", "", "pid 1"])
    monkeypatch.setattr(RunLock, "owner", lambda lock: next(owners, ""))
    monkeypatch.setattr(resume, "POLL_S", 0)
    assert rlpyt_command("resume", str(tmp_path), "--wait") == 2  # the files are empty
    assert next(owners, None) is None
    assert "in use by pid 1: waiting" in capsys.readouterr().out


def test_resume_waits_for_the_process_that_trains(tmp_path, capsys, monkeypatch):
    owners = iter(["pid 1", "pid 1", "pid 1", ""])
    monkeypatch.setattr(RunLock, "owner", lambda lock: next(owners, ""))
    monkeypatch.setattr(resume, "POLL_S", 0)
    assert rlpyt_command("resume", str(tmp_path), "--wait") == 2  # there is no run
    assert next(owners, None) is None
    assert "in use by pid 1: waiting" in capsys.readouterr().out


def test_of_several_that_wait_one_resumes_and_the_others_wait_again(tmp_path, monkeypatch):
    owners = iter(["pid 1", "", "pid 2", "pid 2", "pid 2", ""])
    results = iter([RunDirectoryError("in use by pid 2"), 0])

    def resumed(command):
        if isinstance(result := next(results), Exception):
            raise result
        return result

    monkeypatch.setattr(RunLock, "owner", lambda lock: next(owners, ""))
    monkeypatch.setattr(resume, "POLL_S", 0)
    monkeypatch.setattr(resume, "_resume", resumed)
    assert rlpyt_command("resume", str(tmp_path), "--wait") == 0
    assert next(results, None) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ppo CartPole-v1", True),
        ("ppo CartPole-v1 --sampler.kind serial", False),
        ("ppo CartPole-v1 --sampler.kind=serial", False),
        ("ppo CartPole-v1 --seeds 0-3", False),
        ("ppo CartPole-v1 --help", False),
        ("dqn CartPole-v1", False),
        ("dqn CartPole-v1 --sampler.kind gpu", True),
        ("my_module:Algo CartPole-v1", False),
        ("", False),
    ],
)
def test_the_fork_server_starts_early_only_for_workers(line, expected):
    assert has_workers(line.split()) is expected
