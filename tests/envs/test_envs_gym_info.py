"""Info dicts as named tuples of a fixed structure."""

import multiprocessing
import pickle
import warnings
from enum import IntEnum

import numpy as np
import pytest

from rlpyt.envs import gym_schema
from rlpyt.envs.gym import build_info_tuples, infill_info, info_to_nt
from rlpyt.envs.gym_info import InfoSchema
from rlpyt.utils.collections import NamedTupleSchema


def test_numeric_entries_are_kept_in_order_and_nested():
    info = {"b": 1, "a": np.float64(0.5), "in": {"x": np.zeros(2), "ok": True}}
    nt = InfoSchema(info, appended=("timeout",)).convert(info, True)
    assert nt._fields == ("b", "a", "field_in", "timeout")
    assert nt.b == 1 and nt.a == 0.5 and nt.field_in.ok is True and nt.timeout is True
    assert nt.field_in.x is info["in"]["x"]


def test_equal_examples_give_one_type_and_others_another():
    info = {"a": 1, "d": {"x": 2.0}}
    assert InfoSchema(info).cls is InfoSchema({"a": 7.5, "d": {"x": 0}}).cls
    assert InfoSchema(info).cls is not InfoSchema({"a": 1}).cls


def test_env_info_crosses_to_a_spawned_process():
    nt = InfoSchema({"a": 1, "d": {"x": 2.0}}).convert({"a": 1, "d": {"x": 2.0}})
    assert pickle.loads(pickle.dumps(nt)) == nt
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        fields = pool.apply(_convert_elsewhere, (nt,))
    assert fields == (("a", "d"), True)


def _convert_elsewhere(nt):
    schema = InfoSchema({"a": 0, "d": {"x": 0.0}})
    return nt._fields, schema.cls is type(nt)


def test_missing_entries_become_zeros_of_the_same_type():
    example = {"n": 3, "x": np.float32(1.5), "v": np.ones((2, 3)), "d": {"y": 1.0}, "b": True}
    nt = InfoSchema(example).convert({"d": {}})
    assert nt.n == 0 and type(nt.n) is int
    assert nt.x == 0 and type(nt.x) is np.float32
    assert nt.v.shape == (2, 3) and not nt.v.any()
    assert nt.d.y == 0.0 and nt.b is False
    assert InfoSchema(example).convert({"n": None, "d": 5})[0] == 0


@pytest.mark.parametrize(
    "later, message",
    [
        ({"a": 1, "new": 2}, "'new' was absent"),
        ({"a": "text"}, "'a' is 'text'"),
        ({"a": np.zeros(3)}, "'a' is array"),
        ({"a": 1.5}, "'a' is stored as int64"),
        ({"a": float("nan")}, "'a' is stored as int64"),
        ({"a": float("inf")}, "'a' is stored as int64"),
    ],
)
def test_mismatches_are_reported_once_and_replaced(later, message):
    schema = InfoSchema({"a": 1})
    with pytest.warns(UserWarning, match=message):
        nt = schema.convert(later)
    assert nt._fields == ("a",) and type(nt.a) is int
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema.convert(later)


def test_zero_of_an_enumeration_that_has_none():
    kind = IntEnum("kind", ["a", "b"])
    assert InfoSchema({"kind": kind.b}).convert({}) == (0,)


def test_entries_that_are_not_numeric_are_dropped_with_one_warning_each():
    with pytest.warns(UserWarning) as caught:
        schema = InfoSchema({"a": 1, "s": "text", "o": None, "l": [1]})
    assert schema.cls._fields == ("a",)
    assert [w.message.args[0].split("key ")[1][:3] for w in caught] == ["'s'", "'o'", "'l'"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert schema.convert({"a": 2, "s": "other", "o": None, "l": [1]}) == (2,)


def test_keys_become_field_names_and_timeout_is_reserved():
    with pytest.warns(UserWarning, match="'timeout' is dropped"):
        schema = InfoSchema({"TimeLimit.truncated": False, "timeout": 5}, appended=("timeout",))
    assert schema.cls._fields == ("TimeLimit_truncated", "timeout")
    assert schema.convert({"TimeLimit.truncated": True, "timeout": 5}, False) == (True, False)


def test_rlpyts_functions():
    info = {"a": 1, "d": {"x": 2.0}}
    cls = build_info_tuples(info, "info_of_mine")
    assert cls.__name__ == "info_of_mine" and cls._fields == ("a", "d")
    nt = info_to_nt(info)
    assert nt.d.x == 2.0
    with pytest.warns(UserWarning, match="'b'"):
        assert info_to_nt({"b": 3}, example={"a": 1}) == (0,)


def test_schema_form_takes_types_by_name():
    schemas = {
        "info": NamedTupleSchema("info", ["a", "d"]),
        "info_d": NamedTupleSchema("info_d", ["x"]),
    }
    assert gym_schema.info_to_nt({"d": {"x": 2, "z": 3}, "new": 1}, schemas) == (0, (2,))
    assert gym_schema.info_to_nt({"a": 1}, schemas) == (1, (0,))


def test_infill_info_fills_and_leaves_both_dicts_alone():
    info, sometimes = {"a": 1, "d": {"x": 1}}, {"b": 2, "d": {"x": 9, "y": 3}}
    assert infill_info(info, sometimes) == {"a": 1, "b": 2, "d": {"x": 1, "y": 3}}
    assert info == {"a": 1, "d": {"x": 1}} and sometimes["d"] == {"x": 9, "y": 3}


def test_keys_that_change_at_every_step_are_named_a_limited_number_of_times():
    schema = InfoSchema({"a": 0.0})
    with pytest.warns(UserWarning, match="absent at the first step") as caught:
        for step in range(100):
            schema.convert({"a": 1.0, f"step_{step}": 1.0})
    assert len(caught) == 20
    assert str(caught[-1].message).endswith("Further keys are not reported.")
