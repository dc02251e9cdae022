"""Sweep files: expansion into runs, draws and hardware."""

import doctest
import json
import re
from pathlib import Path

import numpy as np
import pytest

from rlpyt.cli.train import read_flags
from rlpyt.samplers.fault_policy import RESTART
from rlpyt.sweeps.expansion import count, expand, run_options, setting_for
from rlpyt.sweeps.plan import plan_sweep
from rlpyt.sweeps.slots import slots_of
from rlpyt.sweeps.spec import Draw, SweepSpec, read_spec
from rlpyt.utils import names
from rlpyt.utils.launching.machine import Machine
from rlpyt.utils.names import UnknownName, dir_names, labels

PAGE = (Path(__file__).parents[2] / "docs" / "sweep_files.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture
def file(tmp_path):
    def write(text, name="sweep.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def make(**how):
    return SweepSpec(**{"train": "ppo", "env": "CartPole-v1", **how})


def test_the_documented_file_is_read(file):
    spec = read_spec(file(EXAMPLE))
    assert spec.options == {
        "steps": 50_000,
        "sampler.kind": "serial",
        "sampler.batch_B": 8,
        "agent.hidden_sizes": [64, 64],
    }
    assert spec.grid["algo.learning_rate"] == [0.001, 0.0003]
    assert spec.sample["algo.epochs"] == Draw("integer", (2, 10))
    assert (spec.title, spec.where) == ("learning rates of PPO", "local")
    assert spec.resources == {"cpus_per_run": 1, "max_parallel": 2}
    settings = expand(spec)
    assert len(settings) == count(spec) == 24
    assert f"`{settings[0].name}`" in PAGE
    assert run_options(spec, settings[0]).agent.hidden_sizes == (64, 64)


def test_the_documented_python_example_runs(capsys):
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], {})
    assert re.match(r"epochs_4/learning_rate_0\.\d+/run_0 0\.0", capsys.readouterr().out)


def test_documented_and_accepted_keys_are_the_same():
    table = PAGE.split("## Keys")[1].split("**Settings**")[0]
    documented = set(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)) - {"key", "---"}
    documented = {key for cell in documented for key in re.findall(r"`(\w+)`", cell)}
    assert documented == set(SweepSpec.__dataclass_fields__) - {"path", "lines"}


def test_on_fault_is_a_word_as_elsewhere(file):
    text = "title: t\ntrain: ppo\nenv: CartPole-v1\noptions: {on_fault: restart}\n"
    spec = read_spec(file(text))
    assert run_options(spec, expand(spec)[0]).on_fault == RESTART


def test_yaml_json_and_toml_give_the_same_spec(file):
    content = {
        "title": "t",
        "train": "ppo",
        "env": "CartPole-v1",
        "grid": {"algo.epochs": [1, 2]},
        "sample": {"algo": {"discount": {"uniform": [0.9, 0.95]}}},
        "seeds": [3, 5],
    }
    toml = (
        'title = "t"\ntrain = "ppo"\nenv = "CartPole-v1"\nseeds = [3, 5]\n'
        "[grid]\nalgo.epochs = [1, 2]\n[sample.algo.discount]\nuniform = [0.9, 0.95]\n"
    )
    from_json = read_spec(file(json.dumps(content, indent="\t"), "a.json"))
    yaml_is_more_than_json = read_spec(file(json.dumps(content), "b.yaml"))
    assert from_json == yaml_is_more_than_json == read_spec(file(toml, "c.toml"))


def test_dates_of_toml_are_texts_as_in_yaml(file):
    file("", "s.py")
    spec = read_spec(file('script = "s.py"\n[grid]\nk = [2024-01-02, 1, inf]\n', "c.toml"))
    assert spec.grid["k"] == ["2024-01-02", 1, float("inf")]


def test_scalars_follow_yaml_1_2(file):
    file("", "s.py")
    values = "[1e-3, 1E5, -2.5e+3, .5, 1_000, 0x1F, 010, .inf, no, on, 1:30, 2024-01-02, ~, true]"
    spec = read_spec(file(f"script: s.py\ngrid: {{k: {values}, l: ['1e-3', !!str 5]}}\n"))
    assert spec.grid["k"] == [
        *(0.001, 1e5, -2500.0, 0.5, 1000, 31, 10, float("inf")),
        *("no", "on", "1:30", "2024-01-02", None, True),
    ]
    assert spec.grid["l"] == ["1e-3", "5"]


def test_yaml_merges_keys_and_reads_aliases(file):
    text = "script: s.py\ngrid: &base {k: [1]}\noptions: {<<: *base, l: 2}\n"
    file("", "s.py")
    assert read_spec(file(text)).options == {"k": [1], "l": 2}
    assert read_spec(file(text.replace(", l: 2", ""))).options == {"k": [1]}


