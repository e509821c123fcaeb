"""What the text of the template is told."""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tikgen.expression import Update
from tikgen.expression.layout import broken
from tikgen.expression.vector_math import in_vectors
from tikgen.template.boundaries import mirrors_in, rule_in_code
from tikgen.template.grid_use import WINDOW
from tikgen.template.layers import any_of, layers_beyond, layers_in, near_code
from tikgen.template.matched import matched_widths
from tikgen.template.outside import moved, stand_in
from tikgen.template.totals import totals_of
from tikgen.template.vectors import held_arrays
from tikgen.template.views import Views

from .arguments import MOST_STRIPS, argument_names, arguments, identifiers, workspace
from .boundaries import (
    FAR_ENDS,
    FAR_ENDS_AT_FACES,
    end_size,
    faces_of,
    margins_of,
    reach,
    rules_in_use,
)
from .elements import Elements, axes_off
from .lanes import are_long, lanes_of, places_of, reaches_of_lanes
from .matched import edge_code
from .memory import Memory, times
from .reading import boundary_of, layered_of, spacing_of, update_of
from .rows import near_edge, patches_of, runs_of
from .statements import (
    cast_of,
    damped_code,
    extents_of_whole,
    on_whole,
    scalar_code,
    statements,
    widened_helper,
)
from .stored import type_of

# Operations at all points of both ends of a row, which LLVM unrolls. A loop that it makes vectors
# of took longer: heat with 90 x 91 x 92 points 1.1 of the time, with order 8 1.8.
MOST_AT_ENDS = 256
# Operations where rows at the faces of a box are computed as others are. Heat then took 0.77 of the
# time, and 0.6 with order 8; the kernel took 1.3 and 1.8 of the time to compile. Four fields with
# 100 operations took 0.65 of the time on 48 x 48 x 48 points, and 1.4 of it to compile. In 2D few
# rows are such: 0.7 to 1.3 of the time.
MOST_AT_FACES = 128
# Copies of rows, which take long to compile: with 64, two coupled equations of order 8 took 4 s.
MOST_PATCHES = 64
# Operations up to which LLVM does well to pass elements of a copy on from point to point. With the
# ends of rows in vectors instead, twelve drawn systems of order 4 with more took 0.8 of the time on
# 48 x 48 x 48 points, eighteen with fewer 1.06.
MOST_PASSED_ON = 64


