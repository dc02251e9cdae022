"""Checkpoints come back exactly; no fault of disk, process or file is taken for a checkpoint."""

import errno
import json
import math
import os
import pickle
import random
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from rlpyt.utils import checkpoint as module
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint, save_checkpoint

FILES = ["state.json", "tensors.safetensors", "arrays.safetensors", "manifest.json"]


def full_state():
    flat = torch.arange(6, dtype=torch.float32)
    return {
        "none": None,
        "flags": [True, False],
        "ints": [0, -1, 2**63 - 1, -(2**63), 2**63, -(2**200), 10**5000],
        "floats": [0.1, -0.0, 1e-308, math.inf, -math.inf, math.nan],
        "texts": ["", "$tensor", "ä\ud800\n"],
        "empty": [{}, [], ()],
        "bytes": b"\x00\xff raw",
        "tuple": (1, (2.0, "x"), [3]),
        0: {3: "int key", -7: "negative"},
        "$dict": {"$tuple": 1, "1": "text key", 1: "int key"},
        "a/b": torch.zeros(1),
        "a": {"b": torch.ones(1)},
        "tensors": {
            "views": [flat[:2], flat[2:].view(2, 2)],
            "transposed": torch.arange(6).view(2, 3).t(),
            "scalar": torch.tensor(7),
            "none_of_them": torch.zeros(0, 3),
            "parameter": torch.nn.Parameter(torch.tensor([1.5])),
            **{
                str(dtype): torch.tensor([0, 1, 3]).to(dtype)
                for dtype in (
                    torch.bfloat16,
                    torch.float16,
                    torch.float64,
                    torch.int8,
                    torch.uint8,
                    torch.int16,
                    torch.int32,
                    torch.uint16,
                    torch.bool,
                    torch.complex64,
                )
            },
        },
        "arrays": {
            "transposed": np.arange(6, dtype=np.int16).reshape(2, 3).T,
            "zero_dim": np.array(3.5, dtype=np.float32),
            "empty": np.zeros((0, 2), dtype=np.uint8),
            "big_endian": np.arange(3, dtype=">i4"),
            "texts": np.array(["a", "longer"]),
            "times": np.array(["2020-01-01"], dtype="M8[D]"),
            "complex128": np.array([1 + 2j]),
            "bool": np.array([True, False, True]),
            "read_only": np.broadcast_to(np.float64(2.0), (2, 2)),
        },
        "scalars": [np.float64(0.1), np.int8(-3), np.bool_(True), np.float32("nan"), np.str_("s")],
    }