def test_expanded_settings_have_nested_values_names_and_seeds():
    spec = make(
        options={"steps": 1e5, "env_args.gravity": 5, "algo.epochs": 3},
        grid={"env": ["CartPole-v1", "Acrobot-v1"], "algo.epochs": [1, 2]},
        seeds=(7, 3),
    )
    settings = expand(spec)
    assert [one.name for one in settings[:5]] == [
        *("env_CartPole-v1/epochs_1/run_7", "env_CartPole-v1/epochs_2/run_7"),
        *("env_Acrobot-v1/epochs_1/run_7", "env_Acrobot-v1/epochs_2/run_7"),
        "env_CartPole-v1/epochs_1/run_3",
    ]
    assert settings[3].changes == {
        "algo_name": "ppo",
        "env": "Acrobot-v1",
        "steps": 100_000,
        "env_args": {"gravity": 5},
        "algo": {"epochs": 2},
    }
    assert type(settings[3].changes["steps"]) is int
    assert settings[3].varied == {"env": "Acrobot-v1", "algo.epochs": 2}
    assert [one.seed for one in settings] == [7] * 4 + [3] * 4


def test_a_spec_without_variation_is_one_run():
    [one] = expand(make())
    assert (one.name, one.seed, one.varied) == ("run_0", 0, {})


@pytest.mark.parametrize(
    ("algo_name", "env", "preset", "changes", "flags"),
    [
        (
            *("ppo", "CartPole-v1", None),
            {"algo.learning_rate": 1, "sampler.batch_B": 4, "agent.hidden_sizes": [8, 9]},
            "--algo.learning-rate 1 --sampler.batch-B 4 --agent.hidden-sizes 8 9",
        ),
        (
            *("dqn", "CartPole-v1", None),
            {"algo.OptimCls": "RMSprop", "algo.optim_kwargs.eps": 0.1, "agent.dueling": True},
            """--algo.optim-cls RMSprop --algo.optim-kwargs {"eps":0.1} --agent.dueling""",
        ),
        (*("ppo", "Pendulum-v1", "mujoco"), {"steps": 9}, "--preset mujoco --steps 9"),
    ],
)
def test_options_equal_those_of_rlpyt_train(algo_name, env, preset, changes, flags):
    spec = SweepSpec(train=algo_name, env=env, preset=preset, options=changes, seeds=(4,))
    expected, _ = read_flags(algo_name, env, [*flags.split(), "--seed", "4"])
    [setting] = expand(spec)
    assert run_options(spec, setting) == expected


def test_algorithms_can_be_compared():
    spec = make(train=None, grid={"algo_name": ["ppo", "a2c"]})
    assert [run_options(spec, one).algo_name for one in expand(spec)] == ["ppo", "a2c"]
    with pytest.raises(UnknownName, match=r"'algo\.epochs'"):  # a2c has none
        expand(make(train=None, grid={"algo_name": ["ppo", "a2c"], "algo.epochs": [1]}))


def test_scripts_accept_custom_settings(file):
    file("", "mine.py")
    text = """
        script: mine.py
        args: [--fast, 3, 0.5]
        options: {env: {id: pong}}
        grid: {algo.whatever: [1, [2, 3]], game: [{a: 1}, x/y]}
    """
    spec = read_spec(file(text))
    assert Path(spec.script).is_file() and spec.args == ("--fast", "3", "0.5")
    settings = expand(spec)
    assert [one.name for one in settings] == [
        *("whatever_1/game_a_1/run_0", "whatever_1/game_x-y/run_0"),
        *("whatever_2-3/game_a_1/run_0", "whatever_2-3/game_x-y/run_0"),
    ]
    assert settings[2].changes == {
        "env": {"id": "pong"},
        "algo": {"whatever": [2, 3]},
        "game": {"a": 1},
    }
    with pytest.raises(ValueError, match="options .*script"):
        run_options(spec, settings[0])


def test_values_chosen_by_a_search_become_settings():
    spec = make(options={"steps": 10})
    setting = setting_for(spec, {"algo.epochs": 4.0}, "trial_3", seed=2)
    assert (setting.name, setting.varied, setting.seed) == ("trial_3/run_2", {"algo.epochs": 4}, 2)
    assert run_options(spec, setting).algo["epochs"] == 4
    with pytest.raises(ValueError, match=r"discount=2\.0"):
        setting_for(spec, {"algo.discount": 2}, "trial_4")


# Draws


def test_draws_are_reproducible_and_unchanged_by_further_draws():
    sample = {"algo.discount": Draw("uniform", (0.5, 0.6)), "algo.epochs": Draw("integer", (1, 3))}
    small = make(sample=sample, n_samples=3, grid={"sampler.batch_T": [8, 16]})
    large = make(sample=sample, n_samples=5, grid={"sampler.batch_T": [4, 8, 16]}, seeds=range(2))
    few, many = ({one.name: one.varied for one in expand(spec)} for spec in (small, large))
    assert len(few) == 6 and len(many) == 30
    assert few.items() <= many.items()
    discounts = [varied["algo.discount"] for varied in few.values()]
    assert len(set(discounts)) == 6 and all(0.5 <= value < 0.6 for value in discounts)
    other = expand(make(sample=sample, n_samples=3, sample_seed=1))
    assert other[0].varied != expand(make(sample=sample, n_samples=3))[0].varied


