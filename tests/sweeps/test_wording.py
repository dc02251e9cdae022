"""Messages about sweep files, as users read them: file, line, key, remedy.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

from pathlib import Path

import pytest

from rlpyt.sweeps.expansion import expand
from rlpyt.sweeps.spec import read_spec
from rlpyt.utils.launching.run_limit import TooManyRuns
from rlpyt.utils.names import UnknownName
from tests.wording import check


def sweep(text):
    Path("sweep.yaml").write_text(text)
    expand(read_spec("sweep.yaml"))


def ppo(text):
    sweep("train: ppo\nenv: CartPole-v1\n" + text)


MESSAGES = {
    "key": (
        UnknownName,
        lambda: ppo("gird: {}\n"),
        (
            "sweep.yaml:3: unknown key 'gird'; did you mean 'grid'? Known: args, env, grid, "
            "max_runs, n_samples, options, place, preset, resources, retries, sample, "
            "sample_seed, script, search, seeds, slots, title, together, train, where."
        ),
    ),
    "another name": (
        ValueError,
        lambda: sweep("algo: ppo\nenv: CartPole-v1\n"),
        "sweep.yaml:1: algo is not a key of sweep files; use train: ppo.",
    ),
    "setting": (
        ValueError,
        lambda: ppo("algo:\n  learning_rate: 1e-3\n"),
        "sweep.yaml:3: algo is a setting; give it under options, or its values under grid.",
    ),
    "type": (
        TypeError,
        lambda: ppo("grid:\n  algo.epochs: [1, two]\n"),
        "sweep.yaml:4: algo.epochs: expected a whole number, got 'two'.",
    ),
    "repeated value": (
        ValueError,
        lambda: ppo("grid: {algo.epochs: [1, 1]}\n"),
        "sweep.yaml:3: algo.epochs repeats a value: [1, 1].",
    ),
    "key of its own": (
        ValueError,
        lambda: ppo("grid: {seed: [1, 2]}\n"),
        "sweep.yaml:3: use the key seeds: a count, or a list.",
    ),
    "distribution": (
        UnknownName,
        lambda: ppo("sample:\n  algo.epochs: {unifrom: [1, 3]}\n"),
        (
            "sweep.yaml:4: unknown distribution 'unifrom'; did you mean 'uniform'? Known: "
            "choice, integer, log_uniform, uniform."
        ),
    ),
    "place without cluster": (
        ValueError,
        lambda: ppo("place: {mem_gb: 2}\n"),
        "sweep.yaml:3: place is for where: slurm or ray, not for runs on this machine.",
    ),
    "old name of a setting": (
        ValueError,
        lambda: ppo("gpus_per_run: 2\n"),
        "sweep.yaml:3: gpus_per_run belongs to resources; use resources: {gpus_per_run: 2}.",
    ),
    "environment": (
        ValueError,
        lambda: sweep("train: ppo\n"),
        "sweep.yaml: give env: ENVIRONMENT, or several under grid.",
    ),
    "algorithm": (
        UnknownName,
        lambda: sweep("train: ppoo\nenv: CartPole-v1\n"),
        (
            "sweep.yaml:1: unknown algorithm 'ppoo'; did you mean 'ppo'? Known: a2c, catdqn, "
            "cem, cmaes, crossq, ddpg, dqn, flashsac, impala, iqn, openai_es, ppo, pqn, qrdqn, "
            "r2d1, rainbow, sac, sac_v, simba, td3, vtrace, xqc."
        ),
    ),
    "too many runs": (
        TooManyRuns,
        lambda: ppo("max_runs: 10\nseeds: 11\n"),
        "sweep.yaml:3: 11 runs, and max_runs is 10; set max_runs if this is intended, or sample.",
    ),
    "suffix": (
        ValueError,
        lambda: read_spec(Path("sweep.txt")),
        "sweep.txt: the name must end in .yaml, .json or .toml.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(*MESSAGES[name])
