"""What a search would do, in words, before it has begun."""

from __future__ import annotations

import math
import shlex
from typing import Any

from rlpyt.sweeps.draws import Draw
from rlpyt.sweeps.expansion import setting_for
from rlpyt.sweeps.places import Slot
from rlpyt.sweeps.runs import RLPYT, jobs_of
from rlpyt.sweeps.search import Search
from rlpyt.sweeps.search_results import shown
from rlpyt.sweeps.spec import SweepSpec
from rlpyt.sweeps.trials import total_steps
from rlpyt.utils.seed import stream
from rlpyt.utils.text import counted


def runs_told(spec: SweepSpec, search: Search) -> str:
    """How many runs, and what they are: ``a search by optuna, 20 trials of 2 seeds``."""
    if search.method == "pbt":
        stretches = math.ceil((total_steps(spec) or 0) / search.interval_steps)
        each = counted(stretches, "stretch")
        return f"a search by pbt, {counted(search.population, 'run')} of {each} each"
    seeds = counted(len(spec.seeds), "seed")
    return f"a search by optuna, {counted(search.trials, 'trial')} of {seeds} each"


def space_told(spec: SweepSpec, search: Search, share: Slot) -> list[str]:
    """The space, what is looked for, and a run for example."""
    width = max(map(len, spec.sample))
    lines = [f"  {key:{width}}  {draw_told(draw)}" for key, draw in spec.sample.items()]
    lines.append(f"  to {search.direction} {search.metric}")
    return lines + [f"  {line}" for line in _example(spec, search, share)]


def draw_told(draw: Draw) -> str:
    """A distribution with its range.

    >>> draw_told(Draw("log_uniform", (1e-4, 1e-2)))
    'log_uniform from 0.0001 to 0.01'
    >>> draw_told(Draw("choice", ([64, 64], None)))
    'choice of [64, 64], null'
    """
    if draw.kind == "choice":
        return f"choice of {', '.join(map(shown, draw.values))}"
    low, high = map(shown, draw.values)
    return f"{draw.kind} from {low} to {high}"


def _example(spec: SweepSpec, search: Search, share: Slot) -> list[str]:
    rng = stream(search.seed, "example")
    values: dict[str, Any] = {key: draw.draw(rng) for key, draw in spec.sample.items()}
    told = ", ".join(f"{key}={shown(value)}" for key, value in values.items())
    name = "member_0" if search.method == "pbt" else "trial_0"
    try:
        setting = setting_for(spec, values, name, spec.seeds[0])
    except (ValueError, TypeError) as error:
        return [f"for example {told}, which cannot be: {error}"]
    [job] = jobs_of(spec, [setting], share)
    command = [*job.command]
    if job.config:
        command[: len(RLPYT)] = ["rlpyt"]
    return [f"for example {told}, by", f"  {' '.join(map(_quoted, command))}"]


def _quoted(word: str) -> str:
    """As in a shell, but for the places that are filled in later, such as ``{run_dir}``."""
    return word if word.startswith("{") and " " not in word else shlex.quote(word)
