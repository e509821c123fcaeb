"""A text as generated code."""

import itertools
import re
from collections.abc import Callable
from typing import Any

from tikgen import DType
from tikgen.expression.helpers import definition
from tikgen.expression.vector_math import in_vectors

from .program import is_scalar, reductions_of


def statements(p: Any, places: list[str]) -> str:
    """Return generated code that computes and stores every output of some elements."""
    if len(places) == len(p.expr.assignments) == 1:
        return assignments(p, places[0], lambda name: f"{name}[{places[0]}]")[0]
    # Nothing is stored before everything is read: an output may be the array of an input.
    lines, stores = [], []
    for number, place in enumerate(places):
        suffix = f"_{number}" if len(places) > 1 else ""
        names = {name: fresh_prefix(p) + name + suffix for name in p.expr.written}
        lines += assignments(p, place, names.__getitem__)
        stores += [f"{name}[{place}] = {value}" for name, value in names.items()]
    return "\n".join(lines + stores)


def run(p: Any, place: str, target: str, of: str) -> str:
    """Return generated code for element `of` of a run, each output at once in its target.

    Everything is read before: an output may be the array of an input.
    """
    names = {name: fresh_prefix(p) + name for name in p.expr.written}
    lines = assignments(p, place, names.__getitem__, of)
    return "\n".join([*lines, *(f"{target % name} = {names[name]}" for name in names)])


def assignments(p: Any, place: str, target: Callable[[str], str], of: str = "") -> list[str]:
    """Return generated code that computes every output of one element, each into its target.

    What reductions take goes into the element `of` of their variables.
    """
    values = {name: name if is_scalar(p, name) else f"{name}[{place}]" for name in p.expr.inputs}
    values |= {name: f"{name}[{place}]" for name in p.expr.inputs if name in p.expr.outputs}
    totals = {total.name: total for total in reductions_of(p)}
    lines = []
    for name, expression in p.expr.folded(p.dtype).assignments:
        if name in totals or name in p.expr.terms:
            term = expression.term(values, p.dtype)
            if p.dtype.computed is not p.dtype.working:
                term = f"ti.cast({term}, {p.dtype.working.taichi})"
            if name in p.expr.terms:
                lines.append(f"{target(name)} = {term}")
            else:
                lines.append(totals[name].take(term, of))
            continue
        lines.append(f"{target(name)} = {expression.taichi(values, p.dtype)}")
        values[name] = target(name)
    return lines


def helpers(p: Any, is_row: bool) -> str:
    """Return the functions that generated code calls, where real functions walk rows or not."""
    found = [p.expr.helpers(p.dtype)]
    sums = p.expr.reductions or p.expr.terms
    if sums and p.dtype is DType.f16 and "def widened(" not in found[0]:
        found.insert(0, definition("widened", DType.f32))
    if is_row:
        own = (in_vectors(text, p.dtype) for text in found)
        found = [p.expr.vector_functions(p.dtype), *own]
    return "\n\n\n".join(filter(None, found))


def index_names(p: Any) -> tuple[str, ...]:
    """Return the loop indices: i, j, k, l, or ii, jj, ... where a user's name is in the way."""
    for length in itertools.count(1):
        names = tuple(letter * length for letter in "ijkl"[: p.dim])
        # The loops make further names of an index, such as i1 and i_step.
        taken = re.compile(rf"({'|'.join(names)})(\d+|_\w+)?")
        if not any(taken.fullmatch(name) for name in p.expr.names):
            return names
    raise AssertionError("names are finite")


def fresh_prefix(p: Any) -> str:
    """Return what, put before the name of an output, makes a name that no argument has."""
    prefix = "new_"
    while any(name.startswith(prefix) for name in p.expr.names):
        prefix = "new_" + prefix
    return prefix


def free_name(p: Any, name: str) -> str:
    """Return `name`, or a longer one where a user's name is in the way."""
    return name if name not in p.expr.names else free_name(p, name + "_")
