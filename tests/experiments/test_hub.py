"""Models of the hub as runs: references, revisions, errors, and what a model may name."""

import errno
import json
import shutil
import socket
from json import JSONDecodeError
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub")

import huggingface_hub

import rlpyt
from rlpyt.experiments import hub
from rlpyt.experiments.push import write_model
from tests.cli.test_commands import rlpyt_command
from tests.experiments.test_push import REPO, says, train_script
from tests.stand_in_hub import METHODS, not_in_cache, unreachable

NAME = f"hf://{REPO}"


@pytest.fixture(scope="module")
def models(command_run, tmp_path_factory):
    """Return the folders of two models: a run of the command line, and one of a script."""
    folder = tmp_path_factory.mktemp("models")
    train_script(folder / "run")
    for name, run_dir in (("command", command_run), ("script", folder / "run")):
        write_model(rlpyt.load(run_dir), folder / name, REPO)
    return folder


@pytest.fixture
def pushed(models, stand_in):
    """Return the hub with a model of a run of the command line."""
    hub.upload(models / "command", REPO, private=False, message="")
    return stand_in


@pytest.fixture
def pushed_script(models, stand_in):
    """Return the hub with a model of a script's run."""
    hub.upload(models / "script", REPO, private=False, message="")
    return stand_in


def edit(stand_in, file, change):
    """Change a JSON file of the model, as its owner could."""
    path = stand_in.latest(REPO) / file
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "text", [NAME, f"{NAME}@main", f"{NAME}@v1.0", f"{NAME}@refs/pr/1", NAME + "/"]
)
def test_references_survive_pathlib(text):
    for reference in (text, Path(text)):
        assert hub.is_reference(reference)
        assert hub._REFERENCE.fullmatch(str(reference))[1] == REPO


@pytest.mark.parametrize(
    "text", ["hf://model", "hf://../../etc", f"{NAME}@../x", f"{NAME}@", "hf://a/b/c"]
)
def test_malformed_references_are_refused(text, stand_in, capsys):
    code, said = says(capsys, "eval", text)
    assert code == 2 and "must be hf://user/name" in said and stand_in.calls == []


def test_run_directories_are_no_references():
    assert not hub.is_reference("data/hf") and hub.local_path("data/run") == Path("data/run")


def test_every_command_for_runs_takes_a_model(pushed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rlpyt_command("eval", NAME, "--episodes", "1") == 0
    assert "ppo on CartPole-v1: return" in capsys.readouterr().out
    assert rlpyt_command("plot", NAME, "-o", "curve.png") == 0
    assert rlpyt_command("record", NAME, "--max-steps", "3", "--gif") == 0
    assert Path("curve.png").stat().st_size and Path("video.gif").stat().st_size
    flags = ("--steps", "32", "--run-dir", "again", "--eval-episodes", "0")
    assert rlpyt_command("train", "--config", NAME, *flags) == 0
    assert rlpyt.load("again").options.agent.hidden_sizes == (8,)


def test_a_model_is_not_trained_further(pushed, capsys):
    code, said = says(capsys, "resume", NAME)
    assert code == 2 and f"{NAME} cannot be trained further" in said
    with pytest.raises(ValueError, match="further"):
        rlpyt.train("ppo", "CartPole-v1", run_dir=NAME, resume=True)
    code, said = says(capsys, "resume", rlpyt.load(NAME).path, "--trust")
    assert code == 2 and "no checkpoint to resume from" in said
    assert not Path("hf:").exists()


def test_a_revision_is_that_of_its_time(pushed, models):
    edit(pushed, "config.json", lambda config: config.update(seed=77))
    hub.upload(models / "command", REPO, private=False, message="")
    assert rlpyt.load(f"{NAME}@0").options.seed == 77 and rlpyt.load(NAME).options.seed == 3


def test_only_known_files_are_downloaded(pushed):
    (pushed.latest(REPO) / "evil.py").write_text("raise SystemExit")
    (pushed.latest(REPO) / "params.pkl").write_bytes(b"\x80")
    (pushed.latest(REPO) / "agent" / "more.pkl").write_bytes(b"\x80")
    found = {
        str(p.relative_to(path)) for path in [rlpyt.load(NAME).path] for p in path.rglob("*.*")
    }
    assert found == {*hub.FILES} - {"parts.json", "README.md", "replay.mp4"}


def test_a_downloaded_copy_is_a_run_directory(pushed, tmp_path):
    path = shutil.copytree(rlpyt.load(NAME).path, tmp_path / "copy")
    assert rlpyt.load(path).evaluate(1).returns == rlpyt.load(NAME).evaluate(1).returns


@pytest.mark.parametrize(
    "failure,name,code,text",
    [
        (None, "somebody/other", 2, "does not exist on the hub, or is private"),
        (None, f"{REPO}@9", 2, "does not exist on the hub, or is private"),
        (not_in_cache(), REPO, 1, "([Errno 111] Connection refused)"),
        (
            JSONDecodeError("Expecting value", "<html>", 0),
            REPO,
            1,
            "answer for hf://somebody/model",
        ),
        (TypeError("ModelInfo() must be a mapping"), REPO, 1, "answer for hf://somebody/model"),
        (AssertionError("sha"), REPO, 1, "answer for hf://somebody/model"),
        (RecursionError("maximum depth"), REPO, 1, "answer for hf://somebody/model"),
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "e" * 5000),
            REPO,
            1,
            "answer for hf://somebody/model",
        ),
        (ValueError("Invalid pointer path"), REPO, 1, "answer for hf://somebody/model"),
        (OverflowError("int too large"), REPO, 1, "answer for hf://somebody/model"),
        (OSError(errno.ENOSPC, "No space left", "blobs"), REPO, 1, "error: [Errno 28] No space"),
    ],
    ids=[
        *("repository", "revision", "network", "login page", "other types", "no commit", "deep"),
        *("long tag", "commit with a path", "size", "full disk"),
    ],
)
def test_download_errors_are_one_line(failure, name, code, text, pushed, capsys):
    pushed.failure = {"snapshot_download": failure} if failure else {}
    found, said = says(capsys, "eval", f"hf://{name}")
    assert found == code and text in said and len(said) < 600


