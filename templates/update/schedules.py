"""How fast: the schedules of a problem, and where each of them is possible."""

import math
from collections.abc import Mapping
from typing import Any

from tikgen import Invalid
from tikgen.expression import Update
from tikgen.pipeline.loop_steps import parallel, steps_of_points
from tikgen.template.boundaries import FLUXES, OPPOSITE, TO_WALL
from tikgen.template.layers import layers_in
from tikgen.template.matched import matched_widths
from tikgen.template.shapes import (
    are_ends_far,
    are_rows_short,
    are_small,
    points_of_buffers,
    rows_of_strips,
)
from tikgen.template.totals import MOST_PARTS

from .arguments import arguments
from .boundaries import (
    FAR_ENDS,
    end_size,
    fields_of,
    furthest,
    margins_of,
    reach,
    rules_in_use,
)
from .reading import boundary_of, layered_of, update_of

# Of equations that stand in four loops, as in the real function.
MOST_IN_ROWS = 400
MOST_LONG_BUFFERS = 4
# Of equations as often as they stand in a kernel of a GPU, with what stands for values outside: it
# takes some 4 s to compile, and with twice as many 15.
MOST_IN_LANES = 1000
# How far a stencil reaches beyond which numbers may lie, with points of a thread in two rows.
MOST_BESIDE_NUMBERS = 3
# How many times the code of an operation grows with the rule of a value outside.
RULES = {"interior": 1, **dict.fromkeys((*FLUXES, *OPPOSITE), 3), "antireflect": 7}
# Points where sizes are not known.
SOME_POINTS = 2**20


def default_schedule(
    p: Any, arch: str, sizes: Mapping[str, int] | None, is_direct: bool = False
) -> Mapping[str, Any]:
    """Return the schedule parameters that differ from their defaults."""
    if arch != "cpu":
        return {"loop": "points", **on_gpu(p, arch, sizes)}
    if not fits_rows(p):
        return {"loop": "points"}
    strips = {1: {"chunk": 1024}, 2: {}, 3: {"rows": 16}}[p.dim]
    update = update_of(p)
    if p.dim == 2 and update.reductions:
        # Joining lanes costs some: Gray-Scott with a sum took 1.14 of the time without it at
        # 1024^2 with one row a strip, 1.07 with two.
        strips = {"rows": 2, "iterations": 16}
    buffer = _buffer(p, update, sizes)
    schedule = {"loop": "function", "row_buffer": buffer, "iterations": 8, **strips}
    is_slow = are_ends_far(p.dim, sizes, max(reach(p, update, inside=False)[-1]))
    if are_small(arguments(p), sizes, is_direct and not update.reductions, is_slow):
        return schedule | {"serial": True, "iterations": 1}
    if is_direct and not update.reductions:
        return schedule | rows_of_strips(p.dim, sizes)
    return schedule


def _buffer(p: Any, update: Update, sizes: Mapping[str, int] | None) -> int:
    """Return how many points of a row to compute at once, of those between its ends."""
    # Several buffers of four registers each, and the sums of a stencil, find no room. Of 125 drawn
    # systems (1 to 5 outputs, 1D to 3D), with and without AVX-512, those of f64 took 0.8 of the
    # time of 32 points, in the mean, those of f32 with 4 outputs or in 3D 0.87.
    most = points_of_buffers(p.dtype)
    if p.dim == 3 or len(update.outputs) + p.dim > MOST_LONG_BUFFERS:
        most //= 2
    if are_rows_short(p.dim, sizes):  # With 25 points a row, 16 took 0.4 to 0.6 of the time of 32.
        most = min(most, 16)
    if sizes is None:
        return most
    # A row that has fewer goes point by point. Of order 8, rows of 14 took 0.3 to 0.55 of that time
    # with 4, rows of 18 0.3 with 8.
    margins = margins_of(p, update, rules_in_use(p, update))[-1]
    are_copied = p.dim == 3 and sum(margins) >= FAR_ENDS
    ends = 2 * end_size(margins) if are_copied else sum(margins)
    inner = sizes[f"n{p.dim - 1}"] - ends - sum(reach(p, update, inside=True)[-1])
    return next((count for count in (32, 16, 8, 4) if count <= min(most, inner)), most)


