"""Agent, replay, sampler and schedules: what does not fit together is refused, or made to fit."""

import contextlib
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.agents.dqn.vector import R2d1LstmAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import ReplayNotReady
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.samplers.collections import BatchSpec
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.collections import with_fields
from rlpyt.utils.seed import set_seed
from tests.algos.dqn.parts_dqn import AGENTS, N_ATOMS, B, T, Tiny, fill, prepared

SMALL = dict(min_steps_learn=2 * T * B, replay_size=60 * B, batch_size=16, replay_ratio=2)
SEQUENCES = dict(
    batch_T=6, batch_B=4, warmup_T=4, store_rnn_state_interval=4, n_step_return=2,
    min_steps_learn=1, replay_size=60 * B,
)  # fmt: skip


# Agents.


@pytest.mark.parametrize(
    "Algo, agent, message",
    [
        (
            QRDQN,
            "dqn",
            "QRDQN .* DqnAgent .*QrDqnMlpAgent",
        ),
        (QRDQN, "cat", "CatDqnAgent .*atoms"),
        (QRDQN, "iqn", "IqnAgent .*fractions"),
        (
            DQN,
            "cat",
            "^DQN .*CatDqnAgent .*DqnMlpAgent",
        ),
        (DQN, "qr", "QrDqnAgent .*quantiles"),
        (CategoricalDQN, "dqn", " DqnAgent .*CatDqnMlpAgent"),
        (IQN, "qr", "IqnMlpAgent"),
    ],
)
def test_agents_that_give_something_else_are_refused(Algo, agent, message):
    with pytest.raises(ValueError, match=message):
        prepared(Algo(**SMALL), AGENTS[agent]())


def test_agents_without_target_are_refused():
    agent = CategoricalMlpAgent()
    agent.initialize(CountEnv().spaces)
    with pytest.raises(ValueError, match="CategoricalMlpAgent .*DqnMlpAgent"):
        DQN(**SMALL).initialize(agent, 100, BatchSpec(T, B), True, {})


def test_custom_agents_declare_what_they_provide():
    class Own(DqnAgent):
        provides = "quantiles"

        def summarize(self, output):
            return output.mean(-1)

    algo = QRDQN(**SMALL)
    sampler = prepared(algo, Own(ModelCls=Tiny, model_kwargs=dict(n_quantiles=N_ATOMS)))
    fill(algo, sampler)
    assert torch.isfinite(algo.loss(algo.replay_buffer.sample_batch(4))[0])


class Named(DQN):
    """A custom algorithm that learns like DQN."""


class OfDistributions(Named):
    """A custom algorithm, which can use the outputs of CatDqnAgent."""

    def loss(self, samples):
        raise NotImplementedError


def test_a_custom_algorithm_with_its_own_loss_takes_any_agent():
    prepared(OfDistributions(**SMALL), AGENTS["cat"]())
    with pytest.raises(ValueError, match="Named .*CatDqnAgent"):
        prepared(Named(**SMALL), AGENTS["cat"]())


# Replays.


class Forgets(UniformReplayBuffer):
    state_dict = load_state_dict = property()  # as if it had none


@pytest.mark.parametrize("save", [True, None])
def test_a_replay_that_cannot_be_saved_is_left_out_and_warned_of_if_it_should_be(save):
    algo = DQN(ReplayBufferCls=Forgets, save_replay=save, **SMALL)
    said = pytest.warns(UserWarning, match="save_replay=True.*Forgets")
    with said if save else contextlib.nullcontext():
        prepared(algo, AGENTS["dqn"]())
    assert algo.state_dict()["replay"] is None


@pytest.mark.parametrize(
    "cls, more, error, message",
    [
        (
            "uniform",
            {},
            TypeError,
            "ReplayBufferCls='uniform'",
        ),
        (dict(a=1), {}, TypeError, "must be a replay class"),
        (
            UniformReplayBuffer,
            dict(prioritized_replay=True),
            ValueError,
            "UniformReplayBuffer .*prioritized_replay=True",
        ),
        (PrioritizedReplayBuffer, {}, ValueError, "prioritized_replay=False"),
        (
            UniformSequenceReplayBuffer,
            {},
            ValueError,
            "sequences.* UniformReplayBuffer",
        ),
        (
            UniformReplayFrameBuffer,
            {},
            ValueError,
            r"frames.* \[3\]",
        ),
    ],
)
def test_a_replay_that_contradicts_other_arguments_is_refused(cls, more, error, message):
    algo = DQN(ReplayBufferCls=cls, **more, **SMALL)
    with pytest.raises(error, match=message):
        prepared(algo, AGENTS["dqn"]())


