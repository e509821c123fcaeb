"""Elementwise arithmetic on arrays and scalars."""

import itertools
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    Cost,
    DType,
    Identifier,
    Invalid,
    ProblemModel,
    Program,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.errors import ExpressionError
from tikgen.expression import lacks_on_vulkan

# Names that are scalars unless `scalars` says otherwise.
USUAL_SCALARS = ("a", "b", "c", "alpha", "beta", "gamma", "scale")
KERNEL_NAME = "map"
MOST_ARGUMENTS = 64
MOST_ARRAYS_ON_VULKAN = 32


class Map(Template):
    """Arithmetic at every element, such as `z = a*x + y`.

    `expr` holds one expression, whose value goes to `out`, or assignments parted by semicolons,
    each to an array. The kernel takes the names that are read, in order of first use, and then
    the arrays that are only written. Without `scalars` the names a, b, c, alpha, beta, gamma and
    scale are scalars and all others arrays. An output may be the very array that is an input.

    Taichi's fast math assumes that there is neither NaN nor infinity: with one of them as an
    operand, comparisons, `sign` and what cancels, such as `x - x` or `x/x`, may differ from NumPy.
    `isnan(x)` is right always, so that `where(isnan(x), 0, x)` is; `min` and `max` of a NaN and a
    number give the number, as np.fmin and np.fmax do.
    """

    class Problem(ProblemModel):
        expr: Program = parameter("what to compute, such as 'z = a*x + y; w = sqrt(z)'")
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
        loop: Literal["rows", "points"] = parameter(
            "parallel over rows, each walked in order, or over every point", "rows"
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter("elements a step along a row", 4)
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            return {"unroll": 4 if p.expr.operations <= 64 else 1}
        return {"loop": "points", "unroll": 1, "block_dim": 128}

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.loop == "points" and s.unroll != 1:
            raise Invalid("unroll", "must be 1 where loop='points', which has no rows to unroll")
        if s.unroll > 1 and s.unroll * p.expr.operations > 1024:
            raise Invalid(
                "unroll",
                f"times the {p.expr.operations} operations of expr exceeds 1024, "
                "which would take long to compile",
            )

    def unsupported(self, p: Any, arch: str) -> str | None:
        if arch != "vulkan":
            return None
        arrays = sum(isinstance(argument, Array) for argument in self.arguments(p))
        if arrays > MOST_ARRAYS_ON_VULKAN:
            return f"it takes {arrays} arrays, and at most {MOST_ARRAYS_ON_VULKAN} work; split expr"
        return lacks_on_vulkan(p.expr.functions, p.dtype)

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
        for name in p.expr.outputs:
            if name not in p.expr.inputs:
                found.append(Array(name, p.dtype, shape, role="out", inplace=True))
        return tuple(found)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        written = p.expr.outputs[0]
        indices = index_names(p)
        bounds = [(name, "0", f"{written}.shape[{axis}]") for axis, name in enumerate(indices)]
        return {
            "bounds": bounds,
            "helpers": p.expr.helpers(p.dtype),
            "statements": lambda index: _statements(p, index),
        }

    @staticmethod
    def reference(p: Any, *arguments: Any) -> Any:
        working = p.dtype.wide if p.dtype.is_float else p.dtype.numpy
        given = {
            name: np.asarray(value, p.dtype.numpy).astype(working)
            for name, value in zip(p.expr.names, arguments, strict=True)
        }
        values = p.expr.evaluate(**given)
        results = tuple(values[name] for name in p.expr.names if name in p.expr.outputs)
        return results if len(results) > 1 else results[0]

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # Running error analysis: nothing is assumed about the expression.
        return p.expr.error_bound(inputs, p.dtype)

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        points = int(np.prod([sizes[f"n{axis}"] for axis in range(p.dim)]))
        arrays = [argument for argument in self.arguments(p) if isinstance(argument, Array)]
        moved = sum(2 if array.role == "inout" else 1 for array in arrays)
        return Cost(bytes=points * moved * p.dtype.bits // 8, flops=points * p.expr.operations)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        largest = {
            1: (1, 2, 5, 17, 64, 131, 1031),
            2: (1, 3, 8, 17, 37),
            3: (1, 2, 5, 9, 17),
            4: (1, 2, 3, 5, 7),
        }[p.dim]
        return {f"n{axis}": largest for axis in range(p.dim)}

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
                    "sign(x - y) * (x != y)",
                    "0 < x < y or not x == b",
                    "exp(-x*x) + sin(x) * cos(y)",
                    "sqrt(abs(x)) / (1 + y*y)",
                    "tanh(a*x) + atan2(y, x) + asin(x) - acos(y)",
                    "log(x*x + 0.5) + tan(x)",
                    "floor(4*x) + ceil(4*y) + round(8*x)",
                    "(x + 0.5)**y + (abs(y) + 3)**-2 + pi*e",
                    "j = i + k; i1 = i*k",
                )
            ),
            "scalars": st.none(),
        }


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


def _statements(p: Any, index: list[str]) -> str:
    """Return generated code that computes and stores every output of one element."""
    place = f"[{', '.join(index)}]"
    values = {name: name if is_scalar(p, name) else name + place for name in p.expr.inputs}
    values |= {name: name + place for name in p.expr.inputs if name in p.expr.outputs}
    if len(p.expr.assignments) == 1:
        ((name, expression),) = p.expr.assignments
        return f"{name}{place} = {expression.taichi(values, p.dtype)}"
    # Nothing is stored before everything is read: an output may be the array of an input.
    prefix = "new_"
    while any(name.startswith(prefix) for name in p.expr.names):
        prefix = "new_" + prefix
    lines = []
    for name, expression in p.expr.assignments:
        lines.append(f"{prefix}{name} = {expression.taichi(values, p.dtype)}")
        values[name] = prefix + name
    lines += [f"{name}{place} = {prefix}{name}" for name in p.expr.outputs]
    return "\n".join(lines)
