"""Shapes that users name: sizes for the symbols in which a template writes its shapes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tikgen.dtypes import DType
from tikgen.errors import ParameterError
from tikgen.template.arguments import Argument, Array, concrete_shape

Sizes = dict[str, int]

# Taichi indexes with 32 bits, and code adds to an index what lies between the end of an array and
# that of the last step of all chunks or blocks: 8448 blocks of 1024 threads with 11 items each are
# the most.
MOST_ELEMENTS = 2**31 - 2**27
# Arrays of fewer bytes in all are work for one thread of a processor. On two cores a step of
# Gray-Scott over 260 kB took 60 us in parallel and 10 by one thread, over 1 MB 82 and 31; with
# direct-cpu 5 and 7, 14 and 25.
SMALL_BYTES = 1 << 18
# The same for an engine that wakes its threads soon: the Laplacian of 333 x 57 f32 took 0.75 of the
# time in parallel, of order 8 0.55, and of 300 x 30 0.9.
SMALL_BYTES_DIRECT = 1 << 17
# Of order 8, rows of 9 to 40 points took 0.4 to 0.7 of the time in parallel from 67 kB on.
FAR = 3
# Rows of fewer points hold few steps of 32, so that a processor does better with steps of 16.
SHORT_ROW = 72
# Strips of so many short rows are worth it where there are enough of them for every thread.
FEW_COLUMNS, MANY_ROWS = 128, 1024


def are_small(
    arguments: Iterable[Argument],
    sizes: Mapping[str, int] | None,
    is_direct: bool = False,
    is_slow: bool = False,
) -> bool:
    """Return whether arrays of these sizes, if any are known, are work for one thread.

    Args:
        arguments: what a kernel takes.
        sizes: the value of each size symbol.
        is_direct: whether the engine is direct-cpu.
        is_slow: whether it takes long for so many bytes, see :func:`are_ends_far`.
    """
    most = SMALL_BYTES_DIRECT if is_direct else SMALL_BYTES
    if is_direct and is_slow:
        most //= 2
    return sizes is not None and array_bytes(arguments, sizes) < most


def points_of_buffers(dtype: DType) -> int:
    """Return how many points of a row fill four of a processor's registers."""
    return 128 // max(4, dtype.bits // 8)


def are_rows_short(dim: int, sizes: Mapping[str, int] | None) -> bool:
    """Return whether rows of a grid with these sizes, if any are known, hold few long steps."""
    return sizes is not None and dim > 1 and sizes[f"n{dim - 1}"] < SHORT_ROW


def are_ends_far(dim: int, sizes: Mapping[str, int] | None, reach: int) -> bool:
    """Return whether most points of rows have neighbours beyond an end, ``reach`` points away."""
    return reach >= FAR and are_rows_short(dim, sizes)


def rows_of_strips(dim: int, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Return schedule parameters of strips of rows, of which direct-cpu shares out equal parts.

    There a strip needs no empty iterations, with which Taichi occupies all threads. Two cores, f32:
    13,189 rows of 48 points took 0.77 of the time without them, 0.65 in strips of 16 rows; 4,647
    rows of 992 points 0.98 and 0.93.
    """
    if dim == 2 and sizes is not None and sizes["n1"] < FEW_COLUMNS:
        return {"rows": 16 if sizes["n0"] >= MANY_ROWS else 4, "iterations": 1}
    return {"iterations": 1}


def array_bytes(arguments: Iterable[Argument], sizes: Mapping[str, int]) -> int:
    """Return how many bytes the arrays among ``arguments`` take."""
    return sum(
        math.prod(concrete_shape(a, sizes)) * a.dtype.bits // 8
        for a in arguments
        if isinstance(a, Array)
    )


def sizes_of_shape(
    template: str, symbols: Sequence[str], shape: Any, arrays: Iterable[Argument] = ()
) -> Sizes:
    """Return the value of each size symbol that ``shape`` gives.

    Args:
        template: name of the template, for messages.
        symbols: size symbols of the problem, see :meth:`tikgen.Template.size_symbols`.
        shape: one integer for each symbol in order, or a dict by symbol; a single integer where
            there is one symbol.
        arrays: arguments whose number of elements must fit.

    Raises:
        ParameterError: if a size is missing, unknown, no positive integer, or too large.
    """
    takes = "takes nothing"
    if symbols:
        takes = f"takes {', '.join(symbols)}: sizes in that order, or by name"
    if isinstance(shape, Mapping):
        given = {str(name): size for name, size in shape.items()}
    elif isinstance(shape, Sequence) and not isinstance(shape, str):
        given = dict(zip(symbols, shape, strict=False)) if len(shape) == len(symbols) else {}
    else:
        given = {symbols[0]: shape} if len(symbols) == 1 else {}
    if set(given) != set(symbols):
        raise ParameterError(template, {"shape": f"{takes}; got {shape!r}"})
    sizes = {}
    for name in symbols:
        try:
            sizes[name] = operator.index(given[name])
        except TypeError:
            sizes[name] = 0
        if sizes[name] < 1 or isinstance(given[name], bool):
            problem = f"takes a positive integer for {name}; got {given[name]!r}"
            raise ParameterError(template, {"shape": problem})
    for array in arrays:
        if isinstance(array, Array) and math.prod(concrete_shape(array, sizes)) > MOST_ELEMENTS:
            raise ParameterError(
                template,
                {
                    "shape": f"gives {array.name} the shape {concrete_shape(array, sizes)}, which "
                    f"is more than the {MOST_ELEMENTS} elements that an array may have"
                },
            )
    return sizes


def bucket(sizes: Mapping[str, int]) -> Sizes:
    """Return the sizes rounded to 2**k or 3 * 2**k, whichever is nearest in ratio.

    Shapes of one bucket are taken to be alike: what was tuned for one holds for the other.
    """
    return {name: _rounded(size) for name, size in sizes.items()}


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return how far two shapes lie apart, in octaves; infinite where their symbols differ."""
    if one.keys() != other.keys():
        return math.inf
    return math.hypot(*(math.log2(one[name] / other[name]) for name in one))


def shown(sizes: Mapping[str, int]) -> str:
    """Return sizes as text, such as ``n0=200, n1=200``."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _rounded(size: int) -> int:
    exponent = math.log2(size)
    octave = 1 << int(exponent)
    choices = (octave, 3 * octave // 2, 2 * octave)
    return min((c for c in choices if c), key=lambda c: abs(math.log2(c) - exponent))