def test_a_replay_of_transitions_is_refused_for_sequences():
    algo = R2D1(ReplayBufferCls=PrioritizedReplayBuffer, input_priorities=False, **SEQUENCES)
    with pytest.raises(ValueError, match="transitions.* PrioritizedSequence"):
        prepared(algo, AGENTS["r2d1"]())


def test_shared_memory_is_asked_for_where_it_is_needed():
    algo, agent = DQN(ReplayBufferCls=UniformReplayBuffer, **SMALL), AGENTS["dqn"]()
    sampler = prepared(algo, agent)
    with pytest.raises(ValueError, match="shared memory.* AsyncUniform"):
        algo.async_initialize(agent, 100, BatchSpec(T, B), True, sampler.examples)


@pytest.mark.parametrize(
    "Algo, name", [(DQN, "double_dqn"), (DQN, "compile_loss"), (R2D1, "input_priorities")]
)
def test_switches_are_no_words(Algo, name):
    with pytest.raises(TypeError, match=f"{name}='no'"):
        Algo(**{name: "no"})


def test_whether_to_save_the_replay_is_yes_no_or_none():
    with pytest.raises(TypeError, match="save_replay='yes'"):
        DQN(save_replay="yes", **SMALL)


def test_replays_that_know_of_time_limits_are_told():
    algo = DQN(ReplayBufferCls=TlUniformReplayBuffer, n_step_return=2, **SMALL)
    sampler = prepared(algo, AGENTS["dqn"](), env_kwargs=dict(end="truncation"))
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(200)
    assert batch.timeout.any() and (batch.timeout == batch.done).all()
    assert (batch.discount_n > 0).all() and torch.isfinite(algo.loss(batch)[0])


def test_replays_may_have_priorities_of_their_own():
    class Own(UniformReplayBuffer):
        def __init__(self, alpha, beta, default_priority, **kwargs):
            super().__init__(**kwargs)

        def set_beta(self, beta):
            self.beta = beta

        def sample_batch(self, batch_B):
            return with_fields(super().sample_batch(batch_B), is_weights=torch.ones(batch_B))

        def update_batch_priorities(self, priorities):
            self.given = priorities

    algo = DQN(ReplayBufferCls=Own, prioritized_replay=True, **SMALL)
    samples = fill(algo, prepared(algo, AGENTS["dqn"]()))
    algo.optimize_agent(5, samples)
    assert len(algo.replay_buffer.given) == algo.batch_size


def test_environments_that_do_not_tell_of_time_limits_are_refused():
    algo = DQN(ReplayBufferCls=TlUniformReplayBuffer, **SMALL)
    examples = dict(
        observation=np.zeros(3), action=np.int64(0), reward=np.float32(0), done=np.bool_(0),
        env_info=BatchSpec(1, 2),
    )  # fmt: skip
    with pytest.raises(ValueError, match="TlUniformReplayBuffer .*timeout"):
        algo.initialize_replay_buffer(examples, BatchSpec(1, 2))


def test_observations_that_are_no_stacks_name_the_argument_that_helps():
    image = dict(channels=[4], kernel_sizes=[2], strides=[1], paddings=[0], fc_sizes=8)
    algo = DQN(**SMALL)
    sampler = prepared(algo, AtariDqnAgent(model_kwargs=image), Snow)
    with pytest.raises(ValueError, match="not stacks of frames") as caught:
        fill(algo, sampler)
    assert (
        "ReplayBufferCls that stores them whole: UniformReplayBuffer" in caught.value.__notes__[0]
    )


