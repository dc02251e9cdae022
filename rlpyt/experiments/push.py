"""Push a run to the Hugging Face Hub: the files of the model, and its card."""

import contextlib
import dataclasses
import io
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from rlpyt.experiments import hub, rundir, script_runs
from rlpyt.experiments.finish import optional
from rlpyt.experiments.options import CONFIG, RunOptions
from rlpyt.experiments.registry import algorithm_class, origin
from rlpyt.experiments.run import Evaluation, Run
from rlpyt.experiments.settings import default_options, hyphenated, plain_fields, setting_types
from rlpyt.runners.runner import PARTS_FILE
from rlpyt.utils.checkpoint import MANIFEST, save_checkpoint
from rlpyt.utils.extras import missing_extra
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.recorded import has_marks
from rlpyt.utils.signed import SIGNATURE, read_json
from rlpyt.version import REPOSITORY, VERSION
from rlpyt.vis.curves import plot_runs

STEPS = "Diagnostics/CumSteps"


def push(
    run: Run, repo_id: str, private: bool = False, message: str = "", dry_run: bool = False
) -> str:
    """Upload a run to the hub as a model, in one commit.

    Args:
        run: trained run; its directory is only read.
        repo_id: "user/name"; created if it does not exist.
        private: create it as private.
        message: message of the commit.
        dry_run: print the files without uploading them; needs neither token nor network.

    Returns:
        The address of the model; empty for a dry run.

    Raises:
        ValueError: the name is invalid, or settings contain a path of this machine.
        PermissionError: there is no token, or it may not write there.
        ConnectionError: the hub cannot be reached.
        ImportError: huggingface_hub is missing.
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
        return "" if dry_run else hub.upload(folder, repo_id, private, message or _message(run))


def write_model(run: Run, folder: Path, repo_id: str) -> None:
    """Write the files of a model into an empty folder.

    Raises:
        ValueError: settings of the run contain a path of this machine.
    """
    state = {"agent": run.agent.state_dict(), "itr": run.itr}
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
        shutil.copyfile(run.path / "progress.csv", folder / "progress.csv")
        # By default the label of a script's run is the name of its directory.
        draw = partial(plot_runs, title=run.name, label=lambda _: _algorithm(run))
        optional("learning curve", draw, folder, folder / rundir.CURVE)
    if _is_current(run, run.path / rundir.VIDEO):
        shutil.copyfile(run.path / rundir.VIDEO, folder / hub.VIDEO)
    card = model_card(run, repo_id, described, evaluation, {path.name for path in folder.iterdir()})
    (folder / hub.CARD).write_text(card, encoding="utf-8")


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
    algo, env = _algorithm(run), run.name.partition(" on ")[2]
    score = f"{evaluation['return_mean']:.2f} +/- {evaluation['return_std']:.2f}"
    task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    result = {
        "task": task,
        "dataset": {"name": env, "type": env},
        "metrics": [{"type": "mean_reward", "value": score, "name": "mean_reward"}],
    }
    header = {
        "library_name": "rlpyt",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "rlpyt", algo, env],
        "model-index": [{"name": algo, "results": [result]}],
    }
    seeds = f"seeds from {evaluation['seed']}"
    mode = "deterministic" if evaluation["deterministic"] else "sampled"
    cut = evaluation["unfinished"]
    unfinished = f", {cut} of them not played to the end" if cut else ""
    facts = {
        "return": f"{score} (mean and standard deviation of {len(evaluation['returns'])} episodes, "
        f"{mode} actions, {seeds}{unfinished})",
        "episode length": f"{np.mean(evaluation['lengths']):.0f} steps",
        **_training_facts(run),
        "rlpyt": described.get("rlpyt", VERSION),
    }
    modules = sorted(set(_custom_modules(described)))
    flag, argument = (" --trust", ", trust=True") if modules else ("", "")
    return "\n".join(
        [
            f"---\n{_yaml(header)}---",
            f"# {run.name}",
            "",
            "A reinforcement learning agent trained with rlpyt.",
            "",
            "| | |\n|---|---|",
            *(f"| {name} | {text} |" for name, text in facts.items()),
            "",
            *[f"![Learning curve]({rundir.CURVE})\n"] * (rundir.CURVE in files),
            "## Use",
            "",
            f'```\npip install "rlpyt[hub] @ git+{REPOSITORY}"\n'
            f"rlpyt eval hf://{repo_id} --episodes 100{flag}\n"
            f"rlpyt record hf://{repo_id} video.mp4{flag}\n```",
            "",
            "```python\nimport rlpyt\n\n"
            f'run = rlpyt.load("hf://{repo_id}"{argument})\nprint(run.evaluate(20))\n```',
            "",
            *[f"This requires the modules {', '.join(modules)}.\n"] * bool(modules),
            "## Training",
            "",
            _training(run.options, described, repo_id),
        ]
    )


def training_command(options: RunOptions) -> str:
    """Return the command that trains with these options, or "" if a setting has no flag."""
    described = options.described()
    if not isinstance(described["algo_name"], str) or not isinstance(described["env"], str):
        return ""
    default = default_options(options.algo_name, options.env).described()
    changed = dict(_differences(described, default))
    changed.pop("init_from", None)  # a directory of this machine
    if has_marks(changed) or not changed.keys() <= setting_types(options.algo_name).keys():
        return ""
    classes = plain_fields(algorithm_class(options.algo_name))
    flags: list[str] = []
    for name, value in changed.items():
        group, _, last = name.rpartition(".")
        is_class = group == "algo" and classes[last].is_class
        flag = f"{group}.{hyphenated(last)}" if is_class else name.replace("_", "-")
        if isinstance(value, bool):
            prefix, dot, last = flag.rpartition(".")
            flags.append(f"--{flag}" if value else f"--{prefix}{dot}no-{last}")
        else:
            values = value if isinstance(value, tuple | list) else [value]
            texts = (json.dumps(v) if isinstance(v, dict) else str(v) for v in values)
            flags += [f"--{flag}", *texts]
    return shlex.join(["rlpyt", "train", options.algo_name, options.env, *flags])


def _training(options: RunOptions | None, described: Mapping[str, Any], repo_id: str) -> str:
    """Return the section on training: the command, or the parts of a script."""
    if options is None:
        code = _python(described["runner"])
        return f"By a script with these parts ({PARTS_FILE}):\n\n```python\n{code}\n```\n"
    command = training_command(options)
    again = "It started from the parameters of another run.\n\n" if options.init_from else ""
    again += f"The same settings for a new run: `rlpyt train --config hf://{repo_id}`.\n"
    return f"```\n{command}\n```\n\n{again}" if command else again


def _differences(
    options: Mapping[str, Any], default: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the settings that differ, by dotted name."""
    for key, value in options.items():
        if not prefix and key in ("algo", "agent", "sampler"):
            yield from _differences(value, default[key], f"{key}.")
        elif key not in default or value != default[key]:
            yield f"{prefix}{key}", value


