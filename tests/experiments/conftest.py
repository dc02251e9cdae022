"""A local stand-in for the hub, and a run to push."""

import pytest

from tests.cli.test_commands import rlpyt_command


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Return the hub that the client contacts, with a token for it."""
    pytest.importorskip("huggingface_hub")
    from tests.stand_in_hub import StandInHub

    found = StandInHub(tmp_path / "hub")
    monkeypatch.setattr("huggingface_hub.HfApi", found)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_secret")
    return found


@pytest.fixture(scope="session")
def command_run(tmp_path_factory):
    """Return the directory of a run of the command line, evaluated; do not change it."""
    run_dir = tmp_path_factory.mktemp("runs") / "run"
    flags = "--steps 64 --seed 3 --sampler.kind serial --sampler.batch-T 8 --sampler.batch-B 2"
    flags += " --log-interval-steps 16 --agent.hidden-sizes 8 --eval-episodes 2 --no-video"
    args = ("train", "ppo", "CartPole-v1", "--run-dir", str(run_dir), *flags.split())
    assert rlpyt_command(*args) == 0
    return run_dir
