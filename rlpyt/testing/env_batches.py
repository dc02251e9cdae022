"""Checks of batches of environments: rows, partial resets, validation of actions, statistics."""

import copy
from typing import Any

import numpy as np

from rlpyt.testing.env_checks import fingerprint
from rlpyt.testing.env_runs import (
    EnvCase,
    Recording,
    first_difference,
    play,
    start,
    step_difference,
)
from rlpyt.testing.trees import difference, stacked
from rlpyt.utils.buffer import buffer_func, leaves_of

COMPARED = 20  # steps after a reset of some rows
ENOUGH, MOST_ATTEMPTS = 2, 5  # ends of episodes
AFTER = 8  # steps that must be equal after two resets within an episode, to compare with its end


def check_rows(case: EnvCase) -> None:
    """Check that the same seeds in another order give the same rows in that order."""
    if case.n == 1:
        case.report.open("there is only one row; check with more")
        return
    order = [*range(1, case.n), 0]
    seeds = [case.seeds()[row] for row in order]
    run = case.replay(seeds=seeds, actions=lambda t: [case.actions(t)[row] for row in order])
    found = first_difference(case.reference, run, order, info=case.same_info)
    early = Recording(run.first, run.steps[:COMPARED])
    if found and not first_difference(
        case.reference, early, order, close=True, info=case.same_info
    ):
        case.report.note(f"rounding depends on the row's index: {found}")
        return
    case.report.expect(
        not found,
        f"the same seeds in another order gave other episodes: {found}",
        "give every row its own generator, seeded with its own seed.",
    )


def check_reset_rows(case: EnvCase) -> None:
    """Check resets of some rows, of none, and in any order."""
    rows, expect = case.rows(), case.report.expect
    start(rows)
    nothing = rows.env.reset_rows(np.zeros(0, np.int64))
    expect(
        all(np.shape(leaf)[:1] == (0,) for leaf in leaves_of(nothing)),
        f"reset_rows([]) returned {nothing!r:.60}",
        "return leaves [0, ...] for no rows.",
    )
    if case.n == 1:
        return
    a, b, last = case.rows(), case.rows(), case.n - 1
    start(a), start(b)
    down, up = a.reset_rows([last, 0]), b.reset_rows([0, last])
    found = difference(down[0], up[1]) or difference(down[1], up[0])
    expect(
        not found,
        f"reset_rows([{last}, 0]) and reset_rows([0, {last}]) start the rows differently, or "
        f"return them in the same order: {found}",
        "return observations in the order of the given rows.",
    )
    u = next((t + 1 for t, at in enumerate(case.reference.steps) if not at[0].over), 0)
    run = case.replay(min(u + COMPARED, len(case.reference.steps)), resets={u: [0]})
    others = range(1, case.n)
    found = first_difference(case.reference.only(others), run.only(others), info=case.same_info)
    expect(
        not found,
        f"after reset_rows([0]) before step {u}, another row changed (counted from row 1): {found}",
        "reset the given rows only, and leave the others and their generators unchanged.",
    )


def check_waiting_rows(case: EnvCase) -> None:
    """Check that a row that was not reset after its episode waits, and the others continue."""
    steps = len(case.reference.steps)
    end = next(((t, row) for t, row in case.reference.ends() if t + 1 < steps), None)
    if end is None:
        case.report.open("no episode ended")
        return
    t, row = end
    rows = case.rows()
    play(rows, start(rows), case.actions, t)
    over = [b for b, step in enumerate(rows.step(case.actions(t))) if step.over]
    rows.reset_rows([b for b in over if b != row])
    at = rows.step(case.actions(t + 1))
    waiting = at[row]
    case.report.expect(
        waiting.reward == 0 and waiting.done and waiting.over and not waiting.info.timeout,
        f"stepped without reset_rows, row {row} showed reward {waiting.reward}, done "
        f"{waiting.done}, traj_done {waiting.over}, timeout {bool(waiting.info.timeout)}",
        "until reset_rows, return reward 0, done, traj_done and no timeout for such a row.",
    )
    for b in set(range(case.n)) - {row}:
        own = case.reference.steps[t + 1][b]._replace(first=None)
        found = step_difference(own, at[b], info=case.same_info)
        case.report.expect(
            not found,
            f"while row {row} waited, the run of row {b} was different: {found}",
            "do not let waiting rows influence the others.",
        )
    rows.reset_rows([row])
    rows.step(case.actions(t + 2))


