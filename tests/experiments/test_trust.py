"""Runs and models of somebody else cannot run programs; those of this user need no flag."""

import inspect
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch

import rlpyt
from rlpyt.cli.main import main
from rlpyt.envs.gym import make
from rlpyt.errors import DamagedFile, RlpytError, UntrustedFile
from rlpyt.experiments import hub, trust
from rlpyt.experiments.options import RunOptions, read_config
from rlpyt.experiments.push import write_model
from rlpyt.experiments.run import train
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils import signed
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.signed import SIGNATURE

# A module in the working directory, which says that it was imported or called.
EVIL = """
import gymnasium
def touch(*args, **kwargs):
    open("marker", "w").close()
touch()
Env = Agent = Model = Memory = Algo = Curriculum = touch
gymnasium.register("Evil-v0", entry_point=touch)
"""
SERIAL = {"kind": "serial", "batch_T": 8, "batch_B": 2, "max_decorrelation_steps": 0}
BASE = dict(steps=32, log_interval_steps=16, eval_episodes=0, video=False)


def make_runs(folder):
    """Make two runs in a folder: of the command line, and of a script."""
    options = RunOptions(algo_name="a2c", env="CartPole-v1", **BASE)
    agent = {"model": {"hidden_sizes": [8]}}
    train(options.updated({"sampler": SERIAL, "agent": agent}), folder / "config")
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=8, batch_B=2)
    agent = rlpyt.CategoricalMlpAgent()
    runner = MinibatchRl(algo=rlpyt.A2C(), agent=agent, sampler=sampler, n_steps=32)
    with run_context(folder / "parts", 0, "script", snapshot_mode="last"):
        runner.train()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the directory of two runs."""
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a directory with modules that must not be imported."""
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text(EVIL)
    return tmp_path


def merged(old, changes):
    """Return a document with nested changes; "a.b" is a key of a key."""
    for place, value in changes.items():
        *keys, last = place.split("/")
        inner = old
        for key in keys:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return old


def attacked(runs, kind, changes, path="run"):
    """Return a copy of a run whose description has been changed by somebody else."""
    run_dir = Path(shutil.copytree(runs / kind, path))
    file = run_dir / f"{kind}.json"
    file.write_text(json.dumps(merged(json.loads(file.read_text()), changes)))
    return run_dir


def command(*args):
    with pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    return caught.value.code


READERS = {
    "eval": lambda run: command("eval", run, "--episodes", 1),
    "resume": lambda run: command("resume", run, "--steps", 64),
    "export": lambda run: command("export", run, "--to", "torch"),
    "record": lambda run: command("record", run, "--gif", "--max-steps", 2),
    "push": lambda run: command("push", run, "somebody/model", "--dry-run"),
    "upload": lambda run: command("upload", run, "--logger", "mlflow"),
    "load": lambda run: rlpyt.load(run) and 0,
    "train": lambda run: command(
        "train", "--config", run, "--run-dir", "again", "--steps", 32, "--eval-episodes", 0
    ),
}


def call(name, **kwargs):
    return {"$call": name, "kwargs": kwargs}


