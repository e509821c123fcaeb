"""Stencils and equations on grids in NumPy, PyTorch and Numba, for any order and boundary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from works.work import Arguments, Work

# Weights of central differences at distances 0, 1, 2 and so on, by order of accuracy.
SECOND = {
    2: (-2, 1),
    4: (-5 / 2, 4 / 3, -1 / 12),
    6: (-49 / 18, 3 / 2, -3 / 20, 1 / 90),
    8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560),
}
FIRST = {
    2: (0, 1 / 2),
    4: (0, 2 / 3, -1 / 12),
    6: (0, 3 / 4, -3 / 20, 1 / 60),
    8: (0, 4 / 5, -1 / 5, 4 / 105, -1 / 280),
}
# What drawn equations and expressions call, for one number and for arrays of NumPy.
FUNCTIONS: dict[str, Any] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "sin": math.sin,
    "where": lambda condition, one, other: one if condition else other,
}
OF_ARRAYS: dict[str, Any] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "sin": np.sin,
    "where": np.where,
    "min": np.minimum,
    "max": np.maximum,
}
Terms = list[tuple[float, tuple[int, ...]]]
Step = Callable[..., object]


def statements_of(work: Work) -> list[tuple[str, str]]:
    """Return the arrays that a work computes, each with its expression."""
    text = work.problem.get("equations", "y = lap(x)")
    pairs = [statement.split(" = ") for statement in text.split("; ")]
    return [(name.replace("'", "_next"), value) for name, value in pairs]


def terms_of(operator: str, dim: int, order: int) -> Terms:
    """Return weights and offsets of ``lap`` or ``dx``."""
    if operator == "dx":
        weights = FIRST[order]
        return [
            (sign * weight, (sign * distance, *[0] * (dim - 1)))
            for distance, weight in enumerate(weights[1:], 1)
            for sign in (1, -1)
        ]
    weights = SECOND[order]
    found: Terms = [(dim * weights[0], (0,) * dim)]
    for axis in range(dim):
        for distance, weight in enumerate(weights[1:], 1):
            for step in (distance, -distance):
                found.append((weight, tuple(step * (axis == a) for a in range(dim))))
    return found


def fields_of(work: Work) -> list[str]:
    """Return the arrays of which neighbours are read."""
    text = " ".join(value for _, value in statements_of(work))
    return sorted(set(re.findall(r"(?:lap|dx)\((\w)\)", text)))


def expanded(work: Work, value: str, names: list[str], point: str, one: Callable[..., str]) -> str:
    """Return an expression with its operators written out.

    Args:
        work: the work.
        value: the expression.
        names: the arrays.
        point: the index of an array outside of operators.
        one: returns a term of an operator from array, weight and offset.
    """
    own = "".join(sorted(name for name in names if len(name) == 1))

    def applied(match: re.Match[str]) -> str:
        if match[3]:
            return f"{match[3]}[{point}]"
        terms = terms_of(match[1], work.problem["dim"], work.problem["order"])
        return "(" + " + ".join(one(match[2], *term) for term in terms) + ")"

    return re.sub(rf"(lap|dx)\((\w)\)|\b([{own}])\b", applied, value)


def typed_numbers(work: Work, text: str) -> str:
    """Return an expression whose numbers have the dtype of a work, as Numba needs it."""
    number = "np.float64" if work.problem["dtype"] == "f64" else "np.float32"
    return re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)", rf"{number}(\1)", text)


def array_text(work: Work, names: list[str]) -> str:
    """Return a function of operations on whole arrays, and of ``padded``, which widens one."""
    reach, shape = work.problem["order"] // 2, tuple(work.sizes.values())
    interior = work.problem["boundary"] == "interior"
    wide = [extent + (0 if interior else 2 * reach) for extent in shape]
    inner = ", ".join(f"{reach}:-{reach}" if interior else ":" for _ in shape)

    def one(array: str, weight: float, offset: tuple[int, ...]) -> str:
        places = (
            f"{reach + step}:{extent - reach + step}"
            for step, extent in zip(offset, wide, strict=True)
        )
        return f"{weight!r}*wide_{array}[{', '.join(places)}]"

    lines = [f"def step({', '.join(names)}):"]
    lines += [f"    wide_{f} = {f if interior else f'padded({f})'}" for f in fields_of(work)]
    for number, (_, value) in enumerate(statements_of(work)):
        lines.append(f"    found_{number} = {expanded(work, value, names, inner, one)}")
    for number, (name, _) in enumerate(statements_of(work)):
        lines.append(f"    {name}[{inner}] = found_{number}")
    return "\n".join(lines)


def on_arrays(
    work: Work, a: Arguments, padded: Callable[[Any], Any], functions: dict[str, Any]
) -> Step:
    """Return the function of :func:`array_text`, which calls others by name."""
    space: dict[str, Any] = {"padded": padded, **functions}
    exec(array_text(work, list(a)), space)
    found: Step = space["step"]
    return found


def numpy_step(work: Work, a: Arguments) -> Step:
    """Return a function of NumPy's arrays."""
    mode = {"periodic": "wrap", "clamp": "edge", "zero": "constant", "interior": ""}
    how, reach = mode[work.problem["boundary"]], work.problem["order"] // 2
    return on_arrays(work, a, lambda array: np.pad(array, reach, how), OF_ARRAYS)


