"""State before the update in which a run ended in NaN or infinity, and ``rlpyt replay``."""

import io
import shutil

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

import rlpyt
from rlpyt import CategoricalMlpAgent
from rlpyt.cli import replay
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import DamagedFile, NonFiniteError, WorkerError
from rlpyt.experiments.build import build_runner
from rlpyt.experiments.options import read_options
from rlpyt.runners import failure
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv
from tests.runners.sync_parts import sync_runner

pytestmark = pytest.mark.usefixtures("nothing_left")
K = 5  # the update that fails
PRECISION = "p __import__('torch').get_float32_matmul_precision()"
REPLAY = dict(min_steps_learn=64, batch_size=16, replay_ratio=4)
CASES = {
    "ppo": {},
    "ppo-lstm": dict(memory="lstm"),
    "a2c": dict(normalize_reward=True, normalize_observation=True),
    "vtrace": dict(memory="gru"),
    "dqn": dict(prioritized_replay=True, n_step_return=3, **REPLAY),
    "r2d1": dict(min_steps_learn=64, algo=dict(batch_B=4, batch_T=8, warmup_T=4)),
    "sac": REPLAY,
}


def state_of(algo, inputs):
    """Return all that an update depends on, as tensors."""
    trees = [algo.agent.state_dict(), algo.optim_state_dict(), algo.agent.model.training]
    tensors = [torch.as_tensor(x).clone() for x in tree_leaves(trees) if x is not None]
    return [*tensors, torch.get_rng_state(), *(x.clone() for x in leaves_of(tuple(inputs)))]


class FailAt(Hook):
    """Hook that lets the K-th update fail, and keeps the state before it."""

    def on_start(self, runner):
        self.n, update, algo = 0, runner.algo.update, runner.algo

        def failing(*inputs):
            if not torch.is_inference_mode_enabled():  # which looks for the cause
                self.n += 1
            if self.n == K:
                if not torch.is_inference_mode_enabled():
                    self.state = state_of(algo, inputs)
                    torch.rand(7)  # noise of the update
                raise NonFiniteError("the loss is nan.")
            return update(*inputs)

        algo.update = failing


def run(tmp_path, name, env="toy/memory", hooks=(), **settings):
    settings = {"sampler": dict(kind="serial", batch_T=16, batch_B=4), **settings}
    settings |= dict(steps=2048, run_dir=tmp_path, hooks=hooks, seed=1)
    return rlpyt.train(name.partition("-")[0], env, eval_episodes=0, video=False, **settings)


@pytest.mark.parametrize("name", CASES)
def test_the_state_before_the_failed_update_comes_back(name, tmp_path):
    hook = FailAt()
    with pytest.raises(NonFiniteError, match="the loss is nan") as raised:
        run(tmp_path, name, hooks=[hook], **CASES[name])
    assert f"rlpyt replay {tmp_path}" in "".join(raised.value.__notes__)

    saved = load_checkpoint(tmp_path / failure.DIRECTORY).state["algo"]
    assert saved.get("replay") is None

    repeated = []

    def call(update, *inputs):
        repeated.extend(state_of(runner.algo, inputs))
        return update(*inputs)

    runner = build_runner(read_options(tmp_path), tmp_path, debug=True)
    assert failure.repeat(runner, tmp_path / failure.DIRECTORY, call)
    assert len(repeated) == len(hook.state) > 10
    for before, after in zip(hook.state, repeated, strict=True):
        assert torch.equal(before.nan_to_num(), after.nan_to_num())


class Exploding(CountEnv):
    """Environment whose 200th reward is so large that the square of its error is infinite."""

    n = 0

    def step(self, action):
        self.n += 1
        o, r, done, info = super().step(action)
        return o, np.float32(1e30) if self.n == 200 else r, done, info


def test_the_command_shows_inputs_and_fails_as_the_run_did(tmp_path, capsys, monkeypatch):
    with pytest.raises(NonFiniteError, match="the loss is inf"):
        run(tmp_path, "a2c", Exploding, matmul_precision="medium")
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(NonFiniteError, match="the loss is inf"):
        replay.main([str(tmp_path)])
    shown = capsys.readouterr().out
    assert "A2C, iteration" in shown and "batch.env.reward" in shown and "1e+30" in shown
    monkeypatch.setattr("sys.stdin", io.StringIO(f"p sorted(locals())\n{PRECISION}\nq\n"))
    assert replay.main([str(tmp_path), "--debugger"]) == 1
    shown = capsys.readouterr().out
    assert "['samples', 'self']" in shown and "is finite" not in shown
    assert "'medium'" in shown and torch.get_float32_matmul_precision() == "highest"
    assert files == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", ["serial", "cpu"])