ENCODERS = "agent/model/encoders"
ARGS, SAMPLER = "runner/kwargs", "runner/kwargs/sampler/kwargs"
TOUCH = ["touch", "marker"]
# By name: changes of config.json.
CONFIGS = {
    "function of os": {"env": "os:system", "env_args": {"command": "touch marker"}},
    "process": {"env": "subprocess:Popen", "env_args": {"args": TOUCH}},
    "library": {"agent/model_cls": "ctypes:CDLL"},
    "unpickler": {"algo_name": "pickle:Unpickler"},
    "function of a package": {"env": "joblib:load", "env_args": {"filename": "marker"}},
    "module with effects": {"env_args": {"id": "antigravity:Env"}},
    "our function": {"env": "rlpyt.experiments.run:train"},
    "exec": {"env": "builtins:exec", "env_args": {"source": "open('marker', 'w')"}},
    "type": {"env": "builtins:type", "env_args": {"name": "X", "bases": [], "dict": {}}},
    "getattr": {"env": "builtins:getattr", "env_args": {"o": "os", "name": "system"}},
    "partial": {"env": "functools:partial", "env_args": {"func": "evil:touch"}},
    "import": {"env": "importlib:import_module", "env_args": {"name": "evil"}},
    "attribute of a module": {"env": "rlpyt.cli.main:importlib.import_module"},
    "attribute of our module": {"env": "rlpyt.algos.base:torch.save", "env_args": {"f": "marker"}},
    "environment": {"env": "evil:Env"},
    "registered by a module": {"env": "evil:Evil-v0"},
    "id in arguments": {"env_args": {"id": "evil:Evil-v0"}},
    "id with a namespace": {"env_args": {"id": "evil:evil/Evil-v0"}},
    "specification": {"env_args": {"id": {"id": "X-v0", "entry_point": "evil:touch"}}},
    "wrapper": {"env": "gymnasium.wrappers:RecordVideo", "env_args": {"video_folder": "marker"}},
    "our monitor": {"env": "rlpyt.envs.vector.wrappers.monitor:VecMonitor"},
    "file": {"env": "evil.py:Env"},
    "file like a package": {"env": "rlpyt.envs.py:Env"},
    "called environment": {"env": {"$call": "subprocess:Popen", "kwargs": {"args": TOUCH}}},
    "partial environment": {"env": {"$partial": {"$name": "os:system"}, "args": ["touch marker"]}},
    "name in a key": {"env_args": {"$items": [[{"$call": "evil:touch", "kwargs": {}}, 1]]}},
    "path": {"env_args": {"xml_file": {"$path": "/etc/passwd"}}},
    "name of a schedule": {"algo/learning_rate": {"$name": "evil:touch"}},
    "relative file": {"env": "../evil:Env"},
    "relative module": {"env": ".evil:Env"},
    "absolute file": {"env": "/tmp/evil:Env"},
    "file in arguments": {"env_args": {"xml_file": "/etc/passwd"}},
    "file above": {"env_args": {"xml_file": "assets/../../x.xml"}},
    "algorithm": {"algo_name": "evil:Algo"},
    "optimizer": {"algo/OptimCls": "evil:touch"},
    "replay": {"algo/ReplayBufferCls": "evil:touch"},
    "schedule": {"algo/learning_rate": "evil:touch"},
    "schedule in a list": {"algo/learning_rate": [[0.0, "evil:touch"]]},
    "agent": {"agent/cls": "evil:Agent"},
    "model": {"agent/model_cls": "evil:Model"},
    "model in arguments": {"agent/args": {"ModelCls": "evil:Model"}},
    "remote model": {"agent/model_cls": "torch.distributed.nn.api.remote_module:RemoteModule"},
    "parallel model": {"agent/model_cls": "torch.nn:DataParallel"},
    "scripted model": {"agent/model_cls": "torch.jit:load", "agent/model": {"f": "marker"}},
    "memory": {"agent/memory": "evil:Memory"},
    "memory in arguments": {"agent/memory": "gru", "agent/memory_args": {"kind": "evil:Memory"}},
    "encoder": {ENCODERS: {"image": {"kind": "torch:save", "obj": 1, "f": "marker"}}},
    "encoder by its name": {ENCODERS: {"image": "evil:touch"}},
    "encoder of images": {"agent/model/encoder": "evil:touch", "env": "toy/parts"},
    "kind of encoder of images": {"agent/model/encoder": {"kind": {"$name": "evil:touch"}}},
    "module without a name": {ENCODERS: {"image": "evil"}, "env": "toy/parts"},
    "nested encoder": {ENCODERS: {"image": {"kind": {"kind": ["evil:touch"]}}}},
    "nonlinearity": {"agent/model/nonlinearity": "evil:touch"},
    "unpickling": {"agent/model/nonlinearity": "torch:load"},
    "sampler": {"sampler/kind": "evil:touch"},
    "curriculum": {"sampler/curriculum": "evil:Curriculum"},
    "device": {"device": "evil:touch"},
    "tracker": {"logger": ["mlflow"]},
}  # fmt: skip
SHELL = dict(entry_point="os:system", kwargs={"command": "touch marker"})
SPEC = call("gymnasium.envs.registration:EnvSpec", id="X-v0", **SHELL)
HANDLER = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
MLP = {"$partial": {"$name": "rlpyt.models.mlp:MlpModel"}, "kwargs": {}}
PARTIAL = {"$partial": {"$name": "os:system"}, "args": ["touch marker"], "kwargs": {}}
# By name: changes of parts.json.
PARTS = {
    "process": {f"{ARGS}/agent": call("subprocess:Popen", args=TOUCH)},
    "process of torch": {f"{ARGS}/agent": call(f"{HANDLER}:SubprocessHandler", entrypoint="touch")},
    "agent": {f"{ARGS}/agent": call("evil:Agent")},
    "function for a class": {f"{ARGS}/agent": call("rlpyt.cli.main:main", argv=["--version"])},
    "model": {f"{ARGS}/agent/kwargs": {"ModelCls": {"$name": "evil:Model"}}},
    "saving": {f"{ARGS}/agent/kwargs": {"ModelCls": {"$name": "torch:save"}}},
    "nested model": {f"{ARGS}/agent/kwargs": {"model_kwargs": {"a": [{"$tuple": [PARTIAL]}]}}},
    "partial": {f"{SAMPLER}/EnvCls": PARTIAL},
    "partial of ours": {f"{SAMPLER}/EnvCls": {**PARTIAL, "$partial": call("functools:partial")}},
    "environment": {f"{SAMPLER}/EnvCls": {"$name": "evil:Env"}},
    "our function": {f"{SAMPLER}/EnvCls": {"$name": "rlpyt.envs.base:build_env"}},
    "register": {f"{SAMPLER}/EnvCls": {"$name": "gymnasium.envs.registration:register"}},
    "specification": {f"{SAMPLER}/env_kwargs": {"id": SPEC}},
    "registered by a module": {f"{SAMPLER}/env_kwargs": {"id": "evil:Evil-v0"}},
    "environments for evaluation": {f"{SAMPLER}/eval_env_kwargs": {"id": "evil:Evil-v0"}},
    "trajectories": {f"{SAMPLER}/TrajInfoCls": {"$name": "evil:touch"}},
    "collector": {f"{SAMPLER}/CollectorCls": {"$name": "evil:touch"}},
    "curriculum": {f"{SAMPLER}/curriculum": call("evil:Curriculum")},
    "actors": {f"{ARGS}/sampler/$call": "rlpyt.samplers.ray_sampler:RaySampler"},
    "wrapper": {f"{SAMPLER}/EnvCls": {"$name": "gymnasium.wrappers:RecordVideo"}},
    "algorithm": {f"{ARGS}/algo": call("evil:Algo")},
    "optimizer": {f"{ARGS}/algo/kwargs": {"OptimCls": {"$name": "evil:touch"}}},
    "schedule": {f"{ARGS}/algo/kwargs": {"learning_rate": call("evil:touch")}},
    "hook": {f"{ARGS}/hooks": [call("evil:touch")]},
    "runner": {"runner/$call": "evil:touch"},
    "file": {"runner/$call": "../evil:touch"},
    "tracker": {"logging/loggers": ["mlflow"]},
    "logger's directory": {"logging/run_dir": "elsewhere"},
}  # fmt: skip


