"""One rendered file a template, kept in golden/, shows what a change does to the text.

After a change that is meant, run ``TIKGEN_UPDATE_GOLDEN=1 pytest tests/templates`` and
review the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import tikgen

GOLDEN = Path(__file__).parent / "golden"
RING = {
    "handler": "total = total + x; count = n // 2",
    "inputs": {"x": "f32", "n": "i16"},
    "outputs": {"total": "f32", "count": "i16"},
}
PERIODIC = {"dim": 2, "boundary": "periodic", "scalars": ("a",)}
SIDES = {"dim": 2, "scalars": ("a",), "boundary": {"x": ("value", "a"), "y": "reflect"}}
EDGES = {
    "dim": 1,
    "scalars": ("a",),
    "mask": "solid",
    "boundary": {"x-": ("value", "inflow"), "x+": ("absorbing", 20, 0.1, 1, "wall")},
}
STREAMED = "each q in f: f'.q = f.q[-c.q, 0] + a*sum(f.r for r in f)"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "stencil_interior": ("stencil", {"dim": 3, "order": 4}),
    "stencil_field": ("stencil", {"dim": 3, "storage": "field", "unroll": 2}),
    "stencil_periodic_update": ("stencil", {"dim": 2, "boundary": "periodic", "update": True}),
    "map": ("map", {"expr": "z = a*x + y; w = where(z > 0, sqrt(z), 0)", "dim": 2, "unroll": 2}),
    "reduce_sum": ("reduce", {"op": "sum", "dim": 1}),
    "reduce_argmin_axis": ("reduce", {"op": "argmin", "dim": 3, "axis": 1}),
    "reduce_max_axis": ("reduce", {"op": "max", "dim": 3, "axis": 1}),
    "reduce_slabs": ("reduce", {"op": "mean", "dim": 3, "axis": 0, "slab": 64}),
    "reduce_kahan": ("reduce", {"op": "sum", "dim": 1, "accuracy": "kahan"}),
    "scan": ("scan", {"op": "sum"}),
    "transpose": ("transpose", {"perm": (1, 0)}),
    "gemm": ("gemm", {"layout": "nt", "epilogue": "max(v, 0)"}),
    "spmv_csr": ("spmv", {"format": "csr"}),
    "spmv_ell": ("spmv", {"format": "ell"}),
    "histogram": ("histogram", {"bins": 16}),
    "ring": ("ring", {**RING, "state": ("total",)}),
    "update": ("update", {"equations": "r = u*v**2; u' = u + a*(lap(u) - r)", **PERIODIC}),
    "update_sides": ("update", {"equations": "u' = u + a*lap(u) + u[0, -2]", **SIDES}),
    "update_faces": (
        "update",
        {"equations": "u' = u + a*lap(u)", "dim": 3, "boundary": "zero", "scalars": "a"},
    ),
    "update_edges": ("update", {"equations": "u' = u + a*lap(u)", **EDGES}),
    "update_vectors": (
        "update",
        {"equations": STREAMED, "vectors": {"f": 3}, "constants": {"c": (0, 1, -1)}, **PERIODIC},
    ),
    "update_reductions": (
        "update",
        {"equations": "u' = lap(u); err = sum((u' - u)**2); top = max(abs(u'))", "dim": 2},
    ),
    "update_reductions_cuda": (
        "update",
        {"equations": "u' = lap(u); err = sum((u' - u)**2)", "dim": 2, "arch": "cuda"},
    ),
    "map_reductions": ("map", {"expr": "x = x + a*p; rr = sum(x*x); low = min(x)"}),
    "map_default": ("map", {"expr": "z = a*x + y", "dim": 2}),
    "map_baked": ("map", {"expr": "z = a*x + y", "shape": 1000}),
    "map_cuda": ("map", {"expr": "z = a*x + y", "arch": "cuda"}),
    "update_window": (
        "update",
        {"equations": "u' = lap(u)", "dim": 3, "boundary": "periodic", "window": True},
    ),
    "update_cuda": (
        "update",
        {"equations": "u' = lap(u)", **PERIODIC, "scalars": (), "arch": "cuda"},
    ),
    "stencil_cuda": ("stencil", {"dim": 3, "arch": "cuda"}),
    "stencil_zero_cuda": ("stencil", {"dim": 2, "boundary": "zero", "arch": "cuda"}),
    "reduce_cuda": ("reduce", {"op": "sum", "arch": "cuda"}),
    "scan_cuda": ("scan", {"op": "sum", "arch": "cuda"}),
    "transpose_cuda": ("transpose", {"perm": (1, 0), "arch": "cuda"}),
    "gemm_cuda": ("gemm", {"arch": "cuda"}),
    "spmv_cuda": ("spmv", {"format": "csr", "arch": "cuda"}),
    "histogram_cuda": ("histogram", {"bins": 64, "arch": "cuda"}),
    "ring_cuda": ("ring", {**RING, "handler": "total = 2*x; count = n", "arch": "cuda"}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_rendered_text_is_the_reviewed_one(by_taichi: None, name: str) -> None:
    template, params = VARIANTS[name]
    text = tikgen.render(template, **{"arch": "cpu"} | params).text
    path = GOLDEN / f"{name}.py"
    if os.environ.get("TIKGEN_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_template_has_a_golden_file_and_no_file_is_left_over() -> None:
    assert {p.stem for p in GOLDEN.glob("*.py")} == set(VARIANTS)
