"""Running sums, products, minima and maxima."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import Array, Cost, DType, ProblemModel, ScheduleModel, Template, parameter

UFUNCS = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}


class Scan(Template):
    """Running sum, product, minimum or maximum of a vector.

    Inclusive, `out[i]` combines `x[0]` to `x[i]`, as `np.cumsum(x, dtype=x.dtype)`. Exclusive, it
    combines what lies before `x[i]`; `out[0]` is then the identity: 0, 1, and for `min` and `max`
    the greatest and the least value of the dtype, infinite for floats. `out` may be `x` itself.

    Integers wrap around. Floats are combined in their own dtype, f16 in f32, with an error of at
    most `n eps sum|x|`; NaN propagates as in NumPy. The order of operations depends on length and
    schedule only, so that equal launches give equal bits. Method: chunks are reduced, their totals
    scanned, and then every chunk is scanned from the total before it (Blelloch 1990).
    """

    class Problem(ProblemModel):
        op: Literal["sum", "prod", "min", "max"] = parameter("what to compute", "sum")
        mode: Literal["inclusive", "exclusive"] = parameter(
            "whether element i counts in result i", "inclusive"
        )
        dtype: DType = parameter("element type", DType.f32)

    class Schedule(ScheduleModel):
        chunks: int = parameter("parts that are scanned in parallel", 64, ge=1, le=16384)
        unroll: Literal[1, 2, 4, 8, 16] = parameter("elements a step", 4)
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        # LLVM unrolls the plain loop better: 1.6 times as fast as unroll=4 on 16 M f32.
        return {"unroll": 1} if arch == "cpu" else {"chunks": 4096, "block_dim": 64}

    def arguments(self, p: Any) -> tuple[Array, ...]:
        return (
            Array("x", p.dtype, ("n0",)),
            Array("out", p.dtype, ("n0",), role="out", inplace=True),
        )

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        return (Array("totals", p.dtype.working, (s.chunks,), role="work"),)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        work = p.dtype.working
        is_work = p.dtype is work
        return {
            "work": work,
            "identity": work.literal(identity(p)),
            "element": lambda i: f"x[{i}]" if is_work else f"ti.cast(x[{i}], {work.taichi})",
            "result": "running" if is_work else f"ti.cast(running, {p.dtype.taichi})",
        }

    @staticmethod
    def reference(p: Any, x: np.ndarray, out: np.ndarray) -> np.ndarray:
        # Integers wrap around: modulo 2**64 first, and then modulo what their dtype holds.
        with np.errstate(all="ignore"):
            running = getattr(np, UFUNCS[p.op]).accumulate(x.astype(p.dtype.wide))
        if p.mode == "exclusive":
            running[1:] = running[:-1].copy()
            running[0] = identity(p)
        return running if p.dtype.is_float else running.astype(p.dtype.numpy)

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        if p.op in ("min", "max") or not p.dtype.is_float:
            return {"out": 0}
        work = np.result_type(p.dtype.numpy, np.float32)
        eps, tiny = float(np.finfo(work).eps), float(np.finfo(work).tiny)
        x = np.abs(inputs["x"].astype(p.dtype.wide))
        terms = np.arange(1, x.size + 1)
        if p.mode == "exclusive":
            x = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
        size = np.cumsum(x) if p.op == "sum" else np.abs(expected["out"])
        return {"out": terms * (eps * size + tiny)}

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        if p.op != "prod" or not p.dtype.is_float:
            return {}
        # Near 1, so that long products neither overflow nor vanish.
        spread = 0.05 if p.dtype.value == "f16" else 0.5
        n = sizes["n0"]
        x = rng.choice((-1.0, 1.0), n) * 2.0 ** rng.uniform(-spread, spread, n)
        return {"x": x.astype(p.dtype.numpy)}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        return Cost(bytes=2 * sizes["n0"] * (p.dtype.bits // 8), flops=sizes["n0"])

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return {"n0": (1, 2, 7, 63, 64, 65, 131, 1009, 4099)}

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {"chunks": st.sampled_from((1, 2, 7, 64, 1024))}


def identity(p: Any) -> int | float:
    """Return what leaves every value as it is."""
    return {"sum": 0, "prod": 1, "min": p.dtype.highest, "max": p.dtype.lowest}[p.op]
