"""Flags of the command line from dataclasses, their help, and errors."""

import collections
import dataclasses
import io
import re
import sys
from typing import Annotated, Any, Literal, get_type_hints

import pytest
import tyro

from rlpyt.cli.flags import UsageError, parse, settings_class
from rlpyt.cli.train import _early_flag, read_flags
from rlpyt.experiments.options import Settings
from rlpyt.experiments.registry import ALGORITHMS, algorithm_class
from rlpyt.samplers.fault_policy import RAISE, RESTART
from rlpyt.utils.checks import setting


@dataclasses.dataclass(eq=False)
class Base:
    discount: float = setting(0.99, ge=0, le=1, doc="gamma, per environment step")
    epochs: int = setting(4, doc="passes over each batch")


@dataclasses.dataclass(eq=False)
class Algo(Base):
    """An algorithm; a docstring: with a colon."""

    epochs: int = setting(10, ge=1, doc="passes, 3-10")
    OptimCls: type[dict] = setting(collections.OrderedDict, doc="given by its name")
    optim_kwargs: dict[str, Any] | None = None
    state: Any = setting(dict, doc="not for a command line")
    name: str = "undocumented"
    kind: Literal["x", "y"] = setting("x", doc="one of two")
    clip: float | None = setting(None, gt=0, doc="off by default")
    schedule: bool = setting(True, doc="fall linearly")


AlgoFlags = settings_class(Algo, "AlgoFlags")


@dataclasses.dataclass(frozen=True)
class Command:
    algo: AlgoFlags = dataclasses.field(default_factory=AlgoFlags)
    settings: Settings = dataclasses.field(default_factory=Settings)
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])] = ""
    dry_run: bool = False  # and --dry-run, its name on the line


def read(*argv):
    return parse(Command, argv, prog="prog", description="What it does.")


def help_of(cls):
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint.__metadata__[0].help for name, hint in hints.items()}


def test_help_has_documentation_and_range():
    assert help_of(AlgoFlags) == {
        "discount": "gamma, per environment step [>= 0, <= 1]",
        "epochs": "passes, 3-10 [>= 1]",
        "OptimCls": "given by its name",
        "optim_kwargs": "",
        "name": "",
        "kind": "one of two",
        "clip": "off by default [> 0]",
        "schedule": "fall linearly",
    }


@pytest.mark.parametrize("algo_name", ALGORITHMS)
def test_every_flag_of_every_algorithm_has_help(algo_name):
    assert all(help_of(settings_class(algorithm_class(algo_name), "AlgoFlags")).values())


def test_settings_class_keeps_what_fits_on_a_line_in_order():
    names = [item.name for item in dataclasses.fields(AlgoFlags)]
    assert names == [
        *("discount", "epochs", "OptimCls", "optim_kwargs", "name", "kind", "clip", "schedule"),
    ]
    assert AlgoFlags().epochs == 10 and AlgoFlags().OptimCls == "collections:OrderedDict"


def test_dictionaries_are_json_or_none():
    assert read("--algo.optim-kwargs", '{"eps": 1e-5}').algo.optim_kwargs == {"eps": 1e-5}
    for nothing in ([], ["--algo.optim-kwargs", "None"], ["--algo.optim-kwargs", "null"]):
        assert read(*nothing).algo.optim_kwargs is None


def test_a_dictionary_that_must_be_there_cannot_be_none(capsys):
    with pytest.raises(SystemExit, match="2"):
        read("--settings.env-args", "None")
    assert "env-args" in capsys.readouterr().err


def test_dictionaries_extend_those_of_the_preset():
    flags = ["--agent.args", '{"eps_init": 0.9}', "--env-args", '{"frame_skip": 2}']
    options, _ = read_flags("dqn", "CartPole-v1", flags)
    assert options.agent.args == {"eps_final": 0.04, "eps_init": 0.9}
    assert options.env_args == {"frame_skip": 2}
    changed, _ = read_flags("dqn", "CartPole-v1", ["--agent.args", '{"eps_final": 0.5}'])
    assert changed.agent.args == {"eps_final": 0.5}
    plain, _ = read_flags("dqn", "CartPole-v1", [])
    assert dataclasses.replace(plain, agent=options.agent, env_args=options.env_args) == options


def test_classes_are_given_by_name():
    assert read("--algo.optim-cls", "Counter").algo.OptimCls == "Counter"


def test_typed_flags_reach_nested_settings():
    command = read(
        *("--algo.discount", "0.5", "--algo.no-schedule", "--algo.clip", "0.2"),
        *("--settings.sampler.batch-T", "7", "--settings.agent.hidden-sizes", "3", "4"),
        *("--settings.env-args", '{"gravity": 5.0}'),
    )
    assert (command.algo.discount, command.algo.schedule, command.algo.clip) == (0.5, False, 0.2)
    assert command.settings.sampler.batch_T == 7
    assert command.settings.agent.hidden_sizes == (3, 4)
    assert command.settings.env_args == {"gravity": 5.0}


def test_normalization_has_short_flags():
    flags = [
        "--normalize-reward",
        "--no-normalize-observation",
        "--agent",
        "rlpyt:GaussianMlpAgent",
    ]
    options, _ = read_flags("ppo", "HalfCheetah-v5", flags)
    assert options.algo["normalize_reward"] and not options.agent.normalize_observation
    assert options.agent.cls == "rlpyt:GaussianMlpAgent"
    assert read_flags("ppo", "HalfCheetah-v5", [])[0].agent.normalize_observation