def assert_equal(found, wanted, where="state"):
    if isinstance(wanted, torch.Tensor):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape, where
        assert torch.equal(found, wanted.detach()), where
    elif isinstance(wanted, (np.ndarray, np.generic)):
        assert type(found) is type(wanted) and found.dtype == wanted.dtype, where
        assert found.shape == wanted.shape and found.tobytes() == wanted.tobytes(), where
    elif isinstance(wanted, dict):
        assert type(found) is dict and list(found) == list(wanted), where
        assert [type(key) for key in found] == [type(key) for key in wanted], where
        for key in wanted:
            assert_equal(found[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted), where
        for i, (a, b) in enumerate(zip(found, wanted)):
            assert_equal(a, b, f"{where}[{i}]")
    else:
        assert type(found) is type(wanted), where
        same_nan = isinstance(wanted, float) and math.isnan(wanted) and math.isnan(found)
        assert same_nan or repr(found) == repr(wanted), where  # repr tells 0.0 from -0.0


@pytest.fixture(autouse=True)
def big_integers_print():
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # only for the comparison by repr
    yield
    sys.set_int_max_str_digits(before)


def save(tmp_path, n=1, keep=9):
    """Checkpoints with state n = 1, 2, ..."""
    paths = []
    for i in range(1, n + 1):
        state = {"n": i, "w": torch.full((3, 2), float(i)), "a": np.arange(i), 4: None}
        paths.append(save_checkpoint(tmp_path, state, keep=keep, meta={"itr": i}))
    return paths


def test_every_kind_of_value_comes_back_equal_and_of_its_type(tmp_path):
    state = full_state()
    path = save_checkpoint(tmp_path, state, meta={"loss": math.nan, "itr": 3})
    loaded = load_checkpoint(tmp_path)
    assert_equal(loaded.state, state)
    assert loaded.path == path and loaded.meta["itr"] == 3 and math.isnan(loaded.meta["loss"])
    assert loaded.versions["torch"] == torch.__version__
    assert_equal(load_checkpoint(path).state, state)


def test_large_integers_are_saved_and_loaded(tmp_path):
    import sys

    sys.set_int_max_str_digits(4300)
    save_checkpoint(tmp_path, {"seed": 10**5000})
    assert load_checkpoint(tmp_path).state["seed"] == 10**5000


def test_loaded_arrays_can_be_written_to_after_the_files_are_gone(tmp_path):
    state = {"t": torch.arange(3.0), "a": np.arange(3), "v": torch.zeros(4)[1:]}
    path = save_checkpoint(tmp_path, state)
    loaded = load_checkpoint(tmp_path).state
    for name in FILES:
        os.truncate(path / name, 0)
    loaded["t"] += 1
    loaded["a"] += 1
    assert loaded["t"].tolist() == [1, 2, 3] and loaded["a"].tolist() == [1, 2, 3]


def test_files_are_in_the_libraries_own_format(tmp_path):
    path = save_checkpoint(tmp_path, {"w": torch.ones(2, 3).bfloat16(), "a": np.arange(4)})
    assert sorted(entry.name for entry in path.iterdir()) == sorted(FILES)
    tensors = safetensors.torch.load((path / "tensors.safetensors").read_bytes())
    arrays = safetensors.numpy.load((path / "arrays.safetensors").read_bytes())
    assert torch.equal(tensors["state/w"], torch.ones(2, 3).bfloat16())
    assert arrays["state/a"].tolist() == [0, 1, 2, 3]


def test_keep_includes_the_new_checkpoint_and_counters_continue(tmp_path):
    paths = save(tmp_path, n=12, keep=2)
    assert [path.name for path in paths[8:]] == [f"checkpoint-{n}" for n in (9, 10, 11, 12)]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checkpoint-11", "checkpoint-12"]
    assert load_checkpoint(tmp_path).state["n"] == 12  # 12 after 9: numbers, not letters
    with pytest.raises(ValueError, match="^keep .*got 0"):
        save_checkpoint(tmp_path, {}, keep=0)


def test_generator_states_continue_bit_for_bit(tmp_path):
    generator, numbers = torch.Generator().manual_seed(1), np.random.default_rng(2)
    save_checkpoint(
        tmp_path, {"torch": generator.get_state(), "numpy": numbers.bit_generator.state}
    )
    wanted = torch.rand(3, generator=generator), numbers.random(3)
    loaded = load_checkpoint(tmp_path).state
    generator.set_state(loaded["torch"])
    numbers.bit_generator.state = loaded["numpy"]
    assert torch.equal(torch.rand(3, generator=generator), wanted[0])
    assert np.array_equal(numbers.random(3), wanted[1])


class Unknown:
    pass


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [Unknown()]}, "state/a/0 .*Unknown"),
        ({"a": {1.5: 0}}, r"state/a .*got 1\.5"),
        ({"a": {True: 0}}, "state/a .*got True"),
        ({"a": np.array([object()])}, "state/a .*numpy.ndarray"),
        (
            {"a": torch.zeros(2, dtype=torch.complex128)},
            "state/a .*got dtype",
        ),
        ({"a": torch.zeros(2).to_sparse()}, r"layout torch.sparse_coo"),
        ({"a": torch.zeros(2, device="meta")}, r"on meta"),
        ([], ": state .*list"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, state, message):
    save(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        save_checkpoint(tmp_path, state)
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint-1"]


def test_named_tuples_cycles_and_arrays_in_meta_are_refused(tmp_path):
    from collections import namedtuple

    cycle: dict = {}
    cycle["self"] = cycle
    with pytest.raises(CheckpointError, match="Use its _asdict"):
        save_checkpoint(tmp_path, {"p": namedtuple("Pair", "a b")(1, 2)})
    with pytest.raises(CheckpointError, match="contains itself"):
        save_checkpoint(tmp_path, cycle)
    with pytest.raises(CheckpointError, match=": meta "):
        save_checkpoint(tmp_path, {}, meta={"a": np.zeros(1)})


# Damaged files


@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_loads_the_previous_checkpoint(tmp_path, name):
    """A flipped byte, a cut, an addition, an empty file, at random places of every file."""
    rng = random.Random(name)
    _, newest = save(tmp_path, n=2)
    wanted = load_checkpoint(newest).state
    whole = (newest / name).read_bytes()
    noticed = 0
    for _ in range(60):
        damaged = bytearray(whole)
        kind = rng.choice(["flip", "flip", "cut", "add", "empty"])
        if kind == "flip":
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del damaged[rng.randrange(len(whole)) :]
        elif kind == "add":
            damaged += b"}"
        else:
            damaged.clear()
        (newest / name).write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded = load_checkpoint(tmp_path)
        if loaded.path == newest:  # only a space for a space, in the manifest's layout
            assert name == "manifest.json" and kind == "flip"
            assert_equal(loaded.state, wanted)
        else:
            noticed += 1
            assert loaded.state["n"] == 1
            text = str(caught[0].message)
            assert f"{newest / name} is not valid" in text and "Loaded the older" in text
    assert noticed >= 50


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
    _, newest = save(tmp_path, n=2)
    (newest / name).unlink()
    with pytest.warns(UserWarning, match=f"checkpoint-2/{name} .*checkpoint-1"):
        assert load_checkpoint(tmp_path).state["n"] == 1


def test_swapped_files_are_noticed(tmp_path):
    path = save_checkpoint(tmp_path, {"t": torch.ones(2), "a": np.ones(2, np.float32)})
    os.rename(path / "tensors.safetensors", path / "x")
    os.rename(path / "arrays.safetensors", path / "tensors.safetensors")
    os.rename(path / "x", path / "arrays.safetensors")
    with pytest.raises(CheckpointError, match="no valid .*tensors.safetensors"):
        load_checkpoint(tmp_path)


def test_without_a_valid_checkpoint_all_reasons_are_given(tmp_path):
    first, second = save(tmp_path, n=2)
    os.truncate(first / "state.json", 3)
    (second / "manifest.json").unlink()
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(tmp_path)
    assert "checkpoint-1/state.json is not valid: it has 3 bytes instead of" in str(error.value)
    assert "checkpoint-2/manifest.json is missing" in str(error.value)


# Crafted files: their checksums match, so only the loader's own rules stand in the way


def forge(path: Path, **contents):
    """Replace files or manifest entries and make the checksums match again."""
    manifest = json.loads((path / "manifest.json").read_text())
    for key, content in contents.items():
        name = key.replace("_", ".")
        (path / name).write_bytes(content)
        manifest["files"][name] = {
            "size": len(content),
            "sha256": module.hashlib.sha256(content).hexdigest(),
        }
    return manifest


def sign(path: Path, manifest):
    manifest["sha256"] = module._digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


HUGE = b'{"state/a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4]}}'


def with_length(header):
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tensors_safetensors", (2**60).to_bytes(8, "little") + b"{}"),
        ("tensors_safetensors", (50).to_bytes(8, "little") + b'{"a":{"dtype":"F32"'),
        ("arrays_safetensors", with_length(HUGE) + b"1234"),
        ("state_json", b"[" * 100_000),
        ("state_json", b'{"x": NaN}'),
        ("state_json", b'{"$tensor": "absent"}'),
        ("state_json", b'{"$pickle": "gASV"}'),
        ("state_json", b'{"$array": "state/a", "dtype": "O", "shape": [1]}'),
        ("state_json", b"[1]"),
        ("state_json", b'{"n": ' + b"9" * 5000 + b"}"),
    ],
)
def test_crafted_contents_are_refused(tmp_path, name, content, monkeypatch):
    import sys

    sys.set_int_max_str_digits(4300)
    (path,) = save(tmp_path)
    sign(path, forge(path, **{name: content}))
    with pytest.raises(CheckpointError, match=f"checkpoint-1/{name.replace('_', '.')} .*valid"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "extra.pkl"])
