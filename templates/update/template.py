"""Equations over fields on a regular grid, fused into one kernel."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    Equations,
    Expression,
    Identifier,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.expression import PARTIAL
from tikgen.expression.reductions import extreme_hint
from tikgen.template.arguments import positive_values
from tikgen.template.boundaries import Boundary
from tikgen.template.grid_use import WHAT_A_PART_IS, WHAT_A_WINDOW_IS, WINDOW, GridUse, Part
from tikgen.template.parameters import FieldName
from tikgen.template.rules import GPUS
from tikgen.template.totals import MOST_PARTS, WHAT_PARTS_ARE, Parts
from tikgen.template.vectors import Layout
from tikgen.template.views import Views

from . import arguments, boundaries, drawing, schedules
from .checks import check_problem, set_apart
from .context import context
from .grid import grid_use
from .reading import update_of
from .reference import inputs, reference, tolerance

Place = Literal["centre", "face x", "face y", "face z", "edge x", "edge y", "edge z", "corner"]
Where = Place | Literal["faces", "edges"]


class FieldUpdate(Template):
    """Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.

    `u'` is the next value of the field `u`, and an array of its own, the argument `u_next`. A name
    that is assigned and read further down is a temporary, one that is assigned and never read is an
    output (`outputs` says otherwise), and one that its own right-hand side reads, as in
    `v = v + dt*u`, is updated in place: its neighbours cannot be read. All other names are arrays,
    apart from `scalars` and `constants`.

    An equation takes what an expression of `map` takes: `+ - * / // % **`, comparisons, `and or
    not`, `a if c else b`, the functions `abs acos acosh asin asinh atan atan2 atanh ceil clip cos
    cosh exp expm1 floor hypot isnan log log10 log1p log2 max min pow round sign sin sinh sqrt tan
    tanh where`, and where integers are computed the operators on bits `& | ^ ~ << >>`. It also
    takes

    - neighbours: `u[1, 0]` is the next point along the first axis;
    - derivatives, central and of the given `order`: `dx dy dz dxx dyy dzz dxy dxz dyz lap`, `div`
      of a field for each axis, `curl` of two fields in two dimensions; x, y and z are the
      first, second and third axis, `spacing` apart; of first order, against the flow:
      `dx(u, along=c)`;
    - the indices `i j k` and the coordinates `x y z`, where nothing else has that name: a scalar, a
      constant, a name that is assigned, as in `i' = 2*i`, or one in `types`, `at` or `boundary`;
    - the numbers `pi` and `e`, where the text assigns no such name, and no parameter lists it.

    Derivatives and neighbours of an expression or of a temporary are those of what it stands for.
    `f(a, b) = a*b` defines a function, which is written out where it is called.

    `err = sum((u' - u)**2)`, `max(e)` and `min(e)` of one expression are reductions over the points
    that are computed, in the same pass. The result is an array of one element; nothing in the text
    can read it. The order of operations depends on sizes and schedule only, so that equal launches
    give equal bits. NaN wins `max` and `min`. Where no point is computed, `sum` gives 0, and `max`
    and `min` give what every number replaces: an infinity, or the limit of the integers.

    On a staggered grid `at` says where fields lie: in the centre of a cell, or half a cell before
    it on one axis (a face), on two (an edge) or on all (a corner). `dx` of a field at the centre
    then lies on face x, and the other way round; `avgx avgy avgz` are means of two
    neighbours, and move values in the same way. Values at different places do not mix.

    What lies outside is said by `boundary`, for all fields, for each field, or for each side
    of each: nothing (`interior`: what is not computed keeps its value), the other side
    (`periodic`), the outermost point (`clamp`), a number (`zero`, `("value", g)`), the mirror image
    about the outermost point (`reflect`), that with the opposite sign, so that the outermost point
    lies in the middle (`antireflect`), or that with a slope of g along the outward normal
    (`("flux", g)`); g is a number, a scalar of the call, a constant, or the name of an array over
    the face, with an axis fewer than the field. Walls lie half a cell beyond the outermost
    centres: the mirror image about them (`symmetric`), that with a slope (`("wall_flux", g)`),
    that with the opposite sign (`antisymmetric`), about a value on the wall
    (`("wall_value", g)`). With `wall`, what lies between walls is symmetric, and what lies on
    walls, as `at` says, is antisymmetric; with `free_surface` it is the other way round. Where a
    rule says the value on a lower wall, the next value of a field there is that value. In a
    corner the rule of the last axis is applied to what the rules of the others give.

    Waves fade away in a layer of some points inside of a side that is absorbing, as
    `tikgen.absorbing(width, strength, beyond, order)` says. With the kind "cpml", derivatives
    across the side are stretched in the layer: the kernel takes numbers for it, `cpml_x` and its
    like, and what it keeps of each derivative, such as `cpml_dx_p`. `tikgen.matched_layers` makes
    them.

    Where the array `mask` is not 0, points are left alone: the next value of a field is its value
    there, and any other output keeps what it is. The equations may read the mask, and its
    neighbours, as any other array.

    `vectors` names fields of 2 to 32 components: `v.x`, or `f.3` and `f'.3` of its next value. A
    block `each q in 9:` repeats its lines for `q` = 0 to 8, `sum(f.q for q in 9)` adds, and `v' = v
    + dt*grad(p)` assigns all components. `dot(v, w)` and `norm(v)` are numbers, `cross(v, w)` is a
    vector of three components or a number of two. Constants may be lists: `w.q`, and neighbours
    such as `f.q[-cx.q, -cy.q]`. `layout` says whether an array has the components first or last, or
    each component is an array of its own. Components of an output in place or without a prime that
    nothing assigns keep their value.

    A block `where x < 1:`, with `elsewhere x < 2:` and `elsewhere:` below it, has equations that
    apply in a region only. What a block does not assign there keeps its value: that from above the
    block, that of the field, or that of the output. What a branch assigns and reads is a variable
    of its own there. `where` gives names to conditions.

    All is computed in `dtype`, whatever the `types` of the arrays are. Where it is a float, arrays
    of integers take conditions, whole numbers, integers that it holds exactly, and `where`, `min`
    or `max` of these. Scalars in `on_device` are arrays of one element, which another kernel may
    have written just before.

    Arrays may hold a part of a larger grid, as `part` says with four numbers for each axis: how
    many ghost points there are below and above, the index of the first element on the whole grid,
    and the extent of that. Rows 10 to 19 of 40, between one ghost point below and one above, are an
    array of 12 rows and the numbers `(1, 1, 9, 40)`: its first element is row 9. Ghost points are
    read, and not computed: at each side there are none, or as many as the equations read.
    `boundary` holds for sides without them. Indices, coordinates and absorbing layers are those of
    the whole grid.

    With `window`, a call computes a slab of the grid: the points of the first axis from
    `window_start` to before `window_stop`, two numbers that it takes last. What lies outside of the
    slab is read, and not computed.

    Arrays over the grid may be views, such as `u[1:-1, 1:-1]`, `u[::2, ::2]` and `psi.real`. With
    `layout="last"` all arrays must be contiguous.
    """

    class Problem(ProblemModel):
        equations: Equations = parameter('what to compute, such as "u\' = u + dt*lap(u)"')
        dim: int = parameter("number of axes of every array", 2, ge=1, le=3)
        dtype: DType = parameter(
            "type of scalars, of what is computed, and of arrays that have no other",
            DType.f32,
            choices=("f32", "f64", "i32", "i64"),
        )
        order: Literal[2, 4, 6, 8, 10, 12] = parameter("order of accuracy of derivatives", 2)
        spacing: float | tuple[float, ...] = parameter(
            "distance between points, one number or one for each axis", 1.0
        )
        scalars: tuple[Identifier, ...] = parameter("names that are numbers of a call", ())
        on_device: tuple[Identifier, ...] = parameter(
            "scalars that are passed as arrays of one element", ()
        )
        constants: dict[Identifier, float | tuple[float, ...]] | None = parameter(
            "numbers by name, and lists of numbers", None
        )
        boundary: Boundary = parameter(
            "what lies outside: a rule, or rules for sides such as 'x' or 'x-', or either for "
            "each field",
            "interior",
        )
        mask: Identifier | None = parameter(
            "array of integers, u8 if `types` names no other type: where it is not 0, points keep "
            "their values",
            None,
        )
        where: dict[Identifier, Expression] | None = parameter(
            "conditions by name, for blocks such as 'where inlet:'", None
        )
        vectors: dict[Identifier, int] | None = parameter(
            "number of components of each field that is a vector, 2 to 32", None
        )
        layout: Layout = parameter(
            "the axis of an array that counts components, or an array for each of them", "first"
        )
        at: dict[FieldName, Where] | None = parameter(
            "where fields lie on a staggered grid; others lie at the centre", None
        )
        types: dict[Identifier, DType] | None = parameter(
            "types of arrays that differ; `u_next` has that of `u` if it has none of its own", None
        )
        outputs: tuple[Identifier, ...] | None = parameter(
            "names without a prime that are written; without it those that nothing reads", None
        )
        part: Part | None = parameter(WHAT_A_PART_IS, None)
        window: bool = parameter(WHAT_A_WINDOW_IS, False)

        def check(self) -> None:
            check_problem(self)

    class Schedule(ScheduleModel):
        loop: Literal["function", "points"] = parameter(
            "parallel over strips of rows that a real function computes, or over points",
            "points",
            needs={"function": {"arch": "cpu"}},
        )
        row_buffer: Literal[4, 8, 16, 32, 64, 128] = parameter(
            "points computed into local buffers before they are stored",
            32,
            only={"loop": "function"},
        )
        rows: Literal[1, 2, 4, 8, 16] = parameter(
            "rows a strip", 1, only={"loop": "function", "dim": (2, 3)}
        )
        chunk: Literal[1024, 4096, 16384, 65536] = parameter(
            "points of a strip", 4096, only={"loop": "function", "dim": 1}
        )
        iterations: Literal[1, 4, 8, 16] = parameter(
            "iterations of the parallel loop a strip, all but one of them empty: Taichi gives "
            "a thread 512 at least",
            1,
            only={"loop": "function", "serial": False},
        )
        serial: bool = parameter("whether one thread does it all", False, only={"loop": "function"})
        items: Literal[1, 2, 4, 8, 16] = parameter(
            "points a thread along the first axis, in 1D a block of threads apart; what it reads "
            "for one of them stays in registers for the next",
            1,
            only={"loop": "points", "arch": GPUS},
        )
        item_rows: Literal[1, 2, 4] = parameter(
            "points a thread along the second axis, for each of those along the first",
            1,
            only={"loop": "points", "dim": 3, "arch": GPUS},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0, only={"loop": "points"}
        )
        parts: Parts = parameter(WHAT_PARTS_ARE, MOST_PARTS, only={"loop": "points", "arch": GPUS})

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return schedules.default_schedule(p, arch, sizes)

    def direct_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return schedules.default_schedule(p, arch, sizes, is_direct=True)

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        return schedules.schedule_space(p, arch, sizes)

    def check(self, p: Any, s: Any, arch: str) -> None:
        schedules.check_schedule(p, s, arch)

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        return schedules.steps(p, s, sizes, read)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return boundaries.sizes(p)

    def largest_sizes(self, p: Any) -> Mapping[str, int]:
        return boundaries.largest_sizes(p)

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        return schedules.full_sizes(p, s)

    def unsupported(self, p: Any, arch: str) -> str | None:
        return arguments.unsupported(p, arch)

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        return arguments.arguments(p)

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        return arguments.workspace(p, s)

    def set_apart(self, p: Any) -> tuple[Any, tuple[str, ...]]:
        return set_apart(p)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        return context(p, s)

    def takes_views(self, p: Any) -> tuple[str, ...]:
        return arguments.takes_views(p)

    def context_of_views(self, p: Any, s: Any, views: Views) -> Mapping[str, Any]:
        return context(p, s, views)

    def grid_use(self, p: Any) -> GridUse:
        return grid_use(p)

    def hint(self, p: Any, name: str, value: object) -> str:
        if isinstance(value, tuple):  # A shape.
            return extreme_hint(p.equations.source, name, value)
        if name in p.on_device:
            return arguments.hint_on_device(p, name)
        return arguments.hint(p, name) or super().hint(p, name, value)

    reference = staticmethod(reference)
    tolerance = staticmethod(tolerance)
    inputs = staticmethod(inputs)

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        own = self.inputs(p, sizes, rng)
        if p.window:
            own |= dict(zip(WINDOW, (0, sizes["n0"]), strict=True))
        if not (p.dtype.is_float and PARTIAL & update_of(p).assignments.functions):
            return {"uniform": own}
        return {"positive": positive_values(self.arguments(p), sizes, rng) | own}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * update_of(p).assignments.operations

    def strategies(self) -> Mapping[str, Any]:
        return drawing.strategies()

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        return drawing.adjust(drawn, arch)
