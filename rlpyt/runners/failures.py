"""When a run fails: mark the error, and save what is intact."""

import contextlib
from typing import Any

from rlpyt.errors import NonFiniteError, WorkerError, itr_of
from rlpyt.runners import state as run_state
from rlpyt.utils.logging import logger


def attend_to(error: Exception, runner: Any) -> None:
    """Say of an error in which iteration it came, and where its run can go on from.

    Errors at the door, before training begins, are left as they are. Of others ``itr`` is set, see
    `errors.itr_of`. If they came from sampling or evaluation, agent and algorithm are those of the
    last whole iteration, and a checkpoint is saved.
    """
    if runner.begun and itr_of(error) < 0:
        with contextlib.suppress(AttributeError):  # of a class with slots
            error.itr = max(runner.itr, 0)  # type: ignore[attr-defined]
    whole = not (runner.updating or isinstance(error, NonFiniteError))
    saved = rescue(runner) if whole or isinstance(error, WorkerError) else None
    if saved:
        error.add_note(f"Checkpoint after iteration {runner.trained_itr} in {saved}.")


def rescue(runner: Any) -> Any:
    """After a failure in sampling, save what is intact; returns where, or ``None``.

    Environments are needed for sampling and evaluation only, so agent and algorithm are those of
    the last whole iteration. The environments are lost and begin anew, unless they failed in an
    evaluation: the state before it is at hand, and the evaluation is owed.
    """
    if runner.trained_itr <= runner.saved_itr:
        return None
    if runner.before_evaluation is not None:
        runner.owes_evaluation = True
    else:
        lost: dict[str, Any] = {"stations": [], "kind": []}
        lost.update(getattr(runner.sampler, "lasting_state", dict)())
        runner.before_evaluation = {"sampler": lost, "random": run_state.random_state()}
    try:
        return runner.save_checkpoint(runner.trained_itr)
    except Exception as error:  # the failure before it matters more
        logger.log(f"checkpoint not saved: {error!r}")
        return None


def free_replay(replay: Any, algo: Any) -> None:
    """Open a shared replay again that processes may have locked which have died.

    If one died while it wrote, the replay is not saved with a checkpoint.
    """
    if replay.take_from_the_dead():
        algo.save_replay = False
        logger.log(
            "A process died while it wrote to the replay: the checkpoint is without it, and a "
            "resumed run fills a new one before it learns on."
        )
