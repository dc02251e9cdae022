"""What every training command does once training has ended."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from rlpyt.errors import WorkerError, itr_of
from rlpyt.experiments import rundir
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.run import load
from rlpyt.experiments.video import record_video
from rlpyt.utils.files import write_text
from rlpyt.utils.logging.console import say


def finish(options: RunOptions, run_dir: Path) -> None:
    """Evaluate, draw, film, and say where everything is and what to try next."""
    trained = load(run_dir)
    if options.eval_episodes:
        result = trained.evaluate(options.eval_episodes)
        say(f"Evaluation: {result}")
        text = json.dumps(result.as_dict(), indent=2) + "\n"
        write_text(run_dir / rundir.EVALUATION, text)
    _optional("learning curve", draw_curve, [run_dir], run_dir / rundir.CURVE)
    if options.video:
        _optional("video", record_video, trained, run_dir / rundir.VIDEO)
    say(_whereabouts(options, run_dir))


@contextlib.contextmanager
def showing_how_to_resume(run_dir: Path) -> Iterator[None]:
    """Around training: if it ends early and left a checkpoint, say how to go on."""
    way = f"Go on with: {program()} resume {run_dir}"
    try:
        yield
    except SystemExit:
        if rundir.has_checkpoint(run_dir):
            say(way)
        raise
    except Exception as error:
        failed = isinstance(error, WorkerError) or itr_of(error) >= 0
        if failed and rundir.has_checkpoint(run_dir):
            error.add_note(way)
        raise


def draw_curve(runs: list[Path], path: Path) -> None:
    """Draw the learning curves of some runs into one picture."""
    from rlpyt.vis.curves import plot_runs

    try:
        plot_runs(runs, path)
    except KeyError as error:  # nothing to draw; its text is for people, str(error) is not
        raise ValueError(error.args[0]) from error


def program() -> str:
    """How the user calls this program: ``rlpyt``, or where it lies if it is not on the path."""
    if shutil.which("rlpyt"):
        return "rlpyt"
    called = sys.argv[0]
    return f"{sys.executable} -m rlpyt.cli.main" if called.endswith(".py") else called


def _optional(what: str, make: object, *args: object) -> None:
    """Make a picture or film; a machine that cannot do so has still trained its agent."""
    try:
        make(*args)  # type: ignore[operator]
    except Exception as error:
        why = str(error) or type(error).__name__
        say(f"rlpyt: warning: no {what}: {why}", sys.stderr)


def _another(algo_name: str) -> str:
    return "dqn" if algo_name == "ppo" else "ppo"


def _whereabouts(options: RunOptions, run_dir: Path) -> str:
    there = {
        name: what
        for name, what in rundir.CONTENTS.items()
        if (run_dir / name).exists()
        and (name != rundir.CHECKPOINTS or rundir.has_checkpoint(run_dir))
    }
    width = max(map(len, there), default=0)
    lines = [f"\nIn {run_dir}:", *(f"  {name:{width}}  {what}" for name, what in there.items())]
    rlpyt = program()
    steps = 2 * options.steps
    return "\n".join(
        [
            *lines,
            "Try next:",
            f"  {rlpyt} eval {run_dir} --episodes 100",
            f"  {rlpyt} resume {run_dir} --steps {steps}",
            f"  {rlpyt} train {options.algo_name} {options.env} --help     (every setting)",
            f"  {rlpyt} train {_another(options.algo_name)} Acrobot-v1     (something else)",
        ]
    )
