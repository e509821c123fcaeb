"""Draws equations over vectors: blocks, sums and whole vectors around drawn trees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tikgen.verification.equation_texts import FIELDS, fitted_boundary, text_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

COUNTS = (2, 3, 5)
# What stands for the fields of a drawn tree, and which fields vectors are.
_COMPONENTS = {"u": "f.q", "v": "g.turn.q"}
_VECTORS = {"u": "f", "v": "g"}
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
    _, count, (temporary, statements, *_), target, end, seed = program
    # Only the value of the first statement counts; u and v become components.
    drawn = text_of((temporary, (("q'", statements[0][1]),)), dim, is_float)
    first, second = (part.partition(" = ")[2] for part in drawn.split("; "))
    own = f"{target} + " if target == "h.q" else ""
    lines = [
        f"each q in {count}:",
        f"    r = {_over_components(first)}",
        f"    {target} = {own}{_over_components(second)}",
    ]
    if end and not (end.startswith("g'") and target == "g'.q"):
        lines.append(end)
    text = "\n".join(lines)
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    numbers = [(seed + 2 * number) % 7 - 3 for number in range(count)]
    lists = {"turn": tuple((seed + q) % count for q in range(count)), "weights": tuple(numbers)}
    return {
        "equations": text,
        "vectors": {name: count for name in "fghos" if name in names},
        "constants": {name: lists[name] for name in lists if name in names},
        "boundary": _by_vector(fitted_boundary(boundary, set(FIELDS), dim, is_float, {}), names),
    }


def _over_components(code: str) -> str:
    return re.sub(r"\b[uv]\b", lambda found: _COMPONENTS[found[0]], code)


def _by_vector(boundary: Any, names: set[str]) -> Any:
    """Return a boundary by field as one by vector, where a component has a rule of its own."""
    if not isinstance(boundary, Mapping) or not set(boundary) <= set(FIELDS):
        return boundary
    found = {_VECTORS.get(name, name): rule for name, rule in boundary.items()}
    own = {"f.1": found["g"]} if "f" in names else {}
    return {n: rule for n, rule in found.items() if n in names} | own
