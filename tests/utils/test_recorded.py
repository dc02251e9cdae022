"""Descriptions of values as plain data."""

import dataclasses
import enum
import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpyt.experiments.registry import import_named
from rlpyt.utils.recorded import MAX_LISTED, describe, importable_name, missing_parts, rebuild


@dataclasses.dataclass
class Course:
    length: int
    goal: Path


class Color(enum.Enum):
    RED = "red"


def described(value):
    """Return the description of a value as a file contains it."""
    return json.loads(json.dumps(describe(value)))


def rebuilt(value):
    return rebuild(described(value), functools.partial(import_named, kind="part"))


@pytest.mark.parametrize(
    "value",
    [
        Path("some/file"),
        {"path": [Path("a")], "pair": (1, (2, "x"))},
        {0: 1.5, (1, 2): "key"},
        {"$name": "a key that looks like a mark"},
        Color.RED,
        Course(3, Path("goal")),
        torch.nn.ReLU,
    ],
)
def test_values_are_rebuilt_with_their_types(value):
    assert rebuilt(value) == value and type(rebuilt(value)) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([0.1, np.nan, np.inf], np.float32),
        np.zeros((0, 3)),
        np.array(2.5),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
        np.random.default_rng(0).normal(size=(MAX_LISTED, 2)),
    ],
)
def test_arrays_are_rebuilt_exactly(array):
    found = rebuilt({"goal": array})["goal"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype and found.flags.writeable


def test_numpy_numbers_become_numbers():
    value = rebuilt([np.int64(3), np.float64(0.5), np.bool_(True)])
    assert value == [3, 0.5, True] and [type(x) for x in value] == [int, float, bool]


def test_parts_without_a_description_are_listed_by_place():
    value = {"a": {"f": lambda: 1}, "b": [functools.partial(lambda: 2)], "c": np.array([None])}
    assert [place for place, _ in missing_parts(described(value))] == [("a", "f"), ("b",), ("c",)]
    with pytest.raises(ValueError, match=r"a\.f .*<function test_parts"):
        rebuild(described(value), import_named)


def test_classes_of_modules_that_cannot_be_imported_have_no_name():
    made = type("Made", (), {"__module__": "no_such_module"})
    assert importable_name(made) is None


def test_arrays_of_objects_are_not_rebuilt():
    with pytest.raises(ValueError, match="numbers, got dtype object"):
        rebuild({"$array": [1], "dtype": "O", "shape": [1]}, import_named)
