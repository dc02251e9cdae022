"""Simulator state as plain trees."""

import json

import numpy as np
import pytest

from rlpyt.envs.state import pack, pack_rng, set_rng, unpack


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        2**100,
        0.1,
        "text",
        np.float32(0.1),
        np.arange(3, dtype=np.uint8),
        (1.5, (None, [2, 2**70])),
        {"a": {"b": (np.int64(4),)}},
    ],
)
def test_values_come_back_with_their_types(value):
    back = unpack(pack(value))
    assert repr(back) == repr(value)  # repr tells 4 from np.int64(4), and tuple from list
    assert type(back) is type(value)


def test_packed_trees_are_plain_and_share_no_memory():
    array = np.zeros(2)
    tree = pack({"x": array, "y": (2**80, np.float64(3.0))})

    def check(node):
        if isinstance(node, dict):
            assert all(isinstance(k, str) for k in node)
            node = list(node.values())
        if isinstance(node, list):
            for child in node:
                check(child)
        else:
            assert type(node) in (int, float, str, bool, type(None), np.ndarray)
            assert type(node) is not int or abs(node) < 2**63

    check(tree)
    array[0] = 1
    assert tree["x"][0] == 0
    unpack(tree)["x"][1] = 1
    assert tree["x"][1] == 0


def test_values_without_plain_form_are_refused():
    for value in (object(), np.array([object()]), {1: 2}, {"deep": [set()]}):
        with pytest.raises(TypeError, match="plain tree"):
            pack(value)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937])
def test_generators_continue_from_a_packed_state(bits):
    rng, other = np.random.Generator(bits(1)), np.random.Generator(bits(2))
    rng.random(3)
    set_rng(other, json_round_trip(pack_rng(rng)) if bits is np.random.PCG64 else pack_rng(rng))
    assert (rng.random(4) == other.random(4)).all()


def json_round_trip(tree):
    return json.loads(json.dumps(tree))
