"""Equations over fields on a regular grid, fused into one kernel."""

import functools
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
from tikgen.expression.components import (
    argument_of,
    by_component,
    component_of,
    part_of,
    vector_of,
)
from tikgen.expression.helpers import definition
from tikgen.expression.layout import broken
from tikgen.expression.reductions import reduced, reduced_error
from tikgen.expression.spelling import shown
from tikgen.pipeline.jinja_text import without_marks
from tikgen.pipeline.loop_steps import parallel, steps_of_points
from tikgen.template.arguments import positive_values
from tikgen.template.base import SIZES
from tikgen.template.boundaries import (
    ELEMENTS,
    MIRRORS,
    Boundary,
    check_boundary,
    faces_in,
    is_by_field,
    mirrors_in,
    padded,
    rule_in_code,
    rules_in,
    sides_of,
    with_constants,
)
from tikgen.template.layers import (
    check_layers,
    faded_code,
    layer_errors,
    layers_in,
    near_code,
    with_layers,
)
from tikgen.template.parameters import FieldName
from tikgen.template.totals import (
    MOST_PARTS,
    OWN_OF_TOTALS,
    partials_of,
    results_of,
    totals_of,
)
from tikgen.template.vectors import (
    Layout,
    blocks_before,
    check_arguments,
    check_vectors,
    element_code,
    held_arrays,
    names_in_code,
)

Place = Literal["centre", "face x", "face y", "face z", "edge x", "edge y", "edge z", "corner"]
Where = Place | Literal["faces", "edges"]

