"""Invalid sweep files are refused with file and line, before any run starts."""

import time

import pytest

from rlpyt.sweeps.expansion import expand
from rlpyt.sweeps.plan import plan_sweep
from rlpyt.sweeps.spec import SweepSpec, read_spec
from rlpyt.utils.launching.run_limit import TooManyRuns

BASE = "train: ppo\nenv: CartPole-v1\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="sweep.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# Nine levels of nine aliases each: a billion values.
ALIASES = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij")
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BASE + "grid:\n\tenv: [a]\n", ":4: .*spaces, not tabs"),
        (BASE + "seeds: 1\nenv: x\n", ':4: .*"env"'),
        (BASE + "grid: {algo: {a: 1,\n a: 2}}\n", ':4: .*"a"'),
        ("x: '" + "y" * 10_000_000 + "'\n", "100,000 bytes"),
        (
            "a: 1\ntrain: !!python/object/apply:os.system ['x']\n",
            ":2: .*os.system",
        ),
        ("train: !!python/name:os.system ''\n", ":1: .*os.system"),
        ("train: a\nenv: b\x00\n", "sweep.yaml: "),
        ("a: 1\n---\nb: 1\n", ":2: .*document"),
        ("train: [\n", ":2: "),
        (b"train: a\nenv: \xe9\n", ":2: not UTF-8"),
        ("", "yaml: .*keys"),
        ("- 1\n", "yaml: .*keys"),
        (BASE + "1: 2\n", ":3: .*string, got 1"),
        (BASE + f"seeds: {'9' * 5000}\n", "sweep.yaml: "),
        (BASE + f"seeds: {'9' * 400}\n", "seeds .*400 digits"),
        (BASE + "max_runs: 1000000\n", ":3: max_runs "),
        (ALIASES, "100,000 values"),
        ("a: &a [*a]\n", "64 levels"),
        (f"a: {'[' * 100}{']' * 100}\n", "64 levels"),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(file, text, words):
    path = file(text)
    start = time.perf_counter()
    with pytest.raises(ValueError, match=words) as error:
        read_spec(path)
    assert time.perf_counter() - start < 3  # on a busy machine; a tenth of that elsewhere
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", '{\n"train": "ppo",\n}', "a.json:3: "),
        ("a.json", '{"train": "a", "train": "b"}', "'train' .*twice"),
        ("a.json", "[" * 90_000, "a.json: "),
        ("a.toml", 'train = "a"\ntrain = "b"\n', "a.toml: "),
        ("a.txt", BASE, "a.txt: .*json"),
    ],
)
def test_invalid_json_and_toml_are_refused(file, name, text, words):
    with pytest.raises(ValueError, match=words):
        read_spec(file(text, name))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gird: {}\n", ":3: .*'gird'; .*'grid'"),
        ("grid: {}\n", ":3: .*empty"),
        ("grid: 3\n", ":3: .*dictionary, got 3"),
        ("grid: {algo.epochs: []}\n", r":3: algo\.epochs .*no values"),
        ("grid:\n  algo:\n    epochs: 3\n", r":5: algo\.epochs .*got 3"),
        ("grid: {algo.epochs: [1, 1]}\n", r":3: algo\.epochs repeats"),
        ("grid: {algo.discount: [1, 1.0]}\n", ":3: discount_1 and .*_1-2"),
        ("grid: {a.b: [1], a: {b: [2]}}\n", r":3: a\.b .*twice"),
        ("options:\n  steps: 1\n  algo.lr: 1\n", r":5: .*'algo\.lr'"),
        ("options: {sampler: 8}\n", ":3: .*'sampler'"),
        ("options: {seed: 8}\n", ":3: seed .*seeds"),
        (
            "grid:\n  algo.epochs: [1, two]\n",
            r":4: algo\.epochs: .*got 'two'",
        ),
        ("grid:\n  algo.epochs: [1.5]\n", r":4: algo\.epochs: .*got 1\.5"),
        ("options: {tensorboard: no}\n", ":3: tensorboard: .*got 'no'"),
        ("options: {algo.discount: true}\n", r":3: algo\.discount: .*got True"),
        ("grid:\n  algo.discount: [0.9, 2]\n", r":4: discount=2\.0"),
        ("options: {algo.OptimCls: Adm}\n", ":3: .*'Adm'; .*'Adam'"),
        ("options: {sampler.kind: cup}\n", r":3: sampler\.kind: .*serial, cpu"),
        ("options: {device: gpu}\n", ":3: device='gpu'"),
        (
            "options: {env_args: {a: 1}}\ngrid: {env_args: [{b: 2}]}\n",
            ":4: 'env_args' .*twice",
        ),
        ("grid: {seed: [1, 2]}\n", ":3: use .*seeds"),
        ("grid: {env: [CartPole-v1, CartPol-v1]}\n", ":3: .*'CartPol-v1'"),
        (
            "sample: {algo.epochs: {uniform: [1, 3]}}\n",
            r":3: algo\.epochs: .*whole number",
        ),
        (
            "sample:\n  algo.epochs: {unifrom: [1, 3]}\n",
            ":4: .*'unifrom'; .*'uniform'",
        ),
        ("sample:\n  algo: {epochs: {unifrom: 3}}\n", ":4: .*'unifrom'"),
        ("sample:\n  a: {uniform: [1, 2], b: 3}\n", r":4: .*got \{'uniform': \[1, 2"),
        ("sample:\n  a: {uniform: {low: 1}}\n", ":4: uniform: .*got {'low': 1}"),
        ("sample:\n  a: {integer: [3, 1]}\n", r":4: integer: .*got \[3, 1\]"),
        ("sample:\n  a: {integer: [1, 2.5]}\n", ":4: integer: .*two integers"),
        ("sample:\n  a: {log_uniform: [0, 1]}\n", ":4: log_uniform: .*both above 0"),
        ("sample:\n  a: {choice: [1, 1]}\n", ":4: choice: .*different"),
        ("sample:\n  a: {uniform: 1}\n", ":4: uniform: .*list, got 1"),
        ("grid: {a: [1]}\nsample: {a: {choice: [1]}}\n", ":4: a .*grid"),
        ("n_samples: 2\n", ":3: n_samples .*got 2"),
        ("seeds: 0\n", ":3: seeds=0"),
        ("place: {mem_gb: 2}\n", ":3: place .*where: slurm or ray"),
        ("together: 0\n", ":3: together=0"),
        ("where: ray\ntogether: 2\n", ":4: only runs of train on this machine"),
        ("seeds: [1, 1]\n", r":3: .*seed .*\[1, 1\]"),
        ("seeds: [-1]\n", ":3: seed=-1"),
        ("retries: -1\n", ":3: retries=-1"),
        ("where: slrum\n", ":3: .*slurm, ray, got 'slrum'"),
        ("slots: 1cpu\ncpus_per_run: 1\n", ":4: .*resources: {cpus_per_run: 1}"),
        ("gpus_per_run: 2\n", ":3: gpus_per_run .*resources: {gpus_per_run: 2}"),
        ("slots: 1cpu\nresources: {}\n", ":3: resources"),
        ("resources: {cpus_per_rum: 1}\n", ":3: .*resources 'cpus_per_rum'"),
        ("resources: {max_parallel: 0}\n", ":3: max_parallel=0"),
        ("resources: 2\n", ":3: expected"),
        ("slots: 3xyz\n", ":3: .*code '3xyz'"),
        ("slots: 2cpu_0gpu_3cpr\n", ":3: .*code .*3 cores.* 2"),
        ("slots: 0slt_2cpu_1cpr\n", ":3: .*'0slt_2cpu_1cpr' .*slot"),
        ("args: [1]\n", ":3: args .*script"),
        ("script: s.py\n", ":3: .*train or script"),
        ("script: nowhere.py\n", ":3: 'nowhere.py' not found"),
        ("preset: [1]\n", ":3: .*string or null"),
    ],
)
def test_invalid_settings_are_refused_with_their_line(file, text, words):
    file("", "s.py")
    path = file(BASE + text)
    with pytest.raises((ValueError, TypeError), match=words) as error:
        expand(read_spec(path))
    assert str(error.value).startswith(f"{path}:")
    assert str(error.value).count(str(path)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("env: CartPole-v1\n", "train: ALGORITHM"),
        ("train: ppo\n", "env: ENVIRONMENT"),
        ("train: ppoo\nenv: CartPole-v1\n", ":1: .*'ppoo'; .*'ppo'"),
        ("script: s.py\nenv: x\n", ":2: env .*train"),
        ("script: s.py\ngrid: {a: [1], a.b: [2]}\n", "'a.b' .*'a' "),
    ],
)
def test_the_program_to_run_must_be_given_once(file, text, words):
    file("", "s.py")
    with pytest.raises(ValueError, match=words):
        expand(read_spec(file(text)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slots: 8cpu_8gpu", ":3: .*'8cpu_8gpu' .*8 GPUs"),
        ("slots: 4096cpu_1cpr", ":3: .*code .*4096 cores"),
        ("resources: {cpus_per_run: 4096}", ":3: cpus_per_run .*got 4096"),
        (
            "resources: {gpus_per_run: 8}",
            ":3: gpus_per_run .*got 8",
        ),
    ],
)
def test_missing_hardware_is_refused_with_its_line(file, text, words, monkeypatch):
    monkeypatch.setattr("rlpyt.sweeps.slots.n_gpus", lambda: 1)
    with pytest.raises(ValueError, match=words) as error:
        plan_sweep(file(f"{BASE}{text}\n"))
    assert str(error.value).count("sweep.yaml") == 1
    at_a_cluster = file(f"{BASE}slots: 8cpu_8gpu\nwhere: slurm\n")
    assert len(plan_sweep(at_a_cluster).jobs) == 1


def test_a_million_runs_are_refused_without_creating_them(file):
    values = ", ".join(map(str, range(100)))
    path = file(
        BASE + f"grid: {{algo.a: [{values}], algo.b: [{values}]}}\nseeds: 100\nmax_runs: 2e4\n"
    )
    start = time.perf_counter()
    with pytest.raises(TooManyRuns, match=":5: 1,000,000 runs.* max_runs .*20,000"):
        expand(read_spec(path))
    assert time.perf_counter() - start < 1


def test_specs_created_in_python_are_checked():
    with pytest.raises(ValueError, match="^algo.epochs .*no values"):
        SweepSpec(train="ppo", env="CartPole-v1", grid={"algo.epochs": []})
    with pytest.raises(TypeError, match="seeds=2"):
        SweepSpec(train="ppo", env="CartPole-v1", seeds=2)
