"""Push to the hub: what is uploaded, that it acts the same when loaded, and what is refused."""

import json
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("huggingface_hub")

from huggingface_hub import ModelCard
from huggingface_hub.errors import HfHubHTTPError

import rlpyt
from rlpyt import A2C, CategoricalMlpAgent, MinibatchRl, SerialSampler
from rlpyt.envs.gym import make
from rlpyt.errors import DamagedFile
from rlpyt.utils.logging.context import run_context
from tests.cli.test_commands import rlpyt_command
from tests.experiments.test_api import WideModel, cartpole
from tests.stand_in_hub import http_error, unreachable

REPO = "somebody/model"
SERIAL = dict(kind="serial", batch_T=8, batch_B=2, max_decorrelation_steps=0)
FILES = {
    *("README.md", "config.json", "evaluation.json", "learning_curve.png", "progress.csv"),
    *(f"agent/{name}" for name in ("manifest.json", "state.json")),
    *("agent/arrays.safetensors", "agent/tensors.safetensors"),
}


def train(run_dir, algo="ppo", env="CartPole-v1", **settings):
    sampler = SERIAL | settings.pop("sampler", {})
    kwargs = dict(steps=64, log_interval_steps=16, seed=3, sampler=sampler, progress=False)
    kwargs |= dict(epochs=1) if algo == "ppo" else {}
    return rlpyt.train(algo, env, run_dir=run_dir, **kwargs, **settings)


def train_script(run_dir, EnvCls=cartpole, env_kwargs=None, **kwargs):
    sampler = SerialSampler(EnvCls, env_kwargs or {}, batch_T=8, batch_B=2)
    agent = CategoricalMlpAgent(WideModel, model_kwargs=dict(width=8))
    with run_context(run_dir, 0, "script"):
        MinibatchRl(
            algo=A2C(), agent=agent, sampler=sampler, n_steps=64, log_interval_steps=16, **kwargs
        ).train()


@pytest.fixture
def run_dir(command_run, tmp_path):
    return shutil.copytree(command_run, tmp_path / "run")


def actions(run, n=40):
    """Return what an agent does in a recorded sequence of observations, deterministic or not."""
    rng = np.random.default_rng(0)
    space = run.agent.env_spaces.observation
    observations = rng.normal(size=(n, *space.null_value().shape)).astype(np.float32)
    run.reset()
    return [np.asarray(run.act(observation, reward=0.5)) for observation in observations]


