"""What must come out the same again: seeded runs, runs beside others, runs from a saved state."""

import copy
import hashlib
from typing import Any

import numpy as np

from rlpyt.testing.bench import Bench
from rlpyt.testing.rows import Run, first_difference, play, start
from rlpyt.testing.trees import shares_memory
from rlpyt.utils.state_codec import encode_state

BESIDE = 50  # steps of two environments in turn
RESUMED = 100  # steps after a saved state


def check_seeding(bench: Bench) -> None:
    """The same seed gives the same run, in a new environment and in a used one."""
    if bench.unseedable:
        bench.report.open(
            "seeding", f"cannot be seeded, and so not be compared: {bench.unseedable}"
        )
        return
    rows = bench.rows(bench.seeds())
    again = play(rows, start(rows), bench.actions, bench.short)
    found = first_difference(bench.reference, again, info=False)
    if found:
        _report_irreproducible(bench, rows.env, found)
        return
    bench.reproducible = True
    bench.same_info = first_difference(bench.reference, again) is None
    if not bench.same_info:
        bench.report.warning(
            "seeding",
            f"the same seed gave another env_info: {first_difference(bench.reference, again)}",
            "leave times and the like out of env_info; it is part of the recorded batch.",
        )
    if not bench.seeds_at_construction:
        _check_second_seed(bench, rows)
    other = bench.rows(bench.seeds(1))
    others = play(other, start(other), bench.actions, bench.short)
    if first_difference(bench.reference, others) is None:
        bench.report.warning(
            "seeding",
            f"another seed gave the same {bench.short} steps: the environment is deterministic, or "
            "deaf to its seed",
            "if it is to be deterministic, all is well, except that environments side by side "
            "differ only by what the agent does (and by max_decorrelation_steps).",
        )


def _report_irreproducible(bench: Bench, env: Any, found: str) -> None:
    if not bench.batched and not hasattr(env, "seed"):
        bench.report.error(
            "seeding",
            f"two runs with the same actions differ ({found}), and there is no method seed",
            "derive from rlpyt.envs.base.Env and define seed(seed), which the next reset honours.",
        )
    elif found.startswith("the first observation"):
        bench.report.error(
            "seeding",
            f"reset does not honour the seed: {found}",
            "let reset() make the generator from what seed(seed) left, and draw from nothing else "
            "(gymnasium: super().reset(seed=seed), then self.np_random).",
        )
    else:
        bench.report.error(
            "seeding",
            f"the same seed and actions gave another run: {found}",
            "draw from the seeded generator alone: not from numpy's or random's global one, the "
            "clock, the order of a set, or what an earlier instance left behind.",
        )


def _check_second_seed(bench: Bench, used: Any) -> None:
    """Seed an environment that has been played, and start it again."""
    used.seed(bench.seeds())
    again = play(used, start(used), bench.actions, min(bench.short, BESIDE))
    found = first_difference(bench.reference, again, info=bench.same_info)
    if found:
        bench.report.error(
            "seeding",
            f"seeded again after {bench.short} steps, it does not begin again: {found}",
            "let every reset() after seed(seed) start from that seed, and forget all of the "
            "episodes before.",
        )


def check_independence(bench: Bench) -> None:
    """Two environments, stepped in turn in one process, do as they would alone."""
    a, b = bench.rows(bench.seeds()), bench.rows(bench.seeds(1))
    run, other = start(a), start(b)
    shared = shares_memory(a.raw, b.raw)
    for _ in range(min(bench.short, BESIDE)):
        play(a, run, bench.actions, 1)
        play(b, other, bench.actions, 1)
    found = first_difference(bench.reference, run, info=bench.same_info)
    if found:
        bench.report.error(
            "independence",
            f"beside another environment it goes another way: {found}",
            "keep state and generators in the instance, not in the class, the module or numpy's "
            "global generator.",
        )
    elif shared:
        bench.report.error(
            "independence",
            "two environments return observations in the same memory",
            "allocate the buffer in the constructor, not in the class.",
        )


def check_state(bench: Bench) -> None:
    """A new environment, set to a state, goes on as the one that gave it."""
    rows = bench.rows(bench.seeds())
    if not hasattr(rows.env, "get_state") or rows.env.get_state() is None:
        bench.report.open(
            "state", "get_state() offers none: a resumed run starts new episodes here"
        )
        return
    run = start(rows)
    saved: list[tuple[int, Any, Any, bytes]] = []
    for k in sorted({0, bench.short // 8, bench.short // 2}):
        play(rows, run, bench.actions, k - len(run.moments))
        state = rows.env.get_state()
        try:
            saved.append((k, state, copy.deepcopy(state), fingerprint(state)))
        except (TypeError, RecursionError) as error:
            bench.report.error(
                "state",
                f"get_state() is no plain tree: {error}",
                "build it of dicts, lists, numbers, strings, None and numeric arrays "
                "(rlpyt.envs.state.pack helps): checkpoints hold no pickles.",
            )
            return
    play(rows, run, bench.actions, bench.short - len(run.moments))
    found = first_difference(bench.reference, run, info=bench.same_info)
    if found:
        bench.report.error(
            "state", f"get_state() changed the run: {found}", "let get_state() only look."
        )
        return
    for k, state, kept, print_ in saved:
        if fingerprint(state) != print_:
            bench.report.error(
                "state",
                f"the state taken after {k} steps changed while the environment went on",
                "return copies: np.array(x), rlpyt.envs.state.pack(x).",
            )
        _check_resumed(bench, k, kept)


def _check_resumed(bench: Bench, k: int, state: Any) -> None:
    fresh = bench.rows(bench.seeds(2))
    fresh.env.set_state(state)
    run = Run(list(bench.reference.first), bench.reference.moments[:k])
    play(fresh, run, bench.actions, min(RESUMED, len(bench.reference.moments) - k))
    found = first_difference(bench.reference, run, since=k, info=bench.same_info)
    if found:
        bench.report.error(
            "state",
            f"a new environment set to the state after {k} steps goes another way: {found}",
            "put everything into the state that the next step or reset reads: simulator, counters, "
            "random generators, a seed that waits, buffered observations.",
        )


def fingerprint(state: Any) -> bytes:
    """A digest of a plain tree, as a checkpoint would hold it.

    Raises:
        TypeError: something in it is not plain; the message says where.
    """
    encoded = encode_state(state)
    digest = hashlib.sha256(repr(encoded.tree).encode())
    for part in (*encoded.arrays.values(), *encoded.tensors.values()):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.digest()
