"""Runs of algorithms with replay: warm-up, checkpoints with and without replay, resumption."""

import csv

import pytest
import torch

from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent, IqnMlpAgent, R2d1LstmAgent
from rlpyt.agents.exploration import annealed
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.runners.test_minibatch_rl import StopAfter

T, B, N_ITR = 8, 2, 14
SMALL = dict(
    batch_size=16, min_steps_learn=4 * T * B, replay_size=10 * T * B, replay_ratio=2,
    target_update_interval=5, eps_steps=8 * T * B, learning_rate=1e-3,
)  # fmt: skip
NARROW = dict(hidden_sizes=[8, 8])
SEQUENCES = dict(
    batch_T=6, batch_B=4, warmup_T=2, store_rnn_state_interval=2, min_steps_learn=4 * T * B,
    replay_size=10 * T * B, replay_ratio=4, target_update_interval=5, eps_steps=8 * T * B,
)  # fmt: skip

RUNS = {
    "dqn": lambda **kw: (
        DQN(prioritized_replay=True, n_step_return=2, pri_beta_steps=200, **SMALL, **kw),
        DqnMlpAgent(model_kwargs=dict(dueling=True, **NARROW)),
    ),
    "rainbow": lambda **kw: (
        CategoricalDQN(-5, 50, prioritized_replay=True, double_dqn=True, **SMALL, **kw),
        CatDqnMlpAgent(n_atoms=11, model_kwargs=dict(noisy=True, **NARROW)),
    ),
    "iqn": lambda **kw: (
        IQN(n_tau=4, n_tau_target=4, target_update_tau=0.5, **SMALL, **kw),
        IqnMlpAgent(model_kwargs=NARROW),
    ),
    "r2d1": lambda **kw: (
        R2D1(**SEQUENCES, **kw),
        R2d1LstmAgent(model_kwargs=dict(hidden_sizes=[8], lstm_size=8)),
    ),
    "iqn, gru": lambda **kw: (
        IQN(n_tau=4, n_tau_target=4, prioritized_replay=True, **SEQUENCES, **kw),
        IqnMlpAgent(model_kwargs=dict(hidden_sizes=[8], memory="gru", lstm_size=8)),
    ),
}


def run(name, Runner=MinibatchRl, Sampler=SerialSampler, settings=None, train=True, **kwargs):
    algo, agent = RUNS[name](**(settings or {}))
    evaluation = dict(eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=4)
    sampler = Sampler(
        EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=T, batch_B=B,
        **(evaluation if Runner is MinibatchRlEval else {}),
    )  # fmt: skip
    runner = Runner(
        algo=algo, agent=agent, sampler=sampler, affinity=dict(n_workers=1),
        **{**dict(seed=4, n_steps=N_ITR * T * B, log_interval_steps=2 * T * B), **kwargs},
    )  # fmt: skip
    if train:
        runner.train()
    return runner


def rows_of(run_dir):
    with open(run_dir / "progress.csv") as file:
        return list(csv.DictReader(file))


def assert_same_agent(a, b):
    a, b = a.agent.state_dict(), b.agent.state_dict()
    for part in ("model", "target"):
        assert all(torch.equal(a[part][k], b[part][k]) for k in a[part])


@pytest.mark.parametrize("name", ["dqn", "r2d1"])  # with priorities
def test_parts_of_an_earlier_run_train_as_new_ones(name):
    used = run(name, n_steps=10 * T * B)  # its last updates are between two of the targets
    algo, agent, sampler = used.algo, used.agent, used.sampler
    assert algo.update_counter % algo.target_update_interval
    new, again = run(name, seed=5), run(name, train=False, seed=5)
    again.algo, again.agent, again.sampler = algo, agent, sampler
    again.train()
    assert_same_agent(new, again)
    assert again.algo.update_counter == new.algo.update_counter > 0


EARLY = ("dqn", "r2d1")  # also stopped while the replay fills


@pytest.mark.parametrize(
    "name, stops",
    [
        *((name, (1, 8) if name in EARLY else (8,)) for name in RUNS),
        *(pytest.param(name, (1,), marks=pytest.mark.slow) for name in RUNS if name not in EARLY),
    ],
)
def test_resumed_run_is_the_uninterrupted_one_bit_for_bit(name, stops, tmp_path):
    whole = run(name)
    for stop in stops:  # while the replay fills, and while learning goes on
        directory = tmp_path / str(stop)
        run(name, checkpoint_dir=directory, hooks=[StopAfter(stop)])
        resumed = run(name, resume_from=directory, checkpoint_dir=tmp_path / "other", seed=99)
        assert resumed.start_itr == stop + 1
        assert_same_agent(whole, resumed)
        assert resumed.algo.update_counter == whole.algo.update_counter > 0
        a, b = whole.algo.replay_buffer.samples, resumed.algo.replay_buffer.samples
        assert (a.observation == b.observation).all() and (a.action == b.action).all()


