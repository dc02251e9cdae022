"""Options of a run: nested changes, and the way through config.json."""

import dataclasses
import json

import numpy as np
import pytest

from rlpyt.cli.train import read_flags
from rlpyt.experiments.options import RunOptions, read_options
from rlpyt.experiments.presets.families import FAMILIES, TUNED, layers
from rlpyt.utils.names import UnknownName, suggestion


@pytest.fixture
def options():
    return RunOptions(algo_name="ppo", env="CartPole-v1", env_args={"gravity": 5.0})


def test_updates_are_nested_and_leave_the_rest(options):
    changed = options.updated(
        {"steps": 7, "sampler": {"batch_B": 3}, "agent": {"hidden_sizes": [5, 6]}, "algo": {"a": 1}}
    ).updated({"algo": {"b": 2}, "env_args": {"length": 1}})
    assert (changed.steps, changed.sampler.batch_B, changed.sampler.batch_T) == (7, 3, 128)
    assert changed.agent.hidden_sizes == (5, 6)
    assert changed.algo == {"a": 1, "b": 2}
    assert changed.env_args == {"gravity": 5.0, "length": 1}
    assert options.steps != 7


def test_optimizer_arguments_are_merged_into_those_of_the_same_optimizer(options):
    options = options.updated({"algo": {"OptimCls": "Adam", "optim_kwargs": {"betas": (0.5, 0.9)}}})
    more = {"optim_kwargs": {"eps": 1e-5}}
    assert options.updated({"algo": more}).algo["optim_kwargs"] == {
        "betas": (0.5, 0.9),
        "eps": 1e-5,
    }
    other = options.updated({"algo": {"OptimCls": "RMSprop", **more}})
    assert other.algo["optim_kwargs"] == {"eps": 1e-5}
    assert options.updated({"algo": {"optim_kwargs": None}}).algo["optim_kwargs"] is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0.5, "cosine:0.5"),
        ("linear:0.2", "cosine:0.2"),
        ("cosine:0.2:0.1", "cosine:0.2"),
        ([(0, 0.3), (1, 0.1)], "cosine:0.3"),
        ("linear", "cosine"),
        (None, "cosine"),
    ],
)
def test_a_shape_without_a_number_begins_as_before(options, before, after):
    options = options.updated({"algo": {"learning_rate": before}})
    assert options.updated({"algo": {"learning_rate": "cosine"}}).algo["learning_rate"] == after


@pytest.mark.parametrize("seconds", [60, np.int64(60), np.float32(60)])
def test_whole_numbers_are_numbers(options, seconds):
    changed = options.updated({"sampler": {"env_timeout": seconds}, "on_fault": {"backoff_s": 2}})
    assert repr((changed.sampler.env_timeout, changed.on_fault.backoff_s)) == "(60.0, 2.0)"
    with pytest.raises(TypeError, match="env_timeout=True must be a float"):
        options.updated({"sampler": {"env_timeout": True}})


@pytest.mark.parametrize(
    ("option", "value", "name", "argument"),
    [
        ("hidden_sizes", (5, 6), "hidden_sizes", [7]),
        ("hidden_sizes", (5, 6), "fc_sizes", [7]),
        ("normalize_observation", True, "normalize_observation", False),
        ("dueling", True, "dueling", False),
        ("noisy", True, "noisy", False),
    ],
)
def test_the_newest_of_a_model_argument_and_its_option_counts(
    options, option, value, name, argument, tmp_path
):
    of_model, of_agent = {"model": {name: argument}}, {option: value}
    own = options.updated({"agent": {"model": {"own": 1}}})
    last = own.updated({"agent": of_agent}).updated({"agent": of_model})
    assert last.agent.model == {"own": 1, name: argument}
    assert not getattr(last.agent, option)
    last.write(tmp_path)
    assert read_options(tmp_path) == last
    last = own.updated({"agent": of_model}).updated({"agent": of_agent})
    assert (last.agent.model, getattr(last.agent, option)) == ({"own": 1}, value)


def test_by_command_too():
    first, _ = read_flags("sac", "Pendulum-v1", ["--agent.model", '{"hidden_sizes": [5]}'])
    assert (first.agent.hidden_sizes, first.agent.model) == (None, {"hidden_sizes": [5]})
    second, _ = read_flags("sac", "Pendulum-v1", ["--agent.hidden-sizes", "6"], first)
    assert (second.agent.hidden_sizes, second.agent.model) == ((6,), {})
    both = ["--agent.hidden-sizes", "6", "--agent.model", '{"hidden_sizes": [7]}']
    with pytest.warns(UserWarning, match=r"hidden_sizes=\(6,\) counts, not .*7"):
        read_flags("sac", "Pendulum-v1", both)


@pytest.mark.parametrize(
    ("steps", "given", "interval"),
    [(20_000, None, 2_000), (5, None, 1), (10**7, None, 250_000), (20_000, 0, 0), (9, 70, 70)],
)
def test_checkpoints_are_a_tenth_of_the_run_apart(options, steps, given, interval):
    changed = options.updated({"steps": steps, "checkpoint_interval_steps": given})
    assert changed.checkpoint_steps == interval


