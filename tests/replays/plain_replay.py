"""A replay as plain lists and loops: slow, and easy to believe. What the real ones must equal."""

import numpy as np

from rlpyt.replays.batch import FinalObservations
from rlpyt.utils.collections import namedarraytuple


class Episodes:
    """Steps of B environments with episodes that terminate or are cut off, from one seed.

    Observations are [C] stacks of frames, each frame the number 100 * row + b + 1. Where an episode
    begins, older frames are "zeros", "copies" of the first, or the stack "goes on". With C = 1 this
    is a plain number.
    """

    def __init__(
        self, B, C=1, p_done=0.2, p_cut=0.1, seed=0, rnn=False, timeout=False, older="zeros"
    ):
        self.older = older
        self.begins = np.ones(B, bool)
        self.B, self.C, self.p_done, self.p_cut = B, C, p_done, p_cut
        self.rng = np.random.default_rng(seed)
        fields = ["observation", "action", "reward", "done"]
        fields += ["timeout"] * timeout + ["prev_rnn_state"] * rnn
        self.Samples = namedarraytuple("SamplesToBuffer", fields)
        self.stack = np.zeros((B, C), np.float32)
        self.rows = 0

    @property
    def example(self):
        known = dict(
            observation=np.zeros(self.C, np.float32),
            action=np.zeros(2, np.float32),
            reward=np.float32(0),
            done=np.bool_(False),
            timeout=np.bool_(False),
            prev_rnn_state=np.zeros((1, 3), np.float32),
        )
        return self.Samples(*(known[name] for name in self.Samples._fields))

    def steps(self, T):
        """Samples [T, B], and the final observations of episodes that were cut off."""
        rows = []
        finals = []
        for t in range(T):
            row = []
            for b in range(self.B):
                self._see(b)
                done, cut = self.rng.random() < self.p_done, self.rng.random() < self.p_cut
                row.append(
                    dict(
                        observation=self.stack[b].copy(),
                        action=self.rng.random(2).astype(np.float32),
                        reward=np.float32(self.rng.integers(-9, 9)),
                        done=np.bool_(done or cut),
                        timeout=np.bool_(cut and not done),
                        prev_rnn_state=self.rng.random((1, 3)).astype(np.float32),
                    )
                )
                if row[-1]["timeout"]:
                    final = np.append(self.stack[b, 1:], -row[-1]["observation"][-1])
                    finals.append((t, b, final.astype(np.float32)))
                self.begins[b] = row[-1]["done"]
            self.rows += 1
            rows.append(row)
        samples = self.Samples(
            *(np.array([[x[name] for x in row] for row in rows]) for name in self.Samples._fields)
        )
        if not finals:
            return samples, None
        T_idxs, B_idxs, observation = zip(*finals)
        return samples, FinalObservations(np.array(T_idxs), np.array(B_idxs), np.stack(observation))

    def _see(self, b):
        self.stack[b, :-1] = self.stack[b, 1:]
        self.stack[b, -1] = 100 * self.rows + b + 1
        if self.begins[b] and self.older != "goes on":
            self.stack[b, :-1] = self.stack[b, -1] if self.older == "copies" else 0


class PlainReplay:
    """All rows ever, in lists; row numbers count from the first."""

    def __init__(self, T, B, n, discount, before):
        self.T, self.B, self.n, self.discount, self.before = T, B, n, discount, before
        self.rows, self.finals = [], {}

    def append(self, samples, final):
        start = len(self.rows)
        for t in range(len(samples.reward)):
            self.rows.append([{k: v[t, b] for k, v in samples.items()} for b in range(self.B)])
        if final is not None:
            for t, b, observation in zip(final.T_idxs, final.B_idxs, final.observation):
                self.finals[start + int(t), int(b)] = observation

    def valid(self, after):
        """Rows at which something with ``after`` further rows can be cut out."""
        written = len(self.rows)
        return range(max(0, written - self.T) + self.before, max(0, written - after))

    def prev(self, t, b):
        """Previous action and reward, null where an episode begins."""
        before = self.rows[t - 1][b]
        scale = 0 if before["done"] else 1
        return before["action"] * scale, before["reward"] * scale

    def target(self, t, b):
        """(return, done_n, discount_n, timeout_n, (observation, prev action, prev reward))."""
        return_, timeout_n = 0.0, False
        for k in range(self.n):
            step = self.rows[t + k][b]
            return_ += self.discount**k * float(step["reward"])
            if step["done"]:
                timeout_n = bool(step.get("timeout", False))
                final = self.finals.get((t + k, b))
                if final is None:
                    return return_, True, 0.0, timeout_n, None
                last = (final, step["action"], step["reward"])
                return return_, False, self.discount ** (k + 1), timeout_n, last
        step, after = self.rows[t + self.n - 1][b], self.rows[t + self.n][b]
        last = (after["observation"], step["action"], step["reward"])
        return return_, False, self.discount**self.n, timeout_n, last