def test_a_resumed_run_logs_the_epsilon_of_its_last_iteration(tmp_path):
    epsilons = []

    class Read(StopAfter):
        def on_start(self, runner):  # here an interrupted evaluation is repeated
            epsilons.append(runner.agent.statistics(runner.algo._itr)["Epsilon"])

    run("dqn", checkpoint_dir=tmp_path, hooks=[Read(5)])
    run("dqn", resume_from=tmp_path, checkpoint_dir=tmp_path / "other", hooks=[Read(6)])
    assert epsilons == pytest.approx([1, annealed(5, 4, 8, 1.0, 0.01)])


@pytest.mark.parametrize("name", ["dqn", "r2d1"])
def test_with_workers_too(name, tmp_path):
    whole = run(name, Sampler=CpuSampler)
    run(name, Sampler=CpuSampler, checkpoint_dir=tmp_path, hooks=[StopAfter(8)])
    resumed = run(name, Sampler=CpuSampler, resume_from=tmp_path, checkpoint_dir=tmp_path / "o")
    assert_same_agent(whole, resumed)


@pytest.mark.parametrize("name", ["dqn", "r2d1"])
def test_without_a_saved_replay_a_new_one_is_filled_before_learning_goes_on(name, tmp_path):
    settings = dict(save_replay=False)
    first = run(name, settings=settings, checkpoint_dir=tmp_path, hooks=[StopAfter(8)])
    assert load_checkpoint(tmp_path).state["algo"]["replay"] is None
    per_itr = first.algo.updates_per_optimize
    assert first.algo.update_counter == 5 * per_itr  # iterations 4 to 8
    counts = []

    class Count(StopAfter):
        def on_iteration(self, runner, itr):
            counts.append((itr, runner.algo.update_counter))

    run(
        name, settings=settings, resume_from=tmp_path, checkpoint_dir=tmp_path / "other",
        hooks=[Count(None)],
    )  # fmt: skip
    learnt = [n - 5 * per_itr for _, n in counts]
    assert [itr for itr, _ in counts] == [9, 10, 11, 12, 13]
    assert learnt == [0, 0, 0, 0, per_itr]


def test_large_replays_are_left_out_unless_asked_for(monkeypatch):
    from rlpyt.algos import replay

    runner = run("dqn", train=False)
    runner.startup()
    try:
        assert runner.algo.state_dict()["replay"] is not None
        monkeypatch.setattr(replay, "SMALL_REPLAY", 1000)
        assert runner.algo.state_dict()["replay"] is None
        runner.algo.save_replay = True
        assert runner.algo.state_dict()["replay"] is not None
    finally:
        runner.shutdown()


@pytest.mark.parametrize("Runner", [MinibatchRl, MinibatchRlEval])
def test_rows_and_evaluations_know_of_the_warm_up(Runner, tmp_path):
    with run_context(tmp_path / "run", 0, "warm-up", snapshot_mode="last"):
        runner = run("dqn", Runner)
    assert runner.min_itr_learn == 4
    rows = rows_of(tmp_path / "run")
    updates = [int(row["Diagnostics/CumUpdates"]) for row in rows]
    per_itr = runner.algo.updates_per_optimize
    expected = [max(0, itr - 4 + 1) * per_itr for itr in range(1, N_ITR, 2)]
    assert updates == [0] * (Runner is MinibatchRlEval) + expected
    assert {"lossAverage", "gradNormAverage", "tdAbsErrAverage"} <= set(rows[0])
    epsilons = [annealed(itr, 4, 8, 1.0, 0.01) for itr in range(1, N_ITR, 2)]
    found = [float(row["Diagnostics/Epsilon"]) for row in rows]
    assert found == pytest.approx([1.0] * (Runner is MinibatchRlEval) + epsilons)
    if Runner is MinibatchRlEval:
        trajs = [int(row["Diagnostics/TrajsInEval"]) for row in rows]
        assert trajs[:3] == [4, 0, 4] and set(trajs[3:]) == {4}  # none while only filling
    assert (tmp_path / "run" / "params.pkl").exists()
    snapshot = torch.load(tmp_path / "run" / "params.pkl", weights_only=True)
    assert set(snapshot["agent_state_dict"]) == {"model", "target"}


def test_another_agents_checkpoint_is_refused(tmp_path):
    run("dqn", checkpoint_dir=tmp_path, hooks=[StopAfter(2)])
    with pytest.raises(ValueError, match="algo .*'DQN' .*'IQN'"):
        run("iqn", resume_from=tmp_path)
