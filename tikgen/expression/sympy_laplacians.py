"""Finds the Laplacians in sums of SymPy: the second derivatives along all axes, added."""

from __future__ import annotations

from typing import Any

import sympy

# Stands for the sum of all second derivatives; nobody else can give a function this name.
LAPLACIAN = sympy.Function("the Laplacian")


def with_laplacians(terms: list[Any], axes: tuple[Any, ...]) -> list[Any]:
    """Return the terms of a sum, in which Laplacians replace second derivatives along all axes.

    Each term becomes part of one Laplacian at most. What is left is searched again, as the terms
    of a product of two Laplacians are Laplacians times second derivatives.
    """
    if len(axes) < 2:
        return terms
    while (fewer := _searched(terms, axes)) != terms:
        terms = fewer
    return terms


def _searched(terms: list[Any], axes: tuple[Any, ...]) -> list[Any]:
    left: dict[int, Any] = dict(enumerate(terms))
    taken: set[int] = set()
    for (others, operand), places in _second_derivatives(terms, axes).items():
        if len(places) == len(axes) and taken.isdisjoint(places.values()):
            taken.update(places.values())
            for place in places.values():
                del left[place]
            left[places[axes[0]]] = others * LAPLACIAN(operand)
    return [left[place] for place in sorted(left)]


def _second_derivatives(
    terms: list[Any], axes: tuple[Any, ...]
) -> dict[tuple[Any, Any], dict[Any, int]]:
    """Return the place of the term along each axis, by its other factors and what is derived."""
    found: dict[tuple[Any, Any], dict[Any, int]] = {}
    for place, term in enumerate(terms):
        for factor in sympy.Mul.make_args(term):
            if isinstance(factor, sympy.Derivative) and len(factor.variable_count) == 1:
                axis, count = factor.variable_count[0]
                if count == 2 and axis in axes:
                    found.setdefault((term / factor, factor.expr), {})[axis] = place
    return found
