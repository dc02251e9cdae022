"""Send rows, settings and files that trackers have not received: `rlpyt upload RUN`.

Use it when a tracker did not answer during training, or to upload a run that was trained without
one: rlpyt upload RUN --logger wandb.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import Several, UsageError, parse
from rlpyt.errors import UntrustedFile
from rlpyt.experiments import rundir, script_runs
from rlpyt.experiments.options import read_config
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.logging.tracker_process import memory_of
from rlpyt.utils.logging.tracking import TRACKERS, TrackerSink, check_installed, logger_names


@dataclasses.dataclass(frozen=True)
class Upload:
    run: tyro.conf.Positional[Path]  # the run directory
    logger: Several[str] = ()  # wandb, mlflow or trackio; by default those of the run
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    command = parse(Upload, args)
    own = _loggers_of(command.run, command.trust)
    trackers = [name for name in logger_names(command.logger or own) if name in TRACKERS]
    if not trackers:
        raise UsageError(
            f"{command.run} was trained without an experiment tracker. Give one of "
            f"{', '.join(TRACKERS)}, as in --logger {TRACKERS[0]}."
        )
    check_installed(trackers)
    for name in trackers:
        memory_of(command.run, name)  # raises if it is damaged
    with RunLock(command.run):
        sinks = [TrackerSink(command.run, name) for name in trackers]
        for sink in sinks:
            for name in (rundir.EVALUATION, rundir.CURVE, rundir.VIDEO):
                if (command.run / name).exists():
                    sink.attach(command.run / name, 0)
            sink.end()
        complete = [sink.tracker for sink in sinks if sink.wait(patient=True)]
    for name in complete:
        say(f"{name} has received everything.")
    return int(complete != trackers)


def _loggers_of(run_dir: Path, trust: bool) -> Sequence[str]:
    """Return the loggers of a run.

    Raises:
        FileNotFoundError: the directory contains no run.
        DamagedFile: the description of the run is damaged.
        UntrustedFile: the run is somebody else's; its files also name the server.
    """
    if script_runs.exists(run_dir):
        script = script_runs.ScriptRun(run_dir, trust)
        loggers: Sequence[str] = script.logging.get("loggers", ())
        trusted = script.trusted
    else:
        options, trusted = read_config(run_dir, trust)
        loggers = options.logger
    if not trusted:
        raise UntrustedFile(
            f"{run_dir} is the run of somebody else, and its files say where to send it. If you "
            "trust its author, add --trust."
        )
    rundir.check_files(run_dir, links=True)
    return loggers