class Snow(CountEnv):
    """Four channels of noise."""

    def __init__(self):
        super().__init__()
        self._observation_space = GymSpaceWrapper(Box(0, 255, (4, 4, 4), np.uint8))

    def _observe(self):
        return np.random.default_rng().integers(0, 256, (4, 4, 4), dtype=np.uint8)


def test_processes_of_one_run_draw_different_rows():
    drawn = {}
    for rank in (0, 1, 0):
        algo, agent = DQN(**SMALL), AGENTS["dqn"]()
        sampler = prepared(algo, agent)
        set_seed(7)
        algo.initialize(agent, 100, BatchSpec(T, B), True, sampler.examples, 2, rank)
        fill(algo, sampler)
        rows = algo.replay_buffer.sample_batch(16).agent_inputs.observation
        assert rank not in drawn or torch.equal(drawn[rank], rows)
        drawn[rank] = rows
    assert not torch.equal(drawn[0], drawn[1])


def test_nulls_that_are_not_zero_are_passed_on():
    algo = DQN(**SMALL)
    prepared(algo, AGENTS["dqn"]())
    assert algo.null_action() == {}
    algo.agent.env_spaces.action.null_value = lambda: np.int64(2)
    assert algo.null_action() == {"null_action": 2}


# When learning begins.


@pytest.mark.parametrize("batch_T", [4, 8])
@pytest.mark.parametrize(
    "make, agent",
    [
        (lambda: R2D1(**SEQUENCES), "r2d1"),
        (lambda: R2D1(**SEQUENCES, prioritized_replay=False), "r2d1"),
        (lambda: DQN(n_step_return=9, **{**SMALL, "min_steps_learn": 0}), "dqn"),
        (lambda: DQN(prioritized_replay=True, **{**SMALL, "min_steps_learn": 0}), "dqn"),
    ],
)
def test_learning_begins_as_soon_as_there_is_something_to_learn_from(make, agent, batch_T):
    algo = make()
    sampler = prepared(algo, AGENTS[agent](), batch_T=batch_T)
    algo.updates_per_optimize = 2  # in every iteration
    begin = algo.min_itr_learn
    assert algo.agent.eps_itr_min == begin
    for itr in range(begin + 2):
        samples, _ = sampler.obtain_samples(itr)
        info = algo.optimize_agent(itr, samples)
        assert len(info.loss) == 2 * (itr >= begin)
        if itr < begin:
            with pytest.raises(ReplayNotReady):
                algo.replay_buffer.sample_batch(4)


def test_runs_too_short_for_the_first_window_are_warned_of():
    with pytest.warns(UserWarning, match="never learns.* 16 rows of 3"):
        prepared(R2D1(**SEQUENCES), AGENTS["r2d1"](), n_itr=1)
    prepared(R2D1(**SEQUENCES, replay_ratio=2), AGENTS["r2d1"](), n_itr=2)


def test_runs_too_short_for_the_first_update_of_the_target_network_are_warned_of():
    def run(interval, n_itr=12):
        algo = DQN(**{**SMALL, "target_update_interval": interval})
        sampler = prepared(algo, AGENTS["dqn"](), n_itr=n_itr)
        targets = []
        algo.update_targets = lambda: targets.append(algo.update_counter)
        for itr in range(n_itr):
            algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
        return algo.update_counter, targets

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        n_updates, _ = run(2)
        assert n_updates > 2 and run(n_updates) == (n_updates, [n_updates])
    with pytest.warns(UserWarning, match=f"initial target networks.* {n_updates} updates"):
        assert run(n_updates + 1) == (n_updates, [])


def test_replays_of_ones_own_are_not_asked_when_they_can_begin():
    assert BaseReplayBuffer().min_rows == 1


def test_batches_of_ones_own_replay_bootstrap_n_steps_later():
    batch = SimpleNamespace(done_n=torch.tensor([False, True]))
    found = DQN(discount=0.9, n_step_return=3).bootstrap_discount(batch)
    assert found.tolist() == pytest.approx([0.9**3, 0])


# Schedules.


