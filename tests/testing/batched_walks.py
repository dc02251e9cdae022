"""Batches of walks, and what can go wrong with batches, one fault each."""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rlpyt.envs.base import EnvStep
from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from tests.testing.walks import GymWalk, LimitWithoutTimeout, ResetsItself, Walk


class Walks(SerialVectorEnv):
    """Three walks, stepped one after another."""

    Row = Walk

    def __init__(self, num_envs=3):
        super().__init__([self.Row() for _ in range(num_envs)])


class OneWalk(Walks):
    def __init__(self):
        super().__init__(num_envs=1)


def changed(**fields):
    """Walks of whose steps some fields are computed anew, from (envs, step)."""

    class Changed(Walks):
        def step(self, action):
            step = super().step(action)
            return step._replace(**{name: new(self, step) for name, new in fields.items()})

    return Changed


# Structure.


class PlainTuple(Walks):
    def step(self, action):
        return tuple(super().step(action))


class SomeRowsShort(Walks):
    def reset_rows(self, rows):
        return super().reset_rows(rows)[:1]


# Rows.


class OneGenerator(Walks):
    """All rows draw from the generator of the first."""

    def reset(self):
        first = super().reset()
        for env in self.envs[1:]:
            env.rng = self.envs[0].rng
        return first


class NeighboursMatter(Walks):
    def step(self, action):
        action = np.array(action)
        action[1:] = action[:-1]
        return super().step(action)


class ResetsAll(Walks):
    def reset_rows(self, rows):
        if not len(rows):
            return super().reset_rows(rows)
        return super().reset_rows(np.arange(self.n))[rows]


class SortsRows(Walks):
    def reset_rows(self, rows):
        return super().reset_rows(np.sort(rows))


class NothingIsOneRow(Walks):
    def reset_rows(self, rows):
        return super().reset_rows(rows if len(rows) else np.array([0]))


class WaitingRowsGoOn(Walks):
    """Rows that are over are stepped as if they were not."""

    def step(self, action):
        step = super().step(action)
        self._waiting.remove()
        return step


class WaitingRowsPay(Walks):
    def step(self, action):
        waited = self._waiting.mask.copy()
        step = super().step(action)
        return step._replace(reward=step.reward + waited.astype(np.float32))


class OthersWaitToo(Walks):
    def step(self, action):
        step = super().step(action) if not self._waiting.n else self.nothing()
        return step

    def nothing(self):
        info = self._info
        info.timeout[:] = False
        done = info.traj_done.copy()
        return EnvStep(self._observation, np.zeros(self.n, np.float32), done, info)


class ItselfAtOnce(Walks):
    Row = ResetsItself


# Actions.


class Unchecked(Walks):
    def __init__(self):
        super().__init__()
        self._check = lambda action: np.asarray(action)[: self.n]


class Clips(Walks):
    """Makes actions valid that are not."""

    def step(self, action):
        if action.dtype.kind == "i" and len(action) == self.n:
            action = np.clip(action, 0, 2)
        return super().step(action)


class Asserts(Walks):
    def step(self, action):
        assert len(action) == self.n
        return super().step(action)


class ChecksTooLate(Walks):
    def step(self, action):
        try:
            return super().step(action)
        except ValueError:
            self.envs[0].step(2)
            raise


# Statistics, seeds.


class Counting(Walks):
    """Counts steps, as wrappers that standardize do."""

    keeps, freezes = True, True

    def __init__(self):
        super().__init__()
        self.count, self.frozen = 0, False

    def step(self, action):
        self.count += not (self.frozen and self.freezes)
        return super().step(action)

    def statistics(self):
        return {"count": self.count}

    def load_statistics(self, statistics):
        self.count = statistics["count"] if self.keeps else 0

    def freeze(self, frozen=True):
        self.frozen = frozen


class Forgets(Counting):
    keeps = False


class GoesOnLearning(Counting):
    freezes = False


class SeededWhenMade(Walks):
    """As EnvPool: seeds are arguments of the constructor."""

    batched = True

    def __init__(self, num_envs, seeds=None):
        super().__init__(num_envs)
        for env, seed in zip(self.envs, seeds or [], strict=False):
            env.seed(seed)

    def seed(self, seeds):
        raise UnsupportedVectorEnv("give seeds to the constructor")


class NeverSeeded(Walks):
    def seed(self, seeds):
        raise UnsupportedVectorEnv("this hardware has no seed")


# Foreign ones: what gymnasium's users write, declared as it is or otherwise.


class Foreign(gymnasium.vector.VectorEnv):
    """A gymnasium ``VectorEnv`` that really follows ``mode`` and declares ``declared``.

    Args:
        pretend: show what another mode would show in info, so that only behaviour tells.
    """

    def __init__(self, mode="SAME_STEP", declared=None, pretend=False):
        self.mode, self.pretend = AutoresetMode[mode], pretend
        self.metadata = {"autoreset_mode": AutoresetMode[declared or mode]}
        self.envs = [GymWalk() for _ in range(3)]
        self.num_envs = 3
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space
        self.action_space = batch_space(self.single_action_space, 3)
        self.observation_space = batch_space(self.single_observation_space, 3)
        self.shown = np.zeros((3, 2), np.float32)
        self.over = np.zeros(3, bool)

    def reset(self, *, seed=None, options=None):
        whole = options is None
        mask = np.ones(3, bool) if whole else options["reset_mask"]
        for i in np.flatnonzero(mask):
            self.shown[i] = self.envs[i].reset(seed=None if seed is None else seed[i])[0]
        if whole or not self.pretend:
            self.over[mask] = False
        return self.shown.copy(), {}

    def step(self, actions):
        reward, (terminated, truncated) = np.zeros(3), np.zeros((2, 3), bool)
        final, shown_last = np.full((3, 2), np.nan, np.float32), None
        for i, env in enumerate(self.envs):
            if self.over[i]:  # NEXT_STEP: the action is ignored
                self.shown[i], self.over[i] = env.reset()[0], False
                continue
            self.shown[i], reward[i], terminated[i], truncated[i], _ = env.step(actions[i])
            if terminated[i] or truncated[i]:
                final[i] = shown_last = self.shown[i]
                if self.mode is AutoresetMode.SAME_STEP:
                    self.shown[i] = env.reset()[0]
                self.over[i] = self.mode is AutoresetMode.NEXT_STEP
        tells = (self.mode is AutoresetMode.SAME_STEP) != self.pretend
        info = {"final_obs": final} if tells and shown_last is not None else {}
        return self.shown.copy(), reward, terminated, truncated, info


class NoLimitTold(Walks):
    Row = LimitWithoutTimeout
