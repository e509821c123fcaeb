"""Names of variants, cost models, and the text of kernels that take halves."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.aot import manifest as m
from tikgen.aot import native
from tikgen.aot.c.identifiers import names_in
from tikgen.aot.exporting.cost_model import cost_of, evaluate
from tikgen.aot.exporting.kernel_texts import load_text, split
from tikgen.aot.names import (
    bundle_name,
    family_name,
    identifier,
    name_problem,
    told_apart,
    variant_name,
)
from tikgen.aot.native.names import HEADER_NAMES, function_names

BUILT_IN = [
    ("stencil", {"dim": 3}, "stencil_dim3_f32_order2_interior", "stencil_order2_interior"),
    ("stencil", {"dim": 2, "dtype": "f64", "spacing": 0.5, "shape": (9, 8)}, None, None),
    ("map", {"expr": "z = a*x + y"}, "map_z_a_x_y_dim1_f32", "map_z_a_x_y"),
    ("reduce", {}, "reduce_sum_dim1_f32_fast", "reduce_sum_fast"),
    ("gemm", {}, "gemm_nn_f32", "gemm_nn"),
    ("spmv", {}, "spmv_csr_f32_i32", "spmv_csr"),
]


@pytest.mark.parametrize(("template", "params", "name", "family"), BUILT_IN)
def test_names_say_what_a_kernel_is(
    template: str, params: dict[str, object], name: str | None, family: str | None
) -> None:
    variant = tikgen.build(template, **params).variant
    if name is None:
        name, family = (
            "stencil_dim2_f64_order2_spacing0_5_interior_9x8",
            ("stencil_order2_spacing0_5_interior"),
        )
    assert variant_name(variant) == name
    assert family_name(variant) == family


def test_names_are_identifiers() -> None:
    assert identifier("a-b__c!") == "a_b_c"
    assert identifier("3d") == "k_3d"
    assert identifier("class") == "k_class"
    assert identifier("größe").isascii()
    assert bundle_name(Path("/x/My heat-2.zip")) == "my_heat_2"
    assert told_apart(["a", "b", "a"], ["1" * 64, "2" * 64, "3" * 64]) == [
        "a_11111111",
        "b",
        "a_33333333",
    ]


@pytest.mark.parametrize(("template", "params"), [(t, p) for t, p, *_ in BUILT_IN])
def test_cost_models_are_the_templates_own(
    template: str, params: dict[str, object], rng: np.random.Generator
) -> None:
    variant = tikgen.build(template, **params).variant
    model = cost_of(variant)
    assert model is not None
    symbols = variant.template.size_symbols(variant.problem)
    sizes = dict(variant.sizes) or {s: int(rng.integers(1, 5000)) for s in symbols}
    wanted = variant.template.cost(variant.problem, sizes)
    assert math.isclose(evaluate(model.bytes, sizes), wanted.bytes)
    assert math.isclose(evaluate(model.flops, sizes), wanted.flops)


@pytest.mark.parametrize("flops", [lambda n: n // 0, lambda n: n * n])
def test_only_sums_of_products_are_cost_models(
    flops: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = tikgen.build("map", expr="z = 3*x", dim=1).variant
    monkeypatch.setattr(
        variant.template, "cost", lambda problem, sizes: tikgen.Cost(8, flops(sizes["n0"]))
    )
    assert cost_of(variant) is None


TEXT = """
import taichi as ti

@ti.func
def scaled(a, x):
    return a * x

@ti.kernel
def run(a: ti.f64, k: ti.i64, u: ti.u64, n: ti.i32, y: ti.types.ndarray(dtype=ti.f64, ndim=1),
        z: ti.types.ndarray(dtype=ti.i64, ndim=1), w: ti.types.ndarray(dtype=ti.u64, ndim=1)):
    for i in range(n):
        y[i] = scaled(a, 2.0)
        z[i] = k
        w[i] = u
"""


@pytest.mark.parametrize(
    ("a", "k", "u"),
    [(0.1, -5, 2**63 + 7), (-1e300, 2**62 + 3, 1), (5e-320, -(2**63), 2**32), (0.0, 2**31, 0)],
)
def test_halves_of_wide_scalars_are_put_together(ti_arch: str, a: float, k: int, u: int) -> None:
    text = split(TEXT, "run", {"a": "f64", "k": "i64", "u": "u64"})
    kernel = load_text("run", text, "run", {})
    halves = [
        int(half)
        for value, dtype in ((a, "f8"), (k, "i8"), (u, "u8"))
        for half in np.array([value], dtype).view("i4")
    ]
    y, z, w = np.zeros(3), np.zeros(3, np.int64), np.zeros(3, np.uint64)
    kernel(*halves, 3, y, z, w)
    ti.sync()
    subnormal = 0 < abs(a) < 1e-307  # Which some devices flush to zero.
    assert (y == 2 * a).all() or subnormal
    assert (z == k).all()
    assert (w == np.uint64(u)).all()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("step", ""),
        ("a1_b", ""),
        ("class", "it is a keyword of Python"),
        *((name, "a name begins with an ASCII letter, then") for name in ("_x", "1a", "a__b", "")),
        *((name, "a name begins with an ASCII letter, then") for name in ("x_", "é", None, 3)),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: object, problem: str) -> None:
    said = name_problem(name)
    assert said.startswith(problem) and bool(said) is bool(problem)


def test_a_kernel_of_a_native_bundle_has_no_name_of_its_library() -> None:
    used = {
        name
        for path in (Path(native.__file__).parent / "templates").glob("*.j2")
        for name in names_in(path.read_text(encoding="utf-8"), "NAME")
    }
    assert used >= HEADER_NAMES
    kernels = {name: m.Kernel(name=name, family=name) for name in sorted(used)}
    manifest = m.Manifest(
        format=m.FORMAT, name="heat", archs=("x64",), tikgen="0", taichi="1.7.4", kernels=kernels
    )
    whole = {name for name in used if identifier(name) == name}  # Kernels have no others.
    given = function_names(manifest)
    assert not {given[name] for name in whole} & used
