"""``check_replay``: whether a replay gives back what went in, and nothing else."""

import pickle
from collections.abc import Collection
from typing import Any

import numpy as np

from rlpyt.errors import ReplayNotReady
from rlpyt.testing.plain_replay import Episodes, PlainReplay
from rlpyt.testing.report import Report, Stop
from rlpyt.testing.trees import difference
from rlpyt.utils.buffer import numpify_buffer
from rlpyt.utils.serialize import loads

CHECKS = {
    "construction": "takes example, size, B, discount and n_step_return by name",
    "not-ready": "an empty replay refuses to sample, with ReplayNotReady",
    "held": "what is sampled is held, with all that it needs before and after it",
    "inputs": "observations, actions and rewards are those of the row; null where episodes begin",
    "targets": "return_, done_n, discount_n and what follows the window are exact",
    "final-observation": "windows that reach a time limit end with what was seen there",
    "coverage": "every row that can be sampled is",
    "seeding": "same seed, same batches; another seed, others",
    "ticket": "priorities reach the rows of their batch, and rows overwritten since are left alone",
    "is-weights": "(p / the least p of the batch) ** -beta, by the priorities drawn",
    "zero-priority": "rows of priority zero are not drawn",
    "state": "load_state_dict(state_dict()) goes on exactly, where it is offered",
    "pickle": "the replay can be pickled with what it holds",
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
    """Examine a replay beside plain lists, over several times its size.

    Steps are of two environments, with observations that are stacks of three numbered frames, so
    that both ways of storing them fit; some episodes terminate, others are cut off.

    >>> from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
    >>> from rlpyt.testing import check_replay
    >>> check_replay(UniformReplayBuffer).ok
    True

    Args:
        ReplayCls: class of the replay, or a function with the same arguments.
        n_step_return: rewards in a return.
        size: transitions that the replay holds.
        seed: of steps and draws.
        skip: names of checks (``rlpyt.testing.replay.CHECKS``) whose findings you know better:
            "inputs" and "targets" where yours changes observations on purpose, "coverage" where it
            leaves rows out on purpose.
        kwargs: further arguments of the replay, such as ``batch_T`` and ``rnn_state_interval``.

    Returns:
        The report, if there are no errors.

    Raises:
        ConformanceError: with all findings.
        ValueError: ``skip`` has an unknown name.
    """
    settings = {"size": size, "n_step_return": n_step_return, **kwargs}
    return examine_replay(ReplayCls, settings, seed, skip).conclude()


def examine_replay(
    ReplayCls: Any, settings: dict[str, Any], seed: int = 0, skip: Collection[str] = ()
) -> Report:
    """As `check_replay`, but errors are left in the report."""
    name = getattr(ReplayCls, "__name__", None) or type(ReplayCls).__name__
    report = Report(f"check_replay({name})", CHECKS, skip)
    case = _Case(ReplayCls, settings, seed, report)
    if not report.run("construction", case.check_construction):
        return report
    report.run("not-ready", case.check_empty)
    if not report.run("held inputs targets final-observation coverage", case.check_contents):
        return report
    report.run("seeding", case.check_seeding)
    if case.prioritized:
        report.run("ticket", case.check_ticket)
        report.run("is-weights", case.check_is_weights)
        report.run("zero-priority", case.check_zero)
    if hasattr(case.replay, "state_dict"):
        report.run("state", case.check_state)
    if not getattr(case.replay, "async_", False):  # shared memory travels to children only
        report.run("pickle", case.check_pickle)
    return report


class _Case:
    """One replay under examination, with the lists that it is compared with."""

    def __init__(self, ReplayCls: Any, settings: dict[str, Any], seed: int, report: Report) -> None:
        self.ReplayCls, self.settings, self.seed, self.report = ReplayCls, settings, seed, report
        self.prioritized = False
        self.replay: Any = None

    def make(self, seed: int | None = None) -> tuple[Any, Episodes]:
        """A new replay and the steps to fill it with."""
        name = getattr(self.ReplayCls, "__name__", "")
        timeout = bool(getattr(self.ReplayCls, "time_limits", "Tl" in name))
        rnn = self.settings.get("rnn_state_interval", 0) > 0
        episodes = Episodes(B, C, seed=self.seed, timeout=timeout, rnn=rnn)
        replay = self.ReplayCls(example=episodes.example, B=B, discount=DISCOUNT, **self.settings)
        if hasattr(replay, "set_seed"):
            replay.set_seed(self.seed if seed is None else seed)
        return replay, episodes

    def check_construction(self) -> None:
        self.replay, _ = self.make()

    def check_empty(self) -> None:
        try:
            self.make()[0].sample_batch(4)
        except ReplayNotReady:
            return
        except Exception as error:
            self._error(
                "not-ready",
                f"an empty replay raised {type(error).__name__}: {error}",
                "raise rlpyt.errors.ReplayNotReady.",
            )
            return
        self._error(
            "not-ready",
            "sample_batch(4) of an empty replay gave a batch",
            "raise rlpyt.errors.ReplayNotReady.",
        )

    def check_contents(self) -> None:
        self.replay, episodes = self.make()
        n, T = self.settings["n_step_return"], -(-self.settings["size"] // B)
        T = int(getattr(self.replay, "T", T))
        before = int(getattr(self.replay, "off_forward", 1))
        plain = PlainReplay(T, B, n, DISCOUNT, before)
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
        self._check_coverage(plain)

    def _compare(self, plain: PlainReplay, batch: Any) -> list[tuple[int, int]]:
        """Compare every sample of a batch; returns the (row, environment) that they are of."""
        sequences = "all_observation" in batch._fields
        newest = batch.all_observation[0] if sequences else batch.agent_inputs.observation
        if newest.shape[1:] != (C,):
            self._error(
                "inputs",
                f"observations are {list(newest.shape)}, due [{len(newest)}, {C}]",
                "return them as they came.",
            )
            raise Stop
        after = plain.n + (len(batch.return_) - 1 if sequences else 0)
        rows = [(int(x) // 100, int(x) % 100) for x in np.abs(newest[:, -1]) - 1]
        for i, (t, b) in enumerate(rows):
            if t not in plain.valid(after) or not 0 <= b < B:
                self._error(
                    "held",
                    f"row {t} of environment {b} came; {plain.valid(after)} can be given.",
                    "leave out rows whose neighbours are overwritten or not yet written.",
                )
                raise Stop
            compare = self._compare_sequence if sequences else self._compare_transition
            compare(plain, batch, i, t, b)
        return rows

    def _compare_transition(self, plain: PlainReplay, batch: Any, i: int, t: int, b: int) -> None:
        step, (prev_action, prev_reward) = plain.rows[t][b], plain.prev(t, b)
        self._same(
            "inputs", t, b, "observation", batch.agent_inputs.observation[i], step["observation"]
        )
        self._same("inputs", t, b, "prev_action", batch.agent_inputs.prev_action[i], prev_action)
        self._same("inputs", t, b, "prev_reward", batch.agent_inputs.prev_reward[i], prev_reward)
        self._same("inputs", t, b, "action", batch.action[i], step["action"])
        self._same("inputs", t, b, "done", batch.done[i], step["done"])
        target = self._compare_targets(plain, batch, i, t, b)
        if target.inputs is not None:
            ends = any(plain.rows[t + k][b]["done"] for k in range(plain.n))
            check = "final-observation" if ends else "targets"
            for name, given, due in zip(
                batch.target_inputs._fields, batch.target_inputs, target.inputs
            ):
                self._same(check, t, b, f"target_inputs.{name}", given[i], due)

    def _compare_sequence(self, plain: PlainReplay, batch: Any, i: int, t: int, b: int) -> None:
        for k in range(len(batch.all_reward)):
            step, before = plain.rows[t + k][b], plain.rows[t + k - 1][b]
            action, reward = plain.prev(t, b) if k == 0 else (before["action"], before["reward"])
            self._same(
                "inputs",
                t + k,
                b,
                "all_observation",
                batch.all_observation[k, i],
                step["observation"],
            )
            self._same("inputs", t + k, b, "all_action", batch.all_action[k, i], action)
            self._same("inputs", t + k, b, "all_reward", batch.all_reward[k, i], reward)
        for k in range(len(batch.return_)):
            self._compare_targets(plain, batch, (k, i), t + k, b)
        if batch.init_rnn_state is not None:
            self._same(
                "inputs",
                t,
                b,
                "init_rnn_state",
                batch.init_rnn_state[i],
                plain.rows[t][b]["prev_rnn_state"],
            )

    def _compare_targets(self, plain: PlainReplay, batch: Any, i: Any, t: int, b: int) -> Any:
        target = plain.target(t, b)
        self._same("targets", t, b, "return_", batch.return_[i], target.return_)
        self._same("targets", t, b, "done_n", batch.done_n[i], target.done_n)
        discount_n = getattr(batch, "discount_n", None)
        if discount_n is not None:
            self._same("targets", t, b, "discount_n", discount_n[i], target.discount_n)
        return target

    def _check_coverage(self, plain: PlainReplay) -> None:
        seen: set[tuple[int, int]] = set()
        for _ in range(60):
            batch = numpify_buffer(self.replay.sample_batch(64))
            seen.update(self._compare(plain, batch))
        sequences = "all_observation" in batch._fields
        after = plain.n + (len(batch.return_) - 1 if sequences else 0)
        every = max(1, self.settings.get("rnn_state_interval", 1))
        due = {(t, b) for t in plain.valid(after) if t % every == 0 for b in range(B)}
        if due - seen:
            self._error(
                "coverage",
                f"rows {sorted(due - seen)[:5]} never came in 3840 draws",
                'give every valid row its share, or pass skip=["coverage"] if the rule leaves rows '
                "out on purpose.",
            )

    def check_seeding(self) -> None:
        first, same, other = (self._batches(*self._filled(s)) for s in (None, None, self.seed + 1))
        if difference(first, same) is not None:
            self._error(
                "seeding",
                "two replays with one seed gave different batches",
                "draw from the stream that set_seed begins.",
            )
        if difference(first, other) is None:
            self._error(
                "seeding",
                "another seed gave the same batches",
                "draw from the stream that set_seed begins.",
            )

    def check_ticket(self) -> None:
        replay, episodes = self._filled()
        batch = replay.sample_batch(16)
        replay.append_samples(*episodes.steps(replay.T))  # everything is overwritten
        before = replay.priority_tree.leaves.copy()
        replay.update_batch_priorities(np.full(16, 1000.0), batch.ticket)
        if not np.array_equal(before, replay.priority_tree.leaves):
            self._error(
                "ticket",
                "an update changed rows written after the batch was sampled",
                "pass the ticket on, and skip what is no longer held.",
            )
        first, second = replay.sample_batch(16), replay.sample_batch(16)
        replay.update_batch_priorities(np.full(16, 7.0), first.ticket)
        replay.update_batch_priorities(np.full(16, 9.0), second.ticket)
        leaves = replay.priority_tree.leaves
        kept = np.setdiff1d(first.ticket.leaves, second.ticket.leaves)
        due = np.array([7.0, 9.0]) ** replay.alpha
        if not (
            np.allclose(leaves[kept], due[0]) and np.allclose(leaves[second.ticket.leaves], due[1])
        ):
            self._error(
                "ticket",
                "after sample, sample, update, update: rows of the wrong batch changed",
                "let each batch carry a ticket of its own.",
            )

    def check_is_weights(self) -> None:
        replay, _ = self._filled()
        batch = replay.sample_batch(64)
        replay.update_batch_priorities(np.linspace(0.1, 3.0, 64), batch.ticket)
        for beta in (replay.beta, 1.0, 0.0):
            replay.set_beta(beta)
            batch = replay.sample_batch(32)
            drawn = replay.priority_tree.leaves[batch.ticket.leaves]
            due = (drawn / drawn.min()) ** -beta
            given = np.asarray(batch.is_weights)
            if given.shape != due.shape or not np.allclose(given, due, rtol=1e-4):
                self._error(
                    "is-weights",
                    f"with beta={beta:g} they begin with {given[:3]}, due is {due[:3]}",
                    "weigh with (p / min p) ** -beta, p the priorities of the rows drawn, to the "
                    "alpha.",
                )
                return

    def check_zero(self) -> None:
        replay, _ = self._filled()
        batch = replay.sample_batch(200)
        drop = batch.ticket.leaves % 2 == 0
        replay.update_batch_priorities(np.where(drop, 0.0, 1.0), batch.ticket)
        dropped = set(batch.ticket.leaves[drop])
        drawn = {leaf for _ in range(20) for leaf in replay.sample_batch(64).ticket.leaves}
        if dropped & drawn:
            self._error(
                "zero-priority",
                f"leaves {sorted(dropped & drawn)[:5]} were drawn",
                "never return a leaf whose value is zero.",
            )

    def check_state(self) -> None:
        replay, episodes = self._filled()
        copy, same = self._filled(self.seed + 5)
        copy.load_state_dict(replay.state_dict())
        self._go_on_alike("state", (replay, episodes), (copy, same))

    def check_pickle(self) -> None:
        replay, episodes = self._filled()
        copy, same = loads(pickle.dumps((replay, episodes)))
        self._go_on_alike("pickle", (replay, episodes), (copy, same))

    def _go_on_alike(self, check: str, *pairs: Any) -> None:
        first, second = (self._batches(*pair) for pair in pairs)
        found = difference(first, second)
        if found is not None:
            self._error(
                check,
                f"batches differ afterwards: {found}",
                "keep everything that decides the next batch.",
            )

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

    def _same(self, check: str, t: int, b: int, name: str, given: Any, due: Any) -> None:
        if not np.allclose(given, due, rtol=1e-5, atol=1e-5):
            self._error(
                check,
                f"{name} of row {t}, environment {b} is {given}, due is {due}",
                f"compare what your parts do to {name}.",
            )

    def _error(self, check: str, what: str, mend: str) -> None:
        self.report.error(check, what, mend)
