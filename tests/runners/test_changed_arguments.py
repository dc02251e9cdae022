"""Changes that hooks make to agents and their models act in all processes that choose actions."""

import functools

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.parts import SmallMlp
from tests.runners.sync_parts import same, sync_runner
from tests.runners.test_async_rl import ONE, RUNS, TWO, run
from tests.runners.test_off_policy import NARROW

CPU = dict(n_workers=2, worker_torch_threads=1)


class Change(Hook):
    """Assigns an attribute of the agent at the start (-1) or after an iteration."""

    def __init__(self, after=1, **values):
        self.after, self.values = after, values

    def on_start(self, runner):
        self.on_iteration(runner, -1)

    def on_iteration(self, runner, itr):
        if itr == self.after:
            for name, value in self.values.items():
                setattr(runner.agent, name, value)


class HoldsAction:
    """A user's agent that takes a given action, if there is one."""

    def __init__(self, held=None, **kwargs):
        super().__init__(**kwargs)
        self.held = held

    def choose(self, outputs, sample):
        action, fields = super().choose(outputs, sample)
        return (action if self.held is None else 0 * action + self.held), fields


class Held(HoldsAction, DqnMlpAgent):
    """Learns action values."""


class HeldPolicy(HoldsAction, CategoricalPgAgent):
    """Learns a policy."""


def actions_of(runner):
    return runner.algo.replay_buffer.samples.action[: runner.n_itr * runner.sampler.batch_spec.T]


def dqn_run(Sampler=SerialSampler, hooks=(), agent=None, Runner=MinibatchRl, **kwargs):
    RUNS["changed"] = lambda: (
        DQN(min_steps_learn=0, batch_size=8, replay_ratio=1, replay_size=1000, eps_steps=10_000),
        agent or DqnMlpAgent(model_kwargs=NARROW, eps_final_min=0.001, eps_final=0.4),
    )
    sampler = dict(deterministic_acting=True)
    return run("changed", Runner, Sampler, sampler=sampler, hooks=[*hooks], **kwargs)


@functools.cache
def unchanged_actions():
    return actions_of(dqn_run())


@pytest.mark.parametrize("Sampler", [CpuSampler, GpuSampler, AlternatingSampler])
def test_exploration_changed_in_a_hook_is_that_of_the_serial_sampler(Sampler):
    hooks = [Change(1, eps_init=0.1, eps_final=0.05), Change(3, eps_final_min=0.02)]
    serial = dqn_run(hooks=hooks)
    there = dqn_run(Sampler, hooks, affinity=CPU)
    assert (actions_of(serial) == actions_of(there)).all()
    assert (actions_of(serial) != unchanged_actions()).any()


def test_each_changed_epsilon_acts_and_the_mean_is_logged():
    def mean(**changes):
        hooks = [Change(1, **changes)]
        runner = dqn_run(CpuSampler, hooks, affinity=CPU)
        return runner.agent.statistics(runner.algo._itr)["Epsilon"]

    least, unchanged = mean(eps_init=0.0), mean()
    assert mean(eps_init=0.5) == pytest.approx(0.5 / 1.0 * (unchanged - least) + least)
    assert mean(eps_final=0.001) < unchanged


@pytest.mark.parametrize(
    "Sampler, affinity",
    [
        (AsyncSerialSampler, None),
        (AsyncCpuSampler, TWO),
        pytest.param(AsyncGpuSampler, ONE, marks=pytest.mark.slow),
    ],
)
def test_an_argument_of_a_users_agent_reaches_asynchronous_samplers(Sampler, affinity):
    def agent():
        return Held(model_kwargs=NARROW)

    changes = {1: 0, 6: 1}  # held after an iteration
    hooks = [Change(after, held=value) for after, value in changes.items()]
    runner = dqn_run(Sampler, hooks, agent(), AsyncRl, affinity=affinity, max_lead=0)
    T = runner.sampler.batch_spec.T
    by_batch = np.asarray(actions_of(runner)).reshape(-1, T, runner.sampler.batch_spec.B)
    assert {0, 1} == {*by_batch[0].ravel().tolist()}
    assert (by_batch[6] == 0).all() and (by_batch[-1] == 1).all()


@pytest.mark.parametrize("back", [False, True])
def test_arguments_changed_in_a_hook_act_in_all_ranks(back):
    hooks = [Change(-1, held=1), *([Change(0, held=None)] if back else [])]
    first = sync_runner(agent=HeldPolicy(ModelCls=SmallMlp), hooks=hooks)
    first.train()
    hooks = [Change(0, held=None)] if back else []
    second = sync_runner(agent=HeldPolicy(held=1, ModelCls=SmallMlp), hooks=hooks)
    second.train()
    assert first.world_size == 2 and same(first.agent.state_dict(), second.agent.state_dict())
    untouched = sync_runner(agent=HeldPolicy(ModelCls=SmallMlp))
    untouched.train()
    assert not same(first.agent.state_dict(), untouched.agent.state_dict())


