"""What is asked of batches alone: rows of their own, resets of some, actions that are checked."""

import copy
from typing import Any

import numpy as np

from rlpyt.testing.bench import Bench
from rlpyt.testing.repeats import fingerprint
from rlpyt.testing.rows import Run, first_difference, moment_difference, only, play, start
from rlpyt.testing.trees import difference, stacked
from rlpyt.utils.buffer import buffer_func, leaves_of

COMPARED = 20  # steps after a reset of some rows
ENOUGH, MOST_ATTEMPTS = 2, 5  # ends of episodes
AFTER = 8  # steps that must be alike after two resets within an episode, to compare with its end


def check_rows(bench: Bench) -> None:
    """The same seeds in another order give the same rows in that order."""
    if bench.n == 1:
        bench.report.open("rows", "there is one row only; check with more")
        return
    order = [*range(1, bench.n), 0]
    seeds = [bench.seeds()[row] for row in order]
    rows = bench.rows(seeds)

    def actions(t: int) -> list[Any]:
        return [bench.actions(t)[row] for row in order]

    run = play(rows, start(rows), actions, bench.short)
    found = first_difference(bench.reference, run, order, info=bench.same_info)
    if not found:
        return
    early = Run(run.first, run.moments[:COMPARED])
    if first_difference(bench.reference, early, order, close=True, info=bench.same_info) is None:
        bench.report.note("rows", f"a row's place changes its rounding: {found}")
        return
    bench.report.error(
        "rows",
        f"the same seeds in another order gave other episodes: {found}",
        "give every row its own random generator, seeded with its own seed; a generator for all "
        "makes a row depend on what its neighbours do.",
    )


def check_reset_rows(bench: Bench) -> None:
    """Resets of some rows, of none, and in any order."""
    empty = bench.rows(bench.seeds())
    start(empty)
    nothing = empty.env.reset_rows(np.zeros(0, np.int64))
    if any(np.shape(leaf)[:1] != (0,) for leaf in leaves_of(nothing)):
        bench.report.error(
            "reset-rows",
            f"reset_rows([]) returned {nothing!r:.60}",
            "return leaves [0, ...] for no rows.",
        )
    if bench.n == 1:
        return
    _check_order(bench)
    u = next((t + 1 for t, at in enumerate(bench.reference.moments) if not at[0].over), 0)
    T = min(u + COMPARED, len(bench.reference.moments))
    others = range(1, bench.n)
    run = bench.replay(T, {u: [0]})
    found = first_difference(only(bench.reference, others), only(run, others), info=bench.same_info)
    if found:
        bench.report.error(
            "reset-rows",
            f"after reset_rows([0]) before step {u}, another row changed "
            f"(rows counted from row 1): {found}",
            "start the rows asked for and leave the others, their random generators included.",
        )


def _check_order(bench: Bench) -> None:
    a, b = bench.rows(bench.seeds()), bench.rows(bench.seeds())
    start(a), start(b)
    last = bench.n - 1
    down, up = a.reset_rows([last, 0]), b.reset_rows([0, last])
    found = difference(down[0], up[1]) or difference(down[1], up[0])
    if found:
        bench.report.error(
            "reset-rows",
            f"reset_rows([{last}, 0]) and reset_rows([0, {last}]) start the rows differently, or "
            f"return them in the same order: {found}",
            "return observations in the order of the rows asked for.",
        )


def check_waiting_rows(bench: Bench) -> None:
    """A row that is over, and not reset, waits; the others go on."""
    steps = len(bench.reference.moments)
    end = next(((t, row) for t, row in bench.reference.ends() if t + 1 < steps), None)
    if end is None:
        bench.report.open("waiting-rows", "no episode ended")
        return
    t, row = end
    rows = bench.rows(bench.seeds())
    play(rows, start(rows), bench.actions, t)
    over = [b for b, moment in enumerate(rows.step(bench.actions(t))) if moment.over]
    rows.reset_rows([b for b in over if b != row])
    at = rows.step(bench.actions(t + 1))
    waiting = at[row]
    if waiting.reward != 0 or not waiting.done or not waiting.over or waiting.info.timeout:
        bench.report.error(
            "waiting-rows",
            f"stepped on without reset_rows, row {row} showed reward {waiting.reward}, done "
            f"{waiting.done}, traj_done {waiting.over}, timeout {bool(waiting.info.timeout)}",
            "until reset_rows, let a row that is over show reward 0, done and traj_done, and no "
            "timeout.",
        )
    for b in set(range(bench.n)) - {row}:
        own = bench.reference.moments[t + 1][b]._replace(first=None)
        found = moment_difference(own, at[b], info=bench.same_info)
        if found:
            bench.report.error(
                "waiting-rows",
                f"while row {row} waited, row {b} went another way: {found}",
                "let rows that wait have no influence on the others.",
            )
    rows.reset_rows([row])
    rows.step(bench.actions(t + 2))