def test_asynchronous_optimizers_share_one_sampler():
    kwargs = dict(min_steps_learn=6 * T * B, eps_steps=20 * T * B, replay_size=60 * B)
    agent, examples = AGENTS["dqn"](), prepared(DQN(**SMALL), AGENTS["dqn"]()).examples
    agent.initialize(CountEnv().spaces)
    algo = DQN(**kwargs)
    algo.async_initialize(agent, 50, BatchSpec(T, B), True, examples, world_size=2)
    assert (algo.min_itr_learn, agent.eps_itr_max) == (6, 20)
    algo = DQN(**kwargs)
    algo.initialize(agent, 50, BatchSpec(T, B), True, examples, world_size=2)
    assert (algo.min_itr_learn, agent.eps_itr_max) == (3, 10)


def test_beta_can_take_the_whole_run():
    algo = DQN(prioritized_replay=True, pri_beta_steps=None, **SMALL)
    prepared(algo, AGENTS["dqn"](), n_itr=12)
    betas = []
    for itr in (2, 11):
        algo.update_itr_hyperparams(itr)
        betas.append(algo.replay_buffer.beta)
    assert betas == [0.4, 1.0]
    assert DQN().pri_beta_steps == 50e6
    with pytest.raises(ValueError, match="pri_beta_steps=0"):
        DQN(pri_beta_steps=0)


# Priorities of new samples.


class Prioritized(PrioritizedReplayBuffer):
    def set_default_priority(self, priority):
        self.default_priority = priority


@pytest.mark.parametrize("given", [None, 3.0])
def test_new_samples_rank_first_unless_told_otherwise(given):
    settings = dict(prioritized_replay=True, delta_clip=None, ReplayBufferCls=Prioritized)
    algo = DQN(default_priority=given, **settings, **SMALL)
    sampler = prepared(algo, AGENTS["dqn"]())
    samples = fill(algo, sampler)
    assert algo.replay_buffer.default_priority == (given or 1.0)
    algo.optimize_agent(9, samples)
    greatest = algo.replay_buffer.default_priority
    assert greatest == given if given else greatest > 10  # rewards are hundreds
    resumed = DQN(default_priority=given, **settings, **SMALL)
    prepared(resumed, AGENTS["dqn"]())
    resumed.load_state_dict(algo.state_dict())
    assert resumed.replay_buffer.default_priority == resumed.new_priority == greatest
    other = DQN(default_priority=0.5, **settings, **SMALL)
    prepared(other, AGENTS["dqn"]())
    other.load_state_dict(algo.state_dict())
    assert other.replay_buffer.default_priority == other.new_priority == 0.5


def test_clipped_errors_bound_the_priority_of_new_samples():
    algo = DQN(prioritized_replay=True, delta_clip=0.5, **SMALL)
    samples = fill(algo, prepared(algo, AGENTS["dqn"]()))
    algo.optimize_agent(9, samples)
    assert algo.new_priority == pytest.approx(0.5, abs=1e-5)


def test_short_batches_of_the_sampler_make_input_priorities_useless():
    with pytest.warns(UserWarning, match="batch_T=4 .*n_step_return=5.* batch_T=6 "):
        prepared(R2D1(**{**SEQUENCES, "n_step_return": 5}), AGENTS["r2d1"](), batch_T=4)
    with pytest.warns(UserWarning, match="batch_T=3 .*store_rnn_state_interval=4"):
        prepared(R2D1(**SEQUENCES), AGENTS["r2d1"](), batch_T=3)


# Observation statistics.


def test_statistics_leave_out_what_was_recorded_while_waiting():
    algo = R2D1(**{**SEQUENCES, "warmup_T": T, "store_rnn_state_interval": T, "batch_T": T})
    agent = R2d1LstmAgent(model_kwargs=dict(lstm_size=8, normalize_observation=True))
    assert isinstance(agent, R2d1Agent)
    sampler = prepared(algo, agent, env_kwargs=dict(length=5), CollectorCls=CpuWaitResetCollector)
    seen = []
    agent.update_obs_rms = seen.append
    samples = fill(algo, sampler, batches=1)
    done = samples.env.done.long()
    counts = done.cumsum(0) - done == 0
    assert not counts.all()
    assert torch.equal(seen[0], samples.env.observation[counts])
