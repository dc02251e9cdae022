"""Steps after training: evaluation, learning curve, video and a summary."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from textwrap import indent

from rlpyt.experiments import rundir
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.run import Evaluation, Run, load
from rlpyt.experiments.video import record_video
from rlpyt.utils.files import write_text
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.recorded import label
from rlpyt.vis.curves import plot_runs


def finish(options: RunOptions, run_dir: Path) -> None:
    """Evaluate the agent, plot its curve, record a video, and print the files and next steps.

    The files are also passed to the logger.
    """
    trained = load(run_dir)
    if options.eval_episodes:
        say(f"Evaluation: {save_evaluation(options, run_dir, trained)}")
    for name in _pictures(options):
        _draw(name, run_dir, trained)
    say(_summary(options, run_dir))


def draw_missing(options: RunOptions, run_dir: Path, trust: bool = False) -> None:
    """Draw curve and video of a complete run where they are older than its agent.

    Those from the future, by a clock that was wrong, are drawn again, too.
    """
    begun, now = rundir.time_of(run_dir / rundir.SNAPSHOT), time.time()
    times = {name: rundir.time_of(run_dir / name) for name in _pictures(options)}
    missing = [name for name, drawn in times.items() if not begun <= drawn <= now]
    if missing:
        trained = load(run_dir, trust)
        for name in missing:
            _draw(name, run_dir, trained)


def _pictures(options: RunOptions) -> list[str]:
    """Return the names of the files of pictures that a run has at its end."""
    video = options.video and options.sampler.kind != "tensor"  # which cannot render
    return [rundir.CURVE, *[rundir.VIDEO] * video]


def _draw(name: str, run_dir: Path, trained: Run) -> None:
    path = run_dir / name
    if name == rundir.CURVE:
        made = optional("learning curve", plot_runs, [run_dir], path)
    else:
        say("Recording a video. (--no-video skips this.)")
        made = optional("video", record_video, trained, path)
    if made:
        logger.attach(path)


def save_evaluation(options: RunOptions, run_dir: Path, trained: Run | None = None) -> Evaluation:
    """Evaluate the agent of a run, write evaluation.json, and return the result."""
    trained = load(run_dir) if trained is None else trained
    result = trained.evaluate(options.eval_episodes, max_steps=options.eval_max_steps)
    text = json.dumps(result.as_dict(), indent=2) + "\n"
    write_text(run_dir / rundir.EVALUATION, text)
    logger.attach(run_dir / rundir.EVALUATION)
    return result


def optional(name: str, make: Callable[..., object], *args: object) -> bool:
    """Make a plot or video; warn and return False if it fails, since training has succeeded."""
    try:
        make(*args)
    except Exception as error:
        quoted = isinstance(error, KeyError) and error.args  # by str(), as of a run without data
        reason = str(error.args[0] if quoted else error) or type(error).__name__
        say(f"rlpyt: warning: no {name}: {reason}", sys.stderr)
        return False
    return True


def _summary(options: RunOptions, run_dir: Path) -> str:
    files = {
        name: text
        for name, text in rundir.CONTENTS.items()
        if (run_dir / name).exists()
        and (name != rundir.CHECKPOINTS or rundir.has_checkpoint(run_dir))
    }
    rlpyt, path, env = rundir.program(), quote(str(run_dir)), quote(label(options.env))
    another = "dqn" if options.algo_name == "ppo" else "ppo"
    return "\n".join(
        [
            f"\nIn {run_dir}:",
            indent(tabulate(files.items(), tablefmt="plain"), "  "),
            "Try next:",
            f"  {rlpyt} eval {path} --episodes 100",
            f"  {rlpyt} resume {path} --steps {2 * options.steps}",
            f"  {rlpyt} train {options.algo_name} {env} --help     (every setting)",
            f"  {rlpyt} train {another} Acrobot-v1     (something else)",
        ]
    )
