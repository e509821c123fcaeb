"""Elementwise arithmetic on arrays and scalars."""

import itertools
import math
import re
from collections.abc import Callable, Mapping
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
from tikgen.expression import PARTIAL, Reducing, lacks_on_vulkan
from tikgen.expression.helpers import definition
from tikgen.expression.reductions import reduced, reduced_error
from tikgen.pipeline.loop_steps import box, looped, parallel, steps_of_points
from tikgen.template.arguments import positive_values
from tikgen.template.rules import Not
from tikgen.template.totals import (
    MOST_PARTS,
    OWN_OF_TOTALS,
    Total,
    partials_of,
    results_of,
    totals_of,
)

# Names that are scalars unless `scalars` says otherwise.
USUAL_SCALARS = ("a", "b", "c", "alpha", "beta", "gamma", "scale")
KERNEL_NAME = "map"
MOST_ARGUMENTS = 64
MOST_ARRAYS_ON_VULKAN = 32
# What LLVM calls a function for, an element at a time.
TRANSCENDENTAL = {"acos", "asin", "atan2", "cos", "exp", "log", "pow", "sin", "tan", "tanh"}
CHUNKS = (256, 512, 1024, 2048, 4096, 8192, 16384)
CHUNKS_A_TASK = 512
# Reductions: most chunks, the length of those of one thread alone, and sums side by side, of which
# LLVM unrolls 32 too early to vectorize them: x, r and r*r of 8 M took 1.5 times as long.
MOST_CHUNKS, SERIAL_CHUNK, LANES = 16384, 4096, 64
OWN_OF_CHUNKS = re.compile(r"first|start|stop|step|lane|buffer_\w+")


