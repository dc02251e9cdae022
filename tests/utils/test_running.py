"""Running statistics against one pass over everything."""

import numpy as np
import pytest
import torch

from rlpyt.utils.running import (
    PolyakAverage,
    RunningMeanVar,
    update_mean_var_count_from_moments,
)


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_batches_of_any_size_give_the_same_moments(shape):
    data = np.random.default_rng(0).normal(1e4, 0.1, (20, *shape)).astype(np.float32)
    f = RunningMeanVar(shape)
    for part in np.split(data, [1, 1, 7, 18]):
        f(part)
    assert f.n == 20
    assert f.mean.dtype == np.float64 and np.shape(f.mean) == shape
    np.testing.assert_allclose(f.mean, data.mean(0, dtype=float), rtol=1e-12)
    np.testing.assert_allclose(f.var, data.var(0, dtype=float), rtol=1e-6)


def test_merged_moments_equal_those_of_all_data():
    data = np.random.default_rng(1).normal(size=(9, 2))
    one, other = RunningMeanVar((2,)), RunningMeanVar((2,))
    one.update(data[:3])
    other.update(data[3:])
    one.update_from_moments(other.mean, other.var, other.count)
    np.testing.assert_allclose(one.mean, data.mean(0), rtol=1e-12)
    np.testing.assert_allclose(one.var, data.var(0), rtol=1e-12)
    mean, var, count = update_mean_var_count_from_moments(
        data[:4].mean(0), data[:4].var(0), 4, data[4:].mean(0), data[4:].var(0), 5
    )
    np.testing.assert_allclose(mean, data.mean(0), rtol=1e-12)
    np.testing.assert_allclose(var, data.var(0), rtol=1e-12)
    assert count == 9


def test_epsilon_adds_standard_samples_and_zero_is_exact():
    """The numbers of lagom's documentation, whose statistics begin with a ten-thousandth."""
    f = RunningMeanVar(shape=(), epsilon=1e-4)
    for part in ([1, 2], [3], [4]):
        f(part)
    assert f.mean == pytest.approx(2.499937501562461, rel=1e-12)
    assert f.var == pytest.approx(1.2501499923440393, rel=1e-12)
    assert f.n == 4
    exact = RunningMeanVar()
    exact([1, 2, 3, 4])
    assert (exact.mean, exact.var) == (2.5, 1.25)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="^batch .*shape"):
        RunningMeanVar((3,)).update(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="^batch .*shape"):
        RunningMeanVar().update(3.0)  # no batch
    with pytest.raises(ValueError, match="statistics .*shape"):
        RunningMeanVar((3,)).load(RunningMeanVar((2,)).state())


def test_polyak_average_forgets_geometrically():
    average = PolyakAverage(0.5)
    assert average.get_current() is None
    assert [average(x) for x in (8.0, 4.0, 0.0)] == [8.0, 6.0, 3.0]
    assert average.get_current() == 3.0
    newest, first = PolyakAverage(0.0), PolyakAverage(1.0)
    for x in (1.0, 2.0):
        newest(x), first(x)
    assert (newest.get_current(), first.get_current()) == (2.0, 1.0)
    x = torch.ones(2)
    of_tensors = PolyakAverage(0.9)
    of_tensors(x)
    x.zero_()  # it keeps a copy
    torch.testing.assert_close(of_tensors(x), torch.full((2,), 0.9))
    of_lists = PolyakAverage(0.5)
    of_lists([2, 4])
    np.testing.assert_array_equal(of_lists([0, 8]), [1.0, 6.0])
    with pytest.raises(ValueError, match="alpha"):
        PolyakAverage(1.1)
