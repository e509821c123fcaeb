"""Arguments that are made up for a launch of an artefact, from what a manifest says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.aot import manifest as m
from tikgen.dtypes import DType
from tikgen.template.arguments import split_extent

# Extents of axes that nothing decides: small ones, of which the first is no power of two.
EXTENTS = (7, 16, 12)
# What rounding may cost, in units in the last place of the largest value, and of 1.
_UNITS, _UNITS_OF_F16, _UNITS_OF_1 = 256, 16, 4


def sizes_for(arguments: Sequence[m.Argument], number: int) -> dict[str, int]:
    """Return one size for all symbols, so that arrays that go together fit one another."""
    extent = EXTENTS[number % len(EXTENTS)]
    found = [split_extent(e)[0] for a in arguments for e in a.shape]
    return {symbol: extent for symbol in found if symbol is not None}


def sizes_of(argument: m.Argument, shape: Sequence[int]) -> dict[str, int]:
    """Return the value of each size symbol of an array, as its shape implies."""
    found = {}
    for extent, given in zip(argument.shape, shape, strict=False):
        symbol, more = split_extent(extent)
        if symbol is not None:
            found[symbol] = given - more
    return found


def shape_of(argument: m.Argument, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of an array in NumPy, with the axes of its elements behind its own."""
    shape = []
    for extent in argument.shape:
        symbol, more = split_extent(extent)
        shape.append(more if symbol is None else sizes[symbol] + more)
    return (*shape, *argument.element)


def made_up(
    arguments: Sequence[m.Argument],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a random value for each argument, by name: floats in [-1, 1), small whole numbers.

    Args:
        arguments: the arguments.
        sizes: value of each size symbol.
        rng: source of the numbers.
        given: values that are taken as they are.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        dtype = DType(argument.dtype)
        shape = shape_of(argument, sizes)
        if given is not None and argument.name in given:
            values[argument.name] = np.array(given[argument.name], dtype.numpy, order="C")
        elif dtype.is_float:
            values[argument.name] = rng.uniform(-1, 1, shape).astype(dtype.numpy)
        else:
            values[argument.name] = rng.integers(0, 4, shape).astype(dtype.numpy)
        if argument.kind == "scalar":
            values[argument.name] = values[argument.name].item()
    return values


def worst_error(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Return the greatest error of an array as a fraction of what rounding may cost.

    Two compilers may contract and reorder: some units in the last place of the largest value are
    allowed for floats, and some of 1, which inputs come to, where they cancel; nothing for whole
    numbers, infinities and NaN.
    """
    if got.shape != wanted.shape:
        return float("inf")
    if got.dtype.kind != "f":
        return 0.0 if np.array_equal(got, wanted) else float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    one, other = got[finite].astype(np.longdouble), wanted[finite].astype(np.longdouble)
    if not one.size:
        return 0.0
    if not np.isfinite(one).all():
        return float("inf")
    units = _UNITS_OF_F16 if got.dtype.itemsize == 2 else _UNITS
    allowed = float(np.finfo(got.dtype).eps) * (units * float(np.abs(other).max()) + _UNITS_OF_1)
    return float(np.abs(one - other).max() / allowed)
