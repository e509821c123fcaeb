"""How verification draws problems."""

import re
from collections.abc import Mapping
from typing import Any

from tikgen import DType, Equations
from tikgen.errors import ExpressionError
from tikgen.expression import Update
from tikgen.expression.components import by_component
from tikgen.template.boundaries import is_by_field, rules_in
from tikgen.template.matched import matched_axes
from tikgen.template.totals import MOST_PARTS


def strategies() -> Mapping[str, Any]:
    """Return how parameters are drawn whose type does not imply it."""
    from hypothesis import strategies as st

    from tikgen.verification.equation_texts import (
        CONDITIONS,
        boundaries,
        in_proportion,
        programs,
        staggered_programs,
    )
    from tikgen.verification.vector_texts import vector_programs

    step = st.sampled_from((1.0, 0.5, 0.3))
    stored = st.sampled_from(("f16", "i8", "f32", "u16", "f64", "i32"))
    small = st.sampled_from(("i8", "u8", "u16", "i32"))
    ghosts, first, extent = st.integers(0, 4), st.integers(-4, 9), st.integers(40, 99)
    part = st.tuples(ghosts, ghosts, first, extent)
    trees = programs()
    # `adjust` cuts them to the grid at hand.
    return {
        "equations": in_proportion(
            (4, trees), (1, staggered_programs()), (3, vector_programs(trees))
        ),
        "dtype": st.sampled_from(("i32", "f32", "f64", "i64", "f32", "f64")),
        "vectors": st.none(),
        "boundary": boundaries(),
        "scalars": st.just(("a", "b")),
        "on_device": st.sampled_from(((), ("a",), ("b",), ("a", "b"))),
        "spacing": step | st.tuples(step, step, step),
        "constants": st.none() | st.fixed_dictionaries({"b": step}),
        "types": st.none()
        | st.fixed_dictionaries(
            dict.fromkeys(("read", "written", "over_x"), stored)
            | {"solid": small, "flag": st.sampled_from(("i8", "u8", "u16"))}
        ),
        "outputs": st.none() | st.just(("r",)),
        "at": st.none(),
        "where": st.sampled_from([{"inside": condition} for condition in CONDITIONS]),
        # Equations read w, and never write it.
        "mask": st.sampled_from((None, "solid", "w")),
        "part": in_proportion((3, st.none()), (1, st.tuples(part, part, part))),
        "window": in_proportion((4, st.just(False)), (1, st.just(True))),
    }