MOST_ARGUMENTS = 64
MOST_ARRAYS_ON_VULKAN = 32
MOST_OPERATIONS = 1500
# Strips of a line, of which each leaves what it knows of a reduction.
MOST_STRIPS = 16384
# Of equations that stand in four loops, as in the real function.
MOST_IN_ROWS = 400
MOST_LONG_BUFFERS = 6
# What generated code calls its own values.
OWN = re.compile(
    r"(update|points|stop|row|plane|block|first|last|left|right|before|end|here|step|strip|turn|lane"
    r"|mirrored(_at_wall|_beyond)?|faded|(start|run|buffer)(_\w+)?)"
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
    (`("flux", g)`); g is a number, a scalar of the call, a constant, or the name of an array over
    the face, with an axis fewer than the field. Walls lie half a cell beyond the outermost
    centres: the mirror image about them (`symmetric`), that with a slope (`("wall_flux", g)`),
    that with the opposite sign (`antisymmetric`), about a value on the wall
    (`("wall_value", g)`). With `wall`, what lies between walls is symmetric, and what lies on
    walls, as `at` says, is antisymmetric; with `free_surface` it is the other way round. In a
    corner the rule of the last axis is applied to what the rules of the others give.

    Waves fade away in a layer of some points inside of a side that is absorbing, as
    `tikgen.absorbing(width, strength, beyond, order)` says.

    Where the array `mask` is not 0, points are left alone: the next value of a field is its value
    there, and any other output keeps what it is.

    `vectors` names fields of 2 to 32 components: `v.x`, or `f.3` and `f'.3` of its next value. A
    block `each q in 9:` repeats its lines for `q` = 0 to 8, `sum(f.q for q in 9)` adds, and
    `v' = v + dt*grad(p)` assigns all components. Constants may be lists: `w.q`, and neighbours such
    as `f.q[-cx.q, -cy.q]`. `layout` says whether an array has the components first or last, or
    each component is an array of its own. Components of an output in place or without a prime
    that nothing assigns keep their value.

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
        vectors: dict[Identifier, int] | None = parameter(
            "number of components of each field that is a vector, 2 to 32", None
        )
        layout: Layout = parameter(
            "the axis of an array that counts components, or an array for each of them", "first"
        )
        at: dict[FieldName, Where] | None = parameter(
            "where fields lie on a staggered grid; others lie at the centre", None
        )
        types: dict[Identifier, DType] | None = parameter("types of arrays that differ", None)
        outputs: tuple[Identifier, ...] | None = parameter(
            "names without a prime that are written; without it those that nothing reads", None
        )

        def check(self) -> None:
            _check_grid(self)
            check_vectors(self)
            try:
                update = update_of(self)
                update.assignments.check(self.dtype)
            except ExpressionError as error:
                raise Invalid("equations", f"cannot be used: {error}") from None
            _check_mask(self)
            _check_names(self, update)
            _check_types(self, update)
            fields = fields_of(update)
            rules = boundary_of(self)
            places = by_component(self.at, self.vectors or {})
            try:
                check_boundary(
                    *(rules, self.dim, self.dtype, update.arrays, fields, self.scalars), places
                )
                check_layers(rules, update.fields, self.dim, self.dtype)
            except Invalid as error:
                raise Invalid(error.parameter, shown(error.problem)) from None

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
        strips = {1: {"chunk": 1024}, 2: {}, 3: {"rows": 16}}[p.dim]
        update = update_of(p)
        if p.dim == 2 and update.reductions:
            # Joining lanes costs some: Gray-Scott with a sum took 1.14 of the time without it at
            # 1024^2 with one row a strip, 1.07 with two.
            strips = {"rows": 2, "iterations": 16}
        # Many buffers of 32 points do not fit the registers.
        points = 32 if len(update.outputs) <= MOST_LONG_BUFFERS else 16
        return {"loop": "function", "row_buffer": points, "iterations": 8, **strips}

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
        count = sum(isinstance(argument, Array) for argument in self.arguments(p))
        count += len(update.reductions)  # Each has a workspace.
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
        faces = faces_of(p)
        found: list[Array | Scalar] = []
        arrays = held_arrays(p, update.arrays)
        for name in argument_names(p):
            if name in update.reductions:
                continue
            if name in p.on_device:
                found.append(Array(name, p.dtype, (1,)))
                continue
            if name in p.scalars:
                found.append(Scalar(name, p.dtype))
                continue
            if name in faces:
                others = tuple(n for axis, n in enumerate(shape) if axis not in faces[name])
                found.append(Array(name, type_of(p, name), others or (1,)))
                continue
            held = arrays[name]
            found.append(
                Array(
                    name,
                    type_of(p, held.names[0]),
                    held.shape(shape),
                    role=held.role,
                    covered=(whole and held.is_whole) or held.role == "in",
                )
            )
        return (*found, *results_of(totals_of(update.reductions, p.dtype)))

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        kept = {1: (MOST_STRIPS,), 2: ("n0",), 3: ("n0", "n1")}
        shape = kept[p.dim] if s.loop == "function" else (MOST_PARTS,)
        return partials_of(totals_of(update_of(p).reductions, p.dtype), shape)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        update = update_of(p)
        held = held_arrays(p, update.arrays)
        arrays = [a for a in self.arguments(p) if a.name in held]
        names = index_names(p, update)
        first = arrays[0].name
        extents = [f"{first}.shape[{held[first].first_axis + axis}]" for axis in range(p.dim)]
        bounds = [
            (name, str(low), f"{extent} - {high}" if high else extent)
            for name, extent, (low, high) in zip(
                names, extents, reach(p, update, inside=True), strict=True
            )
        ]
        runs = runs_of(p, update)
        narrow = DType.f16 in (p.types or {}).values()
        helpers = [update.assignments.helpers(p.dtype)]
        if narrow and "def widened(" not in helpers[0]:
            helpers.append(definition("widened", DType.f32))
        margins = reach(p, update, inside=False)
        layered = layers_in(boundary_of(p), update.fields, p.dim)
        layers = {
            n: {a: found for a, found in layered.items() if found[0][-1] == n} for n in (1, 2)
        }
        totals = totals_of(update.reductions, p.dtype)
        element = "[0]" if s.loop == "function" else ""
        passed = [a for a in self.arguments(p) if a.name not in update.reductions]
        return {
            "bounds": bounds,
            "extents": tuple(extents),
            "leader": arrays[0].name,
            "outputs": [
                SimpleNamespace(name=name, dtype=type_of(p, name))
                for a in arrays
                for name in held[a.name].names
                if name in update.outputs
            ],
            "totals": totals,
            "row_arguments": (*passed, *self.workspace(p, s)),
            "partial_zeros": "0, " if p.dim == 3 else "",
            "most_strips": MOST_STRIPS,
            "most_parts": MOST_PARTS,
            "casts": {name: cast_of(type_of(p, name), p.dtype) for name in update.arrays},
            "identifiers": identifiers(p, update),
            "element_code": functools.partial(element_code, p.layout),
            "helpers": "\n\n\n".join(filter(None, helpers)),
            "function": "points",
            "margins": margins,
            "rules": {name: rules_in_code(p, update, name) for name in update.arrays},
            "mirrors": MIRRORS,
            "mirrors_used": mirrors_in(rules_of(p, update)),
            "is_inplace": any(a.role == "inout" for a in arrays),
            "is_inside": is_inside(names, extents, margins),
            "near": near_edge(p, update, names, extents),
            "runs": runs,
            "each_start": list({run.start: run for run in runs.values()}.values()),
            "each_run": list({r.name: r for (name, _), r in runs.items() if name}.values()),
            "centre": runs[None, (0,) * (p.dim - 1)],
            "equations": lambda read, target, index, of="", unless="", is_run=False: statements(
                *(p, read, target, index, None if is_run else extents, of or element, unless)
            ),
            "layers": layers,
            "near_layers": lambda order, index, sizes, count: near_code(
                [layer for found in layers[order].values() for layer in found], index, sizes, count
            ),
            "faded_run": lambda order, read, target, index, sizes: "\n".join(
                broken(f"{target(name)} = {damped_code(p, name, target(name), read, index, sizes)}")
                for name in layers[order]
            ),
        }

    @staticmethod
    def reference(p: Any, *arguments: Any) -> Any:
        update = update_of(p)
        names = argument_names(p)
        given = dict(zip(names, arguments, strict=True))
        values, _ = known_values(p, given)
        found = update.assignments.folded(p.dtype).evaluate(**values)
        found |= damped(p, found, given)
        results = []
        for name, held in written_arrays(p).items():
            result = {name: np.array(given[name], wide_of(p.dtype))}
            for each in held:
                part = part_of(result, each, p.layout)
                inner = computed(p, part.shape)
                part[inner] = np.broadcast_to(found[each], part.shape)[inner]
            results.append(result[name])
        shape = shape_of(p, update, given)
        for name, operation in update.reductions.items():
            terms = np.broadcast_to(found[name], shape)[computed(p, shape)]
            results.append(reduced(operation, terms))
        return tuple(results) if len(results) > 1 else results[0]

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        # Random numbers would leave hardly a point to compute.
        if p.mask is None:
            return {}
        stored = (p.types or {}).get(p.mask)
        shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
        return {p.mask: mask_of(shape, stored.numpy if stored else np.dtype(np.uint8), rng)}

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # Running error analysis: nothing is assumed about the equations.
        values, errors = known_values(p, inputs)
        update = update_of(p)
        bounds = update.assignments.error_bound(values, p.dtype, errors)
        layers = layers_in(boundary_of(p), update.fields, p.dim)
        new = {}
        if layers or update.reductions:
            new = update.assignments.folded(p.dtype).evaluate(**values)
        if layers:
            after = damped(p, new, inputs)
            places = {name: place_of(p, update.fields[name]) for name in layers}
            before = {name: part_of(inputs, name, p.layout) for name in layers}
            bounds |= layer_errors(bounds, new, after, layers, places, before, p.dtype.eps)
        allowed = {}
        for name, held in written_arrays(p).items():
            allowed[name] = np.zeros(np.shape(inputs[name]))
            for each in held:
                part = part_of(allowed, each, p.layout)
                inner = computed(p, part.shape)
                part[inner] = np.broadcast_to(bounds[each], part.shape)[inner]
        if update.reductions:
            masses = update.assignments.masses(values, p.dtype)
            shape = shape_of(p, update, inputs)
            inner = computed(p, shape)
            for name, operation in update.reductions.items():
                each = (np.broadcast_to(a[name], shape)[inner] for a in (new, bounds, masses))
                allowed[name] = reduced_error(operation, *each, p.dtype)
        return allowed

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        if s.loop == "points" and update_of(p).reductions:
            return steps_of_points(math.prod(sizes.values()), MOST_PARTS, s.block_dim or 1)
        return parallel(math.prod(sizes.values()))

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        # Few that leave hardly a point far from the edges, and more that leave some.
        update, found = update_of(p), {}
        both = (reach(p, update, inside) for inside in (True, False))
        for axis, (inside, outside) in enumerate(zip(*both, strict=True)):
            edge, most = sum(inside), max(sum(inside), sum(outside))
            usual = SIZES[p.dim - 1]
            own = {1, edge + 1, most, most + 1, *outside} | {edge + size for size in usual[1:]}
            found[f"n{axis}"] = tuple(sorted(own - {0}))
        return found

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if not update_of(p).reductions:
            return ()
        if s.loop == "points":  # As many parts as there may be, and longer ones.
            shape = {1: (140_009,), 2: (370, 379), 3: (53, 52, 51)}[p.dim]
        elif p.dim == 1 and s.chunk <= 4096:
            shape = (18 * s.chunk + 5,)  # Strips for two steps of what joins them, and a rest.
        elif p.dim == 2:
            shape = (18 * s.rows + 5, s.row_buffer + 15)
        else:
            return ()
        return ({f"n{axis}": extent for axis, extent in enumerate(shape)},)

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        mask = self.inputs(p, sizes, rng)
        if not (p.dtype.is_float and PARTIAL & update_of(p).assignments.functions):
            return {"uniform": mask}
        return {"positive": positive_values(self.arguments(p), sizes, rng) | mask}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * update_of(p).assignments.operations

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        from tikgen.verification.equation_texts import (
            boundaries,
            in_proportion,
            programs,
            staggered_programs,
        )
        from tikgen.verification.vector_texts import vector_programs

        step = st.sampled_from((1.0, 0.5, 0.3))
        stored = st.sampled_from(("f16", "i8", "f32", "u16", "f64", "i32"))
        small = st.sampled_from(("i8", "u8", "u16", "i32"))
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
                dict.fromkeys(("read", "written", "over_x"), stored) | {"solid": small}
            ),
            "outputs": st.none() | st.just(("r",)),
            "at": st.none(),
            "mask": st.none() | st.just("solid"),
        }

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        from tikgen.verification.equation_texts import (
            STAGGERED,
            fields_in,
            fitted_boundary,
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
        else:
            text = text_of(drawn["equations"], dim, dtype.is_float)
            names = set(re.findall(r"[A-Za-z_]\w*", text))
            if not drawn["vectors"]:
                drawn["layout"] = "first"
            if isinstance(drawn["equations"], str) and is_by_field(rules):
                rules = rules["u"]  # A user's text has fields of other names.
            fields, orders = fields_in(text), orders_of(text)
            boundary = fitted_boundary(rules, fields, dim, dtype.is_float, orders)
        read = names | {str(number) for _, number in rules_in(boundary)}
        faces = {name for name in read if name.startswith("over_")}
        constants = {n: v for n, v in (drawn["constants"] or {}).items() if n in read}
        types = fitted_types(drawn["types"], text, faces, drawn["mask"], dtype)
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


def update_of(p: Any, is_masked: bool = True) -> Update:
    """Return what the equations become on the grid of a problem."""
    return p.equations.on(
        dim=p.dim,
        order=p.order,
        spacing=spacing_of(p),
        scalars=p.scalars,
        constants=p.constants,
        at=p.at,
        outputs=p.outputs,
        mask=p.mask if is_masked else None,
        vectors=p.vectors,
    )


def shape_of(p: Any, update: Update, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the grid."""
    return part_of(given, next(iter(update.arrays)), p.layout).shape


def type_of(p: Any, name: str) -> DType:
    """Return the type of the array that holds an array or a component."""
    dtype: DType = (p.types or {}).get(vector_of(name), DType.u8 if name == p.mask else p.dtype)
    return dtype


def place_of(p: Any, field: str) -> str:
    """Return where a field lies."""
    return str(by_component(p.at, p.vectors or {}).get(field, "centre"))


def boundary_of(p: Any) -> Any:
    """Return the boundary, with numbers for constants, and rules for each component of a vector."""
    rules = by_component(p.boundary, p.vectors or {}) if is_by_field(p.boundary) else p.boundary
    numbers = {n: v for n, v in (p.constants or {}).items() if not isinstance(v, tuple)}
    return with_constants(rules, numbers)


def boundary_names(p: Any) -> tuple[str, ...]:
    """Return the scalars and the arrays over faces that boundary rules take."""
    names = [number for _, number in rules_in(boundary_of(p)) if isinstance(number, str)]
    return tuple(dict.fromkeys(names))


def faces_of(p: Any) -> dict[str, tuple[int, ...]]:
    """Return the axes of the faces over which arrays have values, by the name of the array."""
    return faces_in(boundary_of(p), p.dim, p.scalars)


def written_arrays(p: Any) -> dict[str, list[str]]:
    """Return what is written of each argument: its components, or itself."""
    found: dict[str, list[str]] = {}
    for name in update_of(p).outputs:
        found.setdefault(argument_of(name, p.layout)[0], []).append(name)
    return {name: found[name] for name in argument_names(p) if name in found}


def fields_of(update: Update) -> list[str]:
    """Return the arrays of which a neighbour is read."""
    return [name for name in update.arrays if any(map(any, update.offsets(name)))]


def rules_of(p: Any, update: Update) -> dict[str, list[tuple[Any, Any]]]:
    """Return the rules of each array of which a neighbour is read, a pair for each axis."""
    boundary = boundary_of(p)
    return {name: sides_of(boundary, name, p.dim, place_of(p, name)) for name in fields_of(update)}


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
    names = (*update.inputs, *boundary_names(p), *update.outputs, *update.reductions)
    return tuple(dict.fromkeys(argument_of(str(name), p.layout)[0] for name in names))


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
    for name in faces_of(p):
        if OWN.fullmatch(name) or name in update.temporaries:
            raise Invalid("boundary", f"takes {name!r}, a name that the equations or the code have")
    check_arguments(p, update)
    for name in (*argument_names(p), *identifiers(p, update).values()):
        if OWN.fullmatch(name) or (update.reductions and OWN_OF_TOTALS.fullmatch(name)):
            raise Invalid("equations", f"uses the name {name!r}, which generated code has")
    if not update.outputs and not update.reductions:
        raise Invalid("equations", "write no array")
    if not update.arrays:
        raise Invalid("equations", "read and write no array, so that there are no points")
    count = len({*argument_names(p), *p.scalars}) + len(update.reductions)
    if count > MOST_ARGUMENTS:
        raise Invalid("equations", f"use {count} names; a kernel takes at most {MOST_ARGUMENTS}")
    if update.assignments.operations > MOST_OPERATIONS:
        raise Invalid(
            "equations",
            f"take {update.assignments.operations} operations a point, more than "
            f"{MOST_OPERATIONS}, which would take long to compile",
        )
    for name in p.scalars:
        if name not in (*update.scalars, *boundary_names(p)):
            hint = near(name, map(shown, (*names, *faces_of(p))))
            raise Invalid("scalars", f"names {name}, which nothing reads.{hint}")
    for name in p.on_device:
        if name not in p.scalars:
            raise Invalid("on_device", f"names {name}, which is no scalar.{near(name, p.scalars)}")
    for kind, known in (("at", names), ("types", (*names, *faces_of(p)))):
        for name in getattr(p, kind) or ():
            options = (*known, *map(vector_of, known))
            if component_of(name, p.vectors or {}) not in options:
                hint = near(name, map(shown, options))
                raise Invalid(kind, f"names {name}, which is no array.{hint}")


def _check_mask(p: Any) -> None:
    if p.mask is None:
        return
    plain = update_of(p, is_masked=False)
    numbers = (*p.scalars, *(p.constants or {}), *plain.indices)
    arrays = {each for name in plain.arrays for each in (name, argument_of(name, p.layout)[0])}
    taken = (*arrays, *map(vector_of, arrays), *plain.temporaries, *numbers, *boundary_names(p))
    if p.mask in taken:
        raise Invalid("mask", f"is {p.mask}, which has a meaning already; name an array of its own")
    if OWN.fullmatch(p.mask):
        raise Invalid("mask", f"is {p.mask!r}, which generated code has")
    dtype = type_of(p, p.mask)
    if dtype.is_float or dtype.bits > 32:
        raise Invalid(
            "types", f"makes the mask {p.mask} {dtype}; it takes integers of 8 to 32 bits"
        )


def _check_types(p: Any, update: Update) -> None:
    roles = {**update.arrays, **dict.fromkeys(faces_of(p), "in")}
    for name, dtype in (p.types or {}).items():
        own = {role for n, role in roles.items() if vector_of(n) == name}
        if not own:
            raise Invalid("types", f"names {name}, which is no array")
        if dtype.is_float and not p.dtype.is_float:
            raise Invalid("types", f"makes {name} {dtype}, and {p.dtype} holds no fractions")
        if own != {"in"} and dtype.is_float != p.dtype.is_float:
            raise Invalid("types", f"makes {name} {dtype}, and what is written is {p.dtype}")
        if p.mask and own != {"in"} and dtype.bits > p.dtype.bits:
            raise Invalid(
                "types",
                f"makes {name} {dtype}, which cannot be kept exactly where all is computed in "
                f"{p.dtype}; take dtype='{dtype}'",
            )


# What the kernel's text holds.


def index_names(p: Any, update: Update) -> tuple[str, ...]:
    """Return the loop indices: i, j, k, or ii, jj, kk where a user's name is in the way."""
    taken = {*argument_names(p), *update.temporaries}
    letters: tuple[str, ...] = tuple("ijk")
    while taken & set(letters):
        letters = tuple(name + name[0] for name in letters)
    return letters[: p.dim]


def rules_in_code(p: Any, update: Update, name: str) -> list[tuple[SimpleNamespace, ...]]:
    """Return the rules of an array, with their numbers as generated code."""
    rules = rules_of(p, update).get(name, [(("interior", 0), ("interior", 0))] * p.dim)
    codes = {name: scalar_code(p, name) for name in p.scalars}
    for face in faces_of(p):
        codes[face] = cast_of(type_of(p, face), p.dtype).replace("%s", f"{face}[%s]")
    return [
        tuple(rule_in_code(rule, p.dtype, spacing, codes) for rule in pair)
        for pair, spacing in zip(rules, spacing_of(p), strict=True)
    ]


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
    starts: dict[Any, str] = {}
    known: dict[Any, SimpleNamespace] = {}
    found: dict[Any, Any] = {}
    own = [(name, (*centre, 0)) for name in (None, *update.outputs)]
    for name, (*steps, last) in [*own, *update.accesses.values()]:
        leading = tuple(steps)
        kinds = tuple(
            within(rules[name][axis][int(step > 0)][0]) if step else ""
            for axis, step in enumerate(leading)
        )
        if (leading, kinds) not in starts:
            suffix = "".join(f"_{'n' if step < 0 else ''}{abs(step)}" for step in leading)
            number = sum(other == leading for other, _ in starts)
            suffix = (suffix if any(leading) else "") + (f"_{kinds[-1]}" if number else "")
            starts[leading, kinds] = suffix
        suffix = starts[leading, kinds]
        # The components of a vector lie one behind the other: some blocks of points apart.
        blocks = blocks_before(name, p.layout) if name else 0
        run = known.setdefault(
            (blocks, leading, kinds),
            SimpleNamespace(
                name=f"run_c{blocks}{suffix}" if blocks else f"run{suffix}",
                start=f"start{suffix}",
                blocks=blocks,
                leading=leading,
                kinds=kinds,
                first=last,
            ),
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
    extents: list[str] | None,
    of: str = "",
    unless: str = "",
) -> str:
    """Return generated code that computes and stores all outputs at one point.

    Args:
        p: the problem.
        read: returns the code for the value of an array at an offset.
        target: returns the code for the element of an output.
        index: code for the index on each axis.
        extents: code for the extent of each axis; without it no absorbing layer is applied.
        of: code for the element of a reduction's variable.
        unless: code that says whether reductions have seen the point before.
    """
    update = update_of(p)
    layers = layers_in(boundary_of(p), update.fields, p.dim) if extents else {}
    totals = {total.name: total for total in totals_of(update.reductions, p.dtype)}
    folded = update.assignments.folded(p.dtype).assignments
    values = {name: scalar_code(p, name) for name in p.scalars}
    known = identifiers(p, update)
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
            dtype = type_of(p, name)
            if is_read:
                local = free_name(update, f"new_{known[name]}")
                lines.append(broken(f"{local} = {code}"))
                values[name] = code = local
            if name in layers and extents:
                local = free_name(update, f"faded_{known[name]}")
                lines.append(broken(f"{local} = {code}"))
                lines.append(f"if {near_code(layers[name], index, extents)}:")
                code = damped_code(p, name, local, read, index, extents, is_stored=False)
                lines += ("    " + line for line in broken(f"{local} = {code}").splitlines())
                code = local
            if dtype is not p.dtype:
                code = f"ti.cast({code}, {dtype.taichi})"
            lines.append(broken(f"{without_marks(target(name))} = {code}"))
        elif is_read:
            lines.append(broken(f"{known[name]} = {code}"))
            values[name] = known[name]
    return "\n".join(lines)


def damped_code(
    p: Any,
    name: str,
    value: str,
    read: Callable[[str, tuple[int, ...]], str],
    index: list[str],
    extents: list[str],
    is_stored: bool = True,
) -> str:
    """Return generated code for the new value of an array, with the damping of its layers.

    Args:
        p: the problem.
        name: the array.
        value: code of its new value.
        read: returns the code for the value of an array at an offset.
        index: code for the index on each axis.
        extents: code for the extent of each axis.
        is_stored: whether ``value`` and the result are of the type of the array.
    """
    update, centre = update_of(p), (0,) * p.dim
    field, stored = update.fields[name], type_of(p, name)
    layers = layers_in(boundary_of(p), update.fields, p.dim)[name]
    new = cast_of(stored, p.dtype) % without_marks(value) if is_stored else value
    before = without_marks(read(name, centre)) if layers[0][-1] == 2 else ""
    code = faded_code(layers, new, before, index, extents, place_of(p, field), p.dtype)
    if p.mask:
        is_set = f"{without_marks(read(p.mask, centre))} != {p.dtype.literal(0)}"
        code = f"ti.select({is_set}, {new}, {code})"
    return f"ti.cast({code}, {stored.taichi})" if is_stored and stored is not p.dtype else code


def identifiers(p: Any, update: Update) -> dict[str, str]:
    """Return what generated code calls each output and each temporary."""
    arguments = argument_names(p) if p.layout != "separate" else ()
    names = (*update.outputs, *update.temporaries)
    return names_in_code(names, (*update.inputs, *arguments))


def free_name(update: Update, name: str) -> str:
    """Return ``name``, or a longer one where a user's name is in the way."""
    taken = {*update.inputs, *update.outputs, *update.temporaries}
    return free_name(update, name + "_") if name in taken else name


# What the kernel must compute.


def mask_of(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Any:
    """Return a mask that is set at a quarter of the points, to the highest number or to 1."""
    highest = np.iinfo(dtype).max
    return rng.choice(np.array([0, 0, 0, 0, 0, 0, 1, highest], dtype), shape)


def wide_of(dtype: DType) -> np.dtype:
    """Return the dtype of references: wider floats, and the same integers, which wrap around."""
    return dtype.wide if dtype.is_float else dtype.numpy


def known_values(p: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the assignments read at every point, and bounds on errors of that."""
    update = update_of(p)
    wide = wide_of(p.dtype)
    numbers = {n: np.asarray(given[n], p.dtype.numpy).astype(wide) for n in p.scalars}
    numbers |= {n: numbers[n].reshape(()) for n in p.on_device}
    numbers |= {n: np.asarray(given[n]).astype(p.dtype.numpy).astype(wide) for n in faces_of(p)}
    values: dict[str, Any] = {name: numbers[name] for name in update.scalars}
    errors: dict[str, Any] = {}
    shape = shape_of(p, update, given)
    for letter, axis in update.indices.items():
        values[letter] = np.indices(shape, wide, sparse=True)[axis]
    rules = rules_of(p, update)
    both = [reach(p, update, inside) for inside in (False, True)]
    ends = [tuple(map(max, one, other)) for one, other in zip(*both, strict=True)]
    for array in {name for name, _ in update.accesses.values()}:
        x = part_of(given, array, p.layout).astype(p.dtype.numpy).astype(wide)
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


def damped(p: Any, new: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new values of arrays that layers damp."""
    update = update_of(p)
    layers = layers_in(boundary_of(p), update.fields, p.dim)
    places = {name: place_of(p, field) for name, field in update.fields.items()}
    before = {name: part_of(given, name, p.layout) for name in layers}
    mask = None if p.mask is None else np.asarray(given[p.mask])
    return with_layers(new, layers, places, before, mask)


def computed(p: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the points that the kernel writes."""
    margins = reach(p, update_of(p), inside=True)
    return tuple(
        slice(low, max(low, n - high)) for n, (low, high) in zip(shape, margins, strict=True)
    )
