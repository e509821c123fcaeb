"""General matrix multiply."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
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
from tikgen.pipeline.loop_steps import looped, parallel, stepped
from tikgen.template.rules import GPUS, Not

from .on_cpu import on_cpu, space_on_cpu
from .on_gpu import on_gpu, space_on_gpu
from .panels import lies_in_rows

SHARED, OTHER = {"via": "shared"}, {"via": Not("shared")}
VECTORS = ("panels", "rows", "dots")
# Products that may stand in the unrolled code; 256 take some 5 s to compile on vulkan.
MOST_PRODUCTS = {"arrays": 128, "panels": 32, "rows": 32, "dots": 64, "shared": 256}
SHARED_BYTES = 48 * 1024


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
        via: Literal["arrays", "panels", "rows", "dots", "shared"] = parameter(
            "how A and B reach a thread: as they are; one of them in vectors, through a copy in "
            "panels or from its rows; both in vectors along the inner axis; or both through shared "
            "memory",
            "arrays",
            # A cpu has no memory that threads share, a GPU no registers indexed at run time.
            needs={VECTORS: {"arch": "cpu"}, "shared": {"arch": GPUS}},
        )
        vectors_of: Literal["b", "a"] = parameter(
            "the operand that is read in vectors; with 'a', a thread computes tile_m columns and "
            "tile_n rows",
            "b",
            only={"via": ("panels", "rows")},
        )
        order: Literal["down", "across"] = parameter(
            "how the tiles of C follow each other: down its columns, so that a panel stays in the "
            "cache, or across its rows, as C lies in memory",
            "down",
            only={"via": ("panels", "rows"), "vectors_of": "b"},
        )
        tile_m: Literal[1, 2, 4, 8, 16] = parameter(
            "rows of C that a thread computes",
            4,
            needs={(1, 2): {"via": Not("shared")}, 16: SHARED},
        )
        tile_n: Literal[1, 2, 4, 8, 16, 32, 64, 256] = parameter(
            "columns of C that a thread computes",
            4,
            needs={
                (1, 2): {"via": ("arrays", "dots")},
                4: {"via": ("arrays", "dots", "shared")},
                16: {"via": ("panels", "rows", "shared")},
                (32, 64): {"via": ("panels", "rows")},
                256: {"via": "rows"},
            },
        )
        unroll: Literal[1, 2, 4, 8] = parameter(
            "steps along k at a time; with via='dots', vectors of 64 bytes", 1
        )
        block_m: Literal[0, 16, 32, 64, 128, 256] = parameter(
            "rows of C that the threads of a block compute", 0, only=SHARED, needs={0: OTHER}
        )
        block_n: Literal[0, 16, 32, 64, 128, 256] = parameter(
            "columns of C that the threads of a block compute",
            0,
            only=SHARED,
            needs={0: OTHER},
        )
        block_k: Literal[0, 8, 16, 32] = parameter(
            "steps along k in shared memory at a time", 0, only=SHARED, needs={0: OTHER}
        )
        strip: Literal[1, 2, 4] = parameter(
            "neighbours among the rows and columns of a thread", 1, only=SHARED
        )
        split_k: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = parameter(
            "parts of the inner axis, which threads or blocks take by themselves",
            1,
            only={"via": Not("arrays")},
        )
        iterations: Literal[1, 8, 16, 32, 64] = parameter(
            "iterations of the parallel loop a tile, all but one of them empty: Taichi gives a "
            "thread 512 at least",
            1,
            only={"via": VECTORS, "serial": False},
        )
        serial: bool = parameter(
            "whether one thread does it all",
            False,
            only={**OTHER, "block_dim": 0, "arch": "cpu"},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0, only=OTHER
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            return on_cpu(p, sizes)
        return on_gpu(p, arch, sizes)

    def direct_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            return on_cpu(p, sizes, is_direct=True)
        return on_gpu(p, arch, sizes)

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if arch == "cpu":
            return space_on_cpu(p, sizes)
        return space_on_gpu(p, arch, sizes)

    def check(self, p: Any, s: Any, arch: str) -> None:
        in_vectors = s.via in ("panels", "rows")
        products = s.tile_m * s.unroll * (1 if in_vectors else s.tile_n)
        if products > MOST_PRODUCTS[s.via]:
            tile = s.tile_m if in_vectors else f"{s.tile_m} by {s.tile_n}"
            raise Invalid(
                "unroll",
                f"times the {tile} tile exceeds {MOST_PRODUCTS[s.via]} products, "
                "which would take long to compile",
            )
        if s.via == "shared":
            check_block(s, p.dtype.bits // 8)
        if s.via == "dots" and p.layout == "tn":
            raise Invalid("via", "cannot be 'dots' where layout='tn': no operand lies along k")
        if s.via == "rows" and not lies_in_rows(p.layout, s.vectors_of):
            stored = p.layout["ab".index(s.vectors_of)]
            raise Invalid(
                "via",
                f"cannot be 'rows' of {s.vectors_of}, which layout='{p.layout}' has stored "
                f"'{stored}': its rows lie along k; take 'dots' or 'panels'",
            )

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        partial = Array("partial", p.dtype, (s.split_k, "m", "n"), role="work")
        return (*copies(p, s), *((partial,) if s.split_k > 1 else ()))

    def unsupported(self, p: Any, arch: str) -> str | None:
        if arch != "vulkan" or p.epilogue is None:
            return None
        return lacks_on_vulkan(p.epilogue.folded(p.dtype).node.kinds, p.dtype)

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        return (
            Array("a", p.dtype, ("m", "k") if p.layout[0] == "n" else ("k", "m")),
            Array("b", p.dtype, ("k", "n") if p.layout[1] == "n" else ("n", "k")),
            Array("c", p.dtype, ("m", "n"), role="inout"),
            Scalar("alpha", p.dtype),
            Scalar("beta", p.dtype),
        )

    def size_symbols(self, p: Any) -> tuple[str, ...]:
        return ("m", "k", "n")  # As of A @ B, however they are stored.

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        threads_m, threads_n = s.block_m // s.tile_m, s.block_n // s.tile_n
        return {
            "threads_m": threads_m,
            "threads_n": threads_n,
            "threads": threads_m * threads_n,
            "a_transposed": p.layout[0] == "t",
            "b_transposed": p.layout[1] == "t",
            "lies_in_rows": lies_in_rows(p.layout, s.vectors_of),
            "lanes": lanes(p),
            "helpers": p.epilogue.helpers(p.dtype) if p.epilogue else "",
            "stored": p.epilogue.taichi({"v": "value"}, p.dtype) if p.epilogue else "value",
        }

    @staticmethod
    def reference(
        p: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: Any, beta: Any
    ) -> np.ndarray:
        value = linear_part(p, a, b, c, alpha, beta)
        return value if p.epilogue is None else p.epilogue.folded(p.dtype).evaluate(v=value)

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        if rng.random() < 0.5:
            return {}
        # Where beta is 0, what C holds must not matter.
        nothing = np.nan if p.dtype.is_float else p.dtype.highest
        return {"beta": 0, "c": np.full((sizes["m"], sizes["n"]), nothing, p.dtype.numpy)}

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        return {"product": {"alpha": 1, "beta": 0}}

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

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        if s.via in VECTORS:
            return 0  # For cpu, where loops have no limit.
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        if s.via == "arrays":
            tiles = ((m - 1) // s.tile_m + 1) * ((n - 1) // s.tile_n + 1)
            return parallel(tiles, stepped(k, s.unroll))
        blocks = ((m - 1) // s.block_m + 1) * ((n - 1) // s.block_n + 1)
        threads = s.block_m * s.block_n // (s.tile_m * s.tile_n)
        inner = looped(s.block_k // s.unroll)
        length = (k - 1) // (s.block_k * s.split_k) + 1
        most = parallel(s.split_k * blocks * threads, looped(length + 1, inner))
        return max(most, parallel(m * n, looped(s.split_k)) if s.split_k > 1 else 0)

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        after = 3 + (p.epilogue.node.operations if p.epilogue else 0)
        return sizes["m"] * sizes["n"] * (2 * sizes["k"] + int(after))

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("m", "n", "k"), (1, 2, 3, 8, 9, 17, 33, 65))

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if s.via not in VECTORS:
            return ()
        # Two steps of every part of the inner axis, a rest, and tiles over both edges.
        step = s.unroll * (lanes(p) if s.via == "dots" else 1)
        along = {"m": s.tile_m + 1, "n": s.tile_n + 1}
        if s.vectors_of == "a":
            along = {"m": s.tile_n + 1, "n": s.tile_m + 1}
        return ({**along, "k": (2 * step + 1) * s.split_k - 1},)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        texts = ("max(v, 0)", "v*v - v", "where(v < 1, -v, v // 2)", "tanh(v)", "v / (1 + exp(-v))")
        return {"epilogue": st.none() | st.sampled_from(texts)}


def lanes(p: Any) -> int:
    """Return how many elements a vector of 64 bytes has."""
    return 512 // int(p.dtype.bits)


def copies(p: Any, s: Any) -> tuple[Array, ...]:
    """Return the arrays to which an operand is copied."""
    if s.via == "panels":
        # One panel of k rows of tile_n elements after the other, the last one full as well.
        extent = "m" if s.vectors_of == "a" else "n"
        return (Array("panels", p.dtype, (f"{extent} + {s.tile_n - 1}", "k"), role="work"),)
    if s.via == "dots" and p.layout != "nt":
        return (Array("lines", p.dtype, ("m" if p.layout[0] == "t" else "n", "k"), role="work"),)
    return ()


def check_block(s: Any, size: int) -> None:
    """Raise Invalid where the threads of a block cannot share its tiles evenly, or at all."""
    threads = s.block_m * s.block_n // (s.tile_m * s.tile_n)
    if threads > 1024:
        raise Invalid("block_m", f"and what goes with it makes {threads} threads; at most 1024 fit")
    for name in ("block_m", "block_n"):
        extent = getattr(s, name)
        if threads % extent:
            raise Invalid(name, f"must divide the number of threads, {threads}; got {extent}")
        if extent * s.block_k % threads:
            raise Invalid(
                name, f"times block_k must be a multiple of the number of threads, {threads}"
            )
    memory = 2 * s.block_k * (s.block_m + s.block_n + 8) * size
    if memory > SHARED_BYTES:
        raise Invalid("block_k", f"makes tiles of {memory} bytes; at most {SHARED_BYTES} fit")


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