def context(p: Any, s: Any, views: Views | None = None) -> Mapping[str, Any]:
    """Return the names that the text uses."""
    update = update_of(p)
    held = held_arrays(p, update.arrays)
    every = arguments(p)
    arrays = [a for a in every if a.name in held]
    names = index_names(p, update)
    memory = Memory(p, views)
    extents = memory.extents
    interior = reach(p, update, inside=True)
    bounds = [
        (name, str(low), f"{extent} - {high}" if high else extent)
        for name, extent, (low, high) in zip(names, extents, interior, strict=True)
    ]
    helpers = [layered_of(p).assignments.helpers(p.dtype)]
    if "def widened(" not in helpers[0]:
        helpers.append(widened_helper(p, update))
    in_loop: Callable[[str], str] = str
    if s.loop == "function":
        in_loop = functools.partial(in_vectors, dtype=p.dtype)
        helpers = [layered_of(p).assignments.vector_functions(p.dtype), *map(in_loop, helpers)]
    rules = rules_in_use(p, update)
    runs = runs_of(p, update, rules, memory)
    margins = margins_of(p, update, rules)
    layered = layers_in(boundary_of(p), update.fields, p.dim)
    layers = {n: {a: found for a, found in layered.items() if found[0][-1] == n} for n in (1, 2)}
    # Points that the ends of a row compute lie in no run. Layers may begin beyond a part.
    ends = (0, 0) if p.part else tuple(map(max, margins[-1], interior[-1]))
    layers_of_runs = {n: layers_beyond(found, p.dim - 1, ends) for n, found in layers.items()}
    window = ()
    if p.window:
        window = bounds[0][1:]
        bounds[0] = (names[0], "window_low", "window_high")
    totals = totals_of(update.reductions, p.dtype)
    element = "[0]" if s.loop == "function" else ""
    on_grid = on_whole(p, list(names)), extents_of_whole(p, extents)
    passed = [a for a in every if a.name not in (*update.reductions, *WINDOW)]
    in_code = functools.cache(lambda pairs: rules_in_code(p, pairs))
    codes = {name: in_code(tuple(rules.get(name, ()))) for name in update.arrays}
    casts = {name: cast_of(type_of(p, name), p.dtype) for name in update.arrays}
    known = identifiers(p, update)
    operations = update.assignments.operations
    # Their equations stand near the edges alone.
    is_matched = bool(matched_widths(p.boundary, p.dim))
    edge = edge_code(p, *on_grid)
    faces = near_edge(p, update, rules, names, extents)
    ends_are_known = sum(margins[-1]) * operations <= MOST_AT_ENDS
    are_faces_rows = p.dim == 3 and operations <= MOST_AT_FACES
    patches: Mapping[Any, Any] = {}
    patch_start = "patch_start" if operations > MOST_PASSED_ON else ""
    # Both ends of a row are computed alike.
    has_ends = (
        all(margins[-1]) and not any(interior[-1]) and p.dim > 1 and not (layered or is_matched)
    )
    # Of order 8, 111 x 123 x 131 points took 0.65 of the time with copies where other points stand
    # for those outside. With numbers outside 61 x 67 x 66 points took 0.7 to 0.8 of it for one
    # field, 1.0 for three, of order 4 up to 1.1.
    far = FAR_ENDS_AT_FACES if faces else FAR_ENDS
    takes_copies = p.dim == 3 and sum(margins[-1]) >= far
    if has_ends and (
        takes_copies or not (ends_are_known and (are_faces_rows or not faces or p.dim == 2))
    ):
        # Rows at faces that are computed as others are choose what lies outside where they read it.
        found = patches_of(p, update, runs, patch_start, copies_faces=not are_faces_rows)
        patches = found if len(found) <= MOST_PATCHES else {}
    places = places_of(update, rules)
    lanes = lanes_of(p, s)
    return {
        "bounds": bounds,
        "window": window,
        "extents": tuple(extents),
        "leader": arrays[0].name,
        "outputs": [
            SimpleNamespace(name=name, dtype=type_of(p, name))
            for a in arrays
            for name in held[a.name].names
            if name in update.outputs
        ],
        "totals": totals,
        "row_arguments": (*passed, *(views.numbers(every) if views else ()), *workspace(p, s)),
        "partial_zeros": "0, " if p.dim == 3 else "",
        "most_strips": MOST_STRIPS,
        "identifiers": known,
        "elements": Elements(
            *(p.dtype, memory, names, codes, casts, known, runs, places, patches),
            lanes=lanes,
        ),
        "moved": moved,
        "times": times,
        "stand_in": stand_in,
        "memory": memory,
        "groups": memory.groups([*update.outputs, *update.arrays]),
        "helpers": "\n\n\n".join(filter(None, helpers)),
        "function": "points",
        "margins": margins,
        "are_faces_rows": are_faces_rows and not edge,
        "ends_are_known": ends_are_known,
        "patches": patches,
        "patch_start": patch_start,
        "end_size": end_size(margins[-1]),
        "mirrors_used": mirrors_in(rules),
        "is_inplace": any(a.role == "inout" for a in arrays),
        "is_inside": is_inside(names, extents, margins),
        "are_long": are_long(update, rules, extents),
        "others_are_long": are_long(update, rules, extents[:-1]),
        "reads_outside": any(map(any, margins)) and not is_matched,
        "places": list({own.name: own for own in places.values()}.values()),
        "lanes_of_thread": list(zip(names, lanes, strict=False)),
        "are_inside": are_inside(bounds, extents, margins, reaches_of_lanes(p, s)),
        "near": any_of((faces, edge)),
        "runs": runs,
        "each_start": list({run.start: run for run in runs.values()}.values()),
        "each_run": list({r.name: r for (name, _), r in runs.items() if name}.values()),
        "centre": runs[None, (0,) * (p.dim - 1)],
        "equations": lambda read, target, index, of="", unless="", is_run=False, is_layered=False: (
            in_loop(
                statements(
                    *(p, read, target, index, None if is_run else extents, of or element, unless),
                    is_layered=is_layered,
                    off=axes_off(read, margins),
                )
            )
        ),
        "layers": layers,
        "layers_of_runs": layers_of_runs,
        "near_layers": lambda order, index, sizes, count: near_code(
            [layer for found in layers_of_runs[order].values() for layer in found],
            *(on_whole(p, index), extents_of_whole(p, sizes), count),
        ),
        "faded_run": lambda order, read, target, index, sizes: "\n".join(
            broken(
                f"{target(name)} = "
                + damped_code(p, name, target(name), read, index, sizes, layers=found)
            )
            for name, found in layers_of_runs[order].items()
        ),
    }


def index_names(p: Any, update: Update) -> tuple[str, ...]:
    """Return the loop indices: i, j, k, or ii, jj, kk where a user's name is in the way."""
    taken = {*argument_names(p), *update.temporaries}
    letters: tuple[str, ...] = tuple("ijk")
    while taken & set(letters):
        letters = tuple(name + name[0] for name in letters)
    return letters[: p.dim]


def rules_in_code(p: Any, given: Any) -> list[tuple[SimpleNamespace, ...]]:
    """Return the rules of an array, those of the interior for none, with numbers as code."""
    rules = given or [(("interior", 0), ("interior", 0))] * p.dim
    codes = {name: scalar_code(p, name) for name in p.scalars}
    for face in faces_of(p):
        codes[face] = cast_of(type_of(p, face), p.dtype).replace("%s", f"{face}[%s]")
    return [
        tuple(rule_in_code(rule, p.dtype, spacing, codes) for rule in pair)
        for pair, spacing in zip(rules, spacing_of(p), strict=True)
    ]


def are_inside(
    bounds: list[tuple[str, str, str]],
    extents: list[str],
    margins: list[tuple[int, int]],
    reaches: Sequence[int],
) -> str:
    """Return code that says whether the same holds for all points of a thread."""
    parts = []
    for axis, (name, count) in enumerate(zip(("first", "first_row"), reaches, strict=False)):
        (low, high), stop = margins[axis], bounds[axis][2]
        stops = [stop] if stop != extents[axis] or not high else []
        if high:
            stops.append(f"{extents[axis]} - {high}")
        parts += [f"{low} <= {name}"] if low else []
        parts += (f"{name} + {count} <= {stop}" for stop in stops)
    own = len(reaches)
    names = tuple(name for name, *_ in bounds[own:])
    others = is_inside(names, extents[own:], margins[own:])
    return " and ".join([*parts, *filter(None, [others])])


def is_inside(names: tuple[str, ...], extents: list[str], margins: list[tuple[int, int]]) -> str:
    """Return code that says whether all neighbours of a point lie inside, or an empty string."""
    parts = []
    for name, extent, (low, high) in zip(names, extents, margins, strict=False):
        above = f"{name} < {extent} - {high}" if high else ""
        parts.append(f"{low} <= {above or name}" if low else above)
    return " and ".join(filter(None, parts))