@pytest.mark.parametrize(
    "kind,attack", [("config", name) for name in CONFIGS] + [("parts", name) for name in PARTS]
)
def test_a_run_of_somebody_else_cannot_run_programs(kind, attack, runs, here, capsys):
    changes = (CONFIGS if kind == "config" else PARTS)[attack]
    run_dir = attacked(runs, kind, changes)
    for name, read in READERS.items():
        if (kind, name) == ("parts", "train"):
            continue  # needs config.json
        try:
            code = read(run_dir)
        except RlpytError as error:
            code, said = 2, str(error)
        else:
            said = capsys.readouterr().err
            assert said.startswith("rlpyt: error: "), (name, said)
        assert code == 2 and (f"{kind}.json" in said or name in ("upload", "train")), (name, said)
        assert not Path("marker").exists() and not Path("again").exists(), name


@pytest.mark.parametrize(
    "kind,attack", [("config", name) for name in CONFIGS] + [("parts", name) for name in PARTS]
)
def test_a_model_of_the_hub_cannot_run_programs(kind, attack, models, stand_in, here):
    model = Path(shutil.copytree(models / kind, "model"))
    file, changes = model / f"{kind}.json", (CONFIGS if kind == "config" else PARTS)[attack]
    file.write_text(json.dumps(merged(json.loads(file.read_text()), changes)))
    hub.upload(model, "somebody/model", private=False, message="")
    for read in (READERS["load"], READERS["eval"]):
        try:
            assert read("hf://somebody/model") == 2
        except RlpytError as error:
            assert file.name in str(error)
    assert not Path("marker").exists()


@pytest.fixture(scope="module")
def models(runs, tmp_path_factory):
    pytest.importorskip("huggingface_hub")
    folder = tmp_path_factory.mktemp("models")
    for kind in ("config", "parts"):
        write_model(rlpyt.load(runs / kind), folder / kind, "somebody/model")
    return folder


