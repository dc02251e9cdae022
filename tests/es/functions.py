"""Test functions with known minima, [..., n] -> [...]."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sphere(x: Array) -> Array:
    """Sum of squares; minimum 0 at 0."""
    value: Array = (x**2).sum(-1)
    return value


def ellipsoid(x: Array) -> Array:
    """Squares weighted from 1 to 10^6, for two components or more; minimum 0 at 0."""
    weights = 10.0 ** (6 * np.linspace(0, 1, x.shape[-1]))
    value: Array = (weights * x**2).sum(-1)
    return value


def rosenbrock(x: Array) -> Array:
    """A curved valley, for two components or more; minimum 0 at (1, ..., 1)."""
    head, tail = x[..., :-1], x[..., 1:]
    value: Array = (100 * (tail - head**2) ** 2 + (1 - head) ** 2).sum(-1)
    return value


def rastrigin(x: Array) -> Array:
    """A bowl with a local minimum about every integer point; minimum 0 at 0."""
    value: Array = 10 * x.shape[-1] + (x**2 - 10 * np.cos(2 * np.pi * x)).sum(-1)
    return value
