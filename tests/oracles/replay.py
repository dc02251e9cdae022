"""``check_replay``: check that a replay returns what was stored, with the right targets."""

import pickle
from collections.abc import Collection
from typing import Any

import numpy as np

from rlpyt.errors import ReplayNotReady
from rlpyt.testing.report import Report
from rlpyt.testing.trees import difference
from rlpyt.utils.buffer import numpify_buffer
from rlpyt.utils.serialize import loads
from tests.oracles.plain_replay import Episodes, PlainReplay

CHECKS = {
    "construction": "takes example, size, B, discount and n_step_return by name",
    "not-ready": "sampling from an empty replay raises ReplayNotReady",
    "held": "sampled rows are held, with all rows needed before and after",
    "inputs": "observations, actions and rewards are those of the row; null where episodes begin",
    "targets": "return_, done_n, discount_n and the inputs after the window are exact",
    "final-observation": "windows that reach a time limit end with its final observation",
    "coverage": "every valid row is drawn",
    "seeding": "same seed, same batches; another seed, others",
    "ticket": "priorities reach the rows of their batch, but not rows overwritten since",
    "is-weights": "(p / the smallest p of the batch) ** -beta, by the priorities drawn",
    "zero-priority": "rows of priority zero are not drawn",
    "state": "load_state_dict(state_dict()) continues exactly, where it is offered",
    "pickle": "the replay can be pickled with its content",
}
C, B, DISCOUNT = 3, 2, 0.9


def check_replay(
    ReplayCls: Any,
    *,
    n_step_return: int = 2,
    size: int = 60,
    seed: int = 0,
    skip: Collection[str] = (),
    **kwargs: Any,
) -> Report:
    """Compare a replay with plain lists while it is overwritten several times.

    Steps are of two environments. Observations are stacks of three numbered frames, so that both
    kinds of storage fit; some episodes terminate, others are truncated.

    >>> from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
    >>> from tests.oracles.replay import check_replay
    >>> check_replay(UniformReplayBuffer).ok
    True

    Args:
        ReplayCls: class of the replay, or a function with the same arguments.
        n_step_return: rewards in a return.
        size: transitions that the replay holds.
        seed: seed of steps and draws.
        skip: names of checks (``tests.oracles.replay.CHECKS``) whose findings to leave out:
            "inputs" and "targets" if the replay changes observations on purpose, "coverage" if it
            leaves rows out on purpose.
        kwargs: further arguments of the replay, such as ``batch_T`` and ``rnn_state_interval``.

    Returns:
        The report, if there are no errors.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        ValueError: ``skip`` has an unknown name.
    """
    settings = {"size": size, "n_step_return": n_step_return, **kwargs}
    return examine_replay(ReplayCls, settings, seed, skip).conclude()


def examine_replay(
    ReplayCls: Any, settings: dict[str, Any], seed: int = 0, skip: Collection[str] = ()
) -> Report:
    """Check like `check_replay`, but return errors in the report."""
    name = getattr(ReplayCls, "__name__", None) or type(ReplayCls).__name__
    report = Report(f"check_replay({name})", CHECKS, skip)
    case = ReplayCase(ReplayCls, settings, seed, report)
    if not report.run("construction", case.check_construction):
        return report
    report.run("not-ready", case.check_empty)
    if not report.run("held inputs targets final-observation coverage", case.check_contents):
        return report
    report.run("seeding", case.check_seeding)
    if case.prioritized:
        report.run("ticket", case.check_ticket)
        report.run("is-weights", case.check_is_weights)
        report.run("zero-priority", case.check_zero_priority)
    if hasattr(case.replay, "state_dict"):
        report.run("state", case.check_state)
    if not getattr(case.replay, "async_", False):  # shared memory is sent to children only
        report.run("pickle", case.check_pickle)
    return report


