"""General matrix multiply."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    Cost,
    DType,
    Expression,
    Invalid,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.errors import ExpressionError
from tikgen.expression import lacks_on_vulkan


class Gemm(Template):
    """Matrix product, C = alpha * op(A) @ op(B) + beta * C.

    As in BLAS, C is not read where beta is 0, so that it may hold anything. With `epilogue` each
    value of that sum goes through an expression on its way to C.
    """

    class Problem(ProblemModel):
        layout: Literal["nn", "nt", "tn", "tt"] = parameter(
            "for A and then B, n: stored as it enters the product, t: stored transposed", "nn"
        )
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64", "i32"))
        epilogue: Expression | None = parameter(
            "what to store for the value v, such as 'max(v, 0)'; v itself without it", None
        )

        def check(self) -> None:
            if self.epilogue is None:
                return
            try:
                self.epilogue.require(("v",))
                self.epilogue.check(self.dtype)
            except ExpressionError as error:
                raise Invalid("epilogue", f"cannot be used: {error}") from None
            if not self.epilogue.names:
                raise Invalid("epilogue", f"must depend on v; got '{self.epilogue}'")

    class Schedule(ScheduleModel):
        tile_m: Literal[1, 2, 4, 8] = parameter("rows of C that a thread keeps in registers", 4)
        tile_n: Literal[1, 2, 4, 8] = parameter("columns of C that a thread keeps in registers", 4)
        unroll: Literal[1, 2, 4, 8] = parameter("steps along k at a time", 1)
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return {} if arch == "cpu" else {"block_dim": 128}

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.tile_m * s.tile_n * s.unroll > 128:
            raise Invalid(
                "unroll",
                f"times the {s.tile_m} by {s.tile_n} tile exceeds 128 products, "
                "which would take long to compile",
            )

    def unsupported(self, p: Any, arch: str) -> str | None:
        if arch != "vulkan" or p.epilogue is None:
            return None
        return lacks_on_vulkan(p.epilogue.node.kinds, p.dtype)

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        return (
            Array("a", p.dtype, ("m", "k") if p.layout[0] == "n" else ("k", "m")),
            Array("b", p.dtype, ("k", "n") if p.layout[1] == "n" else ("n", "k")),
            Array("c", p.dtype, ("m", "n"), role="inout"),
            Scalar("alpha", p.dtype),
            Scalar("beta", p.dtype),
        )

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        return {
            "a_transposed": p.layout[0] == "t",
            "b_transposed": p.layout[1] == "t",
            "helpers": p.epilogue.helpers(p.dtype) if p.epilogue else "",
            "stored": p.epilogue.taichi({"v": "value"}, p.dtype) if p.epilogue else "value",
        }

    @staticmethod
    def reference(
        p: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: Any, beta: Any
    ) -> np.ndarray:
        value = linear_part(p, a, b, c, alpha, beta)
        return value if p.epilogue is None else p.epilogue.evaluate(v=value)

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        if rng.random() < 0.5:
            return {}
        # Where beta is 0, what C holds must not matter.
        nothing = np.nan if p.dtype.is_float else p.dtype.highest
        return {"beta": 0, "c": np.full((sizes["m"], sizes["n"]), nothing, p.dtype.numpy)}

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # A sum of k products is off by at most k eps sum |a b| (Higham 2002, section 3.1);
        # alpha, beta and the last sum add a rounding each.
        if not p.dtype.is_float:
            return {"c": 0}
        sizes = {name: np.abs(value) for name, value in inputs.items()}
        inner = inputs["a"].shape[1 if p.layout[0] == "n" else 0]
        error = (inner + 4) * p.dtype.eps * linear_part(p, **sizes)
        if p.epilogue is None:
            return {"c": error}
        value = linear_part(p, **inputs)
        return {"c": p.epilogue.error_bound({"v": value}, p.dtype, {"v": error})}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        after = 3 + (p.epilogue.node.operations if p.epilogue else 0)
        return Cost(
            bytes=(m * k + k * n + 2 * m * n) * p.dtype.bits // 8, flops=m * n * (2 * k + after)
        )

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("m", "n", "k"), (1, 2, 3, 8, 17, 37))

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        texts = ("max(v, 0)", "v*v - v", "where(v < 1, -v, v // 2)", "tanh(v)", "v / (1 + exp(-v))")
        return {"epilogue": st.none() | st.sampled_from(texts)}


def linear_part(
    p: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: Any, beta: Any
) -> np.ndarray:
    """Return alpha * op(A) @ op(B) + beta * C: wide floats, or integers that wrap around."""
    kind = p.dtype.wide if p.dtype.is_float else p.dtype.numpy
    left, right = (array.astype(kind) for array in (a, b))
    left = left.T if p.layout[0] == "t" else left
    right = right.T if p.layout[1] == "t" else right
    alpha, beta = (np.asarray(s, p.dtype.numpy).astype(kind) for s in (alpha, beta))
    value = alpha * (left @ right)
    return value if beta == 0 else value + beta * c.astype(kind)
