import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch

from rlpyt.utils.checks import check_range, check_settings, setting, true_or_false, whole_number

NO_NUMBERS = ["5", None, True, np.bool_(True), [5], np.array([5]), torch.tensor([5])]


@pytest.mark.parametrize("value", [1.5, np.float32(1.5), np.nan, np.float64("inf"), *NO_NUMBERS])
def test_other_values_are_not_whole_numbers(value):
    with pytest.raises(TypeError, match="^n=.*whole"):
        whole_number("n", value, 1)


@pytest.mark.parametrize("value", [0, np.int64(0), np.float32(-3)])
def test_too_small_whole_numbers_are_named(value):
    with pytest.raises(ValueError, match="^n=.*at least 1"):
        whole_number("n", value, 1)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.float64(1), np.int64(1)])
def test_numbers_within_the_range_pass(value):
    check_range("x", value, 0, 1, open_low=True)


@pytest.mark.parametrize("value", [0, np.float32(0), 1.5, np.float64(1.5), np.int64(2), np.nan])
def test_numbers_outside_the_range_are_named(value):
    with pytest.raises(ValueError, match=r"^x=.*\(0, 1\]"):
        check_range("x", value, 0, 1, open_low=True)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.float32(np.inf)])
def test_infinite_numbers_are_named_where_they_must_be_finite(value):
    check_range("x", value)
    with pytest.raises(ValueError, match="^x=.*finite"):
        check_range("x", value, finite=True)


@pytest.mark.parametrize("value", [1j, *NO_NUMBERS])
def test_values_that_are_not_numbers_are_named(value):
    with pytest.raises(TypeError, match="^x=.*number"):
        check_range("x", value, 0, 1)


@pytest.mark.parametrize(
    "value", [5, 5.0, np.float32(5), np.uint8(5), np.array(5), torch.tensor(5)]
)
def test_whole_numbers_of_every_kind_become_ints(value):
    number = whole_number("n", value, 1)
    assert number == 5 and type(number) is int


@pytest.mark.parametrize("value", [2, 0.5, "false", "1", None, [], np.nan, np.array([True])])
def test_other_values_are_not_switches(value):
    with pytest.raises(TypeError, match="^x=.*True or False"):
        true_or_false("x", value)


def test_switches_are_bools_of_python_and_numpy():
    for no, yes in ((False, True), (0, 1), (0.0, 1.0), (np.bool_(False), np.array(True))):
        assert true_or_false("x", no) is False and true_or_false("x", yes) is True


def test_numpy_numbers_configure_samplers_and_algorithms():
    from rlpyt.algos.pg.ppo import PPO
    from rlpyt.envs.toy import CountEnv
    from rlpyt.samplers.serial.sampler import SerialSampler

    sampler = SerialSampler(CountEnv, {}, batch_T=np.int64(5), batch_B=np.uint8(3))
    assert sampler.batch_size == 15
    assert PPO(learning_rate=np.float32(0.5), epochs=np.int32(2)).epochs == 2


def test_whole_floats_and_digits_for_switches_configure_algorithms():
    from rlpyt.algos.dqn.dqn import DQN

    dqn = DQN(batch_size=32.0, eps_steps=1e6, target_update_interval=1e2, double_dqn=1)
    values = dqn.batch_size, dqn.eps_steps, dqn.target_update_interval, dqn.double_dqn
    assert values == (32, 10**6, 100, True)
    assert [type(value) for value in values] == [int, int, int, bool]


def test_counts_beyond_64_bits_are_refused():
    assert whole_number("epochs", 2**64 - 1, 1) == 2**64 - 1
    with pytest.raises(ValueError, match="epochs=1e[+]30"):
        whole_number("epochs", 1e30, 1)


@dataclass
class Settings:
    rate: float = setting(0.1, gt=0, le=100, warn_above=1, doc="step size; 1e-4 to 1e-2")
    share: float = setting(0.5, ge=0, le=1, doc="weight")
    coefficient: float = setting(1.0, finite=True, doc="any finite number")
    steps: int = setting(4, ge=1, doc="count")
    limit: int | None = setting(None, ge=2, doc="count, or none")
    entropy: float | Literal["auto"] = setting("auto", finite=True, doc="number or auto")
    kind: Literal["a", "b"] = setting("a", doc="one of two")
    other: Any = setting(None, doc="anything")
    switch: bool = False
    undeclared: float = 1.0

    def __post_init__(self):
        check_settings(self)


def test_settings_are_ordinary_fields_with_defaults():
    assert Settings() == Settings(0.1, 0.5, 1.0, 4, None, "auto", "a", None, False, 1.0)
    assert Settings.rate == 0.1


def test_counts_and_switches_are_stored_as_such():
    made = Settings(steps=3.0, limit=np.int64(5), switch=1, entropy=2)
    assert (made.steps, made.limit, made.switch, made.entropy) == (3, 5, True, 2)
    assert type(made.steps) is type(made.limit) is int and made.switch is True


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (dict(rate=0), ValueError, r"rate=0 .*\(0, 100\]"),
        (dict(rate=101), ValueError, "rate=101"),
        (dict(rate=None), TypeError, "rate=None"),
        (dict(share=1.5), ValueError, r"share=1.5 .*\[0, 1\]"),
        (dict(share=math.nan), ValueError, "share=nan"),
        (dict(coefficient=math.inf), ValueError, "coefficient=inf"),
        (dict(steps=0), ValueError, "steps=0"),
        (dict(steps=1.5), TypeError, "steps=1.5"),
        (dict(steps=None), TypeError, "steps=None"),
        (dict(limit=1), ValueError, "limit=1 .*2"),
        (dict(entropy="none"), TypeError, "entropy='none'"),
        (dict(entropy=-math.inf), ValueError, "entropy=-inf"),
        (dict(kind="c"), ValueError, "kind='c'"),
        (dict(switch="no"), TypeError, "switch='no'"),
    ],
)
def test_settings_outside_their_range_are_refused(bad, error, message):
    with pytest.raises(error, match=message):
        Settings(**bad)


def test_unusually_large_settings_cause_a_warning():
    with pytest.warns(UserWarning, match="rate=2 "):
        Settings(rate=2)


def test_undeclared_settings_are_unchanged():
    assert Settings(undeclared="x", other=object).undeclared == "x"
