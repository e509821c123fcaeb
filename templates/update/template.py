"""Equations over fields on a regular grid, fused into one kernel."""

import math
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    Equations,
    Identifier,
    Invalid,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.errors import ExpressionError, near
from tikgen.expression import PARTIAL, Update, lacks_on_vulkan
from tikgen.expression.helpers import definition
from tikgen.expression.layout import broken
from tikgen.expression.reductions import reduced, reduced_error
from tikgen.pipeline.jinja_text import without_marks
from tikgen.pipeline.loop_steps import parallel, steps_of_points
from tikgen.template.arguments import positive_values
from tikgen.template.boundaries import (
    ELEMENTS,
    MIRRORED,
    NUMBERED,
    Boundary,
    check_boundary,
    number_code,
    padded,
    rules_in,
    sides_of,
)
from tikgen.template.totals import (
    MOST_PARTS,
    OWN_OF_TOTALS,
    partials_of,
    results_of,
    totals_of,
)

Where = Literal["centre", "face x", "face y", "face z", "edge x", "edge y", "edge z", "corner"]

MOST_ARGUMENTS = 64
MOST_ARRAYS_ON_VULKAN = 32
MOST_OPERATIONS = 1500
# Strips of a line, of which each leaves what it knows of a reduction.
MOST_STRIPS = 16384
# Of equations that stand in four loops, as in the real function.
MOST_IN_ROWS = 400
# What generated code calls its own values.
OWN = re.compile(
    r"(update|points|stop|row|plane|first|last|left|right|before|end|here|step|strip|turn|lane|mirrored"
    r"|(start|run|buffer)(_\w+)?)"
)


