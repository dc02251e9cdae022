"""Counting environments in every form, and what comes out of them."""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.serial import SerialVectorEnv

SEEDS = [5, 9, 14]


class CountGym(gymnasium.Env):
    """``CountEnv`` with Gymnasium's interface."""

    def __init__(self, end="alternate", **kwargs):
        self.inner, self.end = CountEnv(end=end, **kwargs), end
        self.action_space = gymnasium.spaces.Discrete(3)
        self.observation_space = gymnasium.spaces.Box(0.0, 2.0**24, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.inner.seed(seed)
        return self.inner.reset(), {"t": 0.0}

    def step(self, action):
        observation, reward, over, info = self.inner.step(action)
        truncated = over and (info.timeout or self.end == "both")
        terminated = over and not info.timeout
        return observation, reward, terminated, truncated, {"t": float(observation[2])}


class NativeCount(gymnasium.vector.VectorEnv):
    """Written as people write their own: a declared mode, which may be a lie, and a mask or not."""

    def __init__(self, n, mode, declared="mode", honours=True, **kwargs):
        self.envs = [CountGym(**kwargs) for _ in range(n)]
        self.num_envs, self.mode, self.honours = n, mode, honours
        declared = mode if declared == "mode" else declared
        self.metadata = {} if declared is None else {"autoreset_mode": declared}
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, n)
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, n
        )
        self.over = np.zeros(n, bool)
        self.shown = np.zeros((n, 3), np.float32)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask") if self.honours else None
        for i, env in enumerate(self.envs):
            if mask is None or mask[i]:
                self.shown[i] = env.reset(seed=None if seed is None else seed[i])[0]
                self.over[i] = False
        return self.shown.copy(), {}

    def step(self, actions):
        reward = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        info = {}
        for i, env in enumerate(self.envs):
            if self.over[i] and self.mode is AutoresetMode.NEXT_STEP:
                self.shown[i] = env.reset()[0]
                continue
            assert not self.over[i]
            self.shown[i], reward[i], terminated[i], truncated[i], _ = env.step(actions[i])
            if (terminated[i] or truncated[i]) and self.mode is AutoresetMode.SAME_STEP:
                final = info.setdefault("final_obs", np.full((self.num_envs, 3), np.nan))
                final[i] = self.shown[i]  # dense, the rest is rubbish
                self.shown[i] = env.reset()[0]
        same = self.mode is AutoresetMode.SAME_STEP
        self.over = np.zeros_like(self.over) if same else terminated | truncated
        return self.shown.copy(), reward, terminated, truncated, info


def oracle(n=3, **kwargs):
    return SerialVectorEnv([CountEnv(**kwargs) for _ in range(n)])


def run(envs, T=30, seeds=SEEDS, wait=lambda t, row: False, action=lambda t, n: None):
    """Step T times, reset what ended, and return all that was seen, copied."""
    envs.seed(seeds)
    seen = [np.array(envs.reset())]
    due = np.zeros(envs.n, bool)
    for t in range(T):
        a = action(t, envs.n)
        a = (np.arange(envs.n) + t) % 3 if a is None else a
        o, r, d, info = envs.step(a)
        seen += [np.array(x) for x in (o, r, d, info.timeout, info.traj_done)]
        due |= info.traj_done
        rows = np.array([i for i in np.flatnonzero(due) if not wait(t, i)], int)
        due[rows] = False
        seen += [rows, np.array(envs.reset_rows(rows))]
    return seen


def assert_same(seen, expected):
    assert len(seen) == len(expected)
    for i, (own, other) in enumerate(zip(seen, expected, strict=True)):
        assert own.dtype == other.dtype and own.shape == other.shape, i
        np.testing.assert_array_equal(own, other, err_msg=f"entry {i}")
