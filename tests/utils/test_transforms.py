"""Summaries, curves and ranks: numbers by hand, and scipy's filter."""

import numpy as np
import pytest
from scipy.signal import savgol_filter

from rlpyt.utils.transforms import (
    describe,
    explained_variance,
    interp_curves,
    rank_transform,
    smooth_filter,
)


def test_describe():
    summary = describe([2, 4, 6], repr_indent=2, repr_prefix="Return")
    assert (summary.count, summary.mean, summary.min, summary.max) == (3, 4.0, 2, 6)
    assert summary.std == pytest.approx((8 / 3) ** 0.5)
    assert str(summary).splitlines()[:3] == ["  Return", "  count: 3", "  mean: 4.0"]
    rows = describe([[1, 2, 3], [4, 5, 9]])
    assert rows.count == 3
    np.testing.assert_allclose(rows.mean, [2, 6])
    np.testing.assert_allclose(describe([[1, 2, 3], [4, 5, 9]], axis=0).max, [4, 5, 9])
    with pytest.raises(ValueError, match="empty"):
        describe([])


def test_curves_are_interpolated_at_common_points():
    x, y = interp_curves([[4, 5, 7], [2, 6]], [[1.0, 3.0, 7.0], [0.0, 8.0]], num_point=6)
    assert len(x) == len(y) == 2
    np.testing.assert_allclose(x[0], [2, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_allclose(y[0], [1, 1, 1, 3, 5, 7])
    np.testing.assert_allclose(y[1], [0, 2, 4, 6, 8, 8])
    for wrong in (([], []), ([[1, 2]], [[1]]), ([[2, 1]], [[1, 1]]), ([[]], [[]])):
        with pytest.raises(ValueError):
            interp_curves(*wrong)


@pytest.mark.parametrize(
    "true, predicted, expected",
    [
        ([3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.9571734475374732),
        ([[3, -0.5, 2, 7]], [[2.5, 0.0, 2, 8]], 0.9571734475374732),
        ([[0.5, 1], [-1, 1], [7, -6]], [[0, 2], [-1, 2], [8, -5]], 0.9838709677419355),
        ([[0.5, 1], [-1, 10], [7, -6]], [[0, 2], [-1, 0.00005], [8, -5]], 0.6704023148857179),
        ([1, 2, 3], [5, 6, 7], 1.0),
        ([1, 2, 3], [2, 2, 2], 0.0),
        ([1, 1], [3, 3], 1.0),
        ([1, 1], [3, 4], 0.0),
        ([3.0], [2.0], 1.0),
        ([[1.0], [2.0]], [1.0, 2.5], 0.75),
    ],
)
def test_explained_variance(true, predicted, expected):
    assert explained_variance(true, predicted) == pytest.approx(expected, abs=1e-12)


def test_explained_variance_wants_equal_shapes():
    with pytest.raises(ValueError, match="same shape"):
        explained_variance([1, 2, 3], [1, 2])


def test_ranks():
    np.testing.assert_array_equal(rank_transform([3, 14, 1], centered=False), [1, 2, 0])
    np.testing.assert_array_equal(rank_transform([3, 14, 1]), [0, 0.5, -0.5])
    np.testing.assert_array_equal(rank_transform([5, 5, 1], centered=False), [1, 2, 0])
    np.testing.assert_array_equal(rank_transform([7.0]), [0.0])
    shared = rank_transform([5, 5, 1, 9, 5], centered=False, share_ties=True)
    np.testing.assert_array_equal(shared, [2, 2, 0, 4, 2])  # the mean of ranks 1, 2 and 3
    np.testing.assert_array_equal(rank_transform([2, 2, 1, 5], share_ties=True), [0, 0, -0.5, 0.5])
    np.testing.assert_array_equal(rank_transform([7.0] * 5, share_ties=True), np.zeros(5))
    np.testing.assert_array_equal(rank_transform([1.0, np.inf], share_ties=True), [-0.5, 0.5])
    rng = np.random.default_rng(0)
    x = rng.permutation(9) * 1.5
    np.testing.assert_array_equal(rank_transform(x), rank_transform(x, share_ties=True))
    for wrong in ([[1, 2]], [1, float("nan")]):
        with pytest.raises(ValueError, match="one-dimensional"):
            rank_transform(wrong)


@pytest.mark.parametrize("window, degree", [(31, 10), (5, 2), (7, 0), (1, 0), (3, 2)])
def test_smoothing_equals_scipy(window, degree):
    rng = np.random.default_rng(0)
    x = np.linspace(0, 8 * np.pi, 100)
    y = x * (np.sin(x) + rng.random(100) * 4)
    expected = savgol_filter(y, window, degree)  # by powers, which lose digits at degree 10
    tolerance = 1e-4 if degree == 10 else 1e-9
    np.testing.assert_allclose(smooth_filter(y, window, degree), expected, tolerance, tolerance)


def test_smoothing_leaves_polynomials_of_its_degree_alone():
    x = np.arange(20.0)
    y = 3 - x + 0.5 * x**2
    np.testing.assert_allclose(smooth_filter(y, 7, 2), y, rtol=1e-9)
    x = np.linspace(-1, 1, 100)
    y = 1 - 3 * x + 40 * x**7 - x**10
    np.testing.assert_allclose(smooth_filter(y, 31, 10), y, rtol=1e-9, atol=1e-9)
    for wrong in ((6, 2), (7, 7), (21, 2)):
        with pytest.raises(ValueError):
            smooth_filter(y[:20], *wrong)


def test_variance_that_is_not_finite_is_not_explained():
    for true in ([1.0, np.nan, 2.0], [1.0, 2.0, np.inf]):
        assert np.isnan(explained_variance(true, [1.0, 2.0, 3.0]))
    assert np.isnan(explained_variance([1.0, 2.0, 3.0], [1.0, np.nan, 2.0]))