def _training_facts(run: Run) -> dict[str, str]:
    """Return the number of steps, if it is known."""
    rows = read_progress(run.path) if rundir.has_rows(run.path) else {}
    steps = rows.get(STEPS, np.array([]))
    return {"training": f"{int(steps[-1]):,} environment steps"} if len(steps) else {}


def _evaluation(run: Run) -> dict[str, Any]:
    """Return the evaluation of the saved agent, which is evaluated if it has changed since."""
    path = run.path / rundir.EVALUATION
    if _is_current(run, path):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            found = read_json(path, "an evaluation")
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


def _check_paths(value: Any, place: str) -> None:
    """Check that a description contains no path of this machine.

    Raises:
        ValueError: it does; the message names the setting.
    """
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            _check_paths(item, f"{place}: {key}" if place in hub.FILES else f"{place}.{key}")
    elif isinstance(value, str):
        absolute = value.startswith(("/", "~", "file:")) or PureWindowsPath(value).is_absolute()
        if absolute or f"{Path.home()}/" in value:
            raise ValueError(
                f"{place}={value!r} is a path of this machine, which must not be published. Train "
                "with a relative path, or with a custom environment that finds the file."
            )


def _custom_modules(value: Any) -> Iterator[str]:
    """Yield the custom modules that a description names."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _custom_modules(item)
    elif isinstance(value, str) and re.fullmatch(r"[\w.-]+:[\w.]+", value):
        module = value.partition(":")[0]
        if origin(module) == "user":
            yield module


def _python(value: Any) -> str:  # noqa: PLR0911 - a case per kind
    """Return a description as Python code."""
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "$name" in value:
        return str(value["$name"].rpartition(":")[2])
    if "$path" in value:
        return f"Path({value['$path']!r})"
    if "$tuple" in value:
        return f"tuple({_python(value['$tuple'])})"
    if "$call" in value:
        given = [f"{key}={_python(item)}" for key, item in value["kwargs"].items()]
        name = value["$call"].rpartition(":")[2]
        inner = ",\n".join(given).replace("\n", "\n    ")
        long = len(", ".join(given)) > 60
        return f"{name}(\n    {inner},\n)" if long else f"{name}({', '.join(given)})"
    if "$partial" in value:
        given = [*map(_python, value["args"])]
        given += [f"{key}={_python(item)}" for key, item in value["kwargs"].items()]
        return f"partial({', '.join([_python(value['$partial']), *given])})"
    return f"{{{', '.join(f'{key!r}: {_python(item)}' for key, item in value.items())}}}"


def _algorithm(run: Run) -> str:
    return run.name.partition(" on ")[0].rpartition(":")[2]


def _message(run: Run) -> str:
    return f"Push {run.name} (rlpyt {VERSION})"


def _yaml(value: Any) -> str:
    stream = io.StringIO()
    try:
        from ruamel.yaml import YAML
    except ImportError as error:
        raise missing_extra("A model card", "hub", error.name) from error
    yaml = YAML(pure=True)
    yaml.default_flow_style = False
    yaml.dump(value, stream)
    return stream.getvalue()


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