@pytest.mark.parametrize("given", ["wandb,mlflow", ["wandb", "mlflow"], ("wandb,mlflow",)])
def test_loggers_are_a_list_or_separated_by_commas(options, given, tmp_path):
    changed = options.updated({"logger": given})
    assert changed.logger == ("wandb", "mlflow")
    changed.write(tmp_path)
    assert read_options(tmp_path) == changed


@pytest.mark.parametrize(
    "given",
    [["state", "image"], ("state", "image"), '["state", "image"]', ['["state", "image"]']],
)
def test_names_are_words_or_a_list_in_json(options, given):
    changed = options.updated({"agent": {"critic_observation": given}})
    assert changed.agent.critic_observation == ("state", "image")


@pytest.mark.parametrize(
    "given,message",
    [
        (['["state", image]'], "critic_observation=.* JSON"),
        (["[1, 2]"], "critic_observation=1 "),
    ],
)
def test_lists_that_are_no_names_are_refused(options, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        options.updated({"agent": {"critic_observation": given}})


def test_precisions_are_those_of_torch(options):
    with pytest.raises(UnknownName, match="'low'.* medium"):
        dataclasses.replace(options, matmul_precision="low")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"logger": "csv,mlfow"}, ["'mlfow'", "did you mean 'mlflow'?"]),
        ({"stpes": 1}, ["'stpes'", "did you mean 'steps'?"]),
        ({"sampler": {"batchT": 1}}, ["'sampler.batchT'", "did you mean 'sampler.batch_T'?"]),
        ({"zzzzzz": 1}, ["'zzzzzz'.", "Known:"]),
    ],
)
def test_unknown_keys_are_answered_with_the_nearest(options, changes, words):
    with pytest.raises(UnknownName) as error:
        options.updated(changes)
    for word in words:
        assert word in str(error.value)


def test_config_json_gives_the_options_back(options, tmp_path):
    options = options.updated({"agent": {"hidden_sizes": (5, 6)}, "algo": {"epochs": 2}, "seed": 3})
    options.write(tmp_path)
    assert read_options(tmp_path) == options


def test_errors_distinguish_kinds_of_missing_runs(options, tmp_path):
    (tmp_path / "ppo-CartPole-1").mkdir()
    with pytest.raises(FileNotFoundError, match="'ppo-CartPole-1'"):
        read_options(tmp_path / "ppo-CartPole-2")
    with pytest.raises(FileNotFoundError, match=r"no run: .*config\.json"):
        read_options(tmp_path / "ppo-CartPole-1")


def test_runs_of_scripts_are_named_with_a_remedy(tmp_path):
    (tmp_path / "progress.csv").touch()
    with pytest.raises(FileNotFoundError, match="run of a script") as error:
        read_options(tmp_path)
    assert "torch.load" not in str(error.value) and "resume_from" not in str(error.value)
    (tmp_path / "params.pkl").touch()
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(FileNotFoundError, match="run of a script") as error:
        read_options(tmp_path)
    assert f"torch.load('{tmp_path}/params.pkl')['agent_state_dict']" in str(error.value)
    assert f"resume_from='{tmp_path}/checkpoint'" in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not a run's configuration"),
        ("[]", "not a run's configuration"),
        ("{}", "not a run's configuration"),
        ('{"format": 99, "rlpyt": "9.0"}', "format 99, written by rlpyt 9.0"),
        ('{"format": 1, "lerning_rate": 1}', "unknown option 'lerning_rate'"),
    ],
)
def test_damaged_or_newer_configurations_are_explained(tmp_path, text, words):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json") as error:
        read_options(tmp_path)
    assert words in str(error.value)


def test_config_json_is_plain(options, tmp_path):
    options.write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format"] == 1
    assert config["sampler"]["batch_T"] == options.sampler.batch_T


def test_nearest_ignores_case():
    assert (
        suggestion("cartpole-v1", ["CartPole-v1", "Acrobot-v1"]) == "; did you mean 'CartPole-v1'?"
    )
    assert suggestion("q", ["CartPole-v1"]) == "."


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algo_name", ["ppo", "a2c"])
def test_every_preset_is_made_of_options_and_settings(options, family, algo_name):
    from rlpyt.experiments.build import build_algo

    environments = [*TUNED, "any"]
    for env in environments:
        built = RunOptions(algo_name=algo_name, env=env)
        for layer in layers(algo_name, env, family):
            built = built.updated(layer)
        algo = build_algo(built)
        assert algo.learning_rate == float(str(built.algo["learning_rate"]).removeprefix("linear:"))


def test_what_is_tuned_comes_last_and_not_with_an_explicit_preset():
    _, tuned = layers("ppo", "Pendulum-v1", "classic")
    assert tuned == TUNED["Pendulum-v1"]["ppo"]
    assert layers("ppo", "Pendulum-v1", "classic", preset="mujoco") == [
        FAMILIES["mujoco"]["ppo"],
        {},
    ]


def test_unknown_presets_are_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="; .*'mujoco'"):
        layers("ppo", "CartPole-v1", "classic", preset="mujoko")
