"""The heat equation in a cube with cold walls: an initial field and its exact solutions.

u_t = alpha * laplace(u) on the unit cube, u = 0 on its surface. On a grid of n inner points an
axis, h = 1 / (n + 1) apart, any field is a sum of products of sines. Each product is an
eigenfunction of the Laplacian and of its second-order central difference alike, with zeros beyond
the grid, so both solutions are known exactly (LeVeque, Finite Difference Methods for Ordinary and
Partial Differential Equations, 2007, section 9.3).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[Any]

# alpha * dt / h^2; explicit steps in three dimensions are stable up to 1/6.
RATIO = 0.15


def initial_field(n: int) -> Field:
    """Return the initial temperature, shape (n, n, n), f64: a hot ring and three balls."""
    x = np.arange(1, n + 1) / (n + 1)
    x, y, z = np.meshgrid(x, x, x, indexing="ij", sparse=True)
    from_ring = (np.hypot(x - 0.5, y - 0.5) - 0.3) ** 2 + (z - 0.5) ** 2
    field = np.exp(-from_ring / (2 * 0.03**2))
    for (a, b, c), width, height in (
        ((0.50, 0.60, 0.5), 0.045, 1.0),
        ((0.41, 0.45, 0.5), 0.045, 0.8),
        ((0.59, 0.45, 0.5), 0.045, 0.6),
    ):
        from_ball = (x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2
        field = field + height * np.exp(-from_ball / (2 * width**2))
    return np.asarray(field)


@dataclass(frozen=True)
class ExactHeat:
    """The exact solutions for the initial field ``start``, of shape (n, n, n)."""

    start: Field

    @property
    def n(self) -> int:
        """Return the number of grid points along an axis."""
        return len(self.start)

    def discrete(self, steps: int) -> Field:
        """Return the result of ``steps`` explicit steps in exact arithmetic."""
        return _sine_transform(self._amplitudes * self._factor**steps)

    def continuous(self, steps: int) -> Field:
        """Return the solution of the differential equation at the time of step ``steps``."""
        return _sine_transform(self._amplitudes * np.exp(steps * self._continuous_rate))

    def norms(self, steps: int) -> tuple[float, float]:
        """Return the root mean square of the discrete and of the continuous solution."""
        # The transform is orthogonal, so the amplitudes have the norm of the field.
        squares = self._amplitudes**2
        rates = self._discrete_rate, self._continuous_rate
        discrete, continuous = (
            float(np.sqrt(np.mean(squares * np.exp(2 * steps * rate)))) for rate in rates
        )
        return discrete, continuous

    @functools.cached_property
    def _amplitudes(self) -> Field:
        return _sine_transform(self.start)

    @functools.cached_property
    def _factor(self) -> Field:
        """Return the factor by which a step multiplies each product of sines."""
        mode = np.arange(1, self.n + 1)
        along = -4 * np.sin(mode * np.pi / (2 * (self.n + 1))) ** 2
        return 1 + RATIO * _sum_over_axes(along)

    @functools.cached_property
    def _discrete_rate(self) -> Field:
        return np.asarray(np.log(np.maximum(np.abs(self._factor), np.finfo(np.float64).tiny)))

    @functools.cached_property
    def _continuous_rate(self) -> Field:
        mode = np.arange(1, self.n + 1)
        return RATIO * _sum_over_axes(-((mode * np.pi / (self.n + 1)) ** 2))


class NumpyHeat:
    """The same explicit steps in NumPy, written without temporary arrays."""

    def __init__(self, start: Field) -> None:
        self._now = np.pad(start, 1)
        self._next = np.zeros_like(self._now)
        self._sum = np.empty_like(start)

    @property
    def field(self) -> Field:
        """Return the field without its walls."""
        return self._now[1:-1, 1:-1, 1:-1]

    def step(self) -> None:
        """Advance by one step."""
        u, total = self._now, self._sum
        np.multiply(self.field, -6, out=total)
        for axis in range(3):
            for side in (slice(None, -2), slice(2, None)):
                window = [slice(1, -1)] * 3
                window[axis] = side
                total += u[tuple(window)]
        total *= RATIO
        np.add(self.field, total, out=self._next[1:-1, 1:-1, 1:-1])
        self._now, self._next = self._next, self._now


def _sum_over_axes(along: Field) -> Field:
    return np.asarray(along[:, None, None] + along[None, :, None] + along[None, None, :])


def _sine_transform(field: Field) -> Field:
    """Return the orthogonal sine transform along all three axes; it is its own inverse."""
    n = field.shape[0]
    mode = np.arange(1, n + 1)
    sines = np.sqrt(2 / (n + 1)) * np.sin(np.pi / (n + 1) * np.outer(mode, mode))
    for axis in range(3):
        field = np.moveaxis(np.tensordot(sines, field, axes=(1, axis)), 0, axis)
    return field
