"""Elementwise arithmetic on arrays and scalars."""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    Identifier,
    Invalid,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.errors import ExpressionError
from tikgen.expression import PARTIAL, Reducing, apart, lacks_on_vulkan
from tikgen.expression.reductions import extreme_hint
from tikgen.expression.tree import CONSTANTS
from tikgen.expression.vector_math import in_vectors
from tikgen.template.arguments import positive_values
from tikgen.template.grid_use import (
    WHAT_A_PART_IS,
    ArrayUse,
    GridUse,
    Part,
    check_part,
    ghosts_of,
)
from tikgen.template.rules import GPUS, Not
from tikgen.template.totals import (
    MOST_PARTS,
    OWN_OF_TOTALS,
    WHAT_PARTS_ARE,
    Parts,
    partials_of,
    results_of,
)

from . import schedules
from .program import is_scalar, leader, reductions_of
from .reference import inputs, reference, tolerance
from .rows import rows_of
from .statements import free_name, helpers, index_names, run, statements

KERNEL_NAME = "map"
MOST_ARGUMENTS = 64
MOST_ARRAYS_ON_VULKAN = 32
OWN_OF_CHUNKS = re.compile(r"first|start|stop|step|lane|buffer_\w+")


class Map(Template):
    """Arithmetic at every element, such as `z = a*x + y`.

    `expr` holds one expression, whose value goes to `out`, or assignments, each to an array, with
    a semicolon or a line break between them. Lines may break within parentheses and behind an
    operator. `f(a, b) = a*b` defines a function, which is written out where it is called. Without
    `scalars` the names a, b, c, alpha, beta, gamma and scale are scalars and all
    others arrays.

    Expressions contain `+ - * / // % **`, comparisons, `and or not`, `a if c else b`, the numbers
    `pi` and `e` where the text assigns no such name, and the functions `abs acos acosh asin asinh
    atan atan2 atanh ceil clip cos cosh exp expm1 floor hypot isnan log log10 log1p log2 max min pow
    round sign sin sinh sqrt tan tanh where`. `clip(x, lo, hi)` is `min(max(x, lo), hi)`, and
    `log1p`, `expm1`, `asinh` and `atanh` keep all digits of a small argument.

    Those of integers contain the operators on bits `& | ^ ~ << >>` too, with the precedence that
    Python gives them. Shifts of signed integers to the right keep the sign. A literal count lies
    within the width of the dtype; with any other count that does not, all bits are shifted out, as
    in NumPy: the result is 0, and for a negative number to the right -1.

    The kernel takes the names that are read, in order of first use, and then the arrays that are
    only written: `z = a*x + y` takes a, x, y, z, and `z = y + a*x` takes y, a, x, z. Pass them by
    name, as in `kernel(a=2, x=x, y=y, z=z)`, and the order does not matter.

    At every element the assignments are done in order, and a name that was assigned stands for
    its new value from there on. All inputs of an element are read before its first output is
    written, and all its outputs are written together at the end. So an output may be the very
    array that is an input, `x = y; y = x` makes both arrays what y was, and `u = y; y = x; x = u`
    swaps them. No element sees what was computed for another one. A value that nothing
    reads before its name is assigned again is refused.

    `rr = sum(r*r)`, `max(e)` and `min(e)` of one expression are reductions over all elements, in
    the same pass; a text may have no others. The result is an array of one element, and nothing in
    the text can read it. Its dtype is that of the elements, but f32 for f16, and i32 for integers
    of 8 and 16 bits. The order of operations depends on sizes and schedule only, so that equal
    launches give equal bits. NaN wins `max` and `min` of one expression.

    An f16 is stored as such and computed in f32: every assignment is rounded to f16 once. What
    is computed from literals alone is computed once, in the same dtype. Integers wrap around.
    Floats have NumPy's `%`, exactly, whatever the size of the quotient, and its `//`: quotients of
    more than 2**19 in f32, and 2**48 in f64, are rounded as other numbers are, and may be off by
    one. Unless they divide by a power of two, both take a loop at every element, and `loop='flat'`
    cannot be used.

    Taichi's fast math takes `(x + y) - y` for `x`, and assumes that there is neither NaN nor
    infinity: with one of them as an operand, comparisons, `sign`, powers, `0*x` and what cancels,
    such as `x - x` or `x/x`, may differ from NumPy, and so may the sign of a zero and of what is
    divided by it. `isnan(x)` is right always, so that `where(isnan(x), 0, x)` is;
    `min` and `max` of a NaN and a number give the number, as np.fmin and np.fmax do. On Vulkan
    `sin`, `cos` and `tan` of an f32 beyond 2**22 have no right digits.

    Arrays may hold a part of a larger grid, as `part` says with four numbers for each axis: how
    many ghost points there are below and above, the index of the first element on the whole grid,
    and the extent of that. Rows 10 to 19 of 40, between one ghost point below and one above, are an
    array of 12 rows and the numbers `(1, 1, 9, 40)`: its first element is row 9. Ghost points are
    left alone, and no reduction takes them.
    """

    class Problem(ProblemModel):
        expr: Reducing = parameter("what to compute, such as 'z = a*x + y; w = sqrt(z)'")
        dim: int = parameter("number of axes of every array", 1, ge=1, le=4)
        dtype: DType = parameter("type of every element and scalar", DType.f32)
        scalars: tuple[Identifier, ...] | None = parameter(
            "names that are scalars; without it a, b, c, alpha, beta, gamma and scale", None
        )
        part: Part | None = parameter(WHAT_A_PART_IS, None)

        def check(self) -> None:
            try:
                self.expr.check(self.dtype)
            except ExpressionError as error:
                raise Invalid("expr", f"cannot be used: {error}") from None
            check_reductions(self)
            check_part(self.part, self.dim)
            if KERNEL_NAME in self.expr.names:
                raise Invalid("expr", f"uses the name {KERNEL_NAME!r}, which the kernel has")
            if len(self.expr.names) > MOST_ARGUMENTS:
                raise Invalid(
                    "expr",
                    f"uses {len(self.expr.names)} names; a kernel takes at most {MOST_ARGUMENTS}",
                )
            for name in self.scalars or ():
                if name in self.expr.outputs:
                    raise Invalid("scalars", f"names {name}, which is assigned: outputs are arrays")
                if name in CONSTANTS:
                    problem = f"names {name}, which is {CONSTANTS[name]:.6g} in every expression"
                    raise Invalid("scalars", problem)
                if name not in self.expr.inputs:
                    raise Invalid(
                        "scalars",
                        f"names {name}, which the expression does not read; "
                        f"it reads {', '.join(self.expr.inputs) or 'nothing'}",
                    )

    class Schedule(ScheduleModel):
        loop: Literal["rows", "points", "flat", "blocks"] = parameter(
            "rows: parallel over rows, each walked in order; points: over every point; flat: over "
            "chunks of all elements in order, each by a real function; blocks: over blocks of "
            "threads that read neighbours",
            "rows",
            needs={"flat": {"arch": "cpu"}, "blocks": {"part": None}},
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter(
            "elements a step", 4, only={"loop": "rows"}, neutral=1
        )
        chunk: Literal[64, 256, 512, 1024, 2048, 4096, 8192, 16384] = parameter(
            "elements of a chunk; a thread takes 512 chunks at a time",
            2048,
            only=[
                {"loop": "flat", "serial": False, "part": None},
                {"loop": "flat", "serial": False, "dim": 1},
            ],
        )
        serial: bool = parameter("whether one thread does it all", False, only={"loop": "flat"})
        items: Literal[1, 2, 4, 8, 16] = parameter("elements a thread", 1, only={"loop": "blocks"})
        blocks: Literal[0, 2, 1056, 2112, 4224, 8448] = parameter(
            "blocks that take turns, 0 for as many as there is work for",
            0,
            only={"loop": "blocks"},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice",
            0,
            only={"loop": Not("flat")},
            needs={0: {"loop": Not("blocks")}},
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

    def hint(self, p: Any, name: str, value: object) -> str:
        return extreme_hint(p.expr.text, name, value) or super().hint(p, name, value)

    def unsupported(self, p: Any, arch: str) -> str | None:
        if arch != "vulkan":
            return None
        arrays = sum(isinstance(argument, Array) for argument in self.arguments(p))
        arrays += len(p.expr.reductions)
        if arrays > MOST_ARRAYS_ON_VULKAN:
            return f"it takes {arrays} arrays, and at most {MOST_ARRAYS_ON_VULKAN} work; split expr"
        return lacks_on_vulkan(p.expr.folded(p.dtype).functions, p.dtype)

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        shape = tuple(f"n{axis}" for axis in range(p.dim))
        every = p.part is None
        found: list[Array | Scalar] = []
        for name in p.expr.inputs:
            if name in p.expr.outputs:
                found.append(Array(name, p.dtype, shape, role="inout", inplace=True))
            elif is_scalar(p, name):
                found.append(Scalar(name, p.dtype))
            else:
                found.append(Array(name, p.dtype, shape))
        for name in p.expr.written:
            if name in p.expr.terms:
                found.append(Array(name, p.dtype.working, shape, role="out", covered=every))
            elif name not in p.expr.inputs:
                found.append(Array(name, p.dtype, shape, role="out", inplace=True, covered=every))
        return (*found, *results_of(reductions_of(p)))

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        parts = schedules.MOST_CHUNKS if s.loop == "flat" else s.parts
        return partials_of(reductions_of(p), (parts,))

    def set_apart(self, p: Any) -> tuple[Any, tuple[str, ...]]:
        own = (OWN_OF_TOTALS, OWN_OF_CHUNKS) if p.expr.reductions else ()
        return apart.set_apart(p, ("expr", "scalars"), own)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        extents = [f"{leader(p)}.shape[{axis}]" for axis in range(p.dim)]
        zeros = "0, " * (p.dim - 1)
        totals = reductions_of(p)
        margins = zip(extents, ghosts_of(p.part, p.dim), strict=True)
        inner = [
            (str(low), f"{extent} - {high}" if high else extent) for extent, (low, high) in margins
        ]
        passed = [a for a in self.arguments(p) if a.name not in p.expr.reductions]
        is_row = s.loop == "flat"
        in_loop = functools.partial(in_vectors, dtype=p.dtype) if is_row else str
        return {
            "bounds": [(name, *both) for name, both in zip(index_names(p), inner, strict=True)],
            "count": " * ".join(extents),
            "helpers": helpers(p, is_row),
            "totals": totals,
            "row_arguments": (*passed, *self.workspace(p, s)),
            "written": [a for a in passed if isinstance(a, Array) and a.written],
            "zeros": zeros,
            "lanes": schedules.LANES,
            "most_chunks": schedules.MOST_CHUNKS,
            "rows": rows_of(p, extents) if p.part else None,
            "grain_of_rows": schedules.GRAIN_OF_ROWS,
            "serial_chunk": schedules.SERIAL_CHUNK,
            "run": lambda place, target, of: in_loop(run(p, zeros + place, target, of)),
            "function": free_name(p, "chunk"),
            "at": lambda index: statements(p, [", ".join(index)]),
            "flat": lambda places: in_loop(statements(p, [zeros + place for place in places])),
        }

    def grid_use(self, p: Any) -> GridUse:
        arrays = [a for a in self.arguments(p) if isinstance(a, Array)]
        nothing, nowhere = ((0, 0),) * p.dim, (frozenset[bool](),) * p.dim
        return GridUse(
            p.dim,
            {
                a.name: ArrayUse(0, nothing, False, nowhere, a.written, a.role == "out")
                for a in arrays
                if a.name not in p.expr.reductions
            },
            {},
            dict(p.expr.reductions),
            {"expr": p.expr.with_terms()},
            indexed=frozenset(),
        )

    reference = staticmethod(reference)
    tolerance = staticmethod(tolerance)
    inputs = staticmethod(inputs)

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        if not (p.dtype.is_float and PARTIAL & p.expr.functions):
            return {"uniform": {}}
        return {"positive": positive_values(self.arguments(p), sizes, rng)}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * int(p.expr.operations)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return schedules.sizes(p)

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        return schedules.full_sizes(p, s)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        from tikgen.verification.equation_texts import in_proportion

        ghosts = st.integers(0, 4)
        own = st.tuples(ghosts, ghosts, st.integers(0, 9), st.integers(1, 99))
        return {
            "expr": st.sampled_from(
                (
                    "a*x + y",
                    "y = a*x + y",
                    "x - y",
                    "z = x*y; w = z - x; z = z + w",
                    "where(x > y, x, a)",
                    "min(x, y) + max(x, b) - abs(x)",
                    "x // y + x % y",
                    "x // 3 - y % 5",
                    "(x & 7 | ~y) ^ (x << 3) + (y >> 2)",
                    "z = x ^ (x << a); w = z >> y",
                    "u = x**2 + y**3; v = -u",
                    "sign(x - y) + (x != y)",
                    "0 < x < y or not x == b",
                    "exp(-x*x) + sin(x) * cos(y)",
                    "sqrt(abs(x)) / (1 + y*y)",
                    "tanh(a*x) + atan2(y, x) + asin(x) - acos(y)",
                    "atan(9*x) + sinh(a*x) - cosh(7*y)",
                    "log(x*x + 0.5) + tan(x)",
                    "log1p(x*x) + expm1(y) - asinh(9*x) + hypot(x, y)",
                    "acosh(1 + x*x) + atanh(0.9*y) + log2(x*x + 0.5) - log10(y*y + 2)",
                    "clip(x, -a, y) - clip(3*y, 1, 2)",
                    "floor(4*x) + ceil(4*y) + round(2.5*x)",
                    "(x + 0.5)**y + (abs(y) + 3)**-2 + pi*e - 8.5",
                    "j = i - k; i1 = i*k",
                    "y = a*x + y; s = sum(y*y)",
                    "s = sum(x*y); h = max(x - y); n = min(abs(x) + y)",
                    "z = x // y; s = sum(z)",
                    "h = max(x); n = min(-abs(y)); l = min(x)",
                )
            ),
            # No array here is so long that more than 2 blocks take several turns.
            "blocks": st.sampled_from((0, 2, 2, 2, 1056)),
            "scalars": st.sampled_from((None, (), ("x",), ("a", "y"))),
            "part": in_proportion((3, st.none()), (1, st.tuples(own, own, own, own))),
        }

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        program = Reducing.parse(drawn["expr"])
        if program.reductions and drawn.get("loop") in ("rows", "blocks"):
            drawn["loop"] = "points"
        if not program.reductions:
            drawn["parts"] = MOST_PARTS
        if drawn.get("part"):
            drawn["part"] = drawn["part"][: drawn["dim"]]
        if drawn.get("scalars"):
            read = [name for name in program.inputs if name not in program.outputs]
            drawn["scalars"] = tuple(name for name in drawn["scalars"] if name in read)
        return drawn


def check_reductions(p: Any) -> None:
    if not p.expr.reductions:
        return
    if not leader(p):
        scalars = ", ".join(name for name in p.expr.inputs if is_scalar(p, name))
        usual = "; scalars=() makes arrays of them" if p.scalars is None and scalars else ""
        told = f"; scalars are {scalars}{usual}" if scalars else ""
        raise Invalid("expr", f"has reductions, and reads and writes no array{told}")
