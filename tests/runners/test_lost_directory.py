"""A run whose directory is deleted, emptied, moved or replaced ends with a named error."""

import shutil
from pathlib import Path

import pytest

from rlpyt.runners import hooks
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.logging.lock import RunDirectoryError
from tests.runners.test_async_rl import ONE, run
from tests.runners.test_minibatch_rl import B, T, runner_for

AT = 3  # iteration after which the directory is lost
OFTEN, SELDOM = 1, 10**6  # steps


def moved(run_dir):
    run_dir.rename(run_dir.with_name("moved"))


def replaced(directory):
    shutil.rmtree(directory)
    directory.touch()


def emptied(run_dir):
    shutil.rmtree(run_dir)
    run_dir.mkdir()


class Lose(Hook):
    """Loses the run directory, and counts the iterations that follow."""

    def __init__(self, lose):
        self.lose, self.n_more = lose, 0

    def on_start(self, runner):
        self.run_dir = logger.get_snapshot_dir()

    def on_iteration(self, runner, itr):
        self.n_more += itr > AT
        if itr == AT:
            self.lose(Path(self.run_dir))


def lose(run_dir, build, how=shutil.rmtree, mode="last"):
    """Train a runner that loses its directory; return the hook and the error."""
    hook = Lose(how)
    with (
        pytest.raises(RunDirectoryError, match="deleted, emptied or moved") as caught,
        run_context(run_dir, 0, "n", snapshot_mode=mode) as directory,
    ):
        build(hook).train()
    assert str(caught.value).startswith(f"{directory} has been")
    assert caught.value.itr >= AT
    return hook, caught.value


def everything_in(directory):
    return sorted(directory.rglob("*")) if directory.exists() else []


@pytest.mark.parametrize("how", [shutil.rmtree, emptied, moved, replaced])
@pytest.mark.parametrize(
    ("rows", "checkpoints", "check_s"),
    [(OFTEN, SELDOM, 1e9), (SELDOM, OFTEN, 1e9), (SELDOM, SELDOM, 0.0)],
    ids=["row", "checkpoint", "time"],
)
def test_the_run_ends_at_once_and_writes_nothing_more(
    tmp_path, monkeypatch, how, rows, checkpoints, check_s
):
    monkeypatch.setattr(hooks, "CHECK_INTERVAL_S", check_s)
    intervals = dict(log_interval_steps=rows, checkpoint_interval_steps=checkpoints)
    hook, error = lose(tmp_path / "run", lambda hook: runner_for(hooks=[hook], **intervals), how)
    assert hook.n_more == 0  # the run's own hooks come before it
    assert error.itr == AT + 1
    assert everything_in(tmp_path / "run") == []


def test_a_moved_run_resumes_from_its_checkpoint(tmp_path):
    every = dict(checkpoint_interval_steps=2 * T * B)
    lose(tmp_path / "run", lambda hook: runner_for(hooks=[hook], **every), moved)
    found = tmp_path / "moved" / "checkpoint"
    assert load_checkpoint(found).state["itr"] == AT
    with run_context(tmp_path / "moved", 0, "n", resume=True):
        runner = runner_for(resume_from=found)
        runner.train()
    assert runner.state.itr == 7


def test_a_checkpoint_directory_elsewhere_has_the_last_iteration(tmp_path):
    other = dict(checkpoint_dir=tmp_path / "checkpoint")
    _, error = lose(tmp_path / "run", lambda hook: runner_for(hooks=[hook], **other))
    assert load_checkpoint(tmp_path / "checkpoint").state["itr"] == error.itr
    assert f"in {tmp_path / 'checkpoint'}" in error.__notes__[-1]


def test_with_workers(tmp_path):
    build = dict(Runner=MinibatchRlEval, Sampler=CpuSampler)
    lose(tmp_path / "run", lambda hook: runner_for(hooks=[hook], **build), emptied)
    assert everything_in(tmp_path / "run") == []


@pytest.mark.parametrize("Sampler, max_lead", [(AsyncSerialSampler, 0), (AsyncCpuSampler, None)])
def test_asynchronously(tmp_path, Sampler, max_lead):
    how = dict(affinity=ONE, train=False, n_itr=500, max_lead=max_lead)
    parts = "dqn", AsyncRl, Sampler
    lose(tmp_path / "run", lambda hook: run(*parts, hooks=[hook], **how), emptied)
    assert everything_in(tmp_path / "run") == []
