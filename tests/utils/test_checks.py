import numpy as np
import pytest
import torch

from rlpyt.utils.checks import check_range, true_or_false, whole_number

NO_NUMBERS = ["5", None, True, np.bool_(True), [5], np.array([5]), torch.tensor([5])]


@pytest.mark.parametrize("value", [1.5, np.float32(1.5), np.nan, np.float64("inf"), *NO_NUMBERS])
def test_anything_else_is_no_whole_number(value):
    with pytest.raises(TypeError, match="n=.* must be a whole number of at least 1"):
        whole_number("n", value, 1)


@pytest.mark.parametrize("value", [0, np.int64(0), np.float32(-3)])
def test_too_small_whole_numbers_are_named(value):
    with pytest.raises(ValueError, match="n=.* must be at least 1"):
        whole_number("n", value, 1)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.float64(1), np.int64(1)])
def test_numbers_within_the_range_pass(value):
    check_range("x", value, 0, 1, open_low=True)


@pytest.mark.parametrize("value", [0, np.float32(0), 1.5, np.float64(1.5), np.int64(2), np.nan])
def test_numbers_outside_the_range_are_named(value):
    with pytest.raises(ValueError, match=r"x=.* must lie in \(0, 1\]"):
        check_range("x", value, 0, 1, open_low=True)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.float32(np.inf)])
def test_infinite_numbers_are_named_where_they_must_be_finite(value):
    check_range("x", value)
    with pytest.raises(ValueError, match="x=.*inf.* must be finite"):
        check_range("x", value, finite=True)


@pytest.mark.parametrize("value", [1j, *NO_NUMBERS])
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match="x=.* must be a number"):
        check_range("x", value, 0, 1)


@pytest.mark.parametrize(
    "value", [5, 5.0, np.float32(5), np.uint8(5), np.array(5), torch.tensor(5)]
)
def test_whole_numbers_of_every_kind_become_ints(value):
    number = whole_number("n", value, 1)
    assert number == 5 and type(number) is int


@pytest.mark.parametrize("value", [2, 0.5, "false", "1", None, [], np.nan, np.array([True])])
def test_anything_else_is_no_switch(value):
    with pytest.raises(TypeError, match="x=.* must be True or False"):
        true_or_false("x", value)


def test_switches_are_pythons_and_numpys():
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
    with pytest.raises(ValueError, match="epochs=1e[+]30 must be at most"):
        whole_number("epochs", 1e30, 1)
