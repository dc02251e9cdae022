"""Resumed runs whose environments begin anew: old episodes do not run on into new ones."""

import pytest

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.algos.dqn.parts_dqn import AGENTS, B, T
from tests.runners.test_minibatch_rl import StopAfter

N_ITR = 12
ALGOS = {
    "dqn": lambda: DQN(min_steps_learn=4 * T * B, replay_size=30 * T * B, n_step_return=3),
    "r2d1": lambda: R2D1(
        min_steps_learn=1, replay_size=30 * T * B, n_step_return=2, batch_T=6, batch_B=4,
        warmup_T=8, store_rnn_state_interval=8,
    ),
}  # fmt: skip


class Restarting(CountEnv):
    """Cannot give its state, and counts from zero again."""

    def get_state(self):
        return None


def run(name, EnvCls, stop=None, **kwargs):
    algo = ALGOS[name]()
    interrupted = []
    own = algo.interrupt
    algo.interrupt = lambda: interrupted.append(algo.replay_buffer.t) or own()
    sampler = SerialSampler(
        EnvCls, dict(length=30, fixed=True), batch_T=T, batch_B=B, max_decorrelation_steps=0
    )
    runner = MinibatchRl(
        algo=algo, agent=AGENTS[name](), sampler=sampler, n_steps=N_ITR * T * B, seed=3,
        affinity={}, hooks=[StopAfter(stop)], **kwargs,
    )  # fmt: skip
    runner.train()
    return algo, interrupted


@pytest.mark.parametrize("name", ALGOS)
def test_algorithms_are_told_if_environments_began_anew_and_only_then(name, tmp_path):
    for EnvCls, times in ((Restarting, 1), (CountEnv, 0)):
        _, interrupted = run(name, EnvCls, stop=7, checkpoint_dir=tmp_path / EnvCls.__name__)
        assert interrupted == []
        _, interrupted = run(
            name, EnvCls, resume_from=tmp_path / EnvCls.__name__, checkpoint_dir=tmp_path / "other"
        )
        assert len(interrupted) == times


@pytest.mark.parametrize("stop", [2, 4, 7])  # as learning begins, and later
@pytest.mark.parametrize("name", ALGOS)
def test_no_window_runs_from_the_old_episodes_into_the_new(name, stop, tmp_path):
    run(name, Restarting, stop=stop, checkpoint_dir=tmp_path)
    algo, _ = run(name, Restarting, resume_from=tmp_path, checkpoint_dir=tmp_path / "other")
    assert algo.update_counter > 0
    batch = algo.replay_buffer.sample_batch(300)
    if name == "dqn":
        now, after = batch.agent_inputs.observation, batch.target_inputs.observation
        goes_on = batch.discount_n > 0
        assert goes_on.any()
        assert (now[goes_on, :2] == after[goes_on, :2]).all()  # environment and episode
        assert (after[goes_on, 2] > now[goes_on, 2]).all()
        return
    observation, done = batch.all_observation, batch.all_done.bool()
    follows = ~done[:-1]
    assert (observation[1:, :, 2][follows] == observation[:-1, :, 2][follows] + 1).all()
