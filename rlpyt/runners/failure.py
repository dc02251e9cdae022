"""State before the update in which a run ended in NaN or infinity.

`save` writes it as a checkpoint without replay, beside the run's own; `repeat` goes back to it, in
one process. If an environment returned the number, the batch is saved instead of the update.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rlpyt.errors import NonFiniteError
from rlpyt.utils import checkpoint
from rlpyt.utils.buffer import buffer_to, from_dicts, to_dicts
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.lock import TRAINING
from rlpyt.utils.seed import set_torch_state

if TYPE_CHECKING:
    from rlpyt.runners.checkpointing import CheckpointedRunner
    from rlpyt.runners.runner import MinibatchRlBase

DIRECTORY = "failure"  # beside that of the checkpoints


def save(runner: CheckpointedRunner, error: Exception) -> Path | None:
    """Save the state before a failed update, or the batch with a number that is not finite.

    Returns:
        Path of what was saved, or ``None``: the error is another one, or nothing can be saved.
    """
    checkpoints = runner.checkpoint_directory()
    found: dict[str, Any] = dict(itr=runner.itr, inputs=None, samples=None)
    if isinstance(error, NonFiniteError) and error.update is not None:
        inputs, random = error.update
        found |= {"inputs": [to_dicts(x) for x in inputs], "torch": random}
    elif NonFiniteError.__name__ in str(getattr(error, "traceback", type(error).__name__)):
        found["samples"] = to_dicts(getattr(runner.sampler, "samples_pyt", None))
    if checkpoints is None or found["inputs"] is found["samples"] is None:
        return None
    try:
        found["message"] = str(error)
        state: dict[str, Any] = {}
        if runner.updating:
            with runner.paused(after_failure=True):
                state = runner.whole_state(max(0, runner.state.itr))
        if "replay" in state.get("algo", {}):
            state["algo"]["replay"] = None
        meta = {k: v for k, v in runner.identity().items() if k != "world_size"}
        path = Path(checkpoints).with_name(DIRECTORY)
        return checkpoint.save_checkpoint(path, {**state, "failure": found}, keep=1, meta=meta)
    except Exception as unsaved:  # the first failure is the one to raise
        logger.log(f"the state before the failure was not saved: {unsaved!r}")
        return None


def load(directory: Path) -> dict[str, Any]:
    """Return what `save` has saved of a failure in a directory.

    Returns:
        message: of the error.
        itr: iteration in which it was raised.
        inputs: list with the arguments of the failed update, or ``None``.
        torch: with ``inputs``, the states of torch's random generators before the update.
        samples: the batch in which an environment returned such a number, or ``None``.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    if not directory.exists():
        raise checkpoint.CheckpointError(
            f"{directory} does not exist: the run did not end in NaN or infinity, or has no "
            "checkpoints."
        )
    loaded = checkpoint.load_checkpoint(directory)
    try:
        return _rebuilt(loaded.state["failure"])
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise checkpoint.CheckpointError(
            f"{loaded.path} must hold what a run in NaN has left, but {error!r} is wrong."
        ) from error


def _rebuilt(found: dict[str, Any]) -> dict[str, Any]:
    """Return saved entries with their named tuples."""
    from rlpyt.replays.batch import batch_type  # not imported by runs without a replay

    inputs = found["inputs"] and [from_dicts(x, batch_type) for x in found["inputs"]]
    samples = from_dicts(found["samples"])
    if not isinstance(found["message"], str) or inputs is samples is None:
        raise ValueError("message must be a string, and inputs or samples must be there")
    return {**found, "inputs": inputs, "samples": samples}


def repeat(
    runner: MinibatchRlBase,
    directory: Path,
    call: Callable[..., Any] = lambda update, *inputs: update(*inputs),
) -> Any:
    """Repeat the failed update of a run, from the same parameters and random numbers.

    Args:
        runner: runner of the run that has not started, see `in_one_process`.
        directory: where `save` has saved the failure; nothing is written to it.
        call: how to call the update with its inputs, for example in a debugger.

    Returns:
        What the update returns.

    Raises:
        NonFiniteError: the update fails again.
        CheckpointError: no failed update is saved there.
    """
    found = load(directory)
    if found["inputs"] is None:
        raise checkpoint.CheckpointError(
            f"{directory} must hold a failed update, but the run failed elsewhere: "
            f"{found['message']}"
        )
    runner.resume_from = str(directory)
    ignored = warnings.catch_warnings(action="ignore")  # that episodes begin anew, and the like
    with TRAINING.hold(), logger.session(), torch.inference_mode(False), ignored:
        logger.set_console(False)
        try:
            runner.startup()
            runner.agent.train_mode(found["itr"])
            runner.algo.apply_schedule(found["itr"])
            inputs = [buffer_to(x, runner.agent.device) for x in found["inputs"]]
            set_torch_state(found["torch"])
            with runner.algo.explained(*inputs):
                return call(runner.algo.update, *inputs)
        finally:
            runner.sampler.shutdown()
