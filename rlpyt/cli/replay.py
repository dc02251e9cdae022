"""Repeat the update in which loss or gradient of a run was not finite: `rlpyt replay RUN`.

RUN is the run directory. The state before the update is loaded into one process and thread: agent,
optimizer, the update's batch, and random numbers. Its inputs are shown, and the update is repeated,
with --debugger under Python's debugger. If an environment returned NaN or infinity, its last steps
are shown instead.
"""

import dataclasses
import pdb
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments import hub, rundir, script_runs
from rlpyt.experiments.agents import prepare_resumed
from rlpyt.experiments.build import build_runner
from rlpyt.experiments.options import CONFIG, read_config
from rlpyt.experiments.run import rebuilt
from rlpyt.experiments.trust import blaming
from rlpyt.models.utils import matmul_precision
from rlpyt.runners import failure
from rlpyt.runners.one_process import in_one_process
from rlpyt.samplers.step_checks import first_not_finite
from rlpyt.utils.buffer import _named_leaves, numpify_buffer
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.tabulate import tabulate

N_STEPS = 5  # of the environment that are shown


@dataclasses.dataclass(frozen=True)
class Replay:
    run: tyro.conf.Positional[Path]  # the run directory
    debugger: bool = False  # stop at the first line of the update, in pdb
    device: str | None = None  # cpu (by default), cuda or cuda:N; not for the run of a script
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    """Run the command and return its exit code, 0 if the update does not fail again."""
    command = parse(Replay, args)
    run_dir = command.run.absolute()
    hub.refuse(command.run)
    runner, directory, described, precision = _built(command, run_dir)
    found = failure.load(directory)
    say(found["message"].partition("\n")[0] + "\n")
    call = {"call": pdb.runcall} if command.debugger else {}
    with blaming(*described), matmul_precision(precision):
        if found["inputs"] is None:
            say(_last_steps(found["samples"]))
            return 1
        rows = [row for x in found["inputs"] for row in map(_summary, _named_leaves(x, "batch"))]
        columns = ["inputs of the update", "shape", "smallest", "largest", "not finite"]
        say(tabulate([row for row in rows if row], columns, "plain") + "\n")
        prepare_resumed(runner.agent, directory)
        result = failure.repeat(runner, directory, **call)
    if result is None:  # the user has left the debugger
        return 1
    say("Repeated, the update is finite.")
    return 0


def _built(command: Replay, run_dir: Path) -> tuple[Any, Path, tuple[Path, bool], str | None]:
    """Return the runner of the run, in one process, and where its failure is.

    Also the file that describes the run, with True if it is trusted, and `matmul_precision`.
    """
    if script_runs.exists(run_dir):
        if command.device is not None:
            raise ValueError(
                f"--device={command.device} cannot be given here: {command.run} is a run of a "
                "script, whose affinity has the device. Leave it out."
            )
        script = script_runs.ScriptRun(run_dir, command.trust)
        rundir.check_files(run_dir, links=script.trusted)
        with blaming(script.path, script.trusted):
            runner = in_one_process(script.runner(script.n_steps))
        directory = script.checkpoints.with_name(failure.DIRECTORY)
        return runner, directory, (script.path, script.trusted), None
    options, trusted = read_config(run_dir, command.trust)
    rundir.check_files(run_dir, links=trusted)
    with blaming(run_dir / CONFIG, trusted):
        options = rebuilt(options, run_dir).updated({"device": command.device or "cpu"})
        runner = build_runner(options, run_dir, debug=True)
    described = run_dir / CONFIG, trusted
    return runner, run_dir / failure.DIRECTORY, described, options.matmul_precision


def _summary(named: tuple[str, Any]) -> tuple[Any, ...] | None:
    """Return a row with the shape and range of a leaf, ``None`` if it is no tensor of numbers."""
    name, leaf = named
    if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or not leaf.numel():
        return None
    finite = torch.isfinite(leaf)
    numbers = leaf[finite].double()
    ends = [f"{x:.4g}" for x in (numbers.min(), numbers.max())] if len(numbers) else ["", ""]
    return name, list(leaf.shape), *ends, int((~finite).sum()) or ""


def _last_steps(samples: Any) -> str:
    """Return the last steps of the environment that returned a number that is not finite."""
    samples = numpify_buffer(samples)
    try:
        t, b, _ = first_not_finite(samples.env, None)
    except ValueError:  # it was returned by the last step, whose observation starts the next batch
        return "The batch itself is finite: the last observation, of the next one, is not."
    rows = [
        (step, samples.env.observation[step, b], samples.agent.action[step, b],
         samples.env.reward[step, b])
        for step in range(max(0, t - N_STEPS), t + 2) if step < len(samples.env.reward)
    ]  # fmt: skip
    table = tabulate(rows, ["step", "observation", "action", "reward"], "plain")
    return f"Steps of column {b} of the batch:\n{table}"