@pytest.mark.parametrize(
    "kind,attack",
    [
        *(("config", "environment"), ("config", "registered by a module"), ("config", "agent")),
        *(("config", "algorithm"), ("config", "memory"), ("parts", "agent"), ("parts", "hook")),
        *(("parts", "environment"), ("parts", "specification")),
    ],
)
def test_the_same_attacks_succeed_once_they_are_trusted(kind, attack, runs, here, monkeypatch):
    run_dir = attacked(runs, kind, (CONFIGS if kind == "config" else PARTS)[attack])
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    with pytest.raises((SystemExit, Exception)):
        main(["resume", str(run_dir), "--steps", "64", "--trust"])
    assert Path("marker").exists()


@pytest.mark.parametrize("reader", READERS)
def test_links_out_of_the_run_of_somebody_else_are_not_followed(reader, runs, here, capsys):
    victim = here / "victim"
    victim.write_text("mine\n")
    run_dir = attacked(runs, "config", {"seed": 1})
    (run_dir / "progress.csv").unlink()
    (run_dir / "progress.csv").symlink_to(victim)
    if reader == "load":
        with pytest.raises(RlpytError, match="progress.csv .*link"):
            rlpyt.load(run_dir)
    elif reader != "train":  # reads config.json alone
        assert READERS[reader](run_dir) == 2
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("reader", ["eval", "resume", "load"])
def test_a_checkpoint_that_is_a_link_is_not_followed_either(reader, runs, here, capsys):
    run_dir = attacked(runs, "config", {"seed": 1})
    newest = max((run_dir / "checkpoint").iterdir())
    newest.rename(here / "victim")
    newest.symlink_to(here / "victim")
    if reader == "load":
        with pytest.raises(RlpytError, match=f"{newest.name} .*link"):
            rlpyt.load(run_dir)
    else:
        assert READERS[reader](run_dir) == 2
        assert f"{newest.name} must not be a link" in capsys.readouterr().err


@pytest.mark.parametrize("directory", ["sent", "sent/seed_1"])
def test_a_resume_makes_a_run_of_somebody_else_mine_only_if_trusted(directory, runs, here):
    run_dir = attacked(runs, "config", {"seed": 1}, directory)
    assert command("resume", "sent", "--steps", 64) == 0
    options, trusted = read_config(run_dir)
    assert options.steps == 64 and not trusted
    assert command("upload", run_dir, "--logger", "mlflow") == 2
    assert command("resume", "sent", "--steps", 96, "--trust") == 0
    assert read_config(run_dir)[1]


def test_a_link_in_the_place_of_one_of_several_agents_is_not_followed(runs, here, capsys):
    (here / "sent").mkdir()
    attacked(runs, "config", {"seed": 1}, "sent/seed_1")
    victim = attacked(runs, "config", {}, "victim")
    (here / "sent" / "seed_2").symlink_to(victim.absolute())
    before = {path: path.stat().st_mtime_ns for path in victim.rglob("*")}
    assert command("resume", here / "sent", "--steps", "64") == 2
    assert "seed_2 must not be a link" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in victim.rglob("*")} == before


def test_checkpoints_stay_in_the_run_of_somebody_else(runs, here, capsys):
    shutil.copytree(runs / "parts" / "checkpoint", "elsewhere")
    before = sorted(Path("elsewhere").iterdir())
    places = {f"{ARGS}/checkpoint_dir": str(here / "elsewhere")}
    run_dir = attacked(runs, "parts", {**places, f"{ARGS}/resume_from": str(here / "elsewhere")})
    assert READERS["resume"](run_dir) == 0
    assert sorted(Path("elsewhere").iterdir()) == before


@pytest.mark.parametrize("kind", ["config", "parts"])
def test_a_run_of_somebody_else_with_parts_of_rlpyt_needs_no_flag(kind, runs, here, capsys):
    for name, read in READERS.items():
        run_dir = attacked(runs, kind, {SIGNATURE: "0" * 64}, path=f"run-{name}")
        if name != "upload" and (kind, name) != ("parts", "train"):
            assert read(run_dir) == 0, name


