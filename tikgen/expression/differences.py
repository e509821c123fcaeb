"""Weights of finite differences, as exact fractions (Fornberg, Math. Comp. 51, 1988)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from fractions import Fraction

HALF = Fraction(1, 2)


@functools.lru_cache(maxsize=256)
def weights(derivative: int, positions: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Return the weight of a function's value at each position for its derivative at 0.

    Args:
        derivative: 0 to interpolate, 1 for the first derivative, and so on.
        positions: where the function is known, in units of the grid's spacing.
    """
    one, zero = Fraction(1), Fraction(0)
    found = [[zero] * (derivative + 1) for _ in positions]
    found[0][0] = one
    before = one
    for i in range(1, len(positions)):
        product = one
        for j in range(i):
            distance = positions[i] - positions[j]
            product *= distance
            if j == i - 1:
                for k in range(min(i, derivative), -1, -1):
                    lower = k * found[j][k - 1] if k else zero
                    found[i][k] = before * (lower - positions[j] * found[j][k]) / product
            for k in range(min(i, derivative), -1, -1):
                lower = k * found[j][k - 1] if k else zero
                found[j][k] = (positions[i] * found[j][k] - lower) / distance
        before = product
    return tuple(row[derivative] for row in found)


@functools.lru_cache(maxsize=64)
def central(derivative: int, order: int) -> Mapping[int, Fraction]:
    """Return the weight at each offset for a derivative where the function itself is known.

    Args:
        derivative: 1 or 2.
        order: order of accuracy, even.
    """
    offsets = range(-order // 2, order // 2 + 1)
    found = weights(derivative, tuple(map(Fraction, offsets)))
    return {offset: weight for offset, weight in zip(offsets, found, strict=True) if weight}


@functools.lru_cache(maxsize=64)
def staggered(derivative: int, order: int, from_faces: bool) -> Mapping[int, Fraction]:
    """Return the weight at each offset for a derivative half a cell away from known values.

    Face `i` lies half a cell before centre `i`.

    Args:
        derivative: 0 for an average, or 1.
        order: order of accuracy, even: the number of values.
        from_faces: whether values are known on faces, and wanted at centres.
    """
    first = 1 - order // 2 if from_faces else -(order // 2)
    offsets = range(first, first + order)
    shift = -HALF if from_faces else HALF
    found = weights(derivative, tuple(offset + shift for offset in offsets))
    return dict(zip(offsets, found, strict=True))