def torch_step(work: Work, a: Arguments) -> Step:
    """Return a function of tensors."""
    import torch
    from torch.nn.functional import pad

    mode = {"periodic": "circular", "clamp": "replicate", "zero": "constant", "interior": ""}
    how, reach = mode[work.problem["boundary"]], work.problem["order"] // 2
    widths = [reach] * (2 * work.problem["dim"])
    functions = {name: getattr(torch, name) for name in ("sqrt", "exp", "where")}
    functions["max"] = torch.maximum
    return on_arrays(work, a, lambda array: pad(array[None, None], widths, how)[0, 0], functions)


def numba_step(work: Work, a: Arguments) -> Step:
    """Return parallel loops: the interior apart, so that its rows are vectorised."""
    import numba

    space = numba_names()
    exec(numba_text(work, list(a)), space)
    found: Step = numba.njit(parallel=True, fastmath=True)(space["step"])
    return found


def numba_names() -> dict[str, Any]:
    """Return what loops for Numba call, by name."""
    import numba

    where = numba.njit(FUNCTIONS["where"])
    return {"prange": numba.prange, "np": np, **FUNCTIONS, "where": where}


def numba_text(work: Work, names: list[str]) -> str:
    """Return loops over the points of a grid, as a person would write them for Numba."""
    dim, boundary = work.problem["dim"], work.problem["boundary"]
    reach, first = work.problem["order"] // 2, names[0]
    letters, extents = "ijk"[:dim], [f"n{axis}" for axis in range(dim)]
    number = "np.float64" if work.problem["dtype"] == "f64" else "np.float32"

    def line(name: str, value: str, rule: str) -> str:
        def one(array: str, weight: float, offset: tuple[int, ...]) -> str:
            places, inside = [], []
            for letter, extent, step in zip(letters, extents, offset, strict=True):
                place = f"{letter}{step:+d}" if step else letter
                if step and rule == "periodic":
                    place = f"({place}) % {extent}"
                elif step and rule in ("clamp", "zero"):
                    inside.append(f"0 <= {place} < {extent}")
                    place = f"min(max({place}, 0), {extent} - 1)"
                places.append(place)
            value = f"{array}[{', '.join(places)}]"
            if rule == "zero" and inside:
                value = f"({value} if {' and '.join(inside)} else {number}(0))"
            return f"{number}({weight!r})*{value}"

        point = ", ".join(letters)
        code = expanded(work, typed_numbers(work, value), names, point, one)
        return f"{name}[{point}] = {code}"

    def points(indent: str, rule: str) -> list[str]:
        return [indent + line(name, value, rule) for name, value in statements_of(work)]

    lines = [f"def step({', '.join(names)}):"]
    lines += [f"    {', '.join(extents)}{',' if dim == 1 else ''} = {first}.shape"]
    low, high = (reach, f" - {reach}") if boundary == "interior" else (0, "")
    for axis, letter in enumerate(letters[:-1]):
        loop = "prange" if axis == 0 else "range"
        lines.append("    " * (axis + 1) + f"for {letter} in {loop}({low}, {extents[axis]}{high}):")
    indent, last = "    " * dim, letters[-1]
    loop = "prange" if dim == 1 else "range"
    inner = f"for {last} in {loop}({reach}, {extents[-1]} - {reach}):"
    if boundary == "interior":
        return "\n".join([*lines, indent + inner, *points(indent + "    ", "")])
    near = " and ".join(
        f"{reach} <= {letter} < {extent} - {reach}"
        for letter, extent in zip(letters[:-1], extents, strict=False)
    )
    lines.append(f"{indent}if {near or 'True'}:")
    deep = indent + "    "
    lines += [deep + inner, *points(deep + "    ", "")]
    lines += [f"{deep}for end in range({2 * reach}):"]
    lines += [f"{deep}    {last} = end if end < {reach} else {extents[-1]} - 1 - (end - {reach})"]
    lines += points(deep + "    ", boundary)
    lines += [f"{indent}else:", f"{deep}for {last} in range({extents[-1]}):"]
    return "\n".join([*lines, *points(deep + "    ", boundary)])
