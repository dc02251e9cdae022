"""Push a run to the Hugging Face Hub: the files of the model, and its card."""

import contextlib
import dataclasses
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from rlpyt.errors import UntrustedFile
from rlpyt.experiments import hub, rundir, script_runs
from rlpyt.experiments.finish import optional
from rlpyt.experiments.options import CONFIG
from rlpyt.experiments.registry import origin
from rlpyt.experiments.run import Evaluation, Run
from rlpyt.runners.runner import PARTS_FILE
from rlpyt.spaces.record import record_of
from rlpyt.utils.checkpoint import MANIFEST, save_checkpoint
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.signed import SIGNATURE, leaves, read_json, schema_of
from rlpyt.version import REPOSITORY, VERSION
from rlpyt.vis.curves import plot_runs

STEPS = "Diagnostics/CumSteps"


def push(
    run: Run, repo_id: str, private: bool = False, message: str = "", dry_run: bool = False
) -> str:
    """Upload a run to the hub as a model; arguments, result and errors are those of `Run.push`.

    A dry run prints the files, needs neither token nor network, and returns an empty address.
    """
    hub.checked_name(repo_id)
    if not dry_run:
        hub.require_token()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_model(run, folder, repo_id)
        sizes = {name: folder / name for name in hub.FILES if (folder / name).is_file()}
        rows = [(f"{path.stat().st_size:,}", name, hub.FILES[name]) for name, path in sizes.items()]
        table = tabulate(rows, tablefmt="plain", colalign=("right", "left", "left"))
        say(f"Files for {repo_id}, in bytes:\n{table}")
        message = message or f"Push {run.name} (rlpyt {VERSION})"
        return "" if dry_run else hub.upload(folder, repo_id, private, message)


def write_model(run: Run, folder: Path, repo_id: str) -> None:
    """Write the files of a model into an empty folder.

    Raises:
        ValueError: settings of the run contain a path of this machine.
        UntrustedFile: a file to copy is a link out of the run directory.
    """
    spaces = record_of(run.agent.env_spaces)
    state = {"agent": run.agent.state_dict(), "itr": run.itr, "spaces": spaces}
    save_checkpoint(folder, state).rename(folder / rundir.AGENT)
    if run.options is None:
        name, described = PARTS_FILE, script_runs.ScriptRun(run.path, trust=True).published()
    else:
        name, described = CONFIG, read_json(run.path / CONFIG, "a run's configuration")
        described.pop(SIGNATURE, None)
        described.pop("init_from", None)  # not needed to load the agent
    _check_paths(described, name)
    _write_json(folder / name, described)
    evaluation = _evaluation(run)
    _write_json(folder / rundir.EVALUATION, evaluation)
    if rundir.has_rows(run.path):
        _copy(run.path / "progress.csv", folder / "progress.csv")
        # By default the label of a script's run is the name of its directory.
        draw = partial(plot_runs, title=run.name, label=lambda _: _algorithm(run))
        optional("learning curve", draw, folder, folder / rundir.CURVE)
    if _is_current(run, run.path / rundir.VIDEO):
        _copy(run.path / rundir.VIDEO, folder / hub.VIDEO)
    card = model_card(run, repo_id, described, evaluation, {path.name for path in folder.iterdir()})
    (folder / hub.CARD).write_text(card, encoding="utf-8")


def _copy(path: Path, to: Path) -> None:
    """Copy a file of a run, which may be a link only within its directory and the hub's cache.

    The config.json of an own run is signed, but links in the directory may be somebody else's.
    """
    inside = path.resolve().is_relative_to(path.parent.resolve())
    if path.is_symlink() and not (inside or hub.is_cached(path)):
        raise UntrustedFile(
            f"{path} must not be a link out of the run directory: the file to which it leads would "
            "be published. Replace it by a copy, or delete it."
        )
    shutil.copyfile(path, to)


