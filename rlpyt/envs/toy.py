"""Test environments that each probe one ability of an agent: tiny, exact and resumable.

==================  ================================  ===========================================
environment         requirement                       best return
==================  ================================  ===========================================
`BanditEnv`         preferring the best arm           the highest mean
`MemoryEnv`         memory of the first step          1; 1/n_cues without it
`DelayEnv`          long-term credit assignment       1; 0 without it
`TruncationEnv`     bootstrapping at time limits      value 1/(1 - discount) in the only state
`ReachEnv`          continuous actions with bounds    0; -2/3 per step with uniform actions
`MaskEnv`           masks of valid actions            5; 3.1 without it
`PartsEnv`          observations of several parts     5; 1.25 without one of them
`HybridEnv`         actions of several parts          5; 3.4 without one of them
`PuzzleEnv`         these three and memory            5
`CountEnv`          none: counts environments, steps  for tests of samplers and replay
==================  ================================  ===========================================
"""

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, SupportsIndex, SupportsInt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.envs.base import Env, EnvStep
from rlpyt.envs.state import pack, pack_rng, set_rng, unpack
from rlpyt.spaces.action_mask import FIELD
from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import namedtuple_class
from rlpyt.utils.seed import saved_seed

Observation = NDArray[np.float32]

EnvInfo = namedtuple("EnvInfo", ["timeout"])
CountInfo = namedtuple("CountInfo", ["action", "traj_done", "timeout"])