class FieldUpdate(Template):
    """Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.

    `u'` is the next value of the field `u`, and an array of its own, the argument `u_next`. A name
    that is assigned and read further down is a temporary, one that is assigned and never read is an
    output (`outputs` says otherwise), and one that its own right-hand side reads, as in
    `v = v + dt*u`, is updated in place: its neighbours cannot be read. All other names are arrays,
    apart from `scalars` and `constants`.

    An equation takes what an expression of `map` takes, and

    - neighbours: `u[1, 0]` is the next point along the first axis;
    - derivatives, central and of the given `order`: `dx dy dz dxx dyy dzz dxy dxz dyz lap`, `div`
      of a field for each axis, `curl` of two fields in two dimensions; x, y and z are the
      first, second and third axis, `spacing` apart; of first order, against the flow:
      `dx(u, along=c)`;
    - the indices `i j k` and the coordinates `x y z`, where no scalar or constant has that name.

    Derivatives and neighbours of an expression or of a temporary are those of what it stands for.

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
    (`("flux", g)`); g is a number or a scalar of the call. In a corner the rule of the last axis
    is applied to what the rules of the others give.

    All is computed in `dtype`, whatever the `types` of the arrays are. Scalars in `on_device` are
    arrays of one element, which another kernel may have written just before.
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
        constants: dict[Identifier, float] | None = parameter("numbers by name", None)
        boundary: Boundary = parameter(
            "what lies outside: a rule, or rules for sides such as 'x' or 'x-', or either for "
            "each field",
            "interior",
        )
        at: dict[Identifier, Where] | None = parameter(
            "where fields lie on a staggered grid; others lie at the centre", None
        )
        types: dict[Identifier, DType] | None = parameter("types of arrays that differ", None)
        outputs: tuple[Identifier, ...] | None = parameter(
            "names without a prime that are written; without it those that nothing reads", None
        )

        def check(self) -> None:
            _check_grid(self)
            try:
                update = update_of(self)
                update.assignments.check(self.dtype)
            except ExpressionError as error:
                raise Invalid("equations", f"cannot be used: {error}") from None
            _check_names(self, update)
            _check_types(self, update)
            fields = fields_of(update)
            check_boundary(self.boundary, self.dim, self.dtype, update.arrays, fields, self.scalars)

    class Schedule(ScheduleModel):
        loop: Literal["function", "points"] = parameter(
            "parallel over strips of rows that a real function computes, or over points",
            "points",
            needs={"function": {"arch": "cpu"}},
        )
        row_buffer: Literal[8, 16, 32, 64, 128] = parameter(
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
            only={"loop": "function"},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0, only={"loop": "points"}
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch != "cpu":
            return {"loop": "points", "block_dim": 128}
        if not fits_rows(p):
            return {"loop": "points"}
        strips = {1: {"chunk": 1024}, 2: {}, 3: {"rows": 4}}[p.dim]
        if p.dim == 2 and update_of(p).reductions:
            # Joining lanes costs some: Gray-Scott with a sum took 1.14 of the time without it at
            # 1024^2 with one row a strip, 1.07 with two.
            strips = {"rows": 2, "iterations": 16}
        return {"loop": "function", "row_buffer": 32, "iterations": 8, **strips}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if arch == "cpu":
            return {
                "loop": ("function", "points") if fits_rows(p) else ("points",),
                "row_buffer": (8, 16, 32, 64),
                "rows": (1, 2, 4, 8, 16),
                "chunk": (1024, 4096, 16384),
                "iterations": (1, 8, 16),
            }
        own = () if update_of(p).reductions else (0,)
        return {"loop": ("points",), "block_dim": (*own, 64, 128, 256)}

    def check(self, p: Any, s: Any, arch: str) -> None:
        operations = update_of(p).assignments.operations
        if s.loop == "function" and operations > MOST_IN_ROWS:
            raise Invalid(
                "loop",
                f"cannot be 'function' with {operations} operations a point, more than "
                f"{MOST_IN_ROWS}, which would take long to compile",
            )
        if s.loop == "function" and takes_turns(p):
            raise Invalid("loop", "cannot be 'function' where floats are divided with // or %")
        if s.block_dim and arch == "cpu" and update_of(p).reductions:
            raise Invalid("block_dim", "must be 0 on cpu where there are reductions")

    def unsupported(self, p: Any, arch: str) -> str | None:
        if arch != "vulkan":
            return None
        update = update_of(p)
        count = len(update.arrays) + len(p.on_device) + 2 * len(update.reductions)
        if count > MOST_ARRAYS_ON_VULKAN:
            return (
                f"it takes {count} arrays, and at most {MOST_ARRAYS_ON_VULKAN} work; "
                "split the equations"
            )
        return lacks_on_vulkan(update.assignments.folded(p.dtype).functions, p.dtype)

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        update = update_of(p)
        shape = tuple(f"n{axis}" for axis in range(p.dim))
        whole = all(low == high == 0 for low, high in reach(p, update, inside=True))
        pointwise = not any(map(any, (offset for _, offset in update.accesses.values())))
        found: list[Array | Scalar] = []
        for name in argument_names(p):
            if name in update.reductions:
                continue
            if name in p.on_device:
                found.append(Array(name, p.dtype, (1,)))
                continue
            if name in p.scalars:
                found.append(Scalar(name, p.dtype))
                continue
            role = update.arrays[name]
            found.append(
                Array(
                    name,
                    (p.types or {}).get(name, p.dtype),
                    shape,
                    role=role,
                    covered=whole or role == "in",
                    inplace=pointwise and role != "in",
                )
            )
        return (*found, *results_of(totals_of(update.reductions, p.dtype)))

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        kept = {1: (MOST_STRIPS,), 2: ("n0",), 3: ("n0", "n1")}
        shape = kept[p.dim] if s.loop == "function" else (MOST_PARTS,)
        return partials_of(totals_of(update_of(p).reductions, p.dtype), shape)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        update = update_of(p)
        arrays = [a for a in self.arguments(p) if a.name in update.arrays]
        names = index_names(p, update)
        extents = [f"{arrays[0].name}.shape[{axis}]" for axis in range(p.dim)]
        bounds = [
            (name, str(low), f"{extent} - {high}" if high else extent)
            for name, extent, (low, high) in zip(
                names, extents, reach(p, update, inside=True), strict=True
            )
        ]
        runs = runs_of(p, update)
        narrow = any(a.dtype is DType.f16 for a in arrays)
        helpers = [update.assignments.helpers(p.dtype)]
        if narrow and "def widened(" not in helpers[0]:
            helpers.append(definition("widened", DType.f32))
        margins = reach(p, update, inside=False)
        totals = totals_of(update.reductions, p.dtype)
        element = "[0]" if s.loop == "function" else ""
        passed = [a for a in self.arguments(p) if a.name not in update.reductions]
        return {
            "bounds": bounds,
            "extents": tuple(extents),
            "leader": arrays[0].name,
            "outputs": [a for a in arrays if a.written],
            "totals": totals,
            "row_arguments": (*passed, *self.workspace(p, s)),
            "partial_zeros": "0, " if p.dim == 3 else "",
            "most_strips": MOST_STRIPS,
            "most_parts": MOST_PARTS,
            "casts": {a.name: cast_of(a.dtype, p.dtype) for a in arrays},
            "helpers": "\n\n\n".join(filter(None, helpers)),
            "function": "points",
            "margins": margins,
            "rules": {name: rules_in_code(p, update, name) for name in update.arrays},
            "is_mirrored": any(
                kind in MIRRORED
                for rules in rules_of(p, update).values()
                for pair in rules
                for kind, _ in pair
            ),
            "is_inplace": any(a.role == "inout" for a in arrays),
            "is_inside": is_inside(names, extents, margins),
            "near": near_edge(p, update, names, extents),
            "runs": runs,
            "each_run": list({run.name: run for run in runs.values()}.values()),
            "centre": runs[None, (0,) * (p.dim - 1)],
            "equations": lambda read, target, index, of="", unless="": statements(
                p, read, target, index, of or element, unless
            ),
        }

    @staticmethod
    def reference(p: Any, *arguments: Any) -> Any:
        update = update_of(p)
        names = argument_names(p)
        given = dict(zip(names, arguments, strict=True))
        values, _ = known_values(p, given)
        found = update.assignments.folded(p.dtype).evaluate(**values)
        results = []
        for name in (name for name in names if name in update.outputs):
            before = np.asarray(given[name])
            result = before.astype(wide_of(p.dtype))
            inner = computed(p, before.shape)
            result[inner] = np.broadcast_to(found[name], before.shape)[inner]
            results.append(result)
        shape = grid_shape(update, given)
        for name, operation in update.reductions.items():
            terms = np.broadcast_to(found[name], shape)[computed(p, shape)]
            results.append(reduced(operation, terms))
        return tuple(results) if len(results) > 1 else results[0]

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # Running error analysis: nothing is assumed about the equations.
        values, errors = known_values(p, inputs)
        update = update_of(p)
        bounds = update.assignments.error_bound(values, p.dtype, errors)
        terms, masses = {}, {}
        if update.reductions:
            terms = update.assignments.folded(p.dtype).evaluate(**values)
            masses = update.assignments.masses(values, p.dtype)
        shape = grid_shape(update, inputs)
        inner = computed(p, shape)
        allowed = {}
        for name in expected:
            if operation := update.reductions.get(name):
                each = (np.broadcast_to(a[name], shape)[inner] for a in (terms, bounds, masses))
                allowed[name] = reduced_error(operation, *each, p.dtype)
            else:
                allowed[name] = np.zeros(shape)
                allowed[name][inner] = np.broadcast_to(bounds[name], shape)[inner]
        return allowed

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        if s.loop == "points" and update_of(p).reductions:
            return steps_of_points(math.prod(sizes.values()), MOST_PARTS, s.block_dim or 1)
        return parallel(math.prod(sizes.values()))

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if not update_of(p).reductions or s.loop != "function" or p.dim > 1 or s.chunk > 4096:
            return ()
        return ({"n0": 18 * s.chunk + 5},)  # Strips for two steps of what joins them, and a rest.

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        if not (p.dtype.is_float and PARTIAL & update_of(p).assignments.functions):
            return {"uniform": {}}
        return {"positive": positive_values(self.arguments(p), sizes, rng)}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * update_of(p).assignments.operations

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        from tikgen.verification.equation_texts import boundaries, programs

        step = st.sampled_from((1.0, 0.5, 0.3))
        stored = st.sampled_from(("f16", "f32", "f64", "i8", "u16", "i32"))
        # `adjust` cuts them to the grid at hand.
        return {
            "equations": programs(),
            "boundary": boundaries(),
            "scalars": st.just(("a", "b")),
            "on_device": st.sampled_from(((), ("a",), ("b",), ("a", "b"))),
            "spacing": step | st.tuples(step, step, step),
            "constants": st.none() | st.fixed_dictionaries({"b": step}),
            "types": st.none() | st.fixed_dictionaries({"w": stored}),
            "outputs": st.none() | st.just(("r",)),
            "at": st.none(),
        }

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        from tikgen.verification.equation_texts import STAGGERED, fitted_boundary, text_of

        dim, dtype = drawn["dim"], DType.parse(drawn["dtype"])
        if not dtype.is_float:
            drawn |= {"spacing": 1.0, "order": 2, "constants": None}
        text = text_of(drawn["equations"], dim, dtype.is_float)
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        boundary = fitted_boundary(drawn["boundary"], names, dim, dtype.is_float)
        read = names | {str(number) for _, number in rules_in(boundary)}
        constants = {n: v for n, v in (drawn["constants"] or {}).items() if n in read}
        # Only what is never written may have any type.
        types = {n: DType(t) for n, t in (drawn["types"] or {}).items() if n in names}
        if not dtype.is_float and any(stored.is_float for stored in types.values()):
            types = {}
        scalars = tuple(n for n in drawn["scalars"] if n in read and n not in constants)
        spacing, outputs = drawn["spacing"], drawn["outputs"]
        return drawn | {
            "equations": text,
            "boundary": boundary,
            "scalars": scalars,
            "on_device": tuple(n for n in drawn["on_device"] if n in scalars),
            "constants": constants or None,
            "types": types or None,
            "spacing": spacing[:dim] if isinstance(spacing, tuple) else spacing,
            "outputs": outputs + ("q",) * ("q = " in text) if outputs and "r =" in text else None,
            "at": {n: place for n, place in STAGGERED.items() if n in names} or None,
        }


# What the problem says.


def spacing_of(p: Any) -> tuple[float, ...]:
    """Return the distance between points on each axis."""
    return p.spacing if isinstance(p.spacing, tuple) else (p.spacing,) * p.dim


def update_of(p: Any) -> Update:
    """Return what the equations become on the grid of a problem."""
    return p.equations.on(
        dim=p.dim,
        order=p.order,
        spacing=spacing_of(p),
        scalars=p.scalars,
        constants=p.constants,
        at=p.at,
        outputs=p.outputs,
    )


def boundary_scalars(p: Any) -> tuple[str, ...]:
    """Return the scalars that boundary rules take."""
    numbers = [str(number) for _, number in rules_in(p.boundary)]
    return tuple(dict.fromkeys(name for name in numbers if name in p.scalars))


def fields_of(update: Update) -> list[str]:
    """Return the arrays of which a neighbour is read."""
    return [name for name in update.arrays if any(map(any, update.offsets(name)))]


def rules_of(p: Any, update: Update) -> dict[str, list[tuple[Any, Any]]]:
    """Return the rules of each array of which a neighbour is read, a pair for each axis."""
    return {name: sides_of(p.boundary, name, p.dim) for name in fields_of(update)}


def reach(p: Any, update: Update, inside: bool) -> list[tuple[int, int]]:
    """Return how far the equations reach below and above each axis.

    Args:
        p: the problem.
        update: what its equations become.
        inside: whether only sides with the rule "interior" count, or only the others.
    """
    found = [[0, 0] for _ in range(p.dim)]
    for name, rules in rules_of(p, update).items():
        for offset in update.offsets(name):
            for axis, step in enumerate(offset):
                side = int(step > 0)
                if (rules[axis][side][0] == "interior") == inside:
                    found[axis][side] = max(found[axis][side], abs(step))
    return [(low, high) for low, high in found]


def argument_names(p: Any) -> tuple[str, ...]:
    """Return what a caller passes, in order."""
    update = update_of(p)
    read = (*update.inputs, *boundary_scalars(p))
    return tuple(dict.fromkeys((*read, *update.outputs, *update.reductions)))


def fits_rows(p: Any) -> bool:
    """Return whether a real function can compute rows, and compiles soon enough."""
    return not takes_turns(p) and update_of(p).assignments.operations <= MOST_IN_ROWS


def takes_turns(p: Any) -> bool:
    """Return whether the code of a point holds a loop, which real functions cannot call."""
    return "while " in update_of(p).assignments.helpers(p.dtype)


def _check_grid(p: Any) -> None:
    spacing = spacing_of(p)
    if len(spacing) != p.dim or not all(1e-100 <= step <= 1e100 for step in spacing):
        raise Invalid("spacing", f"takes one positive number, or {p.dim}; got {p.spacing}")
    for name in p.scalars:
        if name in (p.constants or {}):
            raise Invalid("scalars", f"names {name}, which is a constant as well")
    for name, place in (p.at or {}).items():
        axes = {"x": 1, "y": 2, "z": 3}.get(place[-1], 1)
        if axes > p.dim or (place.startswith("edge") and p.dim < 3):
            raise Invalid("at", f"puts {name} on {place}, which needs more than {p.dim} axes")


def _check_names(p: Any, update: Update) -> None:
    names = (*update.inputs, *update.outputs, *update.temporaries)
    for name in names:
        if OWN.fullmatch(name) or (update.reductions and OWN_OF_TOTALS.fullmatch(name)):
            raise Invalid("equations", f"uses the name {name!r}, which generated code has")
    if not update.outputs and not update.reductions:
        raise Invalid("equations", "write no array")
    if not update.arrays:
        raise Invalid("equations", "read and write no array, so that there are no points")
    count = len(update.arrays) + len(p.scalars) + 2 * len(update.reductions)
    if count > MOST_ARGUMENTS:
        raise Invalid("equations", f"use {count} names; a kernel takes at most {MOST_ARGUMENTS}")
    if update.assignments.operations > MOST_OPERATIONS:
        raise Invalid(
            "equations",
            f"take {update.assignments.operations} operations a point, more than "
            f"{MOST_OPERATIONS}, which would take long to compile",
        )
    for name in p.scalars:
        if name not in (*update.scalars, *boundary_scalars(p)):
            raise Invalid("scalars", f"names {name}, which nothing reads.{near(name, names)}")
    for name in p.on_device:
        if name not in p.scalars:
            raise Invalid("on_device", f"names {name}, which is no scalar.{near(name, p.scalars)}")
    for kind in ("at", "types"):
        for name in getattr(p, kind) or ():
            if name not in names:
                raise Invalid(kind, f"names {name}, which is no array.{near(name, names)}")


def _check_types(p: Any, update: Update) -> None:
    for name, dtype in (p.types or {}).items():
        if name not in update.arrays:
            raise Invalid("types", f"names {name}, which is no array")
        if dtype.is_float and not p.dtype.is_float:
            raise Invalid("types", f"makes {name} {dtype}, and {p.dtype} holds no fractions")
        if update.arrays[name] != "in" and dtype.is_float != p.dtype.is_float:
            raise Invalid("types", f"makes {name} {dtype}, and what is written is {p.dtype}")


# What the kernel's text holds.


def index_names(p: Any, update: Update) -> tuple[str, ...]:
    """Return the loop indices: i, j, k, or ii, jj, kk where a user's name is in the way."""
    taken = {*update.inputs, *update.outputs, *update.temporaries}
    letters: tuple[str, ...] = tuple("ijk")
    while taken & set(letters):
        letters = tuple(name + name[0] for name in letters)
    return letters[: p.dim]


