"""Reductions in a text, such as ``err = sum((u' - u)**2)``: what they mean, and their errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType

NDArray = npt.NDArray[Any]

OPERATIONS = ("sum", "max", "min")
# What stores the terms of a sum, an element for each point, and adds nothing up.
TERMS = "terms"


def reduction_of(value: ast.expr) -> str:
    """Return the operation if the right-hand side is a reduction, or an empty string.

    Terms are read as a reduction is: they know no mask, and nothing in the text reads them.
    """
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return ""
    name = value.func.id
    is_reduction = name in ("sum", TERMS) or (name in OPERATIONS and len(value.args) == 1)
    return name if is_reduction else ""


def misused(call: ast.Call) -> str:
    """Return why a call within an expression cannot be a reduction, or an empty string."""
    operation = reduction_of(call)
    if not operation:
        return ""
    return (
        f"{operation}() of one value is a reduction over all points, and is known only after the "
        f'pass; give it a line of its own, as in "total = {operation}(...)"'
    )


def unusable(targets: Sequence[ast.Name], values: Sequence[ast.expr]) -> tuple[ast.AST, str] | None:
    """Return the place and the problem of a reduction that cannot be computed, or None."""
    results = {t.id for t, value in zip(targets, values, strict=True) if reduction_of(value)}
    assigned: set[str] = set()
    for target, value in zip(targets, values, strict=True):
        if target.id in results & assigned:
            return target, f"{target.id!r} is assigned twice, and is a reduction"
        assigned.add(target.id)
        operation = reduction_of(value)
        if operation and not target.id.isascii():
            return target, "a reduction gives one number; assign it to a name without a prime"
        if operation and isinstance(value, ast.Call) and not _is_of_one(value):
            return value, f"{operation}() over all points takes one expression"
    for node in (node for value in values if results for node in ast.walk(value)):
        if isinstance(node, ast.Name) and node.id in results:
            return node, (
                f"{node.id!r} is a reduction, known only after the pass; read it in another kernel"
            )
    return None


def extreme_hint(source: str, name: str, value: object) -> str:
    """Return how a reduction is written, for an array of one element that does not fit, or nothing.

    Args:
        source: the text.
        name: the argument.
        value: the shape that was passed, or anything else.
    """
    found = re.search(rf"(?:^|[;\n])\s*{name}\s*=\s*((max|min)\([^;\n#]*)", source)
    if found is None or not isinstance(value, tuple) or value != (1,):
        return ""
    what, operation = found[1].strip(), found[2]
    return (
        f"; a reduction over all points is {operation}(e) of one expression, as in "
        f"{name} = {operation}({what})"
    )


def _is_of_one(call: ast.Call) -> bool:
    """Return whether a call has one argument."""
    return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)


def numbers_to_rank(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> NDArray:
    """Return numbers of which some, or all, are infinities or NaN, to verify extremes with."""
    special = rng.choice([-np.inf, np.inf, np.nan], rng.integers(1, 4))
    chosen = rng.random(shape) < rng.choice([0.01, 0.5, 1.0])
    x = np.where(chosen, rng.choice(special, shape), rng.uniform(-1, 1, shape))
    return x.astype(dtype.numpy)


def reduced(operation: str, terms: NDArray) -> NDArray:
    """Return the sum or the extreme of the terms in their dtype, with shape (1,).

    Of no terms it is 0, or what every number replaces: an infinity, or a limit of the integers.
    """
    if operation == "sum":
        return np.asarray(np.sum(terms, dtype=terms.dtype)).reshape(1)
    if terms.size:
        return np.asarray(getattr(np, operation)(terms)).reshape(1)
    if terms.dtype.kind == "f":
        return np.full(1, -np.inf if operation == "max" else np.inf, terms.dtype)
    limits = np.iinfo(terms.dtype)
    return np.full(1, limits.min if operation == "max" else limits.max, terms.dtype)


def are_whole(values: NDArray) -> np.bool_:
    """Return whether all values are whole numbers."""
    return np.all(values == np.rint(values))


def reduced_error(
    operation: str, terms: NDArray, errors: NDArray, masses: NDArray, dtype: DType
) -> NDArray:
    """Return a bound on the error of a reduction of floats in ``dtype``, in any order.

    A sum of n terms t with errors e is off by at most ``sum(e) + n eps sum|t|`` to first order
    (Higham 2002, section 4.2). Whole terms without errors whose sums the dtype holds are added
    exactly. An f16 is the last rounding of what is added in f32, and that is not included.

    Args:
        operation: ``"sum"``, ``"max"`` or ``"min"``.
        terms: the terms, in wide precision.
        errors: bounds on their errors.
        masses: how much they count in ``sum|t|``.
        dtype: the dtype of the sum.
    """
    if not dtype.is_float or not terms.size:
        return np.zeros(1)
    # What is infinite or NaN for certain decides, and has no error.
    is_certain = ~np.isfinite(terms) & (errors == 0)
    with np.errstate(all="ignore"):
        if operation == "sum":
            finite, added = np.where(is_certain, 0, masses), dtype.computed
            count, total = terms.size, np.sum(finite) + np.sum(errors)
            bound = np.sum(errors) + added.eps * (count + 2) * total + count * added.tiny
            is_safe = total * (1 + added.eps * count) <= float(np.finfo(added.numpy).max)
            bound = bound if is_safe else np.inf
            if not errors.any() and are_whole(terms) and total <= 2 / added.eps:
                bound = 0.0
        else:
            function = getattr(np, operation)
            ends = np.array([function(terms - errors), function(terms + errors)])
            is_open = ~np.isfinite(errors).all()
            gaps = np.where(ends == function(terms), 0, np.abs(ends - function(terms)))
            bound = np.inf if is_open else np.max(gaps)
    return np.zeros(1) if np.isnan(terms[is_certain]).any() else np.full(1, bound)
