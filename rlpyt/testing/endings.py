"""How episodes end: that they do, by what, and which observation is shown last."""

from typing import Any

import numpy as np

from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.testing.bench import Bench
from rlpyt.testing.rows import play, start
from rlpyt.testing.trees import equal

SAME_LENGTH = 3  # episodes of one length that look like a time limit
LOOKED_AT = 3  # ends whose final observations are compared


def check_time_limit(bench: Bench) -> None:
    """Flags, horizon and lengths of episodes agree."""
    run = bench.reference
    lengths: list[tuple[int, bool]] = []  # of episodes: steps, timeout
    going = np.zeros(bench.n, np.int64)
    for at in run.moments:
        going += 1
        for b, moment in enumerate(at):
            if moment.over:
                lengths.append((int(going[b]), bool(np.any(getattr(moment.info, "timeout", 0)))))
                going[b] = 0
    env = bench.build()
    horizon = getattr(env, "horizon", None)
    if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int)):
        bench.report.error(
            "time-limit", f"horizon is {horizon!r:.40}", "make it a number of steps, or None."
        )
        horizon = None
    _check_that_episodes_end(bench, len(lengths), horizon)
    longest = max([*(length for length, _ in lengths), *going.tolist()], default=0)
    if horizon is not None and longest > horizon:
        bench.report.error(
            "time-limit",
            f"an episode went on for {longest} steps; horizon says {horizon}",
            "truncate there (done, and env_info.timeout unless it terminated), or correct horizon.",
        )
    has_timeout = "timeout" in run.moments[0][0].info._fields
    _check_timeouts(bench, lengths, horizon, has_timeout, _limit_inside(env))


def _check_that_episodes_end(bench: Bench, n_ended: int, horizon: int | None) -> None:
    steps = len(bench.reference.moments)
    if n_ended:
        return
    if horizon is not None and horizon > steps:
        bench.report.open(
            "episodes",
            f"none ended within {steps} steps; horizon is {horizon}. What happens at ends was not "
            f"seen: give max_steps={horizon + 1}",
        )
        return
    bench.report.warning(
        "episodes",
        f"none ended within {steps} steps of random actions",
        "give the environment a time limit (gymnasium.make(..., max_episode_steps=1000); your own: "
        "done with env_info.timeout): returns are counted when episodes end. If episodes are "
        "longer, check with a larger max_steps.",
    )


def _check_timeouts(
    bench: Bench,
    lengths: list[tuple[int, bool]],
    horizon: int | None,
    has_timeout: bool,
    inside: int | None,
) -> None:
    report = bench.report
    if not has_timeout and (horizon or inside):
        report.warning(
            "time-limit",
            f"there is a time limit of {horizon or inside} steps, and no env_info.timeout",
            "tell by env_info.timeout that a step was truncated and not terminated, or values "
            "before the limit are learnt as if the task ended there.",
        )
        return
    early = [length for length, timeout in lengths if timeout and horizon not in (None, length)]
    if early:
        report.warning(
            "time-limit",
            f"timeout came after {early[0]} steps; horizon says {horizon}",
            "correct horizon, if that is the only limit.",
        )
    one = {length for length, _ in lengths}
    if (
        len(lengths) >= SAME_LENGTH
        and len(one) == 1
        and max(one) > 1
        and not any(timeout for _, timeout in lengths)
    ):
        report.warning(
            "time-limit",
            f"all {len(lengths)} episodes lasted {max(one)} steps, none by timeout",
            "if that is a time limit, set env_info.timeout at its step; if the task ends there, "
            "skip=['time-limit'] says so.",
        )


def _limit_inside(env: Any) -> int | None:
    """The registered time limit of a gymnasium environment that this one holds."""
    inner = getattr(env, "env", None) or getattr(env, "_env", None)
    limit = getattr(getattr(inner, "spec", None), "max_episode_steps", None)
    return limit if isinstance(limit, int) else None


def check_final_observation(bench: Bench) -> None:
    """The last observation of an episode is no first observation of the next.

    It is compared with what a reset gives just before the ending step (an environment that
    resets by itself draws its episode at the same place of the random stream), and with what the
    reset after it gives. The step before serves as control: where every step looks like a reset,
    as if observations are drawn independently, nothing can be told.
    """
    verdicts: list[bool] = []
    steps = 0
    for t, row in bench.reference.ends():
        steps += 2 * t
        if verdicts and (len(verdicts) == LOOKED_AT or steps > bench.max_steps):
            break
        moment = bench.reference.moments[t][row]
        before = bench.reference.before(t, row)
        one_step = t == 0 or bench.reference.moments[t - 1][row].over
        if one_step or equal(moment.observation, before) or _is_shown(bench, t - 1, row):
            continue
        verdicts.append(equal(moment.observation, moment.first) or _is_shown(bench, t, row))
    if not verdicts:
        bench.report.open("final-observation", "no episode ended in a way that shows it")
    elif all(verdicts):
        bench.report.error(
            "final-observation",
            f"in all of {len(verdicts)} episodes the observation of the ending step was that of a "
            "reset",
            "return the observation that the ending step led to, and start the next episode in "
            "reset (batches: in reset_rows). A batch that resets by itself must declare how: "
            "metadata['autoreset_mode'], with info['final_obs'] for SAME_STEP.",
        )


def _is_shown(bench: Bench, t: int, row: int) -> bool:
    """Whether a reset before step t would have shown what step t showed."""
    rows = bench.rows(bench.seeds())
    play(rows, start(rows), bench.actions, t)
    try:
        (first,) = rows.reset_rows([row])
    except UnsupportedVectorEnv:  # a batch that cannot reset a row on its way
        return False
    return equal(first, bench.reference.moments[t][row].observation)