def rules_in_code(p: Any, update: Update, name: str) -> list[tuple[SimpleNamespace, ...]]:
    """Return the rules of an array, with their numbers as generated code."""
    rules = rules_of(p, update).get(name, [(("interior", 0), ("interior", 0))] * p.dim)
    found = []
    for pair, spacing in zip(rules, spacing_of(p), strict=True):
        named = [(kind, scalar_code(p, n) if n in p.scalars else n) for kind, n in pair]
        numbers = [number_code(r, p.dtype, spacing) if r[0] in NUMBERED else "" for r in named]
        both = zip(pair, numbers, strict=True)
        found.append(tuple(SimpleNamespace(kind=rule[0], number=code) for rule, code in both))
    return found


def scalar_code(p: Any, name: str) -> str:
    """Return generated code for the value of a scalar."""
    return f"{name}[0]" if name in p.on_device else name


def cast_of(dtype: DType, working: DType) -> str:
    """Return a pattern for the code of an element as a number of the working dtype."""
    if dtype is working:
        return "%s"
    return (
        "widened(%s)"
        if dtype is DType.f16 and working is DType.f32
        else (f"ti.cast(%s, {working.taichi})")
    )


def is_inside(names: tuple[str, ...], extents: list[str], margins: list[tuple[int, int]]) -> str:
    """Return code that says whether all neighbours of a point lie inside, or an empty string."""
    parts = []
    for name, extent, (low, high) in zip(names, extents, margins, strict=False):
        above = f"{name} < {extent} - {high}" if high else ""
        parts.append(f"{low} <= {above or name}" if low else above)
    return " and ".join(filter(None, parts))