def test_draws_of_a_cell_are_distinct_while_possible():
    spec = make(sample={"algo.epochs": Draw("integer", (3, 6))}, n_samples=4)
    assert {one.varied["algo.epochs"] for one in expand(spec)} == {3, 4, 5, 6}
    with pytest.raises(ValueError, match="n_samples .* 4, got 5"):
        make(sample=spec.sample, n_samples=5)


def test_draws_follow_the_requested_distributions():
    rng = np.random.default_rng(0)
    drawn = np.array([Draw("log_uniform", (1e-4, 1e-2)).draw(rng) for _ in range(4000)])
    assert drawn.min() >= 1e-4 and drawn.max() <= 1e-2
    assert abs(np.mean(drawn < 1e-3) - 0.5) < 0.03  # as many in each decade
    uniform = np.array([Draw("uniform", (2, 4)).draw(rng) for _ in range(4000)])
    assert abs(np.mean(uniform < 2.5) - 0.25) < 0.03
    assert {Draw("choice", ("a", None)).draw(rng) for _ in range(50)} == {"a", None}


# Names


def test_labels_are_as_short_as_possible():
    assert labels(["algo.learning_rate", "env"])["algo.learning_rate"] == "learning_rate"
    assert labels(["agent.args.eps", "algo.eps", "eps"]) == {
        "agent.args.eps": "args.eps",
        "algo.eps": "algo.eps",
        "eps": "eps",
    }


def test_names_are_safe_short_and_unique():
    assert dir_names(
        [{"a": v} for v in (1e-3, 3, True, None, "../x y", [64, 64], {"b": 2.50})]
    ) == [
        *("a_0.001", "a_3", "a_True", "a_None", "a_..-x-y", "a_64-64", "a_b_2.5"),
    ]
    assert dir_names([{"a": "X/y"}, {"a": "x-y"}, {"a": "x-y-2"}]) == [
        "a_X-y",
        "a_x-y-2",
        "a_x-y-2-2",
    ]
    long = dir_names([{"a": "x" * 300}, {"a": "x" * 300 + "y"}])
    assert len(set(long)) == 2 and all(len(name) == 80 for name in long)
    spec = make(grid={"algo.learning_rate": [0.1234567, 0.12345671]})
    assert len({one.name for one in expand(spec)}) == 2


def test_examples_in_docstrings_run():
    results = doctest.testmod(names)
    assert results.attempted == 4 and results.failed == 0


@pytest.mark.parametrize(
    ("resources", "where", "n_slots", "n_cores", "n_gpus"),
    [
        ("{}", "local", 8, 1, 0),
        ("{cpus_per_run: 3}", "local", 2, 3, 0),
        ("{cpus_per_run: 3, max_parallel: 1}", "local", 1, 3, 0),
        ("{gpus_per_run: 2}", "local", 2, 4, 2),
        ("{gpus_per_run: 1, max_parallel: 2}", "local", 2, 4, 1),
        ("{cpus_per_run: 8, gpus_per_run: 1}", "local", 1, 8, 1),
        ("null", "local", 8, 1, 0),
        ("null", "slurm", 1, 1, 0),
        ("{cpus_per_run: 64}", "slurm", 1, 64, 0),
        ("{cpus_per_run: 4, gpus_per_run: 2, max_parallel: 16}", "slurm", 16, 4, 2),
    ],
)
def test_resources_divide_the_machine(resources, where, n_slots, n_cores, n_gpus, tmp_path, eight):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        f"train: ppo\nenv: CartPole-v1\nresources: {resources}\nwhere: {where}\nseeds: 2\n"
    )
    planned = plan_sweep(path)
    slots = slots_of(planned.resources, where)
    assert len(slots) == n_slots
    assert [len(slot.gpus) for slot in slots] == [n_gpus] * n_slots
    gpus = f", {n_gpus} GPU{'s' * (n_gpus > 1)}" if n_gpus else ""
    share = f"{n_cores} core{'s' * (n_cores > 1)}{gpus} each"
    assert f"2 runs, {n_slots} at once ({share}, {where})" in planned.describe()[0]


@pytest.fixture
def eight(monkeypatch):
    """A machine of 8 cores and 4 GPUs."""
    machine = Machine(cpus=tuple(range(8)), n_core=8, hyperthread_offset=0)
    monkeypatch.setattr(Machine, "here", lambda: machine)
    monkeypatch.setattr("rlpyt.sweeps.slots.n_gpus", lambda: 4)
    monkeypatch.setattr("rlpyt.sweeps.slots.run_cpus", lambda resources: None)