@pytest.fixture
def silent(monkeypatch, tmp_path):
    """Return the address of a hub that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        client = huggingface_hub.HfApi(endpoint=address, token="hf_x")
        monkeypatch.setattr(hub, "_client", lambda: client)
        monkeypatch.setattr(hub, "TIMEOUT_S", 0.1)
        monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_x")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        yield address


def test_a_hub_that_never_answers_is_named(silent, command_run, capsys):
    for args in (("push", command_run, REPO), ("eval", NAME)):
        code, said = says(capsys, *args)
        assert code == 1 and f"at {silent} (timed out)" in said


def test_the_copy_in_the_cache_is_used_if_the_hub_does_not_answer(pushed):
    path = rlpyt.load(NAME).path
    pushed.failure = {"repo_info": unreachable()}
    assert rlpyt.load(NAME).path == path and pushed.local == [False, True]


@pytest.mark.parametrize("file", ["config.json", "agent/manifest.json"])
def test_models_of_other_libraries_are_refused(file, pushed, capsys):
    (pushed.latest(REPO) / file).unlink()
    code, said = says(capsys, "eval", NAME)
    assert code == 2 and f"{NAME} is not a model of rlpyt" in said


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
def test_a_damaged_agent_is_refused(file, pushed, capsys):
    path = pushed.latest(REPO) / "agent" / file
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, said = says(capsys, "eval", NAME)
    assert code == 2 and "sha256 differs" in said


def test_agents_of_other_directories_are_not_read(pushed_script, models, tmp_path):
    elsewhere = {"checkpoint_dir": str(tmp_path / "elsewhere")}
    edit(pushed_script, "parts.json", lambda parts: parts["runner"]["kwargs"].update(elsewhere))
    expected = rlpyt.load(models / "run").evaluate(1).returns
    assert rlpyt.load(NAME, trust=True).evaluate(1).returns == expected


def test_the_real_client_has_the_methods_of_the_stand_in():
    assert all(callable(getattr(huggingface_hub.HfApi, name)) for name in METHODS)


def test_the_real_client_without_network(command_run, tmp_path, monkeypatch, capsys):
    client = huggingface_hub.HfApi(endpoint="http://127.0.0.1:9", token="hf_x")  # refuses
    monkeypatch.setattr(hub, "_client", lambda: client)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_x")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    for args in (("push", command_run, REPO), ("eval", NAME)):
        code, said = says(capsys, *args)
        assert code == 1 and "Cannot reach the Hugging Face Hub for" in said