def near_edge(p: Any, update: Update, names: tuple[str, ...], extents: list[str]) -> str:
    """Return code that says whether some neighbours of a row are numbers instead of elements."""
    found: dict[str, None] = {}
    for name, rules in rules_of(p, update).items():
        for axis in range(p.dim - 1):
            for side in (0, 1):
                steps = [abs(o[axis]) for o in update.offsets(name) if (o[axis] > 0) == bool(side)]
                most = max(steps, default=0)
                if most and rules[axis][side][0] not in ELEMENTS:
                    index, extent = names[axis], extents[axis]
                    found[f"{index} >= {extent} - {most}" if side else f"{index} < {most}"] = None
    return " or ".join(found)


def runs_of(p: Any, update: Update) -> dict[Any, Any]:
    """Return the run of elements that a step reads, for each array and offset of its row.

    Arrays with the same rules share a run. None in place of an array has the run of the point.
    """
    rules = rules_of(p, update)
    centre = (0,) * (p.dim - 1)
    known: dict[Any, SimpleNamespace] = {}
    found: dict[Any, Any] = {}
    places = [(name, offset) for name, offset in update.accesses.values()]
    for name, (*steps, last) in [(None, (*centre, 0)), *places]:
        leading = tuple(steps)
        kinds = tuple(
            within(rules[name][axis][int(step > 0)][0]) if step else ""
            for axis, step in enumerate(leading)
        )
        run = known.get((leading, kinds))
        if run is None:
            suffix = "".join(f"_{'n' if step < 0 else ''}{abs(step)}" for step in leading)
            number = sum(other == leading for other, _ in known)
            suffix = (suffix if any(leading) else "") + (f"_{kinds[-1]}" if number else "")
            run = known[leading, kinds] = SimpleNamespace(
                name=f"run{suffix}",
                start=f"start{suffix}",
                leading=leading,
                kinds=kinds,
                first=last,
            )
        run.first = min(run.first, last)
        found[name, leading] = run
    return found


