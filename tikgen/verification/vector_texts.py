"""Draws equations over vectors: blocks, sums and whole vectors around drawn trees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tikgen.verification.equation_texts import fitted_boundary, orders_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

COUNTS = (2, 3, 5)
# What stands for the fields of a drawn tree, within a block and elsewhere.
_COMPONENTS = {"u": "f.q", "v": "g.turn.q"}
_OUTSIDE = {"u": "f.1", "v": "g.0"}
# For which field the boundary of a vector, a component or a field is drawn.
_DRAWN = {"f": "u", "f.1": "v", "g": "v", "h": "w", "w": "w"}
_TARGETS = ("f'.q", "g'.q", "h.q", "o.q")
_ENDS = (
    "",
    "m = sum(g.q*weights.q for q in g)",
    "m = max(f.q for q in f)",
    "g' = 2*g - f*a",
    "s.1 = 3*f.0",
)


def vector_programs(trees: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Return a strategy for programs over vectors, around programs that :func:`trees` draws."""
    from hypothesis import strategies as st

    return st.tuples(
        st.just("vectors"),
        st.sampled_from(COUNTS),
        trees,
        st.sampled_from(_TARGETS),
        st.sampled_from(_ENDS),
        st.integers(0, 5),
    )


def is_over_vectors(program: Any) -> bool:
    """Return whether :func:`vector_programs` drew a program."""
    return bool(program[0] == "vectors")


def fitted_vectors(program: Any, boundary: Any, dim: int, is_float: bool) -> dict[str, Any]:
    """Return the parameters of a drawn program over vectors: text, vectors, lists, boundary.

    Args:
        program: what was drawn.
        boundary: the boundary that was drawn for fields.
        dim: number of axes.
        is_float: whether floats are computed.
    """
    _, count, (temporary, statements, reductions, region), target, end, seed = program
    # Only the value of the first statement counts; u and v become components.
    line = ("q'", statements[0][1])
    plain = text_of((temporary, (line,), reductions, None), dim, is_float)
    first, second, *totals = plain.split("; ")
    own = f"{target} + " if target == "h.q" else ""
    # Unread, r would be an output, of which all but the last component is lost.
    value = f"{target} = {own}r + {_over(_COMPONENTS, second.partition(' = ')[2])}"
    lines = [
        f"each q in {count}:",
        f"    r = {_over(_COMPONENTS, first.partition(' = ')[2])}",
        f"    {value}" if region is None else f"    where r > 1:\n        {value}",
    ]
    if end and not (end.startswith("g'") and target == "g'.q"):
        lines.append(end)
    computed = target.replace(".q", ".1")
    lines += (_over(_OUTSIDE | {"r": "w", "q'": computed}, total) for total in totals)
    text = "\n".join(lines)
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    numbers = [(seed + 2 * number) % 7 - 3 for number in range(count)]
    lists = {"turn": tuple((seed + q) % count for q in range(count)), "weights": tuple(numbers)}
    orders = orders_of("; ".join(line.strip().replace(".q", "") for line in lines[2:]))
    fields = {name: drawn for name, drawn in _DRAWN.items() if name[0] in names}
    orders |= {"f.1": orders["f"]} if "f" in orders else {}
    return {
        "equations": text,
        "vectors": {name: count for name in "fghos" if name in names},
        "constants": {name: lists[name] for name in lists if name in names},
        "boundary": fitted_boundary(boundary, fields, dim, is_float, orders),
    }


def _over(components: Mapping[str, str], code: str) -> str:
    return re.sub(r"\b[uvr]\b|q'", lambda found: components.get(found[0], found[0]), code)
