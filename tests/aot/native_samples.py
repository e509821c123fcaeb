"""A native bundle that tests share: small kernels of templates, and one of a user."""

from pathlib import Path

import taichi as ti

import tikgen
from tikgen.pipeline import evidence
from tikgen.pipeline.choice import choose
from tikgen.pipeline.rendering import render_variant


def verified(template: str, **params: object) -> tikgen.Kernel:
    """Return a kernel that counts as verified on the processor, which is tested elsewhere."""
    source = render_variant(choose(template, None, None, "cpu", params, engine="direct")[0])
    tally = evidence.Tally({}, passed=True, examples=1, worst=0.0)
    evidence.keep(source.variant.template, "cpu", 7, {source.digest: tally})
    return tikgen.build(template, arch="cpu", **params)


@ti.kernel
def wide(
    more: ti.i64,
    by: ti.f64,
    x: ti.types.ndarray(dtype=ti.i64, ndim=1),
    y: ti.types.ndarray(dtype=ti.f64, ndim=1),
):
    for i in range(x.shape[0]):
        y[i] = by * ti.cast(x[i] + more, ti.f64)


@ti.kernel
def weigh(
    x: ti.types.ndarray(dtype=ti.types.vector(3, ti.f32), ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    by: ti.u8,
):
    for i in range(x.shape[0]):
        y[i, 1] = x[i][0] + 2.0 * x[i][1] + ti.cast(by, ti.f32) * x[i][2]


def kernels() -> dict[str, object]:
    """Return the kernels by name."""
    return {
        "axpy": verified("map", expr="z = a*x + y"),
        "half": verified("map", expr="y = a*x", dtype="f16"),
        "product": verified("gemm"),
        "total": verified("reduce", op="sum"),
        "weigh": weigh,
        "wide": wide,
    }


def export(path: Path, **settings: object) -> tikgen.aot.Bundle:
    """Return the bundle, written to a path."""
    return tikgen.aot.export(kernels(), path, native=True, examples=1, **settings)