def test_only_the_known_files_are_read(tmp_path, name):
    (path,) = save(tmp_path)
    manifest = forge(path)
    manifest["files"][name] = manifest["files"].pop("state.json")
    sign(path, manifest)
    with pytest.raises(CheckpointError, match=r"version 1 .*state\.json"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_symbolic_links_and_pipes_are_refused(tmp_path, name):
    (path,) = save(tmp_path)
    os.rename(path / name, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path / name)
    with pytest.raises(CheckpointError, match="symbolic link, dir"):
        load_checkpoint(path)
    (path / name).unlink()
    os.mkfifo(path / name)  # would block for ever if opened
    with pytest.raises(CheckpointError, match="symbolic link, dir"):
        load_checkpoint(path)


def test_a_linked_checkpoint_is_refused(tmp_path):
    (path,) = save(tmp_path / "a")
    (tmp_path / "b").mkdir()
    os.symlink(path, tmp_path / "b" / "checkpoint-5")
    with pytest.raises(CheckpointError, match="the checkpoint .*symbolic link"):
        load_checkpoint(tmp_path / "b")


def test_a_newer_format_is_an_error_and_loads_no_older_checkpoint(tmp_path):
    _, newest = save(tmp_path, n=2)
    manifest = forge(newest)
    manifest["version"] = 7
    sign(newest, manifest)
    with pytest.raises(CheckpointError, match="checkpoint-2 .*version 7.*version 1"):
        load_checkpoint(tmp_path)


# Wrong paths


class Exploit:
    def __reduce__(self):
        return os.mkdir, ("canary",)


def test_wrong_paths_have_specific_messages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="absent .*exist"):
        load_checkpoint("absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="no checkpoint: .*empty directory"):
        load_checkpoint("empty")
    (tmp_path / "empty" / "model.zip").touch()
    with pytest.raises(CheckpointError, match=r"no checkpoint: .*model\.zip"):
        load_checkpoint("empty")


def test_files_of_other_libraries_are_described_and_never_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": torch.ones(1), "e": Exploit()}, "model.pt")
    Path("model.pkl").write_bytes(pickle.dumps(Exploit()))
    torch.save(Exploit(), "old.pt", _use_new_zipfile_serialization=False)
    with zipfile.ZipFile("sb3.zip", "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", b"\x80\x04")
    with zipfile.ZipFile("other.zip", "w") as archive:
        archive.writestr("readme", "")
    safetensors.torch.save_file({"w": torch.ones(1)}, "w.safetensors")
    Path("weights.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    Path("nothing").touch()
    Path("notes.txt").write_text("hello")
    for name, description in {
        "model.pt": "a PyTorch file",
        "model.pkl": "a Python pickle",
        "old.pt": "a Python pickle",
        "sb3.zip": "a Stable-Baselines3 model",
        "other.zip": "a zip archive",
        "w.safetensors": "a safetensors file",
        "weights.h5": "an HDF5 file",
        "nothing": "an empty file",
        "notes.txt": "an unknown kind of file",
    }.items():
        with pytest.raises(CheckpointError, match=f"{name} .*got {description}"):
            load_checkpoint(name)
    assert not Path("canary").exists()


# Faults while saving


class FullDisk:
    """A file that takes ``room`` bytes in all and then fails, part-way through a write."""

    room = 0
    code = errno.ENOSPC

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, content):
        content = bytes(content)
        self.file.write(content[: FullDisk.room])
        if len(content) > FullDisk.room:
            raise OSError(FullDisk.code, os.strerror(FullDisk.code))
        FullDisk.room -= len(content)


@pytest.mark.parametrize("room", [0, 5, 60, 150, 300, 500, 800])
def test_a_full_disk_leaves_the_old_checkpoint_and_no_partial_one(tmp_path, monkeypatch, room):
    save(tmp_path)
    with monkeypatch.context() as patch:
        FullDisk.room = room
        opened = lambda *args: FullDisk(open(*args))  # noqa: SIM115
        patch.setattr(module, "open", opened, raising=False)
        with pytest.raises(CheckpointError, match=f"checkpoint-2 .*{os.strerror(errno.ENOSPC)}"):
            save(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint-1"]
    assert load_checkpoint(tmp_path).state["n"] == 1
    assert save(tmp_path)[0].name == "checkpoint-2"


def nth_call(function, n, action):
    """``function``, but its n-th call does ``action`` instead."""
    calls = 0

    def call(*args, **kwargs):
        nonlocal calls
        calls += 1
        return action() if calls == n else function(*args, **kwargs)

    return call


def io_error():
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("name", "n"), [("fsync", 1), ("fsync", 4), ("fsync", 5), ("rename", 1), ("fsync", 6)]
)
def test_input_output_errors_are_reported_and_old_checkpoints_stay(tmp_path, monkeypatch, name, n):
    save(tmp_path, keep=1)
    with monkeypatch.context() as patch:
        patch.setattr(os, name, nth_call(getattr(os, name), n, io_error))
        with pytest.raises(CheckpointError, match=os.strerror(errno.EIO)):
            save_checkpoint(tmp_path, {"n": 2}, keep=1)
    left = {entry.name for entry in tmp_path.iterdir()}
    renamed = (name, n) == ("fsync", 6)  # complete, but the directory's entry is in doubt
    assert left == {"checkpoint-1", "checkpoint-2"} if renamed else left == {"checkpoint-1"}
    assert load_checkpoint(tmp_path / "checkpoint-1").state["n"] == 1


def test_an_old_checkpoint_that_cannot_be_deleted_causes_a_warning(tmp_path, monkeypatch):
    save(tmp_path)
    monkeypatch.setattr(os, "rename", nth_call(os.rename, 2, io_error))
    with pytest.warns(UserWarning, match="checkpoint-1 .*deleted"):
        save_checkpoint(tmp_path, {"n": 2}, keep=1)
    assert load_checkpoint(tmp_path).state["n"] == 2


@pytest.mark.parametrize(
    ("name", "n", "loads"),
    [
        *((("fsync", n, 1)) for n in range(1, 6)),
        ("rename", 1, 1),
        ("fsync", 6, 2),  # after the rename
        ("rename", 2, 2),  # before the old one is moved away
        ("rmdir", 1, 2),  # while the old one is being deleted
    ],
)
def test_a_process_killed_at_any_step_leaves_a_valid_checkpoint(tmp_path, name, n, loads):
    save(tmp_path)
    child = os.fork()
    if child == 0:
        setattr(os, name, nth_call(getattr(os, name), n, lambda *a, **k: os._exit(9)))
        save_checkpoint(tmp_path, {"n": 2}, keep=1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_checkpoint(tmp_path).state["n"] == loads
    save_checkpoint(tmp_path, {"n": 3}, keep=1)  # also clears what the dead one left
    assert [entry.name for entry in tmp_path.iterdir()] == [f"checkpoint-{loads + 1}"]


def test_an_interrupt_while_saving_leaves_nothing(tmp_path, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", nth_call(os.fsync, 2, interrupt))
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_a_file_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="saved"):
        save_checkpoint(tmp_path / "file", {})


def test_a_folder_named_rlpyt_next_to_the_script_is_ignored(tmp_path):
    """Python may take it for the top of the package, which then has no ``__version__``."""
    (tmp_path / "rlpyt").mkdir()
    script = tmp_path / "script.py"
    script.write_text(
        "from rlpyt.utils.checkpoint import save_checkpoint\n"
        "from rlpyt.experiments import options\n"
        "save_checkpoint('kept', {'a': 1}, 1)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_directory_may_have_a_name_that_is_not_utf8(tmp_path):
    directory = tmp_path / os.fsdecode(b"r\xe4")
    state = {"x": torch.arange(3.0), "y": np.arange(2)}
    save_checkpoint(directory, state)
    loaded = load_checkpoint(directory).state
    assert torch.equal(loaded["x"], state["x"]) and loaded["y"].tolist() == [0, 1]
    loaded["x"][0] = loaded["y"][0] = 7  # as after loading from any other directory
