"""What a problem may not hold."""

import re
from typing import Any

from tikgen import Invalid
from tikgen.errors import ExpressionError, near
from tikgen.expression import Update, apart
from tikgen.expression.components import argument_of, by_component, component_of, vector_of
from tikgen.expression.spelling import shown
from tikgen.expression.staggering import PLACES, in_words, place_on
from tikgen.template.boundaries import AXES, check_boundary, is_by_field, rules_in, sides_of
from tikgen.template.grid_use import check_part
from tikgen.template.layers import check_layers, layers_in
from tikgen.template.matched import check_matched
from tikgen.template.once import once
from tikgen.template.totals import OWN_OF_TOTALS
from tikgen.template.vectors import check_arguments, check_vectors
from tikgen.units import counted

from .arguments import argument_names, identifiers
from .boundaries import (
    boundary_names,
    faces_of,
    fields_of,
    place_of,
    reads_of,
    rules_of,
)
from .matched import kept_arrays, profile_arrays
from .reading import boundary_of, layered_of, rules_by_component, spacing_of, update_of
from .states import holds
from .stored import states_in, type_of

MOST_ARGUMENTS = 64
# With as many, Taichi compiles a kernel in some 15 s on cpu.
MOST_OPERATIONS = 2000
KERNEL_NAME = "update"
# What generated code calls its own values; it gives them other names where a user's have these.
OWN = re.compile(
    r"(points|stop|row|plane|last|left|right|before|end|here|at|step|strips?|turn"
    r"|few|seen|within|(block|first|lane)(_row)?|mirrored(_at_wall|_beyond)?|faded|slot_[xyz]"
    r"|window_low|window_high|(start|run|buffer|places|patch)(_\w+)?)"
)
# Parameters that hold names of a user.
NAMED = (
    *("equations", "scalars", "on_device", "constants", "boundary", "mask", "where", "vectors"),
    *("at", "types", "outputs"),
)


def check_problem(p: Any) -> None:
    """Raise :class:`Invalid` where the parameters of a problem do not go together."""
    _check_grid(p)
    check_vectors(p)
    try:
        update, layered = update_of(p), layered_of(p)
        _check_dtype(p, update, layered)
    except ExpressionError as error:
        raise Invalid("equations", f"cannot be used: {error}") from None
    _check_conditions(p, update)
    _check_mask(p)
    _check_names(p, update)
    _check_types(p, update)
    fields = fields_of(update)
    rules = boundary_of(p)
    places = by_component(p.at, p.vectors or {})
    try:
        _check_bounded(p, update)
        check_boundary(*(rules, p.dim, p.dtype, update.arrays, fields, p.scalars), places)
        _check_ghosts(p, update)
        check_layers(rules, update.fields, p.dim, p.dtype)
        stretched = {memory.axis for memory in layered.memories.values()}
        check_matched(rules, p.dim, p.dtype, stretched)
    except Invalid as error:
        raise Invalid(error.parameter, shown(error.problem)) from None


def _check_dtype(p: Any, *updates: Update) -> None:
    """Raise :class:`ExpressionError` where equations cannot be computed in the dtype."""
    try:
        for update in updates:
            update.assignments.check(p.dtype)
    except ExpressionError:
        update_of(p, dtype=p.dtype)  # Raises an error that quotes the line of the user.
        raise