def within(kind: str) -> str:
    """Return the kind of a rule in rows whose neighbours are all elements."""
    return kind if kind in ELEMENTS else "interior"


def statements(
    p: Any,
    read: Callable[[str, tuple[int, ...]], str],
    target: Callable[[str], str],
    index: list[str],
    of: str = "",
    unless: str = "",
) -> str:
    """Return generated code that computes and stores all outputs at one point.

    Args:
        p: the problem.
        read: returns the code for the value of an array at an offset.
        target: returns the code for the element of an output.
        index: code for the index on each axis.
        of: code for the element of a reduction's variable.
        unless: code that says whether reductions have seen the point before.
    """
    update = update_of(p)
    totals = {total.name: total for total in totals_of(update.reductions, p.dtype)}
    folded = update.assignments.folded(p.dtype).assignments
    values = {name: scalar_code(p, name) for name in p.scalars}
    for letter, axis in update.indices.items():
        values[letter] = f"ti.cast({index[axis]}, {p.dtype.taichi})"
    for name, (array, offset) in update.accesses.items():
        values[name] = without_marks(read(array, offset))
    lines = []
    for number, (name, expression) in enumerate(folded):
        code = expression.taichi(values, p.dtype)
        is_read = any(name in later.names for _, later in folded[number + 1 :])
        if name in totals:
            lines.append(broken(totals[name].take(code, of, unless)))
        elif name in update.outputs:
            dtype = (p.types or {}).get(name, p.dtype)
            if is_read:
                local = free_name(update, f"new_{name}")
                lines.append(broken(f"{local} = {code}"))
                values[name] = code = local
            if dtype is not p.dtype:
                code = f"ti.cast({code}, {dtype.taichi})"
            lines.append(broken(f"{without_marks(target(name))} = {code}"))
        elif is_read:
            lines.append(broken(f"{name} = {code}"))
            values[name] = name
    return "\n".join(lines)


