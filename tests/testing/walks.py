"""A random walk that keeps the environment contract, and variants with one fault each."""

from collections import namedtuple

import gymnasium
import numpy as np

from rlpyt.envs.base import Env, EnvStep
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

WalkInfo = namedtuple("WalkInfo", ["place", "timeout"])
Bare = namedtuple("Bare", ["place"])
Named = namedtuple("Named", ["place", "timeout", "text"])
Living = namedtuple("Living", ["place", "timeout", "traj_done"])
Masked = namedtuple("Masked", ["position", "action_mask"])
LIMIT = 12


class Walk(Env):
    """Starts at random in (-1, 1), moves by -0.3, 0 or 0.3 and ends beyond 2 or after 12 steps."""

    def __init__(self):
        self._action_space = IntBox(low=0, high=3, dtype="int64")
        self._observation_space = FloatBox(low=-3.0, high=3.0, shape=(2,))
        self.rng = np.random.default_rng()
        self.next_seed = None
        self.x, self.t = 0.0, 0

    @property
    def horizon(self):
        return LIMIT

    def seed(self, seed):
        super().seed(seed)
        self.next_seed = seed

    def reset(self):
        if self.next_seed is not None:
            self.rng, self.next_seed = np.random.default_rng(self.next_seed), None
        self.x, self.t = self.rng.uniform(-1, 1), 0
        return self.observe()

    def observe(self):
        return np.array([self.x, self.t / LIMIT], np.float32)

    def step(self, action):
        self.x += 0.3 * (int(action) - 1)
        self.t += 1
        terminated = bool(abs(self.x) > 2)
        timeout = self.t == LIMIT and not terminated
        info = WalkInfo(float(self.x), timeout)
        return EnvStep(self.observe(), float(self.x), terminated or timeout, info)

    def get_state(self):
        return {
            "x": self.x, "t": self.t, "rng": self.rng.bit_generator.state, "next": self.next_seed
        }  # fmt: skip

    def set_state(self, state):
        self.x, self.t, self.next_seed = state["x"], state["t"], state["next"]
        self.rng.bit_generator.state = state["rng"]


def changed(**fields):
    """A walk of whose steps some fields are computed anew, from (env, step)."""

    class Changed(Walk):
        def step(self, action):
            step = super().step(action)
            return step._replace(**{name: new(self, step) for name, new in fields.items()})

    return Changed


def observed(new):
    """A walk that shows something else."""

    class Observed(Walk):
        def observe(self):
            return new(self, super().observe())

    return Observed


# Structure.


class GymnasiumForm(Walk):
    def step(self, action):
        o, r, d, _ = super().step(action)
        return o, r, d, False, {}


class ResetGivesInfo(Walk):
    def reset(self):
        return super().reset(), {}


class MaskOfAnotherLength(Walk):
    """Observations with a mask of two actions; there are three."""

    def __init__(self):
        super().__init__()
        parts = [FloatBox(low=-3.0, high=3.0, shape=(2,)), IntBox(0, 2, shape=(2,))]
        self._observation_space = Composite(parts, Masked)

    def observe(self):
        return Masked(super().observe(), np.ones(2, np.int32))


class PlainTuple(Walk):
    def step(self, action):
        return tuple(super().step(action))


class RaisesInStep(Walk):
    def step(self, action):
        if self.t == 3:
            raise RuntimeError("the simulator is gone")
        return super().step(action)


# Spaces.


class NoActionSpace(Walk):
    def __init__(self):
        super().__init__()
        del self._action_space


class OtherSpaceEachTime(Walk):
    made = 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self._observation_space = FloatBox(-3.0 - type(self).made, 3.0, shape=(2,))


class BareGymSpace(Walk):
    def __init__(self):
        super().__init__()
        self._action_space = gymnasium.spaces.Discrete(3)


class OddSpace(IntBox):
    def sample(self):
        return np.int64(7)


class SamplesOutside(Walk):
    def __init__(self):
        super().__init__()
        self._action_space = OddSpace(0, 3, dtype="int64")


class Picture(Walk):
    shape = (8, 8, 3)

    def __init__(self):
        super().__init__()
        self._observation_space = IntBox(0, 256, shape=self.shape, dtype="uint8")

    def observe(self):
        image = np.zeros(self.shape, np.uint8)
        image.flat[0] = 100 + 10 * super().observe()[0]
        image.flat[1] = self.t
        return image


class Ambiguous(Picture):
    shape = (3, 4, 3)


class WithoutChannels(Picture):
    shape = (16, 20)


class ChannelsFirst(Picture):
    shape = (3, 8, 8)


# Actions and memory.


class WritesIntoAction(Walk):
    def __init__(self):
        super().__init__()
        self._action_space = FloatBox(-1.0, 1.0, shape=(1,))

    def step(self, action):
        action *= 0.3
        return super().step(np.round(action[0]) + 1)


class ReusesBuffer(Walk):
    def observe(self):
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(2, np.float32)
        self.buffer[:] = super().observe()
        return self.buffer


class SharesBuffer(Walk):
    buffer = np.zeros(2, np.float32)

    def observe(self):
        self.buffer[:] = super().observe()
        return self.buffer


# Randomness.


class IgnoresSeed(Walk):
    def seed(self, seed):
        pass