def check_autoreset(bench: Bench) -> None:
    """The step after an episode's end is as real as the one after a reset within an episode.

    A batch that resets at the step after the end, and says that it does not, ignores that step's
    action and shows a first observation instead. Where steps themselves draw random numbers the
    two cannot be compared.
    """
    moments = bench.reference.moments
    found: list[str | None] = []  # of every end that can be compared
    attempts = 0
    for t, row in bench.reference.ends():
        begun = _beginning(bench.reference, t, row)
        if t == begun or t + 1 == len(moments):
            continue
        if len(found) == ENOUGH or attempts == MOST_ATTEMPTS:
            break
        attempts += 1
        late, early = _after_reset(bench, t, row, t), _after_reset(bench, t, row, begun)
        first, step = moments[t][row].first, moments[t + 1][row]
        if _unlike(late, early) or difference(first, late[0]):
            continue  # steps draw random numbers
        said = moment_difference(step, late[1], info=False)
        found.append(said and f"row {row}, over after step {t}: {said}")
    if not found:
        bench.report.open("autoreset", "no episode's end could be compared with a reset within one")
    elif all(found):
        bench.report.error(
            "autoreset",
            "the step after an episode's end and reset_rows is another than after a reset just "
            f"before the end: {found[0]}",
            "let the step after reset_rows be an ordinary one. A batch of gymnasium's kind must "
            "declare in metadata['autoreset_mode'] when it really resets.",
        )


def _beginning(run: Run, t: int, row: int) -> int:
    """The step with which the episode began that step t ended."""
    while t > 0 and not run.moments[t - 1][row].over:
        t -= 1
    return t


def _after_reset(bench: Bench, t: int, row: int, u: int) -> list[Any]:
    """Reset a row before step u and give it then the actions that follow step t."""

    def actions(now: int) -> list[Any]:
        chosen = bench.actions(now)
        if now >= u:
            chosen[row] = bench.actions(t + 1 + now - u)[row]
        return chosen

    rows = bench.rows(bench.seeds())
    run = play(rows, start(rows), actions, u + AFTER, {u: [row]})
    return [run.before(u, row), *(run.moments[u + i][row] for i in range(AFTER))]


def _unlike(a: list[Any], b: list[Any]) -> bool:
    """Whether two beginnings differ: first observations, then moments."""
    return bool(difference(a[0], b[0])) or any(
        moment_difference(own, other, info=False) for own, other in zip(a[1:], b[1:], strict=True)
    )


def check_actions_are_checked(bench: Bench) -> None:
    """Batches of the wrong size or kind are refused before anything happens."""
    rows = bench.rows(bench.seeds())
    run = start(rows)
    good = stacked(bench.actions(0))
    accepted = False
    for what, action in _wrong_actions(rows.env.action_space, good):
        try:
            rows.env.step(action)
        except (ValueError, TypeError):
            continue
        except Exception as error:
            said = f"raised {type(error).__name__}: {error}"
        else:
            accepted, said = True, "was stepped"
        bench.report.error(
            "action-check",
            f"{what}: {said}",
            "check actions first (rlpyt.envs.vector.actions.action_check): ValueError for a wrong "
            "batch size or value, TypeError for another kind. Native code hangs or worse.",
        )
        if accepted:
            return
    play(rows, run, bench.actions, 1)
    found = first_difference(bench.reference, run, info=bench.same_info)
    if found:
        bench.report.error(
            "action-check",
            f"after actions were refused, it went another way: {found}",
            "check the whole batch before the first row is stepped.",
        )


def _wrong_actions(space: Any, good: Any) -> list[tuple[str, Any]]:
    more = buffer_func(good, lambda leaf: np.concatenate([leaf, leaf[:1]]))
    wrong = [("a batch with one row too many", more)]
    if isinstance(good, tuple):
        return wrong
    if good.dtype.kind == "f":
        bad = good.copy()
        bad[-1] = np.nan
        wrong.append(("an action that is NaN", bad))
        if np.isfinite(np.max(space.high)):
            wrong.append(("an action beyond the bounds", np.full_like(good, 2) * space.high + 1))
    elif good.dtype.kind in "iu":
        wrong.append(("fractions as discrete actions", good.astype(np.float32) + 0.5))
        beyond = good.astype(np.int64)
        beyond[-1] = np.max(space.high) + 1
        wrong.append(("an action beyond the last", beyond))
    return wrong


def check_statistics(bench: Bench) -> None:
    """Statistics go into another batch, and stay when frozen."""
    rows = bench.rows(bench.seeds())
    if not hasattr(rows.env, "statistics"):
        return
    play(rows, start(rows), bench.actions, COMPARED)
    learnt = copy.deepcopy(rows.env.statistics())
    if not learnt:
        return
    other = bench.rows(bench.seeds(1))
    other.env.load_statistics(copy.deepcopy(learnt))
    if fingerprint(other.env.statistics()) != fingerprint(learnt):
        bench.report.error(
            "statistics",
            "load_statistics(statistics()) does not give the same statistics",
            "take over everything that statistics() returned.",
        )
    other.env.freeze()
    play(other, start(other), bench.actions, COMPARED)
    if fingerprint(other.env.statistics()) != fingerprint(learnt):
        bench.report.error(
            "statistics",
            "after freeze() the statistics go on changing",
            "learn nothing while frozen: evaluation uses the training's statistics.",
        )


BY_ROWS = {
    "rows": check_rows,
    "reset-rows": check_reset_rows,
    "waiting-rows": check_waiting_rows,
    "autoreset": check_autoreset,
    "action-check": check_actions_are_checked,
}