def test_modules_beside_the_run_of_somebody_else_are_not_imported(runs, here, monkeypatch):
    """Modules that are imported later are not looked for in the directory of the run."""
    run_dir = attacked(runs, "config", {"env": "gymnasium.envs.classic_control:CartPoleEnv"})
    monkeypatch.chdir(run_dir)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", os.getcwd())])
    assert rlpyt.load(".").name.endswith("CartPoleEnv") and os.getcwd() not in sys.path


PATHS = re.compile(r"(^|_)(path|dir|directory|file|folder|url|address)s?$")


class OwnModel(torch.nn.Module):
    """Model of the user's program, which has imported it."""


def own_agent():
    """Return nothing; a function of the user's program."""


@pytest.mark.parametrize(
    "name,allowed",
    [
        (f"{__name__}:OwnModel", True),
        (f"{__name__}:own_agent", False),
        (f"{__name__}:torch.nn.ReLU", False),
        ("torch.nn:ReLU", True),
        ("torch.nn.modules.rnn:GRU", True),
        ("torch.optim:AdamW", True),
        ("torch.optim.lr_scheduler:LambdaLR", False),
        ("gymnasium.envs.classic_control:CartPoleEnv", True),
        ("gymnasium.spaces:Box", True),
        ("rlpyt:make", True),
        ("rlpyt:train", False),
        ("rlpyt:CategoricalMlpAgent", True),
        ("rlpyt.curricula.learning_progress:LearningProgress", True),
        ("json:JSONDecoder", False),
        ("rlpyt:KeepBest", True),
        ("rlpyt.runners.heartbeat:HeartbeatHook", False),
        ("rlpyt.runners.sync_rl:HeartbeatHook", False),
    ],
)
def test_allowed_parts(name, allowed):
    if allowed:
        assert callable(trust.allowed_part(name))
    else:
        with pytest.raises(ValueError, match="which is not"):
            trust.allowed_part(name)


def test_only_known_parts_take_paths():
    found = set()
    for name in [name for name in sys.modules if name.startswith("rlpyt.")]:
        for cls in vars(sys.modules[name]).values():
            own = isinstance(cls, type) and cls.__module__.startswith("rlpyt.")
            if own and trust._is_class_of_part(cls):
                found |= {x for x in inspect.signature(cls).parameters if PATHS.search(x)}
    assert found == {"checkpoint_dir"}  # which is replaced


@pytest.mark.parametrize(
    "given,named",
    [
        ({"hidden_sizes": {"$tuple": [9000, 9]}}, r"hidden_sizes\[0\]=9000"),
        ({"$items": [["hidden_sizes", [9000, 9]]]}, r"hidden_sizes\[0\]=9000"),
        ({"hidden_sizes": {"$array": [9000, 9], "dtype": "<i8", "shape": [2]}}, "sizes.*=9000"),
        ({"hidden_sizes": {"$array": "base64,AAA=", "dtype": "<i8", "shape": [2]}}, "in base64"),
        ({"model": {**MLP, "args": [4, [9000, 9]]}}, r"model.args\[1\]\[0\]=9000"),
        ({"model": {**MLP, "args": [4, [4096] * 128]}}, "model.args.*at most 100,000,000 w"),
        ({"batch_B": float("nan")}, "batch_B=nan"),
    ],
)
def test_limits_hold_in_every_form_of_a_value(given, named):
    with pytest.raises(DamagedFile, match=f"asks for .*{named}"):
        trust.check(Path("x"), {"agent": {"kwargs": given}})


@pytest.mark.parametrize("value", [{"$tuple": ["wandb"]}, {"$items": [["loggers", ["wandb"]]]}])
def test_trackers_are_refused_in_every_form_of_a_value(value):
    with pytest.raises(UntrustedFile, match="to a server"):
        trust.check(Path("x"), {"loggers": value})


@pytest.mark.parametrize("key", ["x[" + "9" * 5000 + "]", "x[100000000]"])
def test_keys_that_look_like_long_lists_are_refused(key):
    with pytest.raises(DamagedFile, match="a list of at most"):
        trust.check(Path("config.json"), {"algo": {key: 1}})


def test_own_runs_need_no_flag_and_changed_ones_do(here, capsys):
    Path("mine.py").write_text(
        "from rlpyt import make\ndef env():\n    return make('CartPole-v1')\n"
    )
    options = RunOptions(algo_name="a2c", env="mine:env", **BASE).updated({"sampler": SERIAL})
    train(options, Path("run"))
    assert command("eval", "run", "--episodes", 1) == 0
    assert command("resume", "run", "--steps", 64) == 0
    shutil.copytree("run", "moved")
    assert command("eval", "moved", "--episodes", 1) == 0
    file = Path("moved/config.json")
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    capsys.readouterr()
    assert command("eval", "moved", "--episodes", 1) == 2
    said = capsys.readouterr().err
    assert "moved/config.json has env='mine:env'" in said
    assert "rlpyt eval moved --episodes 1 --trust" in said
    assert command("eval", "moved", "--episodes", 1, "--trust") == 0
    assert rlpyt.load("moved", trust=True).evaluate(1).returns


