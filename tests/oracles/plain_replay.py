"""Reference implementation of a replay in plain lists and loops, and episodes to fill it."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from rlpyt.replays.batch import FinalObservations
from rlpyt.utils.collections import namedarraytuple


class Target(NamedTuple):
    """Targets of a step: its return, and the inputs of the bootstrap value if there is one."""

    return_: float
    done_n: bool
    discount_n: float
    timeout_n: bool
    inputs: tuple[Any, Any, Any] | None  # observation, previous action and reward


class Episodes:
    """Random steps of B environments, with episodes that terminate or are truncated.

    Observations are stacks [C] of frames, each frame the number 100 * row + b + 1. At the start of
    an episode, older frames are "zeros", "copies" of the first, or the stack "continues". With
    C = 1 an observation is one number. With ``wait``, rows after a done are void until the batch
    ends. With ``p_break``, episodes are broken: their rows in the batch are void.
    """

    def __init__(
        self,
        B: int,
        C: int = 1,
        p_done: float = 0.2,
        p_cut: float = 0.1,
        seed: int = 0,
        rnn: bool = False,
        timeout: bool = False,
        older: str = "zeros",
        wait: bool = False,
        p_break: float = 0.0,
    ) -> None:
        self.B, self.C, self.p_done, self.p_cut, self.older = B, C, p_done, p_cut, older
        self.rng = np.random.default_rng(seed)
        fields = ["observation", "action", "reward", "done"]
        fields += ["timeout"] * timeout + ["prev_rnn_state"] * rnn
        self.wait, self.p_break = wait, p_break
        self.Samples = namedarraytuple("SamplesToBuffer", fields)
        self.stack = np.zeros((B, C), np.float32)
        self.begins = np.ones(B, bool)
        self.rows = 0

    @property
    def example(self) -> Any:
        """Return a step without leading dimensions."""
        known = {
            "observation": np.zeros(self.C, np.float32),
            "action": np.zeros(2, np.float32),
            "reward": np.float32(0),
            "done": np.bool_(False),
            "timeout": np.bool_(False),
            "prev_rnn_state": np.zeros((1, 3), np.float32),
        }
        return self.Samples(*(known[name] for name in self.Samples._fields))

    def steps(self, T: int) -> tuple[Any, Any]:
        """Return samples [T, B] and the final observations of truncated episodes, or None."""
        finals: list[tuple[int, int, Any]] = []
        rows: list[list[dict[str, Any]]] = []
        void = np.zeros((T, self.B), bool)
        for t in range(T):
            if self.wait and t:
                void[t] = [step["done"] for step in rows[-1]]
            rows.append(
                [self._void() if end else self._step(t, b, finals) for b, end in enumerate(void[t])]
            )
            for b in (self.rng.random(self.B) < self.p_break).nonzero()[0] if self.p_break else ():
                self._break(rows, void, t, b)
        columns = {
            name: np.array([[x[name] for x in row] for row in rows])
            for name in self.Samples._fields
        }
        if self.wait or self.p_break:
            columns["void"] = void
        samples = namedarraytuple("SamplesToBuffer", tuple(columns))(**columns)
        self.rows += T
        if not finals:
            return samples, None
        T_idxs, B_idxs, observation = zip(*finals)
        return samples, FinalObservations(np.array(T_idxs), np.array(B_idxs), np.stack(observation))

    def _break(self, rows: list[list[dict[str, Any]]], void: Any, t: int, b: int) -> None:
        """Void the episode of row t, unless it has ended."""
        if rows[t][b]["done"]:
            return
        self.begins[b], self.stack[b] = True, 0
        while t >= 0 and not rows[t][b]["done"]:
            rows[t][b], void[t, b] = self._void(), True
            t -= 1

    def restart(self) -> None:
        """Start all episodes again, though none of the last steps was done."""
        self.begins[:] = True
        self.stack[:] = 0

    def _void(self) -> dict[str, Any]:
        return {k: np.zeros_like(v) for k, v in self.example.items()} | {"done": np.bool_(True)}

    def _step(self, t: int, b: int, finals: list[tuple[int, int, Any]]) -> dict[str, Any]:
        stack, rng = self.stack[b], self.rng
        stack[:-1] = stack[1:]
        stack[-1] = 100 * (self.rows + t) + b + 1
        if self.begins[b] and self.older != "continues":
            stack[:-1] = stack[-1] if self.older == "copies" else 0
        done, cut = rng.random() < self.p_done, rng.random() < self.p_cut
        self.begins[b] = done or cut
        if cut and not done:
            finals.append((t, b, np.append(stack[1:], -stack[-1]).astype(np.float32)))
        return {
            "observation": stack.copy(),
            "action": rng.random(2).astype(np.float32),
            "reward": np.float32(rng.integers(-9, 9)),
            "done": np.bool_(done or cut),
            "timeout": np.bool_(cut and not done),
            "prev_rnn_state": rng.random((1, 3)).astype(np.float32),
        }


class PlainReplay:
    """Replay that keeps all rows in lists; row numbers count from the first row ever.

    Args:
        T, B: capacity of the compared replay in rows, and number of environments.
        n: rewards in a return.
        discount: gamma.
        before: number of older rows that a sample needs.
        null_action: previous action at the start of an episode.
    """

    def __init__(
        self, T: int, B: int, n: int, discount: float, before: int, null_action: Any = 0
    ) -> None:
        self.T, self.B, self.n, self.discount, self.before = T, B, n, discount, before
        self.null_action = null_action
        self.most = 0  # largest number of rows so far; `interrupt` removes some
        self.rows: list[list[dict[str, Any]]] = []
        self.finals: dict[tuple[int, int], Any] = {}

    def append(self, samples: Any, final: Any) -> None:
        """Append the result of ``Episodes.steps``."""
        start = len(self.rows)
        for t in range(len(samples.reward)):
            self.rows.append([{k: v[t, b] for k, v in samples.items()} for b in range(self.B)])
        if final is not None:
            for t, b, observation in zip(final.T_idxs, final.B_idxs, final.observation):
                self.finals[start + int(t), int(b)] = observation
        self.most = max(self.most, len(self.rows))

    def interrupt(self, every: int = 1) -> None:
        """Truncate all episodes before the last row that is a multiple of ``every``; remove it."""
        if not self.rows or all(step["done"] for step in self.rows[-1]):
            return
        cut = (len(self.rows) - 1) // every * every
        after = self.rows[cut]
        del self.rows[cut:]
        self.finals = {key: value for key, value in self.finals.items() if key[0] < cut}
        for b, step in enumerate(self.rows[-1] if cut else ()):
            if not step["done"]:
                step["done"], step["timeout"] = True, True
                self.finals[cut - 1, b] = after[b]["observation"]

    def place_of(self, observation: Any) -> tuple[int, int]:
        """Return (row, environment) of an observation, read from its last frame."""
        places = range(len(self.rows)), range(self.B)
        number = float(np.asarray(observation)[-1])
        for t, b in itertools.product(*places):
            if self.rows[t][b]["observation"][-1] == number:
                return t, b
        raise LookupError(f"no row has a frame {number}.")

    def valid(self, after: int) -> range:
        """Return the rows at which a sample with ``after`` further rows can start."""
        written = len(self.rows)
        return range(max(0, self.most - self.T) + self.before, max(0, written - after))

    def prev(self, t: int, b: int) -> tuple[Any, Any]:
        """Return previous action and reward, null at the start of an episode."""
        before = self.rows[t - 1][b]
        if before["done"]:
            return np.full_like(before["action"], self.null_action), 0 * before["reward"]
        return before["action"], before["reward"]

    def target(self, t: int, b: int) -> Target:
        """Return the targets of row t of environment b."""
        return_ = 0.0
        for k in range(self.n):
            step = self.rows[t + k][b]
            return_ += self.discount**k * float(step["reward"])
            if step["done"]:
                timeout_n = bool(step.get("timeout", False))
                final = self.finals.get((t + k, b))
                if final is None:
                    return Target(return_, True, 0.0, timeout_n, None)
                inputs = (final, step["action"], step["reward"])
                return Target(return_, False, self.discount ** (k + 1), timeout_n, inputs)
        step, after = self.rows[t + self.n - 1][b], self.rows[t + self.n][b]
        inputs = (after["observation"], step["action"], step["reward"])
        return Target(return_, False, self.discount**self.n, False, inputs)
