"""``Rollout``: what is recorded, nulled and left alone while environments are stepped."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector import adapt
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.samplers.buffer import env_examples
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import make_env_batch
from rlpyt.samplers.policy_source import StepRecord
from rlpyt.samplers.rollout import RandomPolicy, Rollout
from rlpyt.utils.buffer import buffer_from_example, buffer_func, leaves_of

LENGTH = 3  # of every episode


class Ones:
    """A policy that takes action 1 until it is told to end, and notes what it was shown."""

    def __init__(self, step, ends_at=None):
        self.step, self.ends_at = step, ends_at
        self.shown, self.began, self.finished = [], 0, 0

    def begin(self, T):
        self.began = T

    def act(self, t):
        inputs = self.step.action, self.step.reward, self.step.done
        self.shown.append(tuple(buffer_func(x, np.copy) for x in inputs))
        for leaf in leaves_of(self.step.action):
            leaf[:] = 1
        return t != self.ends_at

    def finish(self):
        self.finished += 1


def rollout_of(n=2, envs=None, on_done=None, ends_at=None):
    envs = envs or [CountEnv(length=LENGTH + b, fixed=True) for b in range(n)]
    env_batch = make_env_batch(envs, CollectorContext())
    examples = env_examples(envs[0]) | {"agent_info": None}
    step = buffer_from_example(
        StepRecord(*(examples[name] for name in StepRecord._fields)), env_batch.B
    )
    env_batch.reset(step.observation, range(env_batch.B))
    policy = Ones(step, ends_at)
    rollout = Rollout(env_batch, step, policy, on_done or (lambda t, done, over: False))
    rollout.begin_episodes(range(env_batch.B))
    return rollout, policy


def test_the_next_inputs_after_a_done_are_null_and_marked():
    rollout, policy = rollout_of()
    null = rollout.env_batch.spaces.action.null_value()

    def reset(t, done, over):
        assert (rollout.step.action[done] == null).all()
        rollout.env_batch.reset(rollout.step.observation, over)

    rollout.on_done = reset
    assert rollout.run(5) == 5
    dones = np.array([done for _, _, done in policy.shown])
    assert dones[:, 0].tolist() == [True, False, False, True, False]
    assert dones[:, 1].tolist() == [True, False, False, False, True]
    for action, reward, done in policy.shown:
        assert (action == np.where(done, null, 1)).all()
        assert (reward[done] == 0).all()
    assert (policy.began, policy.finished) == (5, 1)


def test_leaves_are_written_before_acting_after_acting_and_after_the_step():
    rollout, _ = rollout_of(n=1)
    step = rollout.step
    observation, action, reward = (
        np.full((2, *leaf.shape), -1, leaf.dtype)
        for leaf in (step.observation, step.action, step.reward)
    )
    first = step.observation.copy()
    rollout.write_observation = [(observation, step.observation)]
    rollout.write_action = [(action, step.action)]
    rollout.write_env = [(reward, step.reward)]
    rollout.run(2)
    assert (observation[0] == first).all() and (observation[1] != first).any()
    assert (observation[1] != step.observation).any()  # what came after is the next row's
    assert (action == 1).all()
    assert reward[1] == step.reward


def test_a_rollout_ends_when_on_done_says_so():
    rollout, policy = rollout_of(on_done=lambda t, done, over: True)
    assert rollout.run(10) == LENGTH
    assert policy.finished == 0  # the policy has no more observations to value


def test_a_rollout_ends_when_the_policy_does():
    rollout, policy = rollout_of(ends_at=1)
    before = rollout.step.observation.copy()
    assert rollout.run(10) == 1
    assert policy.finished == 0
    assert (rollout.step.observation != before).any()  # the first step was taken, the second not


def test_rows_that_wait_are_zero_and_done():
    rollout, _ = rollout_of()

    def wait(t, done, over):
        rollout.wait(done)

    rollout.on_done = wait
    action = np.full((6, 2), -1)
    rollout.write_action = [(action, rollout.step.action)]
    rollout.run(6)
    assert action[:, 0].tolist() == [1] * LENGTH + [0] * 3
    assert action[:, 1].tolist() == [1] * (LENGTH + 1) + [0] * 2
    assert rollout.step.done.all() and not rollout.step.observation.any()


@pytest.mark.parametrize("vector", [False, True], ids=["single", "vector"])
def test_random_actions_are_taken_as_often_as_asked(vector):
    envs = [CountEnv(length=100, fixed=True) for _ in range(3)]
    rollout, _ = rollout_of(envs=[SerialVectorEnv(envs)] if vector else envs)
    taken = np.zeros(3, int)

    def count(b, *step):
        taken[b] += 1

    n_steps = [4, 0, 2]
    rollout.policy = RandomPolicy(rollout.env_batch, rollout.step, 7, [0, 1, 2], n_steps)
    rollout.watch = count
    rollout.run(4)
    assert taken.tolist() == n_steps
    assert not rollout.env_batch.held


class Overwrites(gymnasium.Env):
    """Changes the actions that it is given."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, space):
        self.action_space = space

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        for part in action.values() if isinstance(action, dict) else (action,):
            part[...] = 7
        return np.zeros(1, np.float32), 0.0, False, False, {}


class OverwritesAll(CartPoleVectorEnv):
    def step(self, action):
        result = super().step(action)
        action[:] = 0
        return result


INNER = {
    "a": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "b": spaces.Box(-2, 2, (2,), np.float32),
    "c": spaces.MultiDiscrete([3, 4]),
}


@pytest.mark.parametrize("space", [*INNER.values(), spaces.Dict(INNER), None])
def test_environments_that_change_their_actions_leave_those_of_the_agent(space):
    env = adapt(OverwritesAll(2)) if space is None else GymEnvWrapper(Overwrites(space))
    rollout, policy = rollout_of(envs=[env])
    assert rollout.run(2) == 2
    previous, _, _ = policy.shown[1]
    assert all((leaf == 1).all() for leaf in leaves_of(previous))