def test_the_steps_before_a_nan_of_an_environment_are_shown(tmp_path, capsys, kind):
    sampler = dict(kind=kind, batch_T=16, batch_B=4)
    args = dict(fault="nan", at=40, length=9)
    with pytest.raises((NonFiniteError, WorkerError), match="must be finite"):
        run(tmp_path, "ppo", FaultyEnv, env_args=args, sampler=sampler)
    assert replay.main([str(tmp_path)]) == 1
    *_, header, last, bad = capsys.readouterr().out.strip().split("\n")[-7:]
    assert "nan" in bad and "nan" not in last, header


def test_nothing_is_left_by_other_errors(tmp_path):
    sampler = dict(kind="cpu", batch_T=16, batch_B=4)
    with pytest.raises(WorkerError, match="told to fail"):
        run(tmp_path, "ppo", FaultyEnv, env_args=dict(at=300), sampler=sampler)
    assert not (tmp_path / failure.DIRECTORY).exists()
    with pytest.raises(CheckpointError, match=f"{failure.DIRECTORY} does not exist"):
        replay.main([str(tmp_path)])


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no message")


class FailAfter(Hook):
    """Hook that raises an error without a message after an iteration."""

    def on_iteration(self, runner, itr):
        if itr == 3:
            raise Unprintable


def test_an_error_whose_message_raises_is_kept_and_a_checkpoint_saved(tmp_path):
    with pytest.raises(Unprintable) as raised:
        run(tmp_path, "ppo", hooks=[FailAfter()], checkpoint_interval_steps=2048)
    assert "Checkpoint after iteration 3" in "".join(raised.value.__notes__)


LEAF = {"type": "a", "fields": ["x"], "parts": [torch.zeros(1)]}


@pytest.mark.parametrize(
    "found",
    [
        {"message": "", "itr": 0, "samples": None},
        {"message": "", "itr": 0, "samples": None, "inputs": [{"type": "a", "fields": []}]},
        {"message": "", "itr": 0, "samples": {**LEAF, "fields": ["x", "y"]}, "inputs": None},
        {"message": "", "itr": 0, "samples": None,
         "inputs": [{**LEAF, "attributes": {"__class__": 1}}]},
        {"message": "", "itr": 0, "samples": None, "inputs": None},
        {"message": {}, "itr": 0, "samples": None, "inputs": [LEAF]},
        {"message": "", "itr": 0, "samples": None, "inputs": torch.zeros(2)},
        np.zeros(2),
    ],
)  # fmt: skip
def test_damaged_failures_are_named(tmp_path, found):
    save_checkpoint(tmp_path, {"failure": found})
    with pytest.raises(CheckpointError, match="must hold what a run in NaN has left"):
        failure.load(tmp_path)


def test_a_failure_of_another_shape_is_named(tmp_path, monkeypatch):
    with pytest.raises(NonFiniteError):
        run(tmp_path / "run", "ppo", hooks=[FailAt()])
    state = load_checkpoint(tmp_path / "run" / failure.DIRECTORY).state
    found = {**state["failure"], "inputs": None, "samples": LEAF}
    shutil.rmtree(tmp_path / "run" / failure.DIRECTORY)
    save_checkpoint(tmp_path / "run" / failure.DIRECTORY, {**state, "failure": found})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # a run of somebody else
    with pytest.raises(DamagedFile, match="describes no run that can be built"):
        replay.main([str(tmp_path / "run")])


def test_the_failure_of_a_script_is_repeated_on_its_own_device(tmp_path):
    agent, given = CategoricalMlpAgent(), dict(EnvCls=Exploding, env_kwargs={}, n_itr=60)
    ended = pytest.raises(NonFiniteError, match="the loss is inf")
    with run_context(tmp_path, 0, "script", snapshot_mode="last"), ended:
        sync_runner(MinibatchRl, agent=agent, **given).train()
    with pytest.raises(NonFiniteError, match="the loss is inf"):
        replay.main([str(tmp_path)])
    with pytest.raises(ValueError, match="--device=cuda .*whose affinity has the device"):
        replay.main([str(tmp_path), "--device", "cuda"])
