"""All that a resumed run needs, as one tree for ``utils.checkpoint``."""

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlpyt.errors import RlpytError
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.processes import summary_of
from rlpyt.utils.resumption import asked_to_resume


def gather(runner: Any, itr: int) -> dict[str, Any]:
    """The state of a run after iteration ``itr``.

    If an evaluation was cut short, what it has changed is as it was before.
    """
    return {
        "itr": itr,
        "seed": runner.seed,
        "agent": runner.agent.state_dict(),
        "algo": runner.algo.state_dict(),
        "counters": runner.counters(),
        "owes_evaluation": runner.owes_evaluation,
        "tables": logger.table_marks(),
        **(runner.before_evaluation or evaluation_changes(runner)),
    }


def evaluation_changes(runner: Any) -> dict[str, Any]:
    """That part of a run's state which an evaluation changes."""
    return {"sampler": runner.sampler.state_dict(), "random": random_state()}


def to_resume(runner: Any) -> Any:
    """The checkpoints that a launcher wants the run to go on from, or ``None``."""
    place = runner.checkpoint_place()
    return place if asked_to_resume(place) and any(Path(place).glob("checkpoint-*")) else None


def read(runner: Any) -> tuple[dict[str, Any], Any]:
    """The state in ``runner.resume_from``, which must be of such a run, and where in it that is."""
    loaded = load_checkpoint(runner.resume_from)
    check_fits(loaded.meta, runner)
    return loaded.state, loaded.path


def restore(runner: Any, state: dict[str, Any]) -> bool:
    """Restore a saved state after startup; return True if the run resumes exactly.

    It does if every environment can save and restore its state. Otherwise environments start new
    episodes, and the algorithm is told.

    Raises:
        CheckpointError: parts of the state are missing, or are those of another run.
    """
    try:
        return _restore(runner, state)
    except (KeyError, IndexError, AttributeError, TypeError, RuntimeError) as error:
        if isinstance(error, RlpytError):
            raise
        said = " ".join(summary_of(error, 200).split())
        raise CheckpointError(
            "the checkpoint must be one of this run, got a state that does not fit it "
            f"({said}). Resume with the settings that it was made with."
        ) from error


def _restore(runner: Any, state: dict[str, Any]) -> bool:
    runner.itr = whole_number("the checkpoint's iteration", state["itr"], 0)
    runner.agent.load_state_dict(state["agent"])
    runner.algo.load_state_dict(state["algo"])
    exact = bool(runner.sampler.load_state_dict(state["sampler"]))
    if not exact and hasattr(runner.algo, "interrupt"):
        runner.algo.interrupt()
    runner.load_counters(state["counters"])
    runner.owes_evaluation = state["owes_evaluation"]
    set_random_state(state["random"])
    return exact


def describe(runner: Any) -> dict[str, Any]:
    """What must agree between a checkpoint and the run that resumes it."""
    T, B = runner.sampler.batch_spec
    return {
        "algo": type(runner.algo).__name__,
        "agent": type(runner.agent).__name__,
        "batch_T": T,
        "batch_B": B,
        "world_size": runner.world_size,
    }


def check_fits(saved: dict[str, Any], runner: Any) -> None:
    """Compare a checkpoint's description with the run's.

    Raises:
        ValueError: they differ; the message says in what.
    """
    own = describe(runner)
    ranks = saved.get("world_size", runner.world_size), runner.world_size
    if ranks[0] != ranks[1]:
        raise ValueError(
            f"the checkpoint is of a run with {ranks[0]} ranks (world_size), this one has "
            f"{ranks[1]}: resume with as many as it began with, nothing else would fit."
        )
    odd = [f"{k}: {saved[k]!r}, this run {v!r}" for k, v in own.items() if saved.get(k, v) != v]
    if odd:
        raise ValueError("the checkpoint is of another run: " + "; ".join(odd) + ".")


def counters(runner: Any) -> dict[str, Any]:
    """Statistics in progress."""
    return {
        "opt_infos": {k: list(v) for k, v in runner._opt_infos.items()},
        "traj_infos": plain(runner._traj_infos),
        "cum_time": time.monotonic() - runner._start_time,
        "time_since_row": time.monotonic() - runner._last_time,
        "cum_eval_time": runner._cum_eval_time,
        "cum_completed_trajs": runner._cum_completed_trajs,
        "new_completed_trajs": runner._new_completed_trajs,
        "last_update_counter": runner._last_update_counter,
        "last_logged_itr": runner._last_logged_itr,
        "recent_return": float(runner.recent_return),
    }


def load_counters(runner: Any, saved: dict[str, Any]) -> None:
    """Let a runner go on counting from what ``counters`` gave."""
    runner._opt_infos = {k: list(v) for k, v in saved["opt_infos"].items()}
    runner._traj_infos.extend(unplain(saved["traj_infos"]))
    runner._start_time = time.monotonic() - saved["cum_time"]
    runner._last_time = time.monotonic() - saved["time_since_row"]
    runner._eval_time_here = saved["cum_time"]  # speed counts from now
    runner._cum_eval_time = saved["cum_eval_time"]
    runner._cum_completed_trajs = saved["cum_completed_trajs"]
    runner._new_completed_trajs = saved["new_completed_trajs"]
    runner._last_update_counter = saved["last_update_counter"]
    runner._last_logged_itr = saved["last_logged_itr"]
    runner.recent_return = saved["recent_return"]


def random_state() -> dict[str, Any]:
    """States of the global generators of random, numpy and torch."""
    version, internal, gauss = random.getstate()
    name, keys, pos, has_gauss, cached = np.random.get_state()
    state = {
        "python": [version, list(internal), gauss],
        "numpy": [name, np.asarray(keys), int(pos), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Set the global generators."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def plain(traj_infos: Any) -> list[dict[str, Any]]:
    """Trajectory statistics as plain dictionaries."""
    return [{k: v for k, v in info.items() if not k.startswith("_")} for info in traj_infos]


def unplain(dictionaries: list[dict[str, Any]]) -> list[AttrDict]:
    """Trajectory statistics as the runner keeps them."""
    return [AttrDict(**d) for d in dictionaries]
