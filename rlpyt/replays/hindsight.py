"""Hindsight experience replay: drawn windows get goals that the agent has reached."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.goals import GoalRewards
from rlpyt.replays.targets import n_step_targets

if TYPE_CHECKING:
    from rlpyt.replays.buffer import ReplayBuffer

Array = NDArray[Any]

GOALS = ("achieved_goal", "desired_goal")  # parts of observations
STRATEGIES = ("future", "final", "episode")
FIRST_BLOCK = 32  # rows searched at once for the end of an episode; doubled until it is found


class Hindsight:
    """Relabeling of drawn windows with achieved goals (Andrychowicz et al. 2017, section 3.3).

    Each window gets a new goal with probability k / (k + 1), which equals k further copies of every
    transition. The goal is one that its own episode has achieved after a step that is stored:

    - "future": after a random step from the window's first one on;
    - "final": after the last step;
    - "episode": after any random step.

    Of an episode that still runs, the steps stored so far count. All n rewards of the window, its
    end, and the previous rewards are computed again for this goal. Where the environment ends
    episodes at the goal, a window whose episode was ended by its first goal, but does not reach the
    new one, keeps its first goal: the state after the end is not stored as one to continue from.

    Samples need the field ``final_goal``: the goal achieved after a step that ended an episode,
    which the next row does not contain.

    Args:
        strategy: one of ``STRATEGIES``.
        n_sampled_goals: k, relabeled windows for each unchanged one.
        rewards: rewards of the environment.
    """

    def __init__(self, strategy: str, n_sampled_goals: float, rewards: GoalRewards) -> None:
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}.")
        self.strategy, self.rewards = strategy, rewards
        self.fraction = n_sampled_goals / (n_sampled_goals + 1)
        self._warned = False

    def check(self, example: Any, sequences: bool) -> None:
        """Check that transitions like the example can be relabeled.

        Raises:
            TypeError: a part is missing.
            ValueError: the replay has sequences.
        """
        parts = getattr(example.observation, "_fields", ())
        missing = [name for name in GOALS if name not in parts]
        if missing or not hasattr(example, "final_goal"):
            raise TypeError(
                f"hindsight needs observations with the parts {' and '.join(GOALS)} and samples "
                f"with final_goal, got {list(parts) or 'one array'} and {list(example._fields)}."
            )
        if sequences:
            raise ValueError("hindsight must be None for a replay of sequences.")

    def relabel(self, replay: "ReplayBuffer", batch: Any, T_idxs: Array, B_idxs: Array) -> None:
        """Change the goals of some windows of a batch [N], in place.

        Args:
            replay: replay that draws the batch; its generator draws windows and goals.
            batch: windows of rows (T_idxs, B_idxs).
            T_idxs, B_idxs: [N] integers.
        """
        changes, place = replay.rng.random((2, len(T_idxs)))
        where, unchanged = map(np.flatnonzero, (changes < self.fraction, changes >= self.fraction))
        if len(unchanged) and not self._warned:
            self._check_rewards(replay, T_idxs[unchanged], B_idxs[unchanged])
        if not len(where):
            return
        T_idxs, B_idxs = T_idxs[where], B_idxs[where]
        steps = self._steps(replay, T_idxs, B_idxs, place[where])
        goal = achieved_after(replay, steps, B_idxs)
        # The step before, and those of the window: [n + 1, N].
        rows = (T_idxs + np.arange(-1, replay.n_step_return)[:, None]) % replay.T
        B_idxs = np.broadcast_to(B_idxs, rows.shape)
        reward, reached = self._outcomes(achieved_after(replay, rows, B_idxs), goal)
        done = replay.storage.samples.done[rows, B_idxs]
        prev_reward = np.where(done[0], 0, reward[0])
        reward, done, reached = reward[1:], done[1:], reached[1:]
        targets = n_step_targets(
            reward, done | reached, done & ~reached, replay.n_step_return, replay.discount
        )
        reaches, cut_after = targets.done_n[0], targets.cut_after[0].astype(np.int64)
        last_reward = reward[cut_after - 1, np.arange(len(where))]  # -1: no cut
        ended, discount_n = batch.done_n.numpy()[where], batch.discount_n.numpy()[where]
        kept = reaches | ~ended if self.rewards.terminates else slice(None)
        where = where[kept]
        inputs, target = batch.agent_inputs, batch.target_inputs
        for tensor, values in (
            (inputs.observation.desired_goal, goal),
            (inputs.prev_reward, prev_reward),
            (target.observation.desired_goal, goal),
            (target.prev_reward, last_reward),
            (batch.return_, targets.return_[0]),
            (batch.done, done[0] | reached[0]),
            (batch.done_n, ended | reaches),
            (batch.discount_n, np.where(reaches, 0, discount_n)),
        ):
            tensor.numpy()[where] = values[kept]
        if replay.time_limits:
            batch.timeout_n.numpy()[where] &= ~reaches[kept]

    def _check_rewards(self, replay: "ReplayBuffer", T_idxs: Array, B_idxs: Array) -> None:
        """Warn if ``compute_reward`` differs from the rewards of these rows [N]."""
        samples = replay.storage.samples
        desired = samples.observation.desired_goal[T_idxs, B_idxs]
        computed = self.rewards.reward(achieved_after(replay, T_idxs, B_idxs), desired)
        given = samples.reward[T_idxs, B_idxs]
        for i in np.flatnonzero(~np.isclose(computed, given, 1e-3, 1e-3))[:1]:
            self._warned = True
            warnings.warn(
                f"hindsight: compute_reward gives {computed[i] + 0:g} for a step whose reward was "
                f"{given[i]:g}, so new goals have other rewards than the environment. It gets the "
                "goals as the agent observes them: if a wrapper changes goals or rewards, define "
                "compute_reward in the outermost wrapper (docs/hindsight.md)."
            )

    def _outcomes(self, achieved: Array, goal: Array) -> tuple[Array, Array]:
        """Return rewards and ends [n, N] of achieved goals [n, N, ...] for goals [N, ...]."""
        shape = achieved.shape[:2]
        pairs = [x.reshape(-1, *goal.shape[1:]) for x in np.broadcast_arrays(achieved, goal)]
        reward = self.rewards.reward(*pairs).reshape(shape)
        if not self.rewards.terminates:
            return reward, np.zeros(shape, bool)
        return reward, self.rewards.terminated(*pairs).reshape(shape)

    def _steps(self, replay: "ReplayBuffer", T_idxs: Array, B_idxs: Array, place: Array) -> Array:
        """Return the rows [N] of the steps whose achieved goals become the new ones.

        Args:
            replay: replay of the windows that start at rows (T_idxs, B_idxs).
            T_idxs, B_idxs: [N] integers.
            place: [N] in [0, 1), place among the steps that may be chosen.
        """
        ring, done = replay.ring, replay.storage.samples.done
        absolute = ring.absolute(T_idxs)
        newest = ring.written - 1
        after = rows_to_done(done, T_idxs, B_idxs, newest - absolute, 1)
        # The goal achieved after the newest row is in the next one, unless its episode has ended.
        after -= (absolute + after == newest) & ~done[newest % ring.T, B_idxs]
        if self.strategy == "final":
            return (T_idxs + after) % ring.T
        before = np.zeros_like(after)
        if self.strategy == "episode":
            before = rows_to_done(done, T_idxs - 1, B_idxs, absolute - ring.oldest, -1)
        offset = (place * (before + after + 1)).astype(np.int64)
        return (T_idxs - before + offset) % ring.T  # type: ignore[no-any-return]


def rows_to_done(done: Array, T_idxs: Array, B_idxs: Array, most: Array, step: int) -> Array:
    """Return how many rows lie between each row and the first done row in a direction.

    Args:
        done: [T, B] bool, a ring.
        T_idxs, B_idxs: [N] rows at which to begin.
        most: [N] result if none of this number of rows is done.
        step: 1: towards newer rows; -1: towards older ones.
    """
    found, left, first, block = most.copy(), np.arange(len(most)), 0, FIRST_BLOCK
    while len(left):
        ahead = np.arange(first, first + block)[:, None]
        stops = done[(T_idxs[left] + step * ahead) % len(done), B_idxs[left]] | (
            ahead >= most[left]
        )
        stopped = stops.any(0)
        found[left[stopped]] = first + stops[:, stopped].argmax(0)
        left, first, block = left[~stopped], first + block, 2 * block
    return found


def achieved_after(replay: "ReplayBuffer", T_idxs: Array, B_idxs: Array) -> Array:
    """Return the goals [..., *goal] achieved after the steps of these rows."""
    samples = replay.storage.samples
    goal = samples.observation.achieved_goal[(T_idxs + 1) % replay.T, B_idxs]
    done = samples.done[T_idxs, B_idxs]
    goal[done] = samples.final_goal[T_idxs[done], B_idxs[done]]
    return goal  # type: ignore[no-any-return]
