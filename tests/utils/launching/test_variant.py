"""Variants: crossed in order, refused where something would be lost, and back from their file."""

import json

import numpy as np
import pytest

from rlpyt.utils.launching.variant import (
    VARIANT,
    VariantLevel,
    cross_variants,
    identity,
    load_variant,
    make_variants,
    save_variant,
    update_config,
)

RATES = VariantLevel(
    keys=[("algo", "learning_rate"), ("sampler", "batch_B")],
    values=[[1e-3, 8], [3e-4, 16]],
    dir_names=["fast", "slow"],
)
GAMES = VariantLevel([("env", "id")], [["a"], ["b"], ["c"]], ["game/a", "game/b", "game/c"])


def level(values=((1,), (2,)), dir_names=("x", "y"), keys=(("k",),)):
    return VariantLevel(keys, values, dir_names)


def test_levels_are_crossed_with_the_last_changing_fastest():
    variants, log_dirs = make_variants(RATES, GAMES)
    assert log_dirs == [
        *("fast/game/a", "fast/game/b", "fast/game/c"),
        *("slow/game/a", "slow/game/b", "slow/game/c"),
    ]
    assert variants[1] == {
        "algo": {"learning_rate": 1e-3},
        "sampler": {"batch_B": 8},
        "env": {"id": "b"},
    }
    assert [v["algo"]["learning_rate"] for v in variants] == [1e-3] * 3 + [3e-4] * 3
    assert [v["env"]["id"] for v in variants] == ["a", "b", "c"] * 2


def test_no_level_is_one_variant_that_changes_nothing():
    assert make_variants() == ([{}], [""])


def test_crossing_keeps_previous_settings():
    variants, log_dirs = cross_variants([{"env": {"n": 5}}], ["top"], GAMES)
    assert log_dirs == ["top/game/a", "top/game/b", "top/game/c"]
    assert variants[2] == {"env": {"n": 5, "id": "c"}}


def test_variants_share_nothing_that_can_change():
    shared = {"sizes": [1]}
    first, second = make_variants(
        level([[shared]], ["s"]), level(keys=[("other", "deep")], dir_names=("x", "y"))
    )[0]
    first["k"]["sizes"].append(2)
    first["other"]["more"] = 1
    assert second == {"k": {"sizes": [1]}, "other": {"deep": 2}} and shared == {"sizes": [1]}


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([level([], [])], "level 0 .*no values"),
        ([GAMES, level(keys=[])], "level 1 .*no keys"),
        ([level(dir_names=["x"])], "2 .*values .*1 dir_names"),
        ([level([[1, 2], [3, 4]])], r"\[1, 2\] .*list"),
        ([level(["ab", "cd"])], "'ab' .*list"),
        ([level(dir_names=["x", "x"])], "dir_names 'x'"),
        ([level(dir_names=["x", "x/"])], "dir_names 'x'"),
        ([level(dir_names=["x", "/y"])], "'/y' "),
        ([level(dir_names=["x", "a/../.."])], r"'a/\.\./\.\.' "),
        ([level(dir_names=["x", ""])], "'' .*path"),
        ([level(keys=["algo"])], "'algo' .*tuple"),
        ([level(keys=[("a",), ("a",)], values=[[1, 2], [3, 4]])], "'a' .*twice"),
        ([level(), level()], "'k' .*twice"),
        ([level(), level(keys=[("k", "deep")])], "'k.deep' .*'k' "),
        (
            [level(dir_names=["a", "a/b"]), level(keys=[("l",)], dir_names=["b/c", "c"])],
            "'a/b/c'",
        ),
    ],
)
def test_invalid_levels_are_refused(levels, words):
    with pytest.raises(ValueError, match=words):
        make_variants(*levels)


def test_repeated_values_cause_a_warning():
    with pytest.warns(UserWarning, match="repeats the values"):
        variants, log_dirs = make_variants(level([[[1]], [(1,)]], dir_names=["x", "y"]))
    assert log_dirs == ["x", "y"] and len(variants) == 2


def test_only_the_same_setting_is_the_same():
    assert identity({"a": [1, 2], "b": None}) == identity({"b": None, "a": (1, 2)})
    assert identity(np.arange(3)) == identity([0, 1, 2])
    assert len({identity(value) for value in (1, 1.0, True, "1", None)}) == 5
    assert identity(np.arange(2000)) != identity(np.where(np.arange(2000) == 1000, 0, 1))


def test_a_variant_comes_back_from_its_file(tmp_path):
    variant = {"algo": {"rate": np.float32(0.5), "n": np.int64(3)}, "sizes": (1, 2), "off": None}
    save_variant(variant, tmp_path / "new" / "run")
    assert (tmp_path / "new" / "run" / VARIANT).name == "variant_config.json"
    back = load_variant(str(tmp_path / "new" / "run"))
    assert back == {"algo": {"rate": 0.5, "n": 3}, "sizes": [1, 2], "off": None}


def test_missing_and_damaged_variant_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"variant_config\.json"):
        load_variant(tmp_path)
    with pytest.raises(TypeError, match="<class 'dict'>"):
        save_variant({"cls": dict}, tmp_path)
    assert not (tmp_path / VARIANT).exists()
    (tmp_path / VARIANT).write_text("{")
    with pytest.raises(ValueError, match="JSON"):
        load_variant(tmp_path)
    (tmp_path / VARIANT).write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="dictionary"):
        load_variant(tmp_path)


def test_updates_are_deep_and_leave_the_default():
    default = {"algo": {"lr": 1, "optim": {"eps": 1}, "extra": None}, "env": {"id": "a"}}
    variant = {"algo": {"optim": {"eps": 2}, "extra": {"new": 1}}}
    config = update_config(default, variant)
    assert config == {
        "algo": {"lr": 1, "optim": {"eps": 2}, "extra": {"new": 1}},
        "env": {"id": "a"},
    }
    config["env"]["id"] = "b"
    config["algo"]["extra"]["new"] = 7
    assert default["env"] == {"id": "a"} and default["algo"]["optim"] == {"eps": 1}
    assert variant["algo"]["extra"] == {"new": 1}


def test_an_unknown_field_is_named_with_its_path_and_the_nearest():
    with pytest.raises(KeyError) as error:
        update_config({"algo": {"optim": {"eps": 1}}}, {"algo": {"optim": {"epz": 2}}})
    assert "'algo.optim.epz' is not in the default" in error.value.args[0]
    assert "did you mean 'eps'?" in error.value.args[0]
    with pytest.raises(TypeError, match="'algo' .*got 3"):
        update_config({"algo": {"lr": 1}}, {"algo": 3})


def test_many_variants_cause_a_warning():
    level = VariantLevel([("a",)], [[i] for i in range(40)], [str(i) for i in range(40)])
    other = level._replace(keys=[("b",)])
    with pytest.warns(UserWarning, match="2 levels .*1,600 variants"):
        assert len(make_variants(level, other)[0]) == 1600