def adjust(drawn: dict[str, Any], arch: str) -> dict[str, Any]:
    """Return drawn parameters, changed so that they go together."""
    from tikgen.verification.equation_texts import (
        STAGGERED,
        fields_in,
        fitted_boundary,
        fitted_layers,
        fitted_types,
        orders_of,
        text_of,
    )
    from tikgen.verification.vector_texts import fitted_vectors, is_over_vectors

    dim, dtype = drawn["dim"], DType.parse(drawn["dtype"])
    if not dtype.is_float:
        drawn |= {"spacing": 1.0, "order": 2, "constants": None}
    rules = drawn["boundary"]
    if is_over_vectors(drawn["equations"]):
        fitted = fitted_vectors(drawn["equations"], rules, dim, dtype.is_float)
        constants = (drawn["constants"] or {}) | fitted["constants"]
        drawn |= fitted | {"outputs": None, "constants": constants}
        text, boundary = fitted["equations"], fitted["boundary"]
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        where = {}
    else:
        text = text_of(drawn["equations"], dim, dtype.is_float)
        is_users = isinstance(drawn["equations"], str)
        if drawn["types"] and dtype.is_float and not is_users and "u'" in text:
            text += "\nflag = where(u > 0.3, 2, u < 0)"
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        where = {n: str(c) for n, c in (drawn["where"] or {}).items() if n in names}
        names |= set(re.findall(r"[A-Za-z_]\w*", " ".join(where.values())))
        if not drawn["vectors"]:
            drawn["layout"] = "first"
        if is_users and is_by_field(rules):
            rules = rules["u"]  # A user's text has fields of other names.
        fields, orders = fields_in("; ".join([text, *where.values()])), orders_of(text)
        boundary = fitted_boundary(rules, fields, dim, dtype.is_float, orders)
    located = {n: place for n, place in STAGGERED.items() if n in names} or None
    stretched = _stretched(drawn, text, boundary, {"where": where, "at": located})
    boundary = fitted_layers(boundary, dim, stretched)
    read = names | {str(number) for _, number in rules_in(boundary)}
    faces = {name for name in read if name.startswith("over_")}
    constants = {n: v for n, v in (drawn["constants"] or {}).items() if n in read}
    mask = "solid" if drawn["mask"] == "w" and "w" not in names else drawn["mask"]
    types = fitted_types(drawn["types"], text, faces, mask, dtype)
    if mask == "w" and "w" in types and (types["w"].is_float or types["w"].bits > 32):
        del types["w"]
    scalars = tuple(n for n in drawn["scalars"] if n in read and n not in constants)
    spacing, outputs = drawn["spacing"], drawn["outputs"]
    part = drawn["part"] and _fitted_part(drawn, text, boundary, where, located)
    has_reductions = re.search(r"= (sum|max|min)\(", text)
    # A slab has no reductions, and no layers that keep something.
    is_whole = has_reductions or "cpml" in str(boundary)
    if not has_reductions:
        drawn["parts"] = MOST_PARTS
    return drawn | {
        "window": drawn["window"] and not is_whole,
        "equations": text,
        "boundary": boundary,
        "scalars": scalars,
        "on_device": tuple(n for n in drawn["on_device"] if n in scalars),
        "constants": constants or None,
        "types": types or None,
        "where": where or None,
        "mask": mask,
        "spacing": spacing[:dim] if isinstance(spacing, tuple) else spacing,
        "outputs": (*outputs, *(name for name in ("q", "flag") if f"{name} = " in text))
        if outputs and "r =" in text
        else None,
        "part": part or None,
        "at": located,
    }


def _fitted_part(
    drawn: Mapping[str, Any], text: str, boundary: Any, where: Any, located: Any
) -> tuple[tuple[int, int, int, int], ...]:
    """Return a part with as many ghost points as are read, or none, within the whole grid."""
    update = _update_of(drawn, text, where=where, at=located, order=drawn["order"])
    steps = [offset for _, offset in (update.accesses.values() if update else ())]
    found = []
    for axis, (low, high, first, points) in enumerate(drawn["part"][: drawn["dim"]]):
        most = max((abs(step[axis]) for step in steps), default=0)
        if "periodic" in str(boundary) and not (low and high):
            low = high = 0
        low, high = (max(ghosts, most) if ghosts else 0 for ghosts in (low, high))
        found.append((low, high, max(first, -low), points))
    return tuple(found)


def _update_of(drawn: Mapping[str, Any], text: str, **more: Any) -> Update | None:
    """Return what a text becomes on the grid, or None where it takes neighbours of derivatives."""
    constants = drawn["constants"]
    scalars = tuple(name for name in drawn["scalars"] if name not in (constants or {}))
    try:
        return Equations.parse(text).on(
            drawn["dim"], scalars=scalars, constants=constants, vectors=drawn["vectors"], **more
        )
    except ExpressionError:
        return None


def _stretched(drawn: Mapping[str, Any], text: str, boundary: Any, more: Mapping[str, Any]) -> Any:
    """Return the axes along which matched layers can change derivatives of a text."""
    rules = by_component(boundary, drawn["vectors"] or {}) if is_by_field(boundary) else boundary
    update = _update_of(drawn, text, layers=matched_axes(rules, drawn["dim"]), **more)
    return {memory.axis for memory in update.memories.values()} if update else ()
