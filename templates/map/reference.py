"""What a text gives, in NumPy, and the greatest error allowed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.expression.reductions import numbers_to_rank, reduced, reduced_error
from tikgen.template.grid_use import ghosts_of

from .program import argument_names, grid_shape, is_scalar


def reference(p: Any, *arguments: Any) -> Any:
    """Return what every written array must hold."""
    working = p.dtype.wide if p.dtype.is_float else p.dtype.numpy
    given = {
        name: np.asarray(value, p.dtype.numpy).astype(working)
        for name, value in zip(argument_names(p), arguments, strict=True)
    }
    values = p.expr.folded(p.dtype).evaluate(**given)
    results, inner = [], owned(p, grid_shape(p, given))
    for name in argument_names(p):
        if name in p.expr.written:
            result = values[name]
            if p.part:
                result = given[name].copy()
                result[inner] = np.broadcast_to(values[name], result.shape)[inner]
            results.append(result)
    for name, operation in p.expr.reductions.items():
        terms = np.broadcast_to(values[name], grid_shape(p, given))[inner]
        # Integers are added up in 32 bits at least.
        is_short = not p.dtype.is_float and p.dtype.bits < 32
        results.append(reduced(operation, terms.astype(np.int32) if is_short else terms))
    return tuple(results) if len(results) > 1 else results[0]


def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
    """Return the greatest error allowed of each output."""
    # Running error analysis: nothing is assumed about the expression.
    allowed = p.expr.error_bound(inputs, p.dtype)
    if p.expr.reductions:
        given = {n: np.asarray(inputs[n], p.dtype.wide) for n in p.expr.inputs}
        terms = p.expr.folded(p.dtype).evaluate(**given)
        masses = p.expr.masses(given, p.dtype)
        shape = grid_shape(p, inputs)
        inner = owned(p, shape)
        for name, operation in p.expr.reductions.items():
            each = (np.broadcast_to(a[name], shape)[inner] for a in (terms, allowed, masses))
            allowed[name] = reduced_error(operation, *each, p.dtype)
    return {name: allowed[name] for name in expected}


def owned(p: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the elements that are no ghost points."""
    pairs = zip(shape, ghosts_of(p.part, p.dim), strict=True)
    return tuple(slice(low, max(low, n - high)) for n, (low, high) in pairs)


def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Return numbers among which some are not finite, where these are ranked.

    Of sums in f16, whole numbers whose sums f16 rounds, and f32 does not. Where floats are divided
    and rounded down, some numbers of which the last digit is less than the least normal number.
    """
    shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
    shapes = {name: () if is_scalar(p, name) else shape for name in p.expr.inputs}
    if p.dtype.value == "f16" and p.expr.reductions and rng.random() < 0.3:
        whole = {name: rng.integers(-30, 30, shape) for name, shape in shapes.items()}
        return {name: np.asarray(x, p.dtype.numpy) for name, x in whole.items()}
    found: dict[str, Any] = {}
    is_divided = p.dtype.value in ("f32", "f64") and {"//", "%"} & p.expr.functions
    if is_divided and rng.random() < 0.5:
        least = np.finfo(p.dtype.numpy).minexp
        for name, shape in shapes.items():
            x = np.ldexp(rng.uniform(-1, 1, shape), least + int(rng.integers(9, 99)))
            found[name] = x.astype(p.dtype.numpy)
        return found
    # Fast math may take NaN and infinity for anything, but maxima and minima rank them.
    is_ranked = (
        p.dtype.is_float and p.expr.reductions and p.expr.functions <= {"abs", "neg", "name"}
    )
    if not is_ranked or "sum" in p.expr.reductions.values() or rng.random() < 0.5:
        return {}
    for name in (name for name in p.expr.inputs if not is_scalar(p, name)):
        found[name] = numbers_to_rank(shape, p.dtype, rng)
    return found