class HonoursSeedOnce(Walk):
    seeded = False

    def seed(self, seed):
        if not self.seeded:
            super().seed(seed)
        self.seeded = True


class NoiseFromElsewhere(Walk):
    def step(self, action):
        self.x += 0.01 * np.random.default_rng().random()
        return super().step(action)


class GlobalGenerator(Walk):
    """Seeds numpy's global generator: fine alone, wrong beside another."""

    def reset(self):
        if self.next_seed is not None:
            np.random.seed(self.next_seed)
            self.next_seed = None
        self.x, self.t = np.random.uniform(-1, 1), 0
        return self.observe()

    get_state = Env.get_state


class KeepsPlaceInClass(Walk):
    def reset(self):
        observation = super().reset()
        type(self).place = self.x
        return observation

    def step(self, action):
        self.x = type(self).place
        step = super().step(action)
        type(self).place = self.x
        return step


class Unseedable(Walk):
    seed = None

    def __getattribute__(self, name):
        if name == "seed":
            raise AttributeError(name)
        return super().__getattribute__(name)


class TellsTheTime(Walk):
    clock = 0

    def step(self, action):
        type(self).clock += 1
        step = super().step(action)
        return step._replace(env_info=step.env_info._replace(place=float(self.clock)))


class Deterministic(Walk):
    def reset(self):
        super().reset()
        self.x = 0.5
        return self.observe()


# Ends.


class NeverEnds(Walk):
    horizon = None

    def step(self, action):
        _, r, _, info = super().step(action)
        self.x = float(np.clip(self.x, -2, 2))
        self.t %= 7
        return EnvStep(self.observe(), r, False, info._replace(timeout=False))


class ResetsItself(Walk):
    """Shows the first observation of the next episode at the end; reset starts yet another."""

    def step(self, action):
        step = super().step(action)
        return step._replace(observation=self.reset()) if step.done else step


class ResetsItselfOnce(ResetsItself):
    """The same, and reset gives that observation again."""

    fresh = False

    def step(self, action):
        step = super().step(action)
        self.fresh = step.done
        return step

    def reset(self):
        if self.fresh:
            self.fresh = False
            return self.observe()
        return super().reset()


class ResetsItselfToZero(Deterministic, ResetsItself):
    pass


class LateLimit(Walk):
    @property
    def horizon(self):
        return LIMIT - 4


class WrongHorizon(Walk):
    @property
    def horizon(self):
        return "12"


class LimitWithoutTimeout(Walk):
    def step(self, action):
        self.x *= 0.5  # never far out
        step = super().step(action)
        return step._replace(env_info=step.env_info._replace(timeout=False))


class LimitAsEnd(Walk):
    """Some episodes end before the limit."""

    def step(self, action):
        step = super().step(action)
        return step._replace(env_info=step.env_info._replace(timeout=False))


class NoTimeoutField(Walk):
    def step(self, action):
        step = super().step(action)
        return step._replace(env_info=Bare(step.env_info.place))


class IndependentDraws(Walk):
    """Shows something drawn anew at every step: an end cannot be told from a start, and is fine."""

    def observe(self):
        self.x = self.rng.uniform(-1, 1)
        return super().observe() * np.float32([1, 0])


# State, close.


class ForgetsGenerator(Walk):
    def set_state(self, state):
        self.x, self.t, self.next_seed = state["x"], state["t"], state["next"]


class ForgetsTime(Walk):
    def set_state(self, state):
        super().set_state({**state, "t": 0})


class LiveState(Walk):
    def get_state(self):
        return {**super().get_state(), "rng": self.rng}


class StateIsView(Walk):
    def __init__(self):
        super().__init__()
        self.trace = np.zeros(3)

    def step(self, action):
        self.trace += 1
        return super().step(action)

    def get_state(self):
        return {**super().get_state(), "trace": self.trace}


class LookingMoves(Walk):
    def get_state(self):
        self.rng.random()
        return super().get_state()


class CannotBeSet(Walk):
    set_state = Env.set_state


class ClosesOnce(Walk):
    closed = False

    def close(self):
        if self.closed:
            raise OSError("no such window")
        self.closed = True


# The same as a gymnasium environment.


class GymWalk(gymnasium.Env):
    def __init__(self, reuse=False, wide=False, deaf=False, old=False):
        self.action_space = gymnasium.spaces.Discrete(3)
        self.observation_space = gymnasium.spaces.Box(-3.0, 3.0, (2,), np.float32)
        self.reuse, self.wide, self.deaf, self.old = reuse, wide, deaf, old
        self.buffer = np.zeros(2, np.float32)

    def observe(self):
        observation = np.array([self.x, self.t / LIMIT], np.float64 if self.wide else np.float32)
        if not self.reuse:
            return observation
        self.buffer[:] = observation
        return self.buffer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=None if self.deaf else seed)
        self.x, self.t = self.np_random.uniform(-1, 1), 0
        return self.observe() if self.old else (self.observe(), {})

    def step(self, action):
        self.x += 0.3 * (int(action) - 1)
        self.t += 1
        terminated, truncated = bool(abs(self.x) > 2), self.t >= LIMIT
        if self.old:
            return self.observe(), float(self.x), terminated or truncated, {}
        return self.observe(), float(self.x), terminated, truncated, {"place": float(self.x)}
