"""Types of settings, and values made to fit them."""

from typing import Any, Literal

import pytest

from rlpyt.experiments.settings import default_options, fitted, setting_types, type_of
from rlpyt.utils.names import UnknownName


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, float, 3.0),
        (1e5, int, 100_000),
        (None, float | None, None),
        (2, float | None, 2.0),
        ([1, 2], tuple[int, ...] | None, (1, 2)),
        ([1, 2.0], tuple[float, float], (1.0, 2.0)),
        ({"a": 1}, dict[str, Any] | None, {"a": 1}),
        ("cpu", Literal["cpu", "gpu"], "cpu"),
        (False, bool, False),
        ([1], Any, [1]),
    ],
)
def test_values_are_converted_to_the_type(value, hint, expected):
    found = fitted(value, hint)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint", "words"),
    [
        (True, int, "whole number, got True"),
        (1.5, int, "whole number, got 1.5"),
        (float("inf"), int, "whole number, got inf"),
        (float("nan"), int, "whole number, got nan"),
        ("1", float | None, "number or null, got '1'"),
        (1, bool, "true or false, got 1"),
        (1, str, "string, got 1"),
        (None, int, "whole number, got None"),
        ([1, "b"], tuple[int, ...] | None, r"list \(a whole number, ...\) or null"),
        ([1, 2, 3], tuple[float, float], r"list \(a number, a number\)"),
        ("tpu", Literal["cpu", "gpu"], "cpu, gpu, got 'tpu'"),
        ([1], dict[str, Any], "dictionary"),
    ],
)
def test_errors_describe_the_expected_type(value, hint, words):
    with pytest.raises(TypeError, match=words):
        fitted(value, hint)


def test_every_setting_has_a_type_and_dictionaries_take_anything():
    known = setting_types("ppo")
    assert known["sampler.batch_B"] is int and known["algo.OptimCls"] is str
    assert "sampler" not in known and "algo.initial_optim_state_dict" not in known
    for name in ("env_args.gravity", "agent.model.a.b", "algo.optim_kwargs.eps"):
        assert type_of(name, known) is Any
    with pytest.raises(UnknownName, match=r"setting 'steps\.x'; .*'steps'"):
        type_of("steps.x", known)


def test_defaults_are_the_classes_and_then_the_presets():
    options = default_options("ppo", "CartPole-v1")
    assert options.algo["clip_grad_norm"] == 0.5  # of the family; the class has 1.0
    assert options.algo["epochs"] == 20  # of the environment
    assert options.algo["OptimCls"] == "Adam"  # of the class
    assert default_options("ppo", "CartPole-v1", "mujoco").algo["epochs"] == 10
    with pytest.raises(UnknownName, match="preset"):
        default_options("ppo", "CartPole-v1", "mujco")