def check_autoreset(case: EnvCase) -> None:
    """Check that the step after an episode's end equals the step after a reset within an episode.

    A batch that resets itself at the step after the end, without declaring it, ignores the action
    of that step and returns a first observation instead. Where steps draw random numbers the two
    cannot be compared.
    """
    recorded = case.reference.steps
    found: list[str | None] = []  # of every end that can be compared
    attempts = 0
    for t, row in case.reference.ends():
        begin = t  # the first step of the episode that step t ended
        while begin > 0 and not recorded[begin - 1][row].over:
            begin -= 1
        if t == begin or t + 1 == len(recorded):
            continue
        if len(found) == ENOUGH or attempts == MOST_ATTEMPTS:
            break
        attempts += 1
        late, early = _after_reset(case, t, row, t), _after_reset(case, t, row, begin)
        first, step = recorded[t][row].first, recorded[t + 1][row]
        steps = zip(late[1:], early[1:], strict=True)
        if difference(first, late[0]) or difference(late[0], early[0]):
            continue  # dynamics are random: not comparable
        if any(step_difference(own, other, info=False) for own, other in steps):
            continue
        text = step_difference(step, late[1], info=False)
        found.append(text and f"row {row}, over after step {t}: {text}")
    if not found:
        case.report.open("no episode's end could be compared with a reset within one")
        return
    case.report.expect(
        not all(found),
        "the step after an episode's end and reset_rows differs from the step after a reset just "
        f"before the end: {found[0]}",
        "make this step an ordinary one, or declare metadata['autoreset_mode'].",
    )


def _after_reset(case: EnvCase, t: int, row: int, u: int) -> list[Any]:
    """Reset a row before step u, then give it the actions that follow step t."""

    def actions(now: int) -> list[Any]:
        chosen = case.actions(now)
        if now >= u:
            chosen[row] = case.actions(t + 1 + now - u)[row]
        return chosen

    run = case.replay(u + AFTER, actions=actions, resets={u: [row]})
    return [run.before(u, row), *(run.steps[u + i][row] for i in range(AFTER))]


def check_action_validation(case: EnvCase) -> None:
    """Check that actions of wrong size or kind are refused before anything happens."""
    rows = case.rows()
    run = start(rows)
    for what, action in _wrong_actions(rows.env.action_space, stacked(case.actions(0))):
        stepped = False
        try:
            rows.env.step(action)
            stepped, text = True, "was stepped"
        except (ValueError, TypeError):
            continue
        except Exception as error:
            text = f"raised {type(error).__name__}: {error}"
        case.report.error(
            f"{what}: {text}",
            "check actions first (rlpyt.envs.vector.actions.action_check): ValueError for a wrong "
            "batch size or value, TypeError for another kind. Native code may hang or crash.",
        )
        if stepped:
            return
    found = case.compare(play(rows, run, case.actions, 1))
    case.report.expect(
        not found,
        f"after actions were refused, its run was different: {found}",
        "check the whole batch before stepping the first row.",
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
            beyond = np.zeros_like(good) + space.high + np.abs(space.high) + 1
            wrong.append(("an action beyond the bounds", beyond))
    elif good.dtype.kind in "iu":
        wrong.append(("fractions as discrete actions", good.astype(np.float32) + 0.5))
        beyond = good.astype(np.int64)
        beyond[-1] = np.max(space.high) + 1
        wrong.append(("an action beyond the last", beyond))
    return wrong


def check_statistics(case: EnvCase) -> None:
    """Check that statistics can be loaded into another batch, and stay when frozen."""
    rows, expect = case.rows(), case.report.expect
    if not hasattr(rows.env, "statistics"):
        return
    rows.env.freeze(False)
    play(rows, start(rows), case.actions, COMPARED)
    learned = copy.deepcopy(rows.env.statistics())
    if not learned:
        return
    other = case.rows(1)
    other.env.load_statistics(copy.deepcopy(learned))
    expect(
        fingerprint(other.env.statistics()) == fingerprint(learned),
        "load_statistics(statistics()) does not give the same statistics",
        "load everything that statistics() returned.",
    )
    other.env.freeze()
    play(other, start(other), case.actions, COMPARED)
    expect(
        fingerprint(other.env.statistics()) == fingerprint(learned),
        "after freeze() the statistics still change",
        "do not update frozen statistics: evaluation uses those of training.",
    )


CHECKS_OF_ROWS = {
    "rows": check_rows,
    "reset-rows": check_reset_rows,
    "waiting-rows": check_waiting_rows,
    "autoreset": check_autoreset,
    "action-check": check_action_validation,
}
