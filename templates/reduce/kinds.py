"""What a reduction computes: its kind, its dtypes, and what it knows on the way."""

from typing import Any

import numpy as np

from tikgen import DType

COMPENSABLE = ("sum", "mean", "norm2", "dot")
ACCUMULATED = (*COMPENSABLE, "prod")


def family(p: Any) -> str:
    """Return what kind of state the reduction keeps."""
    if p.op in ACCUMULATED:
        return "total"
    return {"min": "extreme", "max": "extreme", "any": "truth", "all": "truth"}.get(p.op, "place")


def is_whole(p: Any) -> bool:
    """Tell whether everything is reduced to one number."""
    return p.axis is None or p.dim == 1


def kept_axes(p: Any) -> list[int]:
    """Return the axes that the result keeps."""
    return [axis for axis in range(p.dim) if axis != p.axis and not is_whole(p)]


def work_dtype(p: Any) -> DType:
    """Return the dtype in which the kernel computes."""
    return DType.parse(total_numpy(p)) if p.op in ACCUMULATED else p.dtype.working


def total_numpy(p: Any) -> np.dtype:
    """Return the dtype of totals, as NumPy's."""
    if p.accumulator is not None:
        return p.accumulator.numpy
    if p.dtype.is_float:
        return np.result_type(p.dtype.numpy, np.float32)
    return np.dtype(np.float64) if p.op in ("mean", "norm2") else p.dtype.wide


def wide_numpy(p: Any) -> np.dtype:
    """Return the dtype in which the reference adds up: integers must wrap around alike."""
    total = total_numpy(p)
    if total.kind != "f":
        return total
    return np.dtype(np.longdouble if total.itemsize == 8 else np.float64)


def result_dtype(p: Any) -> DType:
    """Return the dtype of `out`."""
    if p.op in ACCUMULATED:
        return work_dtype(p)
    return p.dtype if p.op in ("min", "max") else DType.i32


def accuracy(p: Any) -> str:
    """Return how sums are computed: "fast" where none is rounded, as of small integers in f64."""
    bits = p.dtype.bits * (2 if p.op in ("dot", "norm2") else 1)
    is_wide = p.op in ACCUMULATED and total_numpy(p).itemsize == 8
    is_exact = not p.dtype.is_float and is_wide and bits <= 16
    return "fast" if is_exact else str(p.accuracy)


def known_dtypes(p: Any, places: bool = False) -> dict[str, DType]:
    """Return the variables, with their dtypes, that hold what a reduction knows."""
    if family(p) == "total":
        work = work_dtype(p)
        more = {"lost": work} if accuracy(p) == "kahan" else {}
        if p.op == "prod" and work.is_float:
            # The bits of the least and the greatest factor: a 0 beside finite ones gives 0, even
            # where others make up an infinity before they meet it.
            names = ("least", "greatest") if p.dtype.is_float else ("least",)
            more = dict.fromkeys(names, DType(f"i{work.bits}"))
        return {"total": work, **more}
    if family(p) == "truth":
        return {"found": DType.i32}
    work = work_dtype(p)
    # Floats are compared by their ranks, which are integers.
    best = DType(f"i{work.bits}") if work.is_float else work
    return {"best": best, "at": DType.i32} if places and family(p) == "place" else {"best": best}


def neutral(p: Any) -> dict[str, int]:
    """Return what each variable holds before the first element."""
    best = known_dtypes(p).get("best", DType.i32)
    return {
        "best": int(best.highest if p.op.endswith("min") else best.lowest),
        "at": int(DType.i32.highest),
        "found": int(p.op == "all"),
        "total": int(p.op == "prod"),
        "lost": 0,
        "least": int(DType(f"i{work_dtype(p).bits}").highest),
        "greatest": 0,
    }