@pytest.mark.parametrize("Sampler", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("name, value", [("fast_acting", False), ("policy_observation", "x")])
def test_arguments_that_are_read_once_cannot_be_changed(Sampler, name, value):
    with pytest.raises(AttributeError, match=f"^{name} of DqnMlpAgent"):
        dqn_run(Sampler, [Change(1, **{name: value})], affinity=CPU)


@pytest.mark.parametrize("name", ["target_noise_std", "action_noise_clip", "n_critics"])
def test_an_argument_that_a_ready_agent_reads_once_is_refused(name):
    agent = Td3Agent(model_kwargs=dict(hidden_sizes=[8]), q_model_kwargs=dict(hidden_sizes=[8]))
    agent.initialize(GymEnvWrapper(gymnasium.make("Pendulum-v1")).spaces)
    agent.action_std = 0.3
    agent.sync_shared_memory()
    setattr(agent, name, 3)
    with pytest.raises(AttributeError, match=f"^{name} of Td3Agent"):
        agent.sync_shared_memory()


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="held"):
        dqn_run(hooks=[Change(1, held="x" * 2000)], agent=Held(model_kwargs=NARROW))
    with pytest.raises(TypeError, match="held"):
        dqn_run(hooks=[Change(1, held=np.zeros(3))], agent=Held(model_kwargs=NARROW))
    with pytest.raises(ValueError, match="epsilon"):
        dqn_run(CpuSampler, [Change(1, eps_init=7.0)], affinity=CPU)


def test_a_misspelt_argument_is_said_to_change_nothing():
    hooks = [Change(1, eps_finall=1.0, my_own=1), Change(2, eps_finall=0.5)]
    with pytest.warns(UserWarning, match="no argument eps_finall,.*: eps_final") as caught:
        changed = dqn_run(hooks=hooks)
    assert sum("has no argument" in str(w.message) for w in caught) == 1
    assert (actions_of(changed) == unchanged_actions()).all()


class ChangeModel(Hook):
    """Calls a function of the model after two iterations."""

    def __init__(self, change):
        self.change = change

    def on_iteration(self, runner, itr):
        if itr == 1:
            self.change(runner.agent.model)


def negate_data(model):
    for parameter in model.parameters():
        parameter.data = -parameter.data


def negate_vector(model):
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(-vector, model.parameters())


@pytest.mark.parametrize("change", [negate_data, negate_vector])
def test_workers_act_with_parameters_whose_tensors_were_replaced(change):
    serial = dqn_run(hooks=[ChangeModel(change)])
    workers = dqn_run(CpuSampler, [ChangeModel(change)], affinity=CPU)
    assert (actions_of(serial) == actions_of(workers)).all()
    assert (actions_of(serial) != unchanged_actions()).any()


class WithTemperature(torch.nn.Module):
    """Model of action values with a number and a buffer that hooks change."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.linear = torch.nn.Linear(*observation_shape, output_size)
        self.bound = torch.nn.Identity()
        self.temperature = 1.0
        self.register_buffer("sign", torch.ones(()))

    def forward(self, observation, prev_action, prev_reward):
        return self.sign * self.bound(self.linear(observation)) / self.temperature


def changed_model_run(change, Sampler=CpuSampler, **kwargs):
    agent = DqnMlpAgent(ModelCls=WithTemperature)
    return dqn_run(Sampler, [ChangeModel(change)], agent, **kwargs)


@pytest.mark.filterwarnings("error:.*of the agent's model")
def test_workers_act_with_a_buffer_that_was_replaced():
    def change(model):
        model.sign = -model.sign

    serial = changed_model_run(change, SerialSampler)
    workers = changed_model_run(change, affinity=CPU)
    assert (actions_of(serial) == actions_of(workers)).all()
    unchanged = changed_model_run(lambda model: None, affinity=CPU)
    assert (actions_of(serial) != actions_of(unchanged)).any()


def set_temperature(model):
    model.temperature = -1.0


def add_hook(model):
    model.linear.register_forward_hook(lambda module, inputs, output: -output)


def replace_module(model):
    model.bound = torch.nn.Tanh()


CHANGES = {
    "temperature": set_temperature,
    "a forward hook": add_hook,
    "a module": replace_module,
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_does_not_reach_acting_processes_is_said(name):
    with pytest.warns(UserWarning, match=f"^{name} of the agent's model, WithTemperature"):
        changed_model_run(CHANGES[name], affinity=CPU)


@pytest.mark.parametrize(
    "name",
    [x if x == "temperature" else pytest.param(x, marks=pytest.mark.slow) for x in CHANGES],
)
def test_what_does_not_reach_asynchronous_processes_is_said(name):
    kwargs = dict(Runner=AsyncRl, affinity=TWO, max_lead=0)
    with pytest.warns(UserWarning, match=f"^{name} of the agent's model, WithTemperature"):
        changed_model_run(CHANGES[name], AsyncCpuSampler, **kwargs)


def test_a_model_of_other_shapes_is_refused():
    def widen(model):
        model.linear.weight.data = torch.zeros(1, 1)

    with pytest.raises(ValueError, match=r"other tensors than the master's: \['linear.weight'\]"):
        changed_model_run(widen, affinity=CPU)