class ReplayCase:
    """The replay under test, compared with plain lists."""

    def __init__(self, ReplayCls: Any, settings: dict[str, Any], seed: int, report: Report) -> None:
        self.ReplayCls, self.settings, self.seed, self.report = ReplayCls, settings, seed, report
        self.prioritized = False
        self.replay: Any = None

    def make(self, seed: int | None = None) -> tuple[Any, Episodes]:
        """Build a replay, and episodes to fill it."""
        name = getattr(self.ReplayCls, "__name__", "")
        timeout = bool(getattr(self.ReplayCls, "time_limits", "Tl" in name))
        rnn = self.settings.get("rnn_state_interval", 0) > 0
        episodes = Episodes(B, C, seed=self.seed, timeout=timeout, rnn=rnn)
        replay = self.ReplayCls(example=episodes.example, B=B, discount=DISCOUNT, **self.settings)
        if hasattr(replay, "set_seed"):
            replay.set_seed(self.seed if seed is None else seed)
        return replay, episodes

    def check_construction(self) -> None:
        """Check that the replay can be built."""
        self.replay, _ = self.make()

    def check_empty(self) -> None:
        """Check that an empty replay raises ``ReplayNotReady``."""
        text = "returned a batch"
        try:
            self.make()[0].sample_batch(4)
        except ReplayNotReady:
            return
        except Exception as error:
            text = f"raised {type(error).__name__}: {error}"
        text = f"sample_batch(4) of an empty replay {text}"
        self.report.error(text, "raise rlpyt.errors.ReplayNotReady.")

    def check_contents(self) -> None:
        """Compare batches with plain lists while the replay is filled and overwritten."""
        self.replay, episodes = self.make()
        n, T = self.settings["n_step_return"], -(-self.settings["size"] // B)
        T = int(getattr(self.replay, "T", T))
        plain = PlainReplay(T, B, n, DISCOUNT, int(getattr(self.replay, "off_forward", 1)))
        rng = np.random.default_rng(self.seed)
        while len(plain.rows) < 3 * T:
            steps = episodes.steps(int(rng.integers(1, 8)))
            self.replay.append_samples(*steps)
            plain.append(*steps)
            try:
                batch = self.replay.sample_batch(8)
            except ReplayNotReady:
                continue
            self.prioritized = "is_weights" in batch._fields
            self._compare(plain, numpify_buffer(batch))
        seen: set[tuple[int, int]] = set()
        # 16 draws for each row: a valid row is missed with a probability of about 1e-7.
        n_batches = max(16, self.settings["size"] // 4)
        for _ in range(n_batches):
            batch = numpify_buffer(self.replay.sample_batch(64))
            seen.update(self._compare(plain, batch))
        every = max(1, self.settings.get("rnn_state_interval", 1))
        valid = plain.valid(_rows_after(plain, batch))
        missing = sorted({(t, b) for t in valid if t % every == 0 for b in range(B)} - seen)
        self.report.expect(
            not missing,
            f"rows {missing[:5]} were never drawn in {64 * n_batches} draws",
            'draw every valid row, or pass skip=["coverage"] if this is on purpose.',
            check="coverage",
        )

    def _compare(self, plain: PlainReplay, batch: Any) -> list[tuple[int, int]]:
        """Compare every sample of a batch; return their (row, environment)."""
        sequences = "all_observation" in batch._fields
        newest = batch.all_observation[0] if sequences else batch.agent_inputs.observation
        self.report.expect(
            newest.shape[1:] == (C,),
            f"observations are {list(newest.shape)}, expected [{len(newest)}, {C}]",
            "return observations as they were stored.",
            stop=True,
            check="inputs",
        )
        valid = plain.valid(_rows_after(plain, batch))
        rows = [(int(x) // 100, int(x) % 100) for x in np.abs(newest[:, -1]) - 1]
        for i, (t, b) in enumerate(rows):
            self.report.expect(
                t in valid and 0 <= b < B,
                f"row {t} of environment {b} was drawn; valid are {valid}",
                "leave out rows whose neighbors are overwritten or not written yet.",
                stop=True,
            )
            compared = _sequence if sequences else _transition
            for check, row, name, given, expected in compared(plain, batch, i, t, b):
                if not _near(given, expected):
                    self.report.error(
                        f"{name} of row {row}, environment {b} is {given}, expected {expected}",
                        f"check how the replay's parts compute {name}.",
                        check=check,
                    )
        return rows

    def check_seeding(self) -> None:
        """Check that equal seeds give equal batches, and others do not."""
        first, same, other = (self._batches(*self._filled(s)) for s in (None, None, self.seed + 1))
        for ok, what in (
            (difference(first, same) is None, "two replays with one seed gave different batches"),
            (difference(first, other) is not None, "another seed gave the same batches"),
        ):
            self.report.expect(ok, what, "draw from the generator of set_seed only.")

    def check_ticket(self) -> None:
        """Check that priorities reach the rows of their batch and no others."""
        replay, episodes = self._filled()
        batch = replay.sample_batch(16)
        replay.append_samples(*episodes.steps(replay.T))  # everything is overwritten
        before = replay.priority_tree.leaves.copy()
        replay.update_batch_priorities(np.full(16, 1000.0), batch.ticket)
        self.report.expect(
            np.array_equal(before, replay.priority_tree.leaves),
            "an update changed rows written after the batch was sampled",
            "use the ticket, and skip rows that are no longer held.",
        )
        first, second = replay.sample_batch(16), replay.sample_batch(16)
        replay.update_batch_priorities(np.full(16, 7.0), first.ticket)
        replay.update_batch_priorities(np.full(16, 9.0), second.ticket)
        leaves = replay.priority_tree.leaves
        kept = np.setdiff1d(first.ticket.leaves, second.ticket.leaves)
        own, other = np.array([7.0, 9.0]) ** replay.alpha
        self.report.expect(
            np.allclose(leaves[kept], own) and np.allclose(leaves[second.ticket.leaves], other),
            "after sample, sample, update, update: rows of the wrong batch changed",
            "give each batch its own ticket.",
        )

    def check_is_weights(self) -> None:
        """Compare importance-sampling weights with their definition."""
        replay, _ = self._filled()
        batch = replay.sample_batch(64)
        replay.update_batch_priorities(np.linspace(0.1, 3.0, 64), batch.ticket)
        for beta in (replay.beta, 1.0, 0.0):
            replay.set_beta(beta)
            batch = replay.sample_batch(32)
            drawn = replay.priority_tree.leaves[batch.ticket.leaves]
            expected = (drawn / drawn.min()) ** -beta
            given = np.asarray(batch.is_weights)
            self.report.expect(
                given.shape == expected.shape and np.allclose(given, expected, rtol=1e-4),
                f"with beta={beta:g} they begin with {given[:3]}, expected {expected[:3]}",
                "return (p / min p) ** -beta, with p the drawn priorities to the power alpha.",
            )

    def check_zero_priority(self) -> None:
        """Check that rows of priority zero are not drawn."""
        replay, _ = self._filled()
        batch = replay.sample_batch(200)
        zero = batch.ticket.leaves % 2 == 0
        replay.update_batch_priorities(np.where(zero, 0.0, 1.0), batch.ticket)
        drawn = {leaf for _ in range(20) for leaf in replay.sample_batch(64).ticket.leaves}
        wrong = sorted(drawn & set(batch.ticket.leaves[zero]))
        what, fix = f"leaves {wrong[:5]} were drawn", "never draw a leaf whose value is zero."
        self.report.expect(not wrong, what, fix)

    def check_state(self) -> None:
        """Check that a replay with the loaded state gives the same batches."""
        replay, episodes = self._filled()
        copy, same = self._filled(self.seed + 5)
        copy.load_state_dict(replay.state_dict())
        self._expect_same("state", (replay, episodes), (copy, same))

    def check_pickle(self) -> None:
        """Check that an unpickled replay gives the same batches."""
        replay, episodes = self._filled()
        self._expect_same("pickle", (replay, episodes), loads(pickle.dumps((replay, episodes))))

    def _expect_same(self, check: str, *pairs: Any) -> None:
        first, second = (self._batches(*pair) for pair in pairs)
        what = f"batches differ afterwards: {difference(first, second)}"
        fix = "include everything that decides the next batch."
        self.report.expect(difference(first, second) is None, what, fix, check=check)

    def _filled(self, seed: int | None = None) -> tuple[Any, Episodes]:
        replay, episodes = self.make(seed)
        for _ in range(8):
            replay.append_samples(*episodes.steps(max(1, self.settings["size"] // B // 6)))
        return replay, episodes

    def _batches(self, replay: Any, episodes: Episodes) -> tuple[Any, ...]:
        batches = []
        for _ in range(4):
            replay.append_samples(*episodes.steps(3))
            batches.append(replay.sample_batch(6))
        return tuple(batches)


Compared = list[tuple[str, int, str, Any, Any]]  # check, row, name, given, expected


def _near(given: Any, expected: Any) -> bool:
    """Return True if ``np.allclose`` would, which takes several times as long."""
    given, expected = np.asarray(given, float), np.asarray(expected, float)
    return bool(np.all(np.abs(given - expected) <= 1e-5 + 1e-5 * np.abs(expected)))


def _rows_after(plain: PlainReplay, batch: Any) -> int:
    """Return how many rows after its first one a sample of this batch needs."""
    return plain.n + (len(batch.return_) - 1 if "all_observation" in batch._fields else 0)


def _transition(plain: PlainReplay, batch: Any, i: int, t: int, b: int) -> Compared:
    """Return the values of sample i to compare, which is row t of environment b."""
    step, (prev_action, prev_reward) = plain.rows[t][b], plain.prev(t, b)
    inputs = batch.agent_inputs
    compared = [
        ("inputs", t, "observation", inputs.observation[i], step["observation"]),
        ("inputs", t, "prev_action", inputs.prev_action[i], prev_action),
        ("inputs", t, "prev_reward", inputs.prev_reward[i], prev_reward),
        ("inputs", t, "action", batch.action[i], step["action"]),
        ("inputs", t, "done", batch.done[i], step["done"]),
        *_targets(plain, batch, i, t, b),
    ]
    expected = plain.target(t, b).inputs
    if expected is not None:
        ends = any(plain.rows[t + k][b]["done"] for k in range(plain.n))
        check = "final-observation" if ends else "targets"
        given = batch.target_inputs
        for name, x, y in zip(given._fields, given, expected, strict=True):
            compared.append((check, t, f"target_inputs.{name}", x[i], y))
    return compared


def _sequence(plain: PlainReplay, batch: Any, i: int, t: int, b: int) -> Compared:
    """Return the values of sequence i to compare, which starts at row t of environment b."""
    compared: Compared = []
    for k in range(len(batch.all_reward)):
        row, before = t + k, plain.rows[t + k - 1][b]
        action, reward = plain.prev(t, b) if k == 0 else (before["action"], before["reward"])
        observation = plain.rows[row][b]["observation"]
        compared += [
            ("inputs", row, "all_observation", batch.all_observation[k, i], observation),
            ("inputs", row, "all_action", batch.all_action[k, i], action),
            ("inputs", row, "all_reward", batch.all_reward[k, i], reward),
        ]
    for k in range(len(batch.return_)):
        compared += _targets(plain, batch, (k, i), t + k, b)
    if batch.init_rnn_state is not None:
        state = plain.rows[t][b]["prev_rnn_state"]
        compared.append(("inputs", t, "init_rnn_state", batch.init_rnn_state[i], state))
    return compared


def _targets(plain: PlainReplay, batch: Any, i: Any, t: int, b: int) -> Compared:
    target = plain.target(t, b)
    names = ("return_", "done_n", "discount_n")
    return [
        ("targets", t, name, getattr(batch, name)[i], getattr(target, name))
        for name in names
        if getattr(batch, name, None) is not None
    ]