class ToyEnv(Env):
    """Base class with a random stream, seeding, and state: the attributes named in ``_state``."""

    _state: tuple[str, ...] = ("_t",)

    def __init__(self, n_actions: int, obs_size: int, seed: int | None = None) -> None:
        self._action_space = IntBox(low=0, high=n_actions, dtype="int64")
        self._observation_space = FloatBox(low=-1.0, high=1.0, shape=(obs_size,))
        self._rng = np.random.default_rng(seed)
        self._next_seed: int | None = None
        self._t = 0

    def reset(self) -> Observation:
        """Start an episode; return the first observation."""
        if self._next_seed is not None:
            self._rng = np.random.default_rng(self._next_seed)
            self._next_seed = None
        self._t = 0
        return self._begin()

    def _begin(self) -> Observation:
        """Draw the episode's random values; return the first observation."""
        raise NotImplementedError

    def seed(self, seed: int) -> None:
        """Seed both spaces now, and the environment at the next ``reset``."""
        super().seed(seed)
        self._next_seed = int(seed)

    def get_state(self) -> dict[str, Any]:
        """Return the state of the episode and of the random stream."""
        state = {name: pack(getattr(self, name)) for name in self._state}
        return {**state, "rng": pack_rng(self._rng), "next_seed": self._next_seed}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of an equally constructed environment."""
        for name in self._state:
            setattr(self, name, unpack(state[name]))
        set_rng(self._rng, state["rng"])
        self._next_seed = saved_seed(state)


class BanditEnv(ToyEnv):
    """One-step bandit: the reward is the mean of the chosen arm, plus normal noise.

    Observation: [1], always 1. Optimal policy: always the arm with the highest mean.
    """

    def __init__(
        self,
        means: Sequence[float] = (0.0, 0.5, 1.0, 0.2),
        noise: float = 0.0,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(n_actions=len(means), obs_size=1, seed=seed)
        self.means, self.noise = tuple(means), noise

    def _begin(self) -> Observation:
        return np.ones(1, np.float32)

    def step(self, action: SupportsIndex) -> EnvStep:
        """Pull one arm, which ends the episode."""
        reward = self.means[action] + (self.noise * self._rng.normal() if self.noise else 0.0)
        return EnvStep(np.ones(1, np.float32), float(reward), True, EnvInfo(False))


class MemoryEnv(ToyEnv):
    """Memory task: a cue, shown at the first step only, must be repeated at the last step.

    Observation: [n_cues + 1], one-hot cue at the first step; 1 in the last entry when the answer
    is expected, ``delay`` steps later; zeros between. Reward: 1 for the right answer (action =
    cue), else 0. An agent without memory gets 1/n_cues on average.
    """

    _state = ("_t", "_cue")

    def __init__(self, delay: int = 4, n_cues: int = 2, *, seed: int | None = None) -> None:
        delay, n_cues = whole_number("delay", delay, 1), whole_number("n_cues", n_cues, 2)
        super().__init__(n_actions=n_cues, obs_size=n_cues + 1, seed=seed)
        self.delay, self.n_cues, self._known_horizon = delay, n_cues, delay + 1
        self._cue = 0

    def _begin(self) -> Observation:
        self._cue = int(self._rng.integers(self.n_cues))
        observation = np.zeros(self.n_cues + 1, np.float32)
        observation[self._cue] = 1.0
        return observation

    def step(self, action: SupportsIndex) -> EnvStep:
        """Advance one step; at the last step compare the action with the cue."""
        done = self._t == self.delay
        reward = float(done and action == self._cue)
        self._t += 1
        observation = np.zeros(self.n_cues + 1, np.float32)
        observation[-1] = self._t == self.delay
        return EnvStep(observation, reward, done, EnvInfo(False))


class DelayEnv(ToyEnv):
    """Delayed reward: only the first action matters, and it is rewarded at the episode's end.

    Observation: [2], (1 at the first step, elapsed fraction of the episode). Reward: 1 at step
    ``delay`` if the first action was ``good`` (the last action), else 0; each choice of ``good``
    costs ``lure`` immediately, so that a myopic agent prefers another action.
    """

    _state = ("_t", "_earned")

    def __init__(
        self, delay: int = 8, n_actions: int = 2, lure: float = 0.0, *, seed: int | None = None
    ) -> None:
        delay = whole_number("delay", delay, 1)
        n_actions = whole_number("n_actions", n_actions, 2)
        super().__init__(n_actions=n_actions, obs_size=2, seed=seed)
        self.delay, self.lure, self.good = delay, lure, n_actions - 1
        self._earned, self._known_horizon = False, delay + 1

    def _begin(self) -> Observation:
        self._earned = False
        return np.array([1.0, 0.0], np.float32)

    def step(self, action: SupportsIndex) -> EnvStep:
        """Record the first action; reward it at the last step."""
        if self._t == 0:
            self._earned = bool(action == self.good)
        done = self._t == self.delay
        reward = float(done and self._earned) - self.lure * float(action == self.good)
        self._t += 1
        observation = np.array([0.0, self._t / (self.delay + 1)], np.float32)
        return EnvStep(observation, reward, done, EnvInfo(False))


class TruncationEnv(ToyEnv):
    """One state, reward 1 at every step, truncated after ``horizon`` steps.

    The value is 1/(1 - discount) everywhere if and only if truncation is bootstrapped. If treated
    as termination, as with ``terminate=True``, the return from step t (from 0) is only
    (1 - discount^(horizon - t)) / (1 - discount).
    Observation: [1], always 1. Actions have no effect.
    """

    _known_horizon: int

    def __init__(
        self, horizon: int = 5, terminate: bool = False, *, seed: int | None = None
    ) -> None:
        super().__init__(n_actions=2, obs_size=1, seed=seed)
        self._known_horizon, self.terminate = whole_number("horizon", horizon, 1), terminate

    @staticmethod
    def value(discount: float) -> float:
        """Return the true value of the state without termination."""
        return 1.0 / (1.0 - discount)

    def _begin(self) -> Observation:
        return np.ones(1, np.float32)

    def step(self, action: object) -> EnvStep:
        """Advance one step with reward 1."""
        self._t += 1
        done = self._t >= self._known_horizon
        return EnvStep(np.ones(1, np.float32), 1.0, done, EnvInfo(done and not self.terminate))


class ReachEnv(ToyEnv):
    """Continuous actions with different bounds per component, and a new goal at every step.

    The reward is the negative mean squared distance to the goal, with the action space scaled to
    [-1, 1]. The next goal does not depend on the action, and an episode ends by a time limit of
    ``length`` steps. Observation: the goal [A], in these units.

    Args:
        low, high: bounds of each of the A components of an action.
        length: number of steps of an episode.
    """

    _action_space: FloatBox

    def __init__(
        self,
        low: Sequence[float] = (-2.0, 0.0),
        high: Sequence[float] = (1.0, 10.0),
        length: int = 10,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(n_actions=1, obs_size=len(low), seed=seed)
        self._action_space = FloatBox(low=np.asarray(low), high=np.asarray(high))
        self.length = self._known_horizon = whole_number("length", length, 1)
        self._goal = np.zeros(len(low), np.float32)

    _state = ("_t", "_goal")

    def _begin(self) -> Observation:
        self._goal = self._rng.uniform(-1, 1, self._goal.shape).astype(np.float32)
        return self._goal

    def step(self, action: ArrayLike) -> EnvStep:
        """Return the reward for reaching the goal, and the next goal as observation."""
        low, high = self._action_space.bounds
        reached = 2 * (np.asarray(action) - low) / (high - low) - 1
        reward = -float(np.mean((reached - self._goal) ** 2))
        self._t += 1
        done = self._t >= self.length
        return EnvStep(self._begin(), reward, done, EnvInfo(done))


class PuzzleEnv(ToyEnv):
    """Find a number below 4 in each of five steps; ``needs`` lists the abilities that it takes.

    ==========  ================================================================================
    "memory"    an episode has one number, which only the first observation shows
    "mask"      actions are invalid at random; the next valid one, cyclically, counts instead
    "parts"     the number is the sum, modulo 4, of one in an image and of a category
    "hybrid"    the action also has an amount in [-1, 1]; that of the number k is (2 k - 3) / 4
    ==========  ================================================================================

    Observation: the number one-hot [4], or with "parts" the image [1, 8, 8] uint8 and the category.
    Reward: 1 for the number; with "hybrid" times 1 minus the squared error of the amount. Episodes
    of agents that lack an ability have lower returns; see the table of this module.

    Args:
        without: a control that cannot be solved: one of ``needs`` whose means is missing. The mask
            or the image is not observed, or the action has no amount (which is then 0). Memory is a
            property of the agent.

    Raises:
        ValueError: ``without`` is not one of these.
    """

    needs: ClassVar[tuple[str, ...]] = ("memory", "mask", "parts", "hybrid")
    _state = ("_t", "_number", "_valid")
    _n, _known_horizon = 4, 5

    def __init__(self, without: str | None = None, *, seed: int | None = None) -> None:
        n, needs = self._n, self.needs
        super().__init__(n_actions=n, obs_size=n, seed=seed)
        removable = [need for need in needs if need != "memory"]
        if without is not None and without not in removable:
            raise ValueError(f"without={without!r} must be None or one of {removable}.")
        spaces: dict[str, Space] = {"number": self._observation_space}
        if "parts" in needs:
            image = IntBox(0, 256, shape=(1, 8, 8), dtype="uint8")
            spaces = {"category": IntBox(0, n), **({} if without == "parts" else {"image": image})}
        if "mask" in needs and without != "mask":
            spaces[FIELD] = IntBox(0, 2, shape=(n,), dtype="int8")
        self._Observation = namedtuple_class("obs", tuple(spaces))
        self._composite = list(spaces) != ["number"]
        if self._composite:
            self._observation_space = Composite(spaces.values(), self._Observation)
        self._gives_amount = "hybrid" in needs and without != "hybrid"
        if self._gives_amount:
            parts = [self._action_space, FloatBox(-1.0, 1.0, shape=(1,))]
            self._action_space = Composite(parts, namedtuple_class("act", ("number", "amount")))
        self._number = 0
        self._valid = np.ones(n, np.int8)

    def _begin(self) -> Any:
        n, rng, image = self._n, self._rng, np.zeros((1, 8, 8), np.uint8)
        one_hot, category = np.zeros(n, np.float32), 0
        if self._t == 0 or "memory" not in self.needs:
            self._number, category, row = (int(rng.integers(high)) for high in (n, n, 7))
            column = 2 * ((self._number - category) % n)
            image[0, row : row + 2, column : column + 2] = 255
            one_hot[self._number] = 1.0
        if "mask" in self.needs:
            self._valid = (rng.random(n) < 0.5).astype(np.int8)
            self._valid[rng.integers(n)] = 1
        parts = {"number": one_hot, "category": np.int32(category), "image": image}
        parts[FIELD] = self._valid
        observation = self._Observation(*(parts[name] for name in self._Observation._fields))
        return observation if self._composite else one_hot

    def step(self, action: Any) -> EnvStep:
        """Compare the action with the number, and return the next observation."""
        choice = action.number if self._gives_amount else action
        valid = (k % self._n for k in range(self._number, 2 * self._n) if self._valid[k % self._n])
        reward = float(choice == next(valid))
        if "hybrid" in self.needs:
            amount = float(action.amount[0]) if self._gives_amount else 0.0
            reward *= max(0.0, 1 - (amount - (2 * self._number + 1 - self._n) / self._n) ** 2)
        self._t += 1
        done = self._t == self._known_horizon
        return EnvStep(self._begin(), reward, done, EnvInfo(False))


class MaskEnv(PuzzleEnv):
    """Puzzle whose invalid actions only the mask shows; see `PuzzleEnv`."""

    needs = ("mask",)


class PartsEnv(PuzzleEnv):
    """Puzzle whose observations have an image and a category; see `PuzzleEnv`."""

    needs = ("parts",)


class HybridEnv(PuzzleEnv):
    """Puzzle whose actions have a discrete and a continuous part; see `PuzzleEnv`."""

    needs = ("hybrid",)


class CountEnv(ToyEnv):
    """Deterministic environment that observes its own counters: [rank, episode, t], all integers.

    Episode e of rank k lasts 1 + (e + k + length - 1) % length steps, so lengths range from 1 to
    ``length`` and differ between environments. The reward for the step from (episode e, time t)
    is 100 e + t + 1; ``env_info.action`` repeats the action.

    Args:
        rank: first number of the observation; ``None`` takes the last seed, modulo 2**20.
        length: length of the longest episode; with ``fixed``, of every episode.
        end: end of episodes: termination, truncation, both at once, or the first two in turn
            (even episodes terminate).
        life: steps between ``done`` without ``traj_done`` within an episode; 0 disables it.
        fixed: give all episodes the same length.
    """

    _state = ("_t", "_episode", "_rank")

    def __init__(
        self,
        rank: int | None = None,
        length: int = 5,
        end: Literal["termination", "truncation", "both", "alternate"] = "alternate",
        life: int = 0,
        fixed: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        length, life = whole_number("length", length, 1), whole_number("life", life, 0)
        if end not in ("termination", "truncation", "both", "alternate"):
            raise ValueError(f"end={end!r} must be termination, truncation, both or alternate.")
        super().__init__(n_actions=3, obs_size=3, seed=seed)
        self._observation_space = FloatBox(low=0.0, high=2.0**24, shape=(3,))
        self.length, self.end, self.life, self.fixed = length, end, life, fixed
        self._fixed_rank = rank
        self._rank = rank if rank is not None else (seed or 0) % 2**20
        self._episode = -1

    def seed(self, seed: int) -> None:
        """Seed both spaces; the seed becomes the rank, unless the constructor was given one."""
        super().seed(seed)
        self._episode = -1
        if self._fixed_rank is None:
            self._rank = int(seed) % 2**20

    def episode_length(self, episode: int) -> int:
        """Return the number of steps of an episode, in [1, length]."""
        if self.fixed:
            return self.length
        return 1 + (episode + self._rank + self.length - 1) % self.length

    def _begin(self) -> Observation:
        self._episode += 1
        return self._observe()

    def step(self, action: SupportsInt) -> EnvStep:
        """Advance one step."""
        self._t += 1
        over = self._t >= self.episode_length(self._episode)
        odd = self._episode % 2 == 1
        truncated = self.end == "truncation" or (self.end == "alternate" and odd)
        life_lost = self.life > 0 and self._t % self.life == 0
        info = CountInfo(int(action), over, over and truncated)
        reward = 100.0 * self._episode + self._t
        return EnvStep(self._observe(), reward, over or life_lost, info)

    def _observe(self) -> Observation:
        return np.array([self._rank, self._episode, self._t], np.float32)
