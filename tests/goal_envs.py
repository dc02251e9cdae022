"""Goal environments in the form of gymnasium-robotics: bits, a maze, a point on a square."""

import gymnasium
import numpy as np
from gymnasium import spaces


class GoalEnv(gymnasium.Env):
    """Base class: reward 0 where the goal is achieved, else -1, and a time limit."""

    tolerance = 0.0
    t = 0

    def __init__(self, size: int, limit: int, seed: int | None = None) -> None:
        part = spaces.Box(-1.0, 1.0, (size,), np.float32)
        self.observation_space = spaces.Dict(
            observation=part, achieved_goal=part, desired_goal=part
        )
        self.limit = limit

    def draw(self) -> np.ndarray:
        """Return the state with which an episode starts."""
        raise NotImplementedError

    def draw_goal(self) -> np.ndarray:
        """Return the goal of an episode."""
        return self.draw()

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.state, self.goal = 0, self.draw(), self.draw_goal()
        return self.observe(), {}

    def observe(self):
        return {
            "observation": self.state.copy(),
            "achieved_goal": self.state.copy(),
            "desired_goal": self.goal.copy(),
        }

    def after(self):
        """Return what ``step`` returns, after the state has changed."""
        self.t += 1
        reward = float(self.compute_reward(self.state, self.goal, {}))
        return self.observe(), reward, False, self.t >= self.limit, {}

    def get_state(self):
        return {"t": self.t, "state": self.state.copy(), "goal": self.goal.copy()}

    def set_state(self, state):
        self.t, self.state, self.goal = state["t"], state["state"].copy(), state["goal"].copy()

    def compute_reward(self, achieved_goal, desired_goal, info):
        distance = np.abs(achieved_goal - desired_goal).max(-1)
        return -(distance > self.tolerance).astype(np.float32)


class BitFlip(GoalEnv):
    """Flip one of n bits with each action (Andrychowicz et al. 2017, section 3.1)."""

    def __init__(self, n: int = 8) -> None:
        super().__init__(n, n)
        self.action_space = spaces.Discrete(n)

    def draw(self):
        return self.np_random.integers(2, size=self.action_space.n).astype(np.float32)

    def step(self, action):
        self.state[action] = 1 - self.state[action]
        return self.after()


class Maze(GoalEnv):
    """Three rows, and between them walls with a gap, on the right and on the left.

    States are cells, one-hot. An episode starts in the first cell, and its goal is in the last row.
    """

    rows = ("......", "#####.", "......", ".#####", "......")

    def __init__(self) -> None:
        self.open = np.array([[cell == "." for cell in row] for row in self.rows])
        super().__init__(self.open.size, 30)
        self.action_space = spaces.Discrete(4)

    def one_hot(self, row, column):
        state = np.zeros(self.open.size, np.float32)
        state[row * self.open.shape[1] + column] = 1
        return state

    def draw(self):
        return self.one_hot(0, 0)

    def draw_goal(self):
        n_rows, n_columns = self.open.shape
        return self.one_hot(n_rows - 1, self.np_random.integers(n_columns))

    def step(self, action):
        at = np.array(divmod(int(self.state.argmax()), self.open.shape[1]))
        new = at + [(0, 1), (1, 0), (0, -1), (-1, 0)][action]
        inside = (new >= 0).all() and (new < self.open.shape).all()
        if inside and self.open[tuple(new)]:
            self.state = self.one_hot(*new)
        return self.after()


class EndingBitFlip(BitFlip):
    """Bits whose episodes end at the goal; ``compute_terminated`` takes single goals only."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        terminated = self.compute_terminated(self.state, self.goal, {})
        return observation, reward, terminated, truncated and not terminated, info

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return bool(np.linalg.norm(achieved_goal - desired_goal) == 0)


class Point(GoalEnv):
    """Move a point on a square to a place, at most 0.2 per step and axis."""

    tolerance = 0.1

    def __init__(self, limit: int = 15) -> None:
        super().__init__(2, limit)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def draw(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def step(self, action):
        self.state = np.clip(self.state + 0.2 * action, -1, 1).astype(np.float32)
        return self.after()