@once
def set_apart(p: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a problem without the names that generated code has, and these names."""
    own = (OWN, OWN_OF_TOTALS) if update_of(p).reductions else (OWN,)
    return apart.set_apart(p, NAMED, own)


def _check_grid(p: Any) -> None:
    spacing = spacing_of(p)
    if len(spacing) != p.dim or not all(1e-100 <= step <= 1e100 for step in spacing):
        raise Invalid("spacing", f"takes one positive number, or {p.dim}; got {p.spacing}")
    check_part(p.part, p.dim)
    for name in p.scalars:
        if name in (p.constants or {}):
            raise Invalid("scalars", f"names {name}, which is a constant as well")
    for name, place in (p.at or {}).items():
        axes = {"x": 1, "y": 2, "z": 3}.get(place[-1], 1)
        if axes > p.dim or (place.startswith("edge") and p.dim < 3):
            here = ""
            if place in PLACES:
                where = in_words(place_on(place, p.dim), p.dim).removeprefix("the ")
                here = f"; with dim={p.dim} it is {where!r}"
            problem = f"puts {name} on {place}, which needs more than {p.dim} axes{here}"
            raise Invalid("at", problem)


def _check_names(p: Any, update: Update) -> None:
    names = (*update.inputs, *update.outputs, *update.temporaries)
    for name in faces_of(p):
        if name in update.temporaries:
            raise Invalid("boundary", f"takes {name!r}, a name that the equations assign")
    check_arguments(p, update)
    if KERNEL_NAME in (*argument_names(p), *identifiers(p, update).values()):
        raise Invalid("equations", f"use the name {KERNEL_NAME!r}, which the kernel has")
    taken = {*names, *p.scalars, *faces_of(p), *map(vector_of, names)}
    for name in (*profile_arrays(p), *kept_arrays(p)):
        if name in taken:
            raise Invalid("equations", f"use the name {name!r}, which layers of kind 'cpml' have")
    if p.window:
        own = [name for name in names if name.startswith("window_")]
        if own:
            raise Invalid("equations", f"use the name {own[0]!r}, which code with a window has")
        if update.reductions or kept_arrays(p):
            what = "reductions" if update.reductions else "layers of kind 'cpml'"
            raise Invalid("window", f"cannot be true with {what}, which need the whole grid")
    if not update.outputs and not update.reductions:
        names = [shown(vector_of(name)) for name in update.temporaries[-1:]]
        hints = [f": {n} is read, and so a temporary; outputs={n!r} has it written" for n in names]
        raise Invalid("equations", "".join(("write no array", *hints)))
    if not update.arrays:
        raise Invalid("equations", "read and write no array, so that there are no points")
    count = len({*argument_names(p), *p.scalars}) + len(update.reductions)
    if count > MOST_ARGUMENTS:
        raise Invalid("equations", f"use {count} names; a kernel takes at most {MOST_ARGUMENTS}")
    operations = layered_of(p).assignments.operations
    if operations > MOST_OPERATIONS:
        raise Invalid(
            "equations",
            f"take {operations} operations a point, more than {MOST_OPERATIONS}, which would take "
            "long to compile; split them over two updates",
        )
    arguments = {argument_of(name, p.layout)[0] for name in update.arrays}
    for name in p.scalars:
        if name in arguments:
            raise Invalid("scalars", f"names {name}, which is an array of the equations")
        if name not in (*update.scalars, *boundary_names(p)):
            hint = near(name, map(shown, (*names, *faces_of(p))))
            problem = "which neither the equations nor the boundary read; leave it out"
            raise Invalid("scalars", f"names {name}, {problem}.{hint}")
    texts = " ".join([p.equations.text, *(each.text for each in (p.where or {}).values())])
    read = {
        *re.findall(r"[A-Za-z_]\w*", texts),
        *(str(number) for _, number in rules_in(p.boundary)),
    }
    for name in p.constants or ():
        if name not in read:
            problem = "which neither the equations nor the boundary read; leave it out"
            raise Invalid("constants", f"names {name}, {problem}.{near(name, map(shown, names))}")
    for name in p.on_device:
        if name not in p.scalars:
            raise Invalid("on_device", f"names {name}, which is no scalar.{near(name, p.scalars)}")
    # A field lies somewhere and has a type even if nothing reads its old value.
    located = (*names, *update.fields.values())
    for kind, known in (("at", located), ("types", (*located, *faces_of(p)))):
        for name in getattr(p, kind) or ():
            options = (*known, *map(vector_of, known))
            if component_of(name, p.vectors or {}) not in options:
                hint = near(name, map(shown, options))
                raise Invalid(kind, f"names {name}, which is no array.{hint}")


def _check_bounded(p: Any, update: Update) -> None:
    """Refuse a boundary of what has none."""
    given = rules_by_component(p) if is_by_field(p.boundary) else {}
    for name in (name for name in given if name not in update.arrays):
        if name in update.fields.values():
            raise Invalid(
                "boundary",
                f"names {vector_of(name)}, which the equations only write: nothing reads its "
                "neighbours, so that it has no boundary",
            )
        if name in update.temporaries:
            raise Invalid(
                "boundary",
                f"names {name}, which is computed at each point from other arrays; it has their "
                "boundaries",
            )
        if name in (*p.scalars, *(p.constants or {})):
            raise Invalid("boundary", f"names {name}, which is a number and has no boundary")


def _check_ghosts(p: Any, update: Update) -> None:
    """Refuse fewer ghost points than are read, next to which points would be left out."""
    for name, pairs in rules_of(p, update).items() if p.part else ():
        whole = sides_of(boundary_of(p), name, p.dim, place_of(p, name))
        for axis, (pair, (low, high, *_)) in enumerate(zip(pairs, p.part, strict=True)):
            is_periodic = (low or high) and whole[axis][0][0] == "periodic"
            most = reads_of(update, name, axis, pair)
            for sign, found, needed in zip("-+", (low, high), most, strict=True):
                if found < needed and (found or is_periodic):
                    raise Invalid(
                        "part",
                        f"has {counted(found, 'ghost point')} at {AXES[axis]}{sign}, and {name} is "
                        f"read {needed} points away; take {needed} there",
                    )


def _check_conditions(p: Any, update: Update) -> None:
    given = p.where or {}
    known = (*p.scalars, *(p.constants or {}), *(p.vectors or {}), *(p.at or {}), p.mask)
    texts = {"": p.equations.text} | {name: condition.text for name, condition in given.items()}
    for name in given:
        if name in known or name in (*update.fields.values(), *update.outputs):
            raise Invalid("where", f"names {name}, which has a meaning already")
        others = (text for key, text in texts.items() if key != name)
        if not any(re.search(rf"\b{name}\b", text) for text in others):
            raise Invalid("where", f"names {name}, which nothing reads")


def _check_mask(p: Any) -> None:
    if p.mask is None:
        return
    plain = update_of(p, is_masked=False)
    numbers = (*p.scalars, *(p.constants or {}), *plain.indices)
    arrays = {each for name in plain.arrays for each in (name, argument_of(name, p.layout)[0])}
    taken = (*arrays, *map(vector_of, arrays), *plain.temporaries, *numbers, *boundary_names(p))
    if p.mask in (*plain.outputs, *plain.fields.values()):
        raise Invalid("mask", f"is {p.mask}, which the equations write; they may only read a mask")
    # Equations may read the mask, but not as a vector.
    if p.mask in taken and (p.mask not in plain.inputs or p.mask in (*numbers, *boundary_names(p))):
        raise Invalid("mask", f"is {p.mask}, which has a meaning already; name an array of its own")
    if p.mask == KERNEL_NAME:
        raise Invalid("mask", f"is {p.mask!r}, which the kernel has")
    dtype = type_of(p, p.mask)
    if dtype.is_float or dtype.bits > 32:
        raise Invalid(
            "types", f"makes the mask {p.mask} {dtype}; it takes integers of 8 to 32 bits"
        )


def _check_types(p: Any, update: Update) -> None:
    read = {vector_of(n) for n, role in update.arrays.items() if role != "out"} | {*faces_of(p)}
    for name, dtype in (p.types or {}).items():
        named = [
            n for n in update.outputs if name in (vector_of(n), vector_of(update.fields.get(n, n)))
        ]
        # The next value of a field that is read may have another type.
        written = [n for n in named if name not in read or type_of(p, n) == dtype]
        if name not in read and not written:
            raise Invalid("types", f"names {name}, which is no array")
        if dtype.is_float and not p.dtype.is_float:
            raise Invalid("types", f"makes {name} {dtype}, and {p.dtype} holds no fractions")
        if not dtype.is_float and p.dtype.is_float:
            _check_states(p, name, written)
        if p.mask and written and dtype.bits > p.dtype.bits:
            raise Invalid(
                "types",
                f"makes {name} {dtype}, which cannot be kept exactly where all is computed in "
                f"{p.dtype}; take dtype='{dtype}'",
            )


def _check_states(p: Any, name: str, outputs: list[str]) -> None:
    """Refuse to write what is no state to an array of integers, where floats are computed."""
    update, dtype = update_of(p), p.types[name]
    for output in outputs:
        states = states_in(p)[output]
        if isinstance(states, str):
            bits = 16 if p.dtype.bits == 32 else 32
            raise Invalid(
                "types",
                f"makes {name} {dtype}, and what is written is {p.dtype}: {states}. Integers take "
                f"conditions, whole numbers that {p.dtype} holds, integers of at most {bits} bits, "
                "their neighbours, and where, min or max of these. Points that a mask or a region "
                "leaves alone keep an integer of the array. All else needs dtype='i32' or 'i64'",
            )
        if not holds(dtype, states):
            low, high = states
            raise Invalid(
                "types", f"makes {name} {dtype}, and what is written lies from {low} to {high}"
            )
        if output in layers_in(boundary_of(p), update.fields, p.dim):
            raise Invalid("boundary", f"absorbs {name}, which is an array of integers")