def contents(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def says(capsys, *args):
    """Run the command, which must fail with one line; return code and line."""
    code = rlpyt_command(*map(str, args))
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("rlpyt: error: ")
    return code, line


@pytest.mark.parametrize(
    "algo,env,settings",
    [
        ("ppo", "CartPole-v1", dict(agent=dict(hidden_sizes=[8], normalize_observation=True))),
        ("a2c", "CartPole-v1", dict(agent=dict(recurrent=True, hidden_sizes=[8]))),
        (
            "dqn",
            "CartPole-v1",
            dict(min_steps_learn=16, replay_ratio=16, agent=dict(hidden_sizes=[8])),
        ),
        (
            "sac",
            "Pendulum-v1",
            dict(min_steps_learn=16, replay_ratio=16, agent=dict(hidden_sizes=[8])),
        ),
        ("cem", "CartPole-v1", dict(agent=dict(hidden_sizes=[4]))),
    ],
    ids=["ppo", "recurrent", "dqn", "sac", "cem"],
)
def test_a_pushed_model_acts_the_same(algo, env, settings, tmp_path, stand_in):
    run = train(tmp_path / "run", algo, env, **settings)
    assert run.push(REPO) == f"https://hub.invalid/{REPO}"
    loaded = rlpyt.load(f"hf://{REPO}")
    assert loaded.name == run.name and loaded.itr == run.itr and loaded.options == run.options
    np.testing.assert_array_equal(actions(loaded), actions(run))
    assert loaded.evaluate(2).returns == run.evaluate(2).returns


@pytest.mark.parametrize("EnvCls,kwargs", [(cartpole, {}), (make, dict(id="CartPole-v1"))])
def test_a_pushed_run_of_a_script_acts_the_same(EnvCls, kwargs, tmp_path, stand_in):
    train_script(tmp_path / "run", EnvCls, kwargs)
    run = rlpyt.load(tmp_path / "run")
    run.push(REPO)
    loaded = rlpyt.load(f"hf://{REPO}", trust=True)
    assert loaded.name == run.name and loaded.options is None
    np.testing.assert_array_equal(actions(loaded), actions(run))
    card = (stand_in.latest(REPO) / "README.md").read_text()
    assert "By a script. parts.json has" in card
    assert "requires the modules tests.experiments.test_api." in card


def test_snapshots_alone_are_converted(run_dir, stand_in):
    shutil.rmtree(run_dir / "checkpoint")
    rlpyt.load(run_dir).push(REPO)
    assert contents(stand_in.latest(REPO)).keys() == FILES
    np.testing.assert_array_equal(actions(rlpyt.load(f"hf://{REPO}")), actions(rlpyt.load(run_dir)))


def test_the_command_uploads_the_listed_files_and_leaves_the_run_alone(run_dir, stand_in, capsys):
    before = contents(run_dir)
    assert rlpyt_command("push", str(run_dir), REPO, "--message", "first") == 0
    assert contents(run_dir) == before
    out = capsys.readouterr().out
    assert f"Uploaded to https://hub.invalid/{REPO}" in out and "Evaluating" not in out
    uploaded = contents(stand_in.latest(REPO))
    assert uploaded.keys() == FILES and all(name in out for name in FILES)
    assert stand_in.messages == ["first"] and stand_in.private == {REPO: False}


def test_nothing_of_the_machine_is_uploaded_and_no_pickle(run_dir, stand_in, monkeypatch):
    monkeypatch.setenv("RLPYT_TEST_SECRET", "a-value-of-the-environment")
    (run_dir / "notes.txt").write_text("private")
    rlpyt.load(run_dir).push(REPO)
    private = [str(run_dir.parent), f"{Path.home()}/", os.getcwd(), socket.gethostname()]
    private = [text for text in private if len(text) > 5]  # others may be there by chance
    for name, (_, content) in contents(stand_in.latest(REPO)).items():
        assert not content.startswith((b"\x80", b"PK")), name  # pickles and archives of torch
        for text in [*private, "hf_secret", "a-value-of-the-environment"]:
            assert text.encode() not in content, (name, text)


@pytest.mark.parametrize("name", ["progress.csv", "video.mp4"])
def test_links_out_of_an_own_run_are_not_published(name, run_dir, stand_in, tmp_path, capsys):
    secret = tmp_path / "id_rsa"
    secret.write_text("a private key")
    (run_dir / name).unlink(missing_ok=True)
    (run_dir / name).symlink_to(secret)
    code, said = says(capsys, "push", run_dir, REPO)
    assert code == 2 and f"{name} must not be a link" in said and stand_in.calls == []


def test_links_within_a_run_are_published(run_dir, stand_in):
    (run_dir / "progress.csv").rename(run_dir / "rows.csv")
    (run_dir / "progress.csv").symlink_to("rows.csv")
    rlpyt.load(run_dir).push(REPO)
    rows = (stand_in.latest(REPO) / "progress.csv").read_bytes()
    assert rows == (run_dir / "rows.csv").read_bytes()


def test_the_card_says_how_well_and_how(run_dir, stand_in):
    rlpyt.load(run_dir).push(REPO)
    text = (stand_in.latest(REPO) / "README.md").read_text()
    card, evaluation = ModelCard(text), json.loads((run_dir / "evaluation.json").read_text())
    assert card.data.library_name == "rlpyt" and "CartPole-v1" in card.data.tags
    (result,) = card.data.eval_results
    score = f"{evaluation['return_mean']:.2f} +/- {evaluation['return_std']:.2f}"
    assert (result.metric_type, result.metric_value) == ("mean_reward", score)
    assert f"| return | {score} (mean and standard deviation of 2 episodes" in text
    assert (
        "| training | 64 environment steps |" in text and f"| rlpyt | {rlpyt.__version__}" in text
    )
    assert "![Learning curve](learning_curve.png)" in text and f"hf://{REPO}" in text
    assert f"\nrlpyt train --config hf://{REPO}\n" in text


def test_a_dry_run_contacts_nothing(run_dir, stand_in, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    before = contents(run_dir)
    assert rlpyt_command("push", str(run_dir), REPO, "--dry-run") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in FILES) and "Nothing was uploaded." in out
    assert stand_in.calls == [] and contents(run_dir) == before


def test_without_a_token_nothing_is_contacted(run_dir, stand_in, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    before = contents(run_dir)
    code, said = says(capsys, "push", run_dir, REPO)
    assert code == 2 and "hf auth login" in said and "HF_TOKEN" in said
    assert stand_in.calls == [] and contents(run_dir) == before


@pytest.mark.parametrize("method", ["create_repo", "upload_folder"])
@pytest.mark.parametrize(
    "error,code,text",
    [
        (unreachable(), 1, "Cannot reach"),
        (http_error(HfHubHTTPError, 503, "Service Unavailable"), 1, "Service Unavailable"),
        (http_error(HfHubHTTPError, 403, "Forbidden\nmore"), 2, "write access"),
    ],
    ids=["network", "server", "forbidden"],
)
def test_failures_are_one_line_and_leave_the_run_alone(
    method, error, code, text, run_dir, stand_in, capsys
):
    stand_in.failure[method] = error
    before = contents(run_dir)
    found, said = says(capsys, "push", run_dir, REPO)
    assert found == code and text in said and REPO in said
    assert not stand_in.commits.get(REPO) and contents(run_dir) == before


def test_private_models_are_not_uploaded_to_a_public_repository(run_dir, stand_in, capsys):
    assert rlpyt_command("push", str(run_dir), "somebody/hidden", "--private") == 0
    assert stand_in.private["somebody/hidden"]
    assert rlpyt_command("push", str(run_dir), REPO) == 0
    capsys.readouterr()
    code, said = says(capsys, "push", run_dir, REPO, "--private")
    assert code == 2 and "is public; nothing was uploaded" in said
    assert len(stand_in.commits[REPO]) == 1


@pytest.mark.parametrize("name", ["model", "a/b/c", "../model", "a/..", "hf://a/b", "a/ b", ""])
def test_names_must_be_those_of_the_hub(name, run_dir, stand_in, capsys):
    code, said = says(capsys, "push", run_dir, name)
    assert code == 2 and "must be user/name" in said and stand_in.calls == []


@pytest.mark.parametrize("value", ["/data/level.xml", "~/level.xml", f"x={Path.home()}/level.xml"])
def test_local_paths_are_refused(value, run_dir, stand_in, capsys):
    config = json.loads((run_dir / "config.json").read_text())
    config["algo"]["optim_kwargs"] = {"path": value}
    (run_dir / "config.json").write_text(json.dumps(config))
    code, said = says(capsys, "push", run_dir, REPO, "--trust")
    assert code == 2 and "config.json: algo.optim_kwargs.path=" in said and stand_in.calls == []


def test_settings_of_a_script_that_loading_does_not_need_stay_here(tmp_path, stand_in):
    hook = SimpleNamespace(on_log=lambda runner, row: None)
    train_script(tmp_path / "run", checkpoint_dir=tmp_path / "elsewhere", hooks=[hook])
    rlpyt.load(tmp_path / "run").push(REPO)
    text = (stand_in.latest(REPO) / "parts.json").read_text()
    assert "elsewhere" not in text and "lambda" not in text and "hooks" not in text


def test_an_agent_that_has_changed_is_evaluated_again(run_dir, stand_in):
    (run_dir / "video.mp4").write_bytes(b"video of the agent")
    rlpyt.load(run_dir).push(REPO)
    assert (stand_in.latest(REPO) / "replay.mp4").exists()
    old = json.loads((run_dir / "evaluation.json").read_text())
    os.utime(run_dir / "params.pkl", times=(time.time() + 5, time.time() + 5))
    rlpyt.load(run_dir).push(REPO)
    new = json.loads((stand_in.latest(REPO) / "evaluation.json").read_text())
    assert len(old["returns"]) == 2 and len(new["returns"]) == 20
    assert not (stand_in.latest(REPO) / "replay.mp4").exists()  # that of the former agent


@pytest.mark.parametrize("key", ["seed", "returns", "deterministic"])
def test_an_evaluation_of_other_types_does_not_come_into_the_card(key, run_dir, stand_in, capsys):
    path = run_dir / "evaluation.json"
    text = "0\n---\n# Another title\n"
    wrong = [text] if key == "returns" else text
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: wrong}))
    rlpyt.load(run_dir).push(REPO)
    assert "evaluation.json is missing, damaged or older" in capsys.readouterr().out
    assert "Another title" not in (stand_in.latest(REPO) / "README.md").read_text()