def free_name(update: Update, name: str) -> str:
    """Return ``name``, or a longer one where a user's name is in the way."""
    taken = {*update.inputs, *update.outputs, *update.temporaries}
    return free_name(update, name + "_") if name in taken else name


# What the kernel must compute.


def wide_of(dtype: DType) -> np.dtype:
    """Return the dtype of references: wider floats, and the same integers, which wrap around."""
    return dtype.wide if dtype.is_float else dtype.numpy


def known_values(p: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the assignments read at every point, and bounds on errors of that."""
    update = update_of(p)
    wide = wide_of(p.dtype)
    numbers = {n: np.asarray(given[n], p.dtype.numpy).astype(wide) for n in p.scalars}
    numbers |= {n: numbers[n].reshape(()) for n in p.on_device}
    values: dict[str, Any] = {name: numbers[name] for name in update.scalars}
    errors: dict[str, Any] = {}
    shape = grid_shape(update, given)
    for letter, axis in update.indices.items():
        values[letter] = np.indices(shape, wide, sparse=True)[axis]
    rules = rules_of(p, update)
    both = [reach(p, update, inside) for inside in (False, True)]
    ends = [tuple(map(max, one, other)) for one, other in zip(*both, strict=True)]
    for array in {name for name, _ in update.accesses.values()}:
        x = np.asarray(given[array]).astype(p.dtype.numpy).astype(wide)
        error = np.zeros_like(x)
        margins = ends if array in rules else [(0, 0)] * p.dim
        if array in rules:
            x, error = padded(x, rules[array], ends, spacing_of(p), numbers, p.dtype.eps)
        for name, (owner, offset) in update.accesses.items():
            if owner == array:
                window = tuple(
                    slice(low + step, low + step + n)
                    for n, step, (low, _) in zip(shape, offset, margins, strict=True)
                )
                values[name] = x[window]
                if error[window].any():
                    errors[name] = error[window]
    return values, errors


def grid_shape(update: Update, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the arrays of the grid."""
    return np.shape(given[next(iter(update.arrays))])


def computed(p: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the points that the kernel writes."""
    margins = reach(p, update_of(p), inside=True)
    return tuple(
        slice(low, max(low, n - high)) for n, (low, high) in zip(shape, margins, strict=True)
    )
