"""Arrays of the command line: what texts such as ``field.npy`` and ``random:64x64`` mean."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tikgen.disk import why
from tikgen.errors import ArgumentError
from tikgen.template.literals import parse_literal

if TYPE_CHECKING:
    import numpy as np

    from tikgen.aot.manifest import Argument

    Array = np.ndarray[Any, Any]

FORMS = "x=field.npy, x=random:64x64, 'x=random(0,10):64x64' or x=zeros:64x64"
_MADE = re.compile(
    r"(?P<kind>zeros|random(?:\((?P<low>[^,()]+),(?P<high>[^,()]+)\))?):(?P<extents>.*)"
)
# Random integers are less than that, and than every extent, unless limits are given: they may be
# indices.
_INTEGERS = 4


def given_arrays(
    kernel: str,
    texts: Mapping[str, str],
    arguments: Mapping[str, Argument],
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Return the array that each text means, by the name of its argument.

    Args:
        kernel: name of the kernel or graph.
        texts: a text for each array.
        arguments: the arguments by name.
        rng: draws random numbers.

    Raises:
        ArgumentError: if a text means no array, or a file cannot be read.
    """
    made = {name: _MADE.fullmatch(text) for name, text in texts.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    found: dict[str, Array] = {}
    for name, match in made.items():
        if match:
            shapes[name] = _shape(kernel, name, match)
        else:
            found[name] = _read(kernel, name, texts[name])
            shapes[name] = found[name].shape
    extents = [extent for shape in shapes.values() for extent in shape if extent]
    below = min([_INTEGERS, *extents])
    for name, match in made.items():
        if match:
            found[name] = _filled(kernel, arguments[name], match, shapes[name], below, rng)
    return found


def _shape(kernel: str, name: str, match: re.Match[str]) -> tuple[int, ...]:
    from tikgen.aot.running.device_array import checked_shape
    from tikgen.template.shapes import MOST_ELEMENTS

    try:
        return checked_shape([parse_literal(n) for n in match["extents"].split("x")])
    except ArgumentError:
        takes = f"a shape of positive integers, of {MOST_ELEMENTS} elements at most"
        example = f"such as {match['kind']}:64x64; got {match[0]!r}"
        raise ArgumentError(kernel, f"argument {name!r} takes {takes}, {example}") from None


def _read(kernel: str, name: str, text: str) -> Array:
    import numpy as np

    what = f"argument {name!r} takes an array, as {FORMS}"
    if not text.endswith(".npy"):
        raise ArgumentError(kernel, f"{what}; got {text!r}")
    try:
        return np.asarray(np.load(text, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(kernel, f"{what}; {text} cannot be read: {why(error)}") from None


def _filled(
    kernel: str,
    argument: Argument,
    match: re.Match[str],
    shape: tuple[int, ...],
    below: int,
    rng: np.random.Generator,
) -> Array:
    """Return zeros or random numbers; plain random integers are less than ``below``."""
    import numpy as np

    from tikgen.dtypes import DType

    dtype = DType(argument.dtype)
    if match["kind"] == "zeros":
        return np.zeros(shape, dtype.numpy)
    low: Any = -1 if dtype.is_float else 0
    high: Any = 1 if dtype.is_float else below
    if match["low"]:
        low, high = _limits(kernel, argument.name, match, dtype)
    if not dtype.is_float:
        return rng.integers(low, high, shape, dtype.numpy)
    # Rounded to few digits a number may be ``high``, which would be no index.
    highest = np.nextafter(dtype.numpy.type(high), dtype.numpy.type(low))
    drawn: Array = np.minimum(rng.uniform(low, high, shape).astype(dtype.numpy), highest)
    return drawn


def _limits(kernel: str, name: str, match: re.Match[str], dtype: Any) -> tuple[Any, Any]:
    """Return the least number to draw, and one that is greater than all."""
    low, high = (parse_literal(match[each].strip()) for each in ("low", "high"))
    are_numbers = all(type(n) in ((int, float) if dtype.is_float else (int,)) for n in (low, high))
    last = high if dtype.is_float or not are_numbers else high - 1
    are_held = are_numbers and low < high and dtype.holds(low) and dtype.holds(last)
    if are_held and math.isfinite(high - low):
        return low, high
    what = f"argument {name!r} takes random(LOW,HIGH), where LOW < HIGH"
    numbers = "finite numbers" if dtype.is_float else "integers"
    problem = f"{what} are {numbers} of dtype {dtype}, such as 'random(0,10):64'"
    raise ArgumentError(kernel, f"{problem}; got {match[0]!r}")