def model_card(
    run: Run,
    repo_id: str,
    described: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    files: set[str],
) -> str:
    """Return the model card, Markdown with a header in YAML.

    Args:
        run: the run.
        repo_id: "user/name".
        described: content of config.json or parts.json.
        evaluation: content of evaluation.json.
        files: names of the files beside the card.
    """
    client = hub.library()
    algo, env = _algorithm(run), run.name.partition(" on ")[2]
    task, metric = "reinforcement-learning", "mean_reward"
    score = f"{evaluation['return_mean']:.2f} +/- {evaluation['return_std']:.2f}"
    result = client.EvalResult(task, env, env, metric, score, task_name=task, metric_name=metric)
    header = client.ModelCardData(
        library_name="rlpyt",
        pipeline_tag=task,
        tags=[task, "rlpyt", algo, env],
        model_name=algo,
        eval_results=[result],
    )
    mode = "deterministic" if evaluation["deterministic"] else "sampled"
    cut = evaluation["unfinished"]
    unfinished = f", {cut} of them not played to the end" if cut else ""
    rows = read_progress(run.path) if rundir.has_rows(run.path) else {}
    steps = rows.get(STEPS, np.array([]))
    training = f"\n| training | {int(steps[-1]):,} environment steps |" if len(steps) else ""
    curve = f"![Learning curve]({rundir.CURVE})\n\n" if rundir.CURVE in files else ""
    names = [text for _, text in leaves(described) if re.fullmatch(r"[\w.-]+:[\w.]+", str(text))]
    modules = sorted({x.partition(":")[0] for x in names if origin(x.partition(":")[0]) == "user"})
    required = f"\nThis requires the modules {', '.join(modules)}.\n" if modules else ""
    flag, argument = (" --trust", ", trust=True") if modules else ("", "")
    if run.options is None:
        how = f"By a script. {PARTS_FILE} has the arguments of its agent, algorithm and sampler."
    else:
        command = f"rlpyt train --config hf://{repo_id}{flag}"
        how = f"Train with the same settings:\n\n```\n{command}\n```"
        if run.options.init_from:
            how += "\n\nThis run started from the parameters of another run."
    return f"""---
{header.to_yaml()}
---
# {run.name}

A reinforcement learning agent trained with rlpyt.

| | |
|---|---|
| return | {score} (mean and standard deviation of {len(evaluation["returns"])} episodes, {mode} \
actions, seeds from {evaluation["seed"]}{unfinished}) |
| episode length | {np.mean(evaluation["lengths"]):.0f} steps |{training}
| rlpyt | {described.get("rlpyt", VERSION)} |

{curve}## Use

```
pip install "rlpyt[hub] @ git+{REPOSITORY}"
rlpyt eval hf://{repo_id} --episodes 100{flag}
rlpyt record hf://{repo_id} video.mp4{flag}
```

```python
import rlpyt

run = rlpyt.load("hf://{repo_id}"{argument})
print(run.evaluate(20))
```
{required}
## Training

{how}
"""


def _evaluation(run: Run) -> dict[str, Any]:
    """Return the evaluation of the saved agent, which is evaluated if it has changed since."""
    path = run.path / rundir.EVALUATION
    if _is_current(run, path):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            found = read_json(path, "an evaluation", schema_of(Evaluation))
            names = {item.name for item in dataclasses.fields(Evaluation)}
            known = {name: value for name, value in found.items() if name in names}
            return Evaluation(**known).as_dict()
    say(f"Evaluating {run.name}: {rundir.EVALUATION} is missing, damaged or older than the agent.")
    result = run.evaluate(max_steps=run.options.eval_max_steps if run.options else None)
    say(f"Evaluation: {result}")
    return result.as_dict()


def _is_current(run: Run, path: Path) -> bool:
    """Return True if the file exists, and is of this agent: saved after it."""
    if run.best:
        return False
    saved = [
        *run.path.glob(rundir.SNAPSHOT),
        *run.path.glob(f"{rundir.CHECKPOINTS}/*/{MANIFEST}"),
        *run.path.glob(f"{rundir.AGENT}/{MANIFEST}"),
    ]
    newest = max((file.stat().st_mtime for file in saved), default=0.0)
    return path.is_file() and path.stat().st_mtime >= newest


def _check_paths(described: Mapping[str, Any], file: str) -> None:
    """Check that a description contains no path of this machine; errors name the setting."""
    for name, value in leaves(described):
        text = value if isinstance(value, str) else ""
        within = re.search(r"(^|[=:])/\w", text) or re.search(r"\.(/\w.*)$", name)  # or a key
        absolute = text.startswith(("~", "file:")) or PureWindowsPath(text).is_absolute()
        if absolute or within or f"{Path.home()}/" in text:
            raise ValueError(
                f"{file}: {name}={text!r} is a path of this machine, which must not be published. "
                "Train with a relative path, or with a custom environment that finds the file."
            )


def _algorithm(run: Run) -> str:
    return run.name.partition(" on ")[0].rpartition(":")[2]


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