def test_runs_of_another_user_need_the_flag(here, monkeypatch, capsys):
    Path("mine2.py").write_text("from rlpyt import make\nenv = lambda: make('CartPole-v1')\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "another"))
    options = RunOptions(algo_name="a2c", env="mine2:env", **BASE).updated({"sampler": SERIAL})
    train(options, Path("run"))
    key = here / "another" / "rlpyt" / "key"
    assert len(key.read_bytes()) == signed.KEY_BYTES and key.stat().st_mode & 0o777 == 0o600
    assert [*key.parent.iterdir()] == [key]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "this"))
    assert command("eval", "run", "--episodes", 1) == 2
    assert command("eval", "run", "--episodes", 1, "--trust") == 0


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o606])
def test_a_key_of_which_others_know_is_not_used(mode, here, monkeypatch):
    """Somebody could sign with it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "shared"))
    (here / "shared" / "rlpyt").mkdir(parents=True)
    key = here / "shared" / "rlpyt" / "key"
    key.write_bytes(bytes(signed.KEY_BYTES))
    key.chmod(0o600)
    forged = signed.signed({"a": 1})
    key.chmod(mode)
    signed._key.cache_clear()
    with pytest.warns(UserWarning, match="chmod 600"):
        assert not signed.is_signed(forged)
    signed._key.cache_clear()


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        lambda path: os.symlink("/dev/zero", path),
        lambda path: os.symlink("nowhere", path),
        os.mkdir,
        Path.touch,
        lambda path: path.write_bytes(bytes(signed.KEY_BYTES - 1)),
        lambda path: path.write_bytes(bytes(signed.KEY_BYTES + 1)),
    ],
)
def test_a_key_that_is_damaged_is_not_used_and_named(make, here, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "odd"))
    key = here / "odd" / "rlpyt" / "key"
    key.parent.mkdir(parents=True)
    before = os.umask(0o077)
    make(key)
    os.umask(before)
    signed._key.cache_clear()
    with pytest.warns(UserWarning, match="rlpyt/key is not used, since"):
        document = signed.signed({"a": 1})
    assert signed.is_signed(document)
    signed._key.cache_clear()


@pytest.mark.parametrize("signature", ["\u00e9" * 64, "\ud800", None, [], {"a": 1.5}])
def test_a_signature_may_be_anything(signature):
    assert not signed.is_signed({**signed.signed({"a": 1}), SIGNATURE: signature})


def test_without_a_place_for_the_key_runs_of_this_process_are_own_ones(here, monkeypatch):
    Path("file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "file"))
    signed._key.cache_clear()
    with pytest.warns(UserWarning, match="no key can be stored in .*file/rlpyt/key"):
        document = signed.signed({"a": (1, 2.5, None)})
    assert signed.is_signed(json.loads(json.dumps(document)))
    assert not signed.is_signed({**document, "a": 2}) and not signed.is_signed({"a": 1})
    assert os.environ["XDG_CONFIG_HOME"].endswith("file")


@pytest.mark.parametrize(
    "text",
    [
        "train: ppo\nenv: !!python/object/apply:os.system ['touch marker']\n",
        "train: !!python/name:os.system\nenv: CartPole-v1\n",
        "train: ppo\nenv: CartPole-v1\ntitle: '{{ cycler.__init__.__globals__.os.system(1) }}'\n",
        "train: os:system\nenv: CartPole-v1\n",
        "train: ppo\nenv: subprocess:Popen\noptions: {env_args: {args: [touch, marker]}}\n",
        "train: ppo\nenv: torch:save\n",
    ],
    ids=["tag", "name", "template", "algorithm", "environment", "function"],
)
def test_listing_the_runs_of_a_sweep_file_runs_no_program(text, here, capsys):
    Path("sweep.yaml").write_text(text)
    code = command("sweep", "sweep.yaml", "--dry-run")
    assert code == (0 if "title" in text else 2)
    assert not Path("marker").exists()