@pytest.mark.parametrize("key", ["rlpyt", "algo_name", "env"])
def test_a_version_or_name_with_other_characters_is_refused(key, run_dir):
    path = run_dir / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: "1 |\n# Another title"}))
    with pytest.raises(DamagedFile, match=rf"config.json is not .*{key}"):
        rlpyt.load(run_dir)


def test_files_of_other_origin_stay_on_the_hub(run_dir, stand_in):
    rlpyt.load(run_dir).push(REPO)
    (stand_in.latest(REPO) / "LICENSE").write_text("MIT")
    rlpyt.load(run_dir).push(REPO)
    assert contents(stand_in.latest(REPO)).keys() == {*FILES, "LICENSE"}


def test_a_loaded_model_can_be_pushed(run_dir, stand_in):
    rlpyt.load(run_dir).push(REPO)
    first = rlpyt.load(f"hf://{REPO}")
    first.push("somebody/copy")
    np.testing.assert_array_equal(actions(rlpyt.load("hf://somebody/copy")), actions(first))


def test_a_missing_client_is_named(run_dir, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for args in (("push", run_dir, REPO), ("eval", f"hf://{REPO}")):
        code, said = says(capsys, *args)
        assert code == 2 and "huggingface_hub. Run: pip install" in said and "[hub]'" in said