class Map(Template):
    """Arithmetic at every element, such as `z = a*x + y`.

    `expr` holds one expression, whose value goes to `out`, or assignments, each to an array, with
    a semicolon or a line break between them. Within parentheses lines may break anywhere. Without
    `scalars` the names a, b, c, alpha, beta, gamma and scale are scalars and all others arrays.

    The kernel takes the names that are read, in order of first use, and then the arrays that are
    only written: `z = a*x + y` takes a, x, y, z, and `z = y + a*x` takes y, a, x, z. Pass them by
    name, as in `kernel(a=2, x=x, y=y, z=z)`, and the order does not matter.

    At every element the assignments are done in order, and a name that was assigned stands for
    its new value from there on. All inputs of an element are read before its first output is
    written, and all its outputs are written together at the end. So an output may be the very
    array that is an input, `x = y; y = x` makes both arrays what y was, and `u = y; y = x; x = u`
    swaps them. No element sees what was computed for another one.

    `rr = sum(r*r)`, `max(e)` and `min(e)` of one expression are reductions over all elements, in
    the same pass; a text may have no others. The result is an array of one element, and nothing in
    the text can read it. Its dtype is that of the elements, but f32 for f16, and i32 for integers
    of 8 and 16 bits. The order of operations depends on sizes and schedule only, so that equal
    launches give equal bits. NaN wins `max` and `min` of one expression.

    An f16 is stored as such and computed in f32: every assignment is rounded to f16 once. What
    is computed from literals alone is computed once, in the same dtype. Integers wrap around.
    Floats have NumPy's `//` and `%`, exactly, whatever the size of the quotient; unless they divide
    by a power of two, they take a loop at every element, and `loop='flat'` is not to be had.

    Taichi's fast math assumes that there is neither NaN nor infinity: with one of them as an
    operand, comparisons, `sign` and what cancels, such as `x - x` or `x/x`, may differ from NumPy,
    and so may the sign of a zero. `isnan(x)` is right always, so that `where(isnan(x), 0, x)` is;
    `min` and `max` of a NaN and a number give the number, as np.fmin and np.fmax do. On Vulkan
    `sin`, `cos` and `tan` of an f32 beyond 2**22 have no right digits.
    """

    class Problem(ProblemModel):
        expr: Reducing = parameter("what to compute, such as 'z = a*x + y; w = sqrt(z)'")
        dim: int = parameter("number of axes of every array", 1, ge=1, le=4)
        dtype: DType = parameter("type of every element and scalar", DType.f32)
        scalars: tuple[Identifier, ...] | None = parameter(
            "names that are scalars; without it a, b, c, alpha, beta, gamma and scale", None
        )

        def check(self) -> None:
            try:
                self.expr.check(self.dtype)
            except ExpressionError as error:
                raise Invalid("expr", f"cannot be used: {error}") from None
            _check_reductions(self)
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
            needs={"flat": {"arch": "cpu"}},
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter(
            "elements a step", 4, only={"loop": "rows"}, neutral=1
        )
        chunk: Literal[256, 512, 1024, 2048, 4096, 8192, 16384] = parameter(
            "elements of a chunk; a thread takes 512 chunks at a time",
            2048,
            only={"loop": "flat", "serial": False},
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

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        costly = bool(TRANSCENDENTAL & p.expr.functions)
        if p.expr.reductions and (arch != "cpu" or takes_turns(p)):
            return {"loop": "points", "unroll": 1, "block_dim": 256 if arch != "cpu" else 0}
        if arch != "cpu":
            # An H200 copied 128 M f32 on cuda in 265 us (torch 256) by 8448 blocks of 512 threads
            # with 16 items, in 279 with 8 items of 256, 527 with one; on Vulkan in 293 with the 8.
            # On an H100 a*x + y of 700 to 140,000 f32 took 1.3 to 1.6 us of the device with 4 items
            # of 512, and 7.6 to 10 by 8448 blocks; of 4.4 M 18 and 26, of 100 M 654 and 646.
            is_large = sizes is not None and math.prod(sizes.values()) >= 2**26
            most = (16 if is_large else 4) if arch == "cuda" else 8
            items = most if p.expr.operations <= 16 else 4 if p.expr.operations <= 64 else 1
            schedule = {"loop": "blocks", "unroll": 1, "items": items, "block_dim": 256}
            if arch == "cuda":
                schedule |= {"block_dim": 512, "blocks": 8448 if is_large else 0}
            return schedule
        # On 2 cores, 16 M f32, a*x + y took 1.04 times as long as in Numba, 1.01 in place, a
        # polynomial of degree 5 0.97, a root and a quotient, which Taichi computes exactly, 1.24.
        if takes_turns(p):
            return {"loop": "rows", "unroll": 1}
        schedule = {"loop": "flat", "unroll": 1}
        if sizes is None:
            return schedule
        count = math.prod(sizes.values())
        # Waking the other threads takes 25 us. One thread took 0.27, 0.38 and 0.79 of Numba's time
        # for 1,000, 10,000 and 100,000 elements of a*x + y; two threads 1.01 for 1 M.
        if count * max(1, p.expr.operations) <= (2**14 if costly else 2**20):
            return {**schedule, "serial": True}
        # Eight tasks or more; the largest chunks that leave so many, for they cost least. Every
        # second length is enough: each is compiled, and neighbours take the same within noise.
        usual = CHUNKS[1::2]
        fitting = [c for c in usual if count >= 8 * CHUNKS_A_TASK * c]
        return {**schedule, "chunk": max(fitting, default=usual[0])}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if p.expr.reductions and (arch != "cpu" or takes_turns(p)):
            return {"loop": ("points",), "block_dim": (128, 256, 512) if arch != "cpu" else (0,)}
        if arch == "cpu":
            return {
                "loop": ("rows",) if takes_turns(p) else ("flat", "rows"),
                "unroll": (1, 2, 4, 8, 16),
                "chunk": CHUNKS,
                "serial": (False, True),
            }
        return {
            "loop": ("blocks", "points"),
            "unroll": (1,),
            "items": (1, 2, 4, 8, 16),
            "blocks": (0, 1056, 2112, 4224, 8448),
            "block_dim": (128, 256, 512),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.loop == "flat" and takes_turns(p):
            raise Invalid("loop", "cannot be 'flat' where expr divides floats with // or %")
        if p.expr.reductions and s.loop not in ("flat", "points"):
            raise Invalid("loop", "takes 'flat' or 'points' where expr has reductions")
        if p.expr.reductions and s.block_dim and arch == "cpu":
            raise Invalid("block_dim", "must be 0 on cpu where expr has reductions")
        for name in ("unroll", "items"):
            copies = getattr(s, name)
            if copies > 1 and copies * p.expr.operations > 1024:
                raise Invalid(
                    name,
                    f"times the {p.expr.operations} operations of expr exceeds 1024, "
                    "which would take long to compile",
                )

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        program = Reducing.parse(drawn["expr"])
        if program.reductions and drawn.get("loop") in ("rows", "blocks"):
            drawn["loop"] = "points"
        if drawn.get("scalars"):
            read = [name for name in program.inputs if name not in program.outputs]
            drawn["scalars"] = tuple(name for name in drawn["scalars"] if name in read)
        return drawn

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
        found: list[Array | Scalar] = []
        for name in p.expr.inputs:
            if name in p.expr.outputs:
                found.append(Array(name, p.dtype, shape, role="inout", inplace=True))
            elif is_scalar(p, name):
                found.append(Scalar(name, p.dtype))
            else:
                found.append(Array(name, p.dtype, shape))
        for name in p.expr.written:
            if name not in p.expr.inputs:
                found.append(Array(name, p.dtype, shape, role="out", inplace=True))
        return (*found, *results_of(reductions_of(p)))

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        parts = MOST_CHUNKS if s.loop == "flat" else MOST_PARTS
        return partials_of(reductions_of(p), (parts,))

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        extents = [f"{leader(p)}.shape[{axis}]" for axis in range(p.dim)]
        zeros = "0, " * (p.dim - 1)
        totals = reductions_of(p)
        passed = [a for a in self.arguments(p) if a.name not in p.expr.reductions]
        return {
            "bounds": [
                (name, "0", extent) for name, extent in zip(index_names(p), extents, strict=True)
            ],
            "count": " * ".join(extents),
            "helpers": _helpers(p),
            "totals": totals,
            "row_arguments": (*passed, *self.workspace(p, s)),
            "written": [a for a in passed if isinstance(a, Array) and a.written],
            "zeros": zeros,
            "lanes": LANES,
            "most_chunks": MOST_CHUNKS,
            "most_parts": MOST_PARTS,
            "serial_chunk": SERIAL_CHUNK,
            "run": lambda place, target, of: _run(p, zeros + place, target, of),
            "function": free_name(p, "chunk"),
            "at": lambda index: _statements(p, [", ".join(index)]),
            "flat": lambda places: _statements(p, [zeros + place for place in places]),
        }

    @staticmethod
    def reference(p: Any, *arguments: Any) -> Any:
        working = p.dtype.wide if p.dtype.is_float else p.dtype.numpy
        given = {
            name: np.asarray(value, p.dtype.numpy).astype(working)
            for name, value in zip(argument_names(p), arguments, strict=True)
        }
        values = p.expr.folded(p.dtype).evaluate(**given)
        results = [values[name] for name in argument_names(p) if name in p.expr.written]
        for name, operation in p.expr.reductions.items():
            terms = np.broadcast_to(values[name], grid_shape(p, given))
            # Integers are added up in 32 bits at least.
            is_short = not p.dtype.is_float and p.dtype.bits < 32
            results.append(reduced(operation, terms.astype(np.int32) if is_short else terms))
        return tuple(results) if len(results) > 1 else results[0]

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # Running error analysis: nothing is assumed about the expression.
        allowed = p.expr.error_bound(inputs, p.dtype)
        if p.expr.reductions:
            given = {n: np.asarray(inputs[n], p.dtype.wide) for n in p.expr.inputs}
            terms = p.expr.folded(p.dtype).evaluate(**given)
            masses = p.expr.masses(given, p.dtype)
            shape = grid_shape(p, inputs)
            for name, operation in p.expr.reductions.items():
                each = (np.broadcast_to(a[name], shape) for a in (terms, allowed, masses))
                allowed[name] = reduced_error(operation, *each, p.dtype)
        return {name: allowed[name] for name in expected}

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        # Fast math may take NaN and infinity for anything, but maxima and minima rank them.
        is_ranked = p.dtype.is_float and p.expr.reductions and p.expr.functions <= {"abs", "neg"}
        if not is_ranked or "sum" in p.expr.reductions.values() or rng.random() < 0.5:
            return {}
        shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
        found = {}
        for name in (name for name in p.expr.inputs if not is_scalar(p, name)):
            special = rng.choice([-np.inf, np.inf, np.nan], rng.integers(1, 4))
            chosen = rng.random(shape) < rng.choice([0.01, 0.5, 1.0])
            x = np.where(chosen, rng.choice(special, shape), rng.uniform(-1, 1, shape))
            found[name] = x.astype(p.dtype.numpy)
        return found

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        extents = [sizes[f"n{axis}"] for axis in range(p.dim)]
        if p.expr.reductions:
            return steps_of_points(math.prod(extents), MOST_PARTS, s.block_dim or 1)
        if s.loop != "blocks":
            return box(extents, s.loop == "rows", s.unroll)
        pieces = (math.prod(extents) - 1) // (s.block_dim * s.items) + 1
        rest = looped(s.items)
        if s.blocks:
            return looped((pieces - 1) // s.blocks + 1, rest)
        return parallel(pieces * s.block_dim, rest)

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        if not (p.dtype.is_float and PARTIAL & p.expr.functions):
            return {"uniform": {}}
        return {"positive": positive_values(self.arguments(p), sizes, rng)}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * int(p.expr.operations)

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if not p.expr.reductions or s.loop != "flat":
            return ()
        # Chunks for two steps of what joins them, and a rest.
        chunk = SERIAL_CHUNK if s.serial else s.chunk
        return ({f"n{axis}": 18 * chunk + 5 if axis == 0 else 1 for axis in range(p.dim)},)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

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
                    "u = x**2 + y**3; v = -u",
                    "sign(x - y) + (x != y)",
                    "0 < x < y or not x == b",
                    "exp(-x*x) + sin(x) * cos(y)",
                    "sqrt(abs(x)) / (1 + y*y)",
                    "tanh(a*x) + atan2(y, x) + asin(x) - acos(y)",
                    "log(x*x + 0.5) + tan(x)",
                    "floor(4*x) + ceil(4*y) + round(2.5*x)",
                    "(x + 0.5)**y + (abs(y) + 3)**-2 + pi*e",
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
        }


def takes_turns(p: Any) -> bool:
    """Tell whether the code of an element holds a loop, which real functions cannot call."""
    return "while " in p.expr.helpers(p.dtype)


def is_scalar(p: Any, name: str) -> bool:
    """Tell whether an input that is never assigned is a scalar."""
    return name in (USUAL_SCALARS if p.scalars is None else p.scalars)


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


def reductions_of(p: Any) -> tuple[Total, ...]:
    """Return the reductions of a program."""
    return totals_of(p.expr.reductions, p.dtype.working)


def argument_names(p: Any) -> tuple[str, ...]:
    """Return what a caller passes, in order."""
    return tuple(dict.fromkeys((*p.expr.inputs, *p.expr.written, *p.expr.reductions)))


def leader(p: Any) -> str:
    """Return the name of an array that holds all elements."""
    arrays = (*p.expr.written, *(n for n in p.expr.inputs if not is_scalar(p, n)))
    return str(arrays[0]) if arrays else ""


def grid_shape(p: Any, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the arrays."""
    return np.shape(given[leader(p)])


def _check_reductions(p: Any) -> None:
    if not p.expr.reductions:
        return
    if not leader(p):
        raise Invalid("expr", "has reductions, and reads and writes no array")
    for name in p.expr.names:
        if OWN_OF_TOTALS.fullmatch(name) or OWN_OF_CHUNKS.fullmatch(name):
            raise Invalid("expr", f"uses the name {name!r}, which generated code has")


def _helpers(p: Any) -> str:
    """Return the functions that generated code calls."""
    found = p.expr.helpers(p.dtype)
    if p.expr.reductions and p.dtype is DType.f16 and "def widened(" not in found:
        found = "\n\n\n".join(filter(None, (definition("widened", DType.f32), found)))
    return str(found)


def _assignments(p: Any, place: str, target: Callable[[str], str], of: str = "") -> list[str]:
    """Return generated code that computes every output of one element, each into its target.

    What reductions take goes into the element `of` of their variables.
    """
    values = {name: name if is_scalar(p, name) else f"{name}[{place}]" for name in p.expr.inputs}
    values |= {name: f"{name}[{place}]" for name in p.expr.inputs if name in p.expr.outputs}
    totals = {total.name: total for total in reductions_of(p)}
    lines = []
    for name, expression in p.expr.folded(p.dtype).assignments:
        if name in totals:
            term = expression.term(values, p.dtype)
            is_short = p.dtype.computed is not totals[name].dtype
            term = f"ti.cast({term}, {totals[name].dtype.taichi})" if is_short else term
            lines.append(totals[name].take(term, of))
            continue
        lines.append(f"{target(name)} = {expression.taichi(values, p.dtype)}")
        values[name] = target(name)
    return lines


def _run(p: Any, place: str, target: str, of: str) -> str:
    """Return generated code for element `of` of a run, each output at once in its target.

    Everything is read before: an output may be the array of an input.
    """
    names = {name: fresh_prefix(p) + name for name in p.expr.written}
    lines = _assignments(p, place, names.__getitem__, of)
    return "\n".join([*lines, *(f"{target % name} = {names[name]}" for name in names)])


def _statements(p: Any, places: list[str]) -> str:
    """Return generated code that computes and stores every output of some elements."""
    if len(places) == len(p.expr.assignments) == 1:
        return _assignments(p, places[0], lambda name: f"{name}[{places[0]}]")[0]
    # Nothing is stored before everything is read: an output may be the array of an input.
    lines, stores = [], []
    for number, place in enumerate(places):
        suffix = f"_{number}" if len(places) > 1 else ""
        names = {name: fresh_prefix(p) + name + suffix for name in p.expr.written}
        lines += _assignments(p, place, names.__getitem__)
        stores += [f"{name}[{place}] = {value}" for name, value in names.items()]
    return "\n".join(lines + stores)
