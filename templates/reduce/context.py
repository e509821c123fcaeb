"""What the text of the template is told."""

from collections.abc import Mapping
from typing import Any

from tikgen import DType

from .kinds import accuracy, family, is_whole, kept_axes, known_dtypes, neutral, work_dtype
from .schedules import BLOCK, SEEK_BLOCK, TEAM_BLOCK

AXES = ("i", "j", "k")
# Where each chunk leaves what it knows; the place of what it found is its own number.
PARTIAL = {"best": "partial", "found": "partial", "total": "partial", "lost": "partial_lost"}
PARTIAL |= {"least": "partial_least", "greatest": "partial_greatest", "at": "partial_at"}
PLACE = {"argmin": {"at": "chunk"}, "argmax": {"at": "chunk"}}


def context(p: Any, s: Any) -> Mapping[str, Any]:
    """Return the names that the text uses."""
    extents = [f"x.shape[{axis}]" for axis in range(p.dim)]
    kept = ", ".join(AXES[axis] for axis in kept_axes(p))
    final = known_dtypes(p, places=True)
    known = known_dtypes(p) if is_whole(p) else final
    return {
        "p": p.model_copy(update={"accuracy": accuracy(p)}),
        "family": family(p),
        "whole": is_whole(p),
        "work": work_dtype(p),
        "order": "<" if p.op.endswith("min") else ">",
        "axes": list(AXES[: p.dim]),
        "extents": extents,
        "kept": [AXES[axis] for axis in kept_axes(p)],
        "kept_extents": [extents[axis] for axis in kept_axes(p)],
        "block_length": BLOCK if s.team == 1 else TEAM_BLOCK,
        "seek_length": SEEK_BLOCK,
        "state": known,
        "final_state": final,
        "best_only": {"best": final["best"]} if "best" in final else {},
        "neutral": neutral(p),
        "partial": PARTIAL,
        "left_by_chunk": {v: f"{PARTIAL[v]}[chunk]" for v in known} | PLACE.get(p.op, {}),
        "left_by_part": {v: f"{PARTIAL[v]}[part, {kept}]" for v in known},
        "held_by_other": lambda state: {v: f"shared_{v}[other]" for v in state},
        "element_form": element_form(p),
        "variable": next(iter(known)),
        "known_form": known_form(p),
        "kept_form": kept_form(p),
        "final_form": result_form(p).replace("{}", ""),
        "result_form": result_form(p),
    }


def element_form(p: Any) -> str:
    """Return generated code for what the reduction takes of elements {x} and {y}."""
    is_float = work_dtype(p).is_float
    if family(p) == "truth":
        return f"ti.cast({'magnitude({x})' if is_float else '{x}'} != 0, ti.i32)"
    if family(p) != "total":
        return "rank({x})" if is_float else "{x}"
    return {"dot": "{x} * {y}", "norm2": "{x} * {x}"}.get(p.op, "{x}")


def known_form(p: Any) -> str:
    """Return generated code for what is known, read from an element {} of `out`."""
    if family(p) != "extreme":
        return "{}"
    work = work_dtype(p)
    held = "{}" if p.dtype is work else f"ti.cast({{}}, {work.taichi})"
    return f"rank({held})" if work.is_float else held


def kept_form(p: Any) -> str:
    """Return generated code for what an element of `out` holds between two rows."""
    return "total" if family(p) == "total" else result_form(p).replace("{}", "")


def result_form(p: Any) -> str:
    """Return generated code for the result; {} stands for what picks an element of vectors."""
    work = work_dtype(p)
    if p.op in ("min", "max"):
        best = "at_rank(best{})" if work.is_float else "best{}"
        return best if p.dtype is work else f"ti.cast({best}, {p.dtype.taichi})"
    if p.op == "mean":
        return f"total{{}} / ti.cast({{count}}, {work.taichi})"
    if p.op == "prod" and work.is_float:
        infinity = 0x7F800000 if work.bits == 32 else 0x7FF0000000000000
        bits = DType(f"i{work.bits}")
        is_zero = f"least{{}} == {bits.literal(0)}"
        if p.dtype.is_float:
            is_zero = f"({is_zero}) & (greatest{{}} < {bits.literal(infinity)})"
        return f"ti.select({is_zero}, {work.literal(0)}, total{{}})"
    total = "ti.sqrt(total{})" if p.op == "norm2" else "total{}"
    return {"place": "at{}", "truth": "found{}"}.get(family(p), total)
