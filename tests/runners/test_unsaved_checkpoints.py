"""A checkpoint that cannot be written is an error, is tried again, and shows in the end."""

import errno
import os
import re
import resource
import signal

import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint
from rlpyt.utils.logging import core, logger
from rlpyt.utils.logging.context import run_context
from tests.runners.sync_parts import sync_runner
from tests.runners.test_minibatch_rl import B, T, runner_for

pytestmark = pytest.mark.usefixtures("capsys")  # in memory: the limit holds for pytest's files too


class Limit(Hook):
    """Limits the size of files from one iteration on, and no more after another."""

    def __init__(self, begin, end=10**9, signal_at=None):
        self.begin, self.end, self.signal_at = begin, end, signal_at
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_iteration(self, runner, itr):
        if itr == self.begin:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, self.before[1]))
        if itr == self.end:
            self.on_end(runner)
        if itr == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_end(self, runner):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


WHY = r"checkpoint-\d+ .*saved: .*limit is 4000 bytes.*/checkpoint/"


def test_after_a_failed_checkpoint_the_next_one_is_tried(tmp_path, capsys):
    limit = Limit(begin=0, end=4)
    every = dict(checkpoint_interval_steps=2 * T * B, checkpoint_dir=tmp_path / "checkpoint")
    runner = runner_for(hooks=[limit], **every)
    runner.train()
    said = capsys.readouterr().err
    assert said.count("rlpyt: error: no checkpoint after iteration") == 2
    assert "no checkpoint after iteration 1: " in said and "4000 bytes" in said
    assert (
        runner.checkpoint_error is None
        and load_checkpoint(tmp_path / "checkpoint").state["itr"] == 7
    )


def test_a_run_whose_last_checkpoint_fails_ends_with_its_error(tmp_path):
    every = dict(checkpoint_interval_steps=2 * T * B, checkpoint_dir=tmp_path / "checkpoint")
    runner = runner_for(hooks=[Limit(begin=3)], **every)
    with pytest.raises(CheckpointError, match=WHY) as caught:
        runner.train()
    assert caught.value.itr == 7
    assert "ended after iteration 7" in caught.value.__notes__[-1]
    assert "iteration 3." in caught.value.__notes__[-1]
    assert load_checkpoint(tmp_path / "checkpoint").state["itr"] == 3


@pytest.mark.parametrize("mode", ["none", "last", "gap"])
def test_the_agent_is_saved_where_the_last_checkpoint_cannot_be(mode, tmp_path, monkeypatch):
    runner = runner_for(n_itr=3, log_interval_steps=10**6)
    whole_state = runner.whole_state
    monkeypatch.setattr(runner, "whole_state", lambda itr: {**whole_state(itr), "x": object()})
    with run_context(tmp_path, 0, "a", snapshot_mode=mode):
        with pytest.raises(CheckpointError, match="state/x must consist of"):
            runner.train()
        assert logger.get_snapshot_mode() == mode
    saved = torch.load(tmp_path / "params.pkl", weights_only=True)
    assert saved["itr"] == 2
    expected = runner.agent.state_dict()
    for name, x in saved["agent_state_dict"].items():
        assert torch.equal(x, expected[name]), name


def test_a_snapshot_that_could_not_be_written_is_written_with_the_checkpoint(tmp_path, monkeypatch):
    """Or commands would load the agent of the row before."""
    write, failed = core.write_snapshot, []

    def write_snapshot(path, params):
        if params["itr"] == 2 and not failed:
            failed.append(path)
            raise OSError(errno.EIO, "input/output error")
        write(path, params)

    monkeypatch.setattr(core, "write_snapshot", write_snapshot)
    runner = runner_for(n_itr=3, log_interval_steps=T * B)
    with run_context(tmp_path, 0, "a", snapshot_mode="last"):
        with pytest.warns(RuntimeWarning, match=r"params\.pkl could not be saved"):
            runner.train()
        assert not logger.lacks_snapshot()
    assert failed and torch.load(tmp_path / "params.pkl", weights_only=True)["itr"] == 2


def test_a_signal_does_not_hide_it_and_no_empty_directory_stays(tmp_path, capsys):
    hook = Limit(begin=0, signal_at=2)
    runner = runner_for(hooks=[hook], checkpoint_dir=tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=WHY):
        runner.train()
    assert re.search(r"after iteration 2.*: checkpoint not saved\.", capsys.readouterr().out)
    assert not (tmp_path / "checkpoint").exists()


def test_no_rank_is_reported_as_failed(tmp_path):
    runner = sync_runner(hooks=[Limit(begin=0)], checkpoint_dir=tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=WHY):
        runner.train()
    assert runner.trained_itr == runner.n_itr - 1


def test_a_checkpoint_that_cannot_be_loaded_whole_is_not_saved_again(tmp_path):
    """The part loaded before the replay would be saved with an empty one, and resumed from."""

    def runner(n_step_return, resume):
        sampler = SerialSampler(CountEnv, {}, batch_T=8, batch_B=2)
        algo = DQN(min_steps_learn=16, batch_size=8, replay_size=200, n_step_return=n_step_return)
        directory = tmp_path / "checkpoint"
        resumed = {"resume_from": directory} if resume else {}
        return MinibatchRl(
            algo=algo, agent=DqnMlpAgent(model_kwargs=dict(hidden_sizes=[8])), sampler=sampler,
            n_steps=160, seed=1, checkpoint_dir=directory, **resumed,
        )  # fmt: skip

    runner(1, False).train()
    saved = sorted((tmp_path / "checkpoint").iterdir())
    with pytest.raises(ValueError, match="n_step_return"):
        runner(2, True).train()
    assert sorted((tmp_path / "checkpoint").iterdir()) == saved