@pytest.mark.parametrize("flags", [["--on-fault", "restart"], ["--on_fault=restart"]])
def test_on_fault_takes_a_word_for_all_kinds(flags):
    more = ["--on-fault.env-hang", "raise", "--sampler.env-timeout", "2"]
    options, _ = read_flags("ppo", "CartPole-v1", [*flags, *more])
    assert options.on_fault == dataclasses.replace(RESTART, env_hang="raise")
    assert options.sampler.env_timeout == 2
    flags = [flag.replace("restart", "raise") for flag in flags]
    assert read_flags("ppo", "CartPole-v1", flags)[0].on_fault == RAISE
    with pytest.raises(UsageError, match="--on-fault must be restart or raise, got restart_env"):
        read_flags("ppo", "CartPole-v1", ["--on-fault", "restart_env"])


def test_words_with_dashes_and_flags_as_values_are_taken_as_they_are():
    command = read("--output=--settings.steps", "--settings.seed", "5")
    assert command.output == "--settings.steps"
    assert read("--output", "a \u2013 b").output == "a \u2013 b"
    assert read("--output", "\u2013 b").output == "\u2013 b"


def test_help_shows_documentation_ranges_and_defaults(capsys):
    with pytest.raises(SystemExit) as stop:
        read("--help")
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "What it does." in shown
    assert "--algo.discount FLOAT gamma, per environment step [>= 0, <= 1] (default: 0.99)" in shown
    assert "time steps per batch and environment (default: 128)" in shown


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--algo.discuont", "0.9"], ["--algo.discuont", "Perhaps you meant: --algo.discount"]),
        (["--dryrun"], ["Perhaps you meant: --dry-run"]),
        (["--settings.steps", "12a"], ["--settings.steps", "'12a'"]),
        (["--settings.steps", "1.5"], ["--settings.steps", "'1.5'"]),
        (["--settings.steps"], ["--settings.steps", "Missing value"]),
        (["--algo.kind", "z"], ["'z'", "--algo.kind", "'x', 'y'"]),
        (["--settings.env-args", "[1]"], ["--settings.env-args", "JSON object", "[1]"]),
        (["--settings.env-args", "{"], ["--settings.env-args"]),
        (["--algo.optim-kwargs", "[1]"], ["--algo.optim-kwargs", "JSON object", "[1]"]),
        (["--algo.optim-kwargs", "eps"], ["--algo.optim-kwargs"]),
        (["--algo.optim-clss", "Adam"], ["Perhaps you meant: --algo.optim-cls"]),
        (["--settings.sampler.kind", "cpuu"], ["'cpuu'", "'cpu'"]),
        (["--settings.agent.hidden-sizes", "64,64"], ["'64,64'", "INT [INT ...]"]),
        (["\u2014settings.steps", "5"], ["settings.steps"]),
        (["stray"], ["stray"]),
    ],
)
def test_bad_flags_are_named(argv, words, encoding, monkeypatch):
    stderr = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(SystemExit, match="2"):
        read(*argv)
    stderr.seek(0)
    message = " ".join(re.sub(r"[│|─╭╮╰╯+?]|--{3,}|\x1b\[[0-9;]*m", " ", stderr.read()).split())
    assert "prog --help" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "argv, expected",
    [
        (["--algo.normalize-advantage"], True),
        (["--algo.normalize_advantage", "--seed", "3"], True),
        (["--algo.no-normalize-advantage"], False),
        (["--algo.normalize-advantage", "True"], True),
        (["--algo.normalize-advantage", "minibatch"], "minibatch"),
    ],
)
def test_a_switch_with_further_values_is_still_a_switch(argv, expected):
    options, _ = read_flags("ppo", "CartPole-v1", argv)
    assert options.algo["normalize_advantage"] == expected


def test_integers_may_have_an_exponent(capsys):
    read_back = read("--algo.epochs", "1e3", "--settings.steps", "2_000")
    assert read_back.algo.epochs == 1000 and type(read_back.algo.epochs) is int
    assert read_back.settings.steps == 2000
    for bad in ("1.5", "1e-3", "inf", "many"):
        with pytest.raises(SystemExit):
            read("--algo.epochs", bad)
        assert f"expected an integer, got '{bad}'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "flags, said",
    [
        ("dqn CartPole-v1 --train-freq 4", "--algo.replay-ratio in rlpyt: samples trained on per"),
        ("sac Pendulum-v1 --batch-size 64", "--batch-size is called --algo.batch-size in rlpyt."),
        ("ppo CartPole-v1 --batch-size 64", "--algo.minibatches in rlpyt: the number of minibatch"),
        ("dqn CartPole-v1 --exploration-fraction 0.1", "--algo.eps-steps in rlpyt: a number of st"),
        ("td3 Pendulum-v1 --policy-delay 2", "--algo.policy-update-interval in rlpyt."),
    ],
)
def test_settings_of_other_libraries_are_translated(flags, said, capsys):
    algo_name, env_id, *rest = flags.split()
    with pytest.raises(SystemExit):
        read_flags(algo_name, env_id, rest)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--run_dir", "x"], ["--run-dir=x"], ["--run_dir=x"]])
def test_flags_that_are_read_early_may_have_underscores(flags):
    assert _early_flag("--run-dir", ["ppo", *flags]) == "x"
    assert _early_flag("--run-dir", ["ppo", "--run-dir"]) is None