def on_gpu(p: Any, arch: str, sizes: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the points of a thread, and the threads of a block."""
    points = math.prod(sizes.values()) if sizes else SOME_POINTS
    if arch != "cuda":
        return _on_vulkan(p, points)
    # On an H100, with grids of 60 M to 90 M points, 4 points a thread took 0.53 of the time of one
    # for -lap(p) in 3D, 0.71 for the wave equation of order 8 and for Maxwell's equations, 0.79 for
    # Gray-Scott; 8 took 1.1 of the time of 4 in 3D. With small grids, which lack threads, 2 or 4
    # took 0.5 to 0.9 of the time of one.
    reduces = bool(update_of(p).reductions)
    least = {4: 2**20 if reduces else 2**18, 2: 2**16}
    if p.dim == 1:
        # On an H200, 2 points a thread took 0.5 to 1.0 of the time from 300,000 points on, with
        # reductions 0.9 from 50 M on; 4 took 0.5 to 1.4. On an H100 with 61 M points 8 took 0.91 to
        # 0.98 of the time of 2, with reductions 4 took 0.92 to 1.0.
        least = {4: 2**25, 2: 2**22} if reduces else {8: 2**25, 2: 2**18}
    items = next((count for count, most in least.items() if points >= most), 1)
    rows = 2 if items == 4 and points >= 2**20 and _shares_rows(p) else 1
    while items > 1 and _operations_outside(p) * (items * rows + 1) > MOST_IN_LANES:
        items, rows = (items, 1) if rows > 1 else (items // 2, 1)
    # On an H200, 104 drawn systems (1 to 5 fields, 30,000 to 40 M points) took 0.98 of the time of
    # blocks of 256 with 128, those of four fields in 3D 0.92.
    found = {"block_dim": 128}
    if items == 1:
        return found
    found["items"] = items
    if rows > 1:
        found["item_rows"] = rows
    if reduces:
        # A part ends with its block. Few parts walk through the whole array: what another block
        # reads has left the cache, and conjugate gradients took 1.4 times as long. Small grids stay
        # there.
        found["parts"] = 262144 if items == 4 and p.dim > 1 else MOST_PARTS
    return found


def _on_vulkan(p: Any, points: int) -> dict[str, int]:
    """Return the same for Vulkan, where Taichi launches 131,072 threads at most.

    On an H200 2 points a thread took 0.7 of the time of one for Gray-Scott (2D, 51 M points) and
    for Maxwell's equations (5 M and 64 M), 0.75 to 0.85 for `lap(u)` in 1D and 3D and for the wave
    equation of order 8. 4 took 0.65 and 0.7 of it for the first two, but 1.3 for `lap(u)` of order
    8. Reductions took 1.0 to 1.4 of it.
    """
    several = points >= 2**18 and not update_of(p).reductions
    items = 2 if several and 3 * _operations_outside(p) <= MOST_IN_LANES else 1
    return {"items": items, "block_dim": 256 if items > 1 and p.dim == 1 else 128}


def _shares_rows(p: Any) -> bool:
    """Return whether points of a thread in two rows save time.

    Where one array is read many times at each point, loads from the cache take most of it. On an
    H200 the wave equation of order 8 then took 0.8 of the time of a row a thread, conjugate
    gradients 0.7. Elsewhere, and with f64, equations took 1.0 to 1.6 of it: with several such
    arrays, with several outputs or numbers outside of a wide stencil, which fill the registers,
    or where memory sets the time.
    """
    update = update_of(p)
    fields = fields_of(update)
    if p.dim < 3 or len(fields) != 1 or len(update.outputs) > 1 or p.dtype.bits > 32:
        return False
    reaches = [max(furthest(update, fields[0], axis)) for axis in range(3)]
    if not reaches[1] or (max(reaches) > MOST_BESIDE_NUMBERS and "value" in _kinds(p)):
        return False
    streams = len(update.arrays) + sum(role == "inout" for role in update.arrays.values())
    return len(update.offsets(fields[0])) >= 3 * streams


def _operations_outside(p: Any) -> int:
    """Return the operations of a point, with what stands for values outside."""
    times = max((RULES.get(TO_WALL.get(kind, kind), 2) for kind in _kinds(p)), default=1)
    return update_of(p).assignments.operations * times


def _kinds(p: Any) -> set[str]:
    """Return the kinds of the rules of all sides."""
    rules = rules_in_use(p, update_of(p)).values()
    return {kind for pairs in rules for pair in pairs for kind, _ in pair}


def schedule_space(
    p: Any, arch: str, sizes: Mapping[str, int] | None
) -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each schedule parameter that tuning tries."""
    if arch == "cpu":
        return {
            "loop": ("function", "points") if fits_rows(p) else ("points",),
            "row_buffer": (4, 8, 16, 32, 64),
            "rows": (1, 2, 4, 8, 16),
            "chunk": (1024, 4096, 16384),
            "iterations": (1, 8, 16),
            "serial": (False, True),
        }
    rows = {"item_rows": (1, 2)} if p.dim == 3 else {}
    if update_of(p).reductions:
        items = (1, 2, 4, 8)
        blocks = {"block_dim": (64, 128, 256), "parts": (2048, 8192, 262144)}
        return {"loop": ("points",), "items": items, **rows, **blocks}
    items = (1, 2, 4, 8, 16)
    return {"loop": ("points",), "items": items, **rows, "block_dim": (0, 64, 128, 256)}


def check_schedule(p: Any, s: Any, arch: str) -> None:
    """Raise :class:`Invalid` where a schedule does not fit."""
    operations = layered_of(p).assignments.operations
    if s.loop == "function" and operations > MOST_IN_ROWS:
        raise Invalid(
            "loop",
            f"cannot be 'function' with {operations} operations a point, more than "
            f"{MOST_IN_ROWS}, which would take long to compile",
        )
    if s.loop == "function" and takes_turns(p):
        raise Invalid("loop", "cannot be 'function' where floats are divided with // or %")
    if s.item_rows > 1 and s.items == 1:
        raise Invalid("item_rows", "must be 1 where items is 1")
    if p.dim == 1 and s.items > 1 and not s.block_dim:
        raise Invalid("block_dim", "must be above 0 where items is above 1 along one axis")
    if s.parts != MOST_PARTS and not update_of(p).reductions:
        raise Invalid("parts", f"must be {MOST_PARTS} where there are no reductions")
    if s.block_dim and arch == "cpu" and update_of(p).reductions:
        raise Invalid("block_dim", "must be 0 on cpu where there are reductions")


def steps(p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
    """Return how many steps the loops of a launch take at most."""
    if s.loop == "points" and update_of(p).reductions:
        points = s.items * s.item_rows
        return steps_of_points(math.prod(sizes.values()), s.parts, s.block_dim or 1, points)
    return parallel(math.prod(sizes.values()))


def full_sizes(p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
    """Return sizes that fill all parts of a schedule, or leave points between absorbing layers."""
    # A part of a grid is no larger than that.
    found = () if p.part else (_of_all_parts(p, s), _between_layers(p, s), _far_from_faces(p, s))
    shapes = filter(None, found)
    return tuple({f"n{axis}": extent for axis, extent in enumerate(shape)} for shape in shapes)


def _far_from_faces(p: Any, s: Any) -> tuple[int, ...]:
    """Return the extents of a grid in which a buffer, or a thread, has points inside alone."""
    if s.loop != "function" and s.items == 1:
        return ()
    update = update_of(p)
    inner, outer = (reach(p, update, inside) for inside in (True, False))
    extents = [sum(one) + sum(other) + 3 for one, other in zip(inner, outer, strict=True)]
    if s.loop == "function":
        ends = 2 * max(outer[-1]) + 8  # What is computed from copies, and more.
        extents[-1] = s.row_buffer + max(extents[-1] + 6, ends)
    else:
        extents[0] += 2 * s.items * (s.block_dim if p.dim == 1 else 1)
        if s.item_rows > 1:
            extents[1] += 2 * s.item_rows
        extents = [own + width for own, width in zip(extents, _layer_widths(p), strict=True)]
    return tuple(extents)


def _of_all_parts(p: Any, s: Any) -> tuple[int, ...]:
    """Return the extents of a grid in all parts of which reductions are computed."""
    if not update_of(p).reductions:
        return ()
    if s.loop == "points":  # As many parts as there may be, and longer ones.
        found: tuple[int, ...] = {1: (140_009,), 2: (370, 379), 3: (53, 52, 51)}[p.dim]
        return found
    # Strips for two steps of what joins them, and a rest; fewer where they are long.
    if p.dim == 1:
        return ((18 if s.chunk <= 4096 else 11) * s.chunk + 5,)
    return (18 * s.rows + 5, s.row_buffer + 15) if p.dim == 2 else ()


def _between_layers(p: Any, s: Any) -> tuple[int, ...]:
    """Return the extents of a grid in which some points lie in no layer, and others in one."""
    widths = _layer_widths(p)
    if not any(widths):
        return ()
    room = [9] * (p.dim - 1) + [s.row_buffer + 9]
    return tuple(width + own for width, own in zip(widths, room, strict=True))


def _layer_widths(p: Any) -> list[int]:
    """Return the width of both absorbing layers of each axis, as of two of the wider one."""
    widths = [0] * p.dim
    for layers in layers_in(boundary_of(p), update_of(p).fields, p.dim).values():
        for axis, _, width, *_ in layers:
            widths[axis] = max(widths[axis], 2 * width)
    for axis, pair in matched_widths(p.boundary, p.dim).items():
        widths[axis] = max(widths[axis], 2 * max(pair))
    return widths


def fits_rows(p: Any) -> bool:
    """Return whether a real function can compute rows, and compiles soon enough."""
    return not takes_turns(p) and layered_of(p).assignments.operations <= MOST_IN_ROWS


def takes_turns(p: Any) -> bool:
    """Return whether the code of a point holds a loop, which real functions cannot call."""
    return "while " in update_of(p).assignments.helpers(p.dtype)
