"""Threads of a GPU that compute several points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from comparing import assert_near
from conftest import ARCH
from some_cases import examples
from tikgen.errors import CompileBudgetExceeded, ParameterError
from tikgen.pipeline.budget import check_budget, operations

MIXED = {"x-": "interior", "x+": "clamp", "y": "zero"}
TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("r = dx(u, along=v) + u[-2, 1]; u' = r*v + i; v' = lap(u*v)", {"boundary": "periodic"}),
    ("u' = lap(u) + v; v = v - u + j", {"order": 4}),
    (
        "u' = u[3, 0] - v[-1, 2]; q = u + v",
        {"boundary": {"x-": "interior", "x+": "clamp", "y": "zero"}},
    ),
    ("u' = lap(u)*v", {"boundary": "reflect", "mask": "solid"}),
    ("u' = lap(u) + u", {"boundary": tikgen.absorbing(3)}),
    ("u' = lap(u)*c", {"boundary": "antireflect", "types": {"c": "f16"}}),
    ("u' = u + lap(u)", {"dim": 3, "boundary": {"x": "periodic", "y": "zero", "z": "clamp"}}),
    ("u' = lap(u)*v; s = sum(u'*u); h = max(u')", {"boundary": MIXED}),
    ("q = -lap(u); s = sum(u*q); l = min(abs(q))", {"dim": 3, "boundary": "zero"}),
    ("x = x + y; s = sum(x*x)", {"dim": 3, "dtype": "i32", "boundary": "zero"}),
    ("u' = lap(u)*v + i; q = u[3] - v[-2]", {"dim": 1, "order": 4, "boundary": "antireflect"}),
    ("u' = u[2] - u[-1]; s = sum(u'*v); h = max(u')", {"dim": 1}),
    ("v' = lap(u) + v", {"dim": 1, "boundary": {"x-": "reflect", "x+": tikgen.dirichlet(2)}}),
    ("u' = u[-2, 1, 0] - v[1, -2, 1] + j; q = dyz(v)", {"dim": 3, "boundary": "reflect"}),
    ("u' = lap(u)*v; h = max(u')", {"dim": 3, "order": 4, "boundary": MIXED | {"z": "periodic"}}),
    ("u' = lap(u)*v + k", {"dim": 3, "mask": "solid"}),
    ("u' = lap(u) + u", {"dim": 3, "boundary": tikgen.absorbing(3)}),
]


def test_several_points_belong_to_gpus() -> None:
    with pytest.raises(ParameterError, match="'items' must be 1 on cpu"):
        tikgen.render("update", equations="u' = lap(u)", items=4, loop="points", arch="cpu")
    for arch, dim, rule in (("cpu", 3, "on cpu"), ("cuda", 2, "where dim=2")):
        params = {"equations": "u' = lap(u)", "dim": dim, "loop": "points", "arch": arch}
        with pytest.raises(ParameterError, match=f"'item_rows' must be 1 {rule}"):
            tikgen.render("update", **params, item_rows=2)
    with pytest.raises(ParameterError, match="'block_dim' must be above 0 where items is above 1"):
        tikgen.render("update", **(params | {"dim": 1}), items=4, block_dim=0)
    with pytest.raises(ParameterError, match="'item_rows' must be 1 where items is 1"):
        tikgen.render("update", **(params | {"dim": 3}), items=1, item_rows=2)


def test_the_default_has_enough_threads() -> None:
    def items(arch: str, **params: Any) -> int:
        variant = tikgen.render("update", equations="u' = lap(u)", arch=arch, **params).variant
        return int(variant.schedule.items)

    assert items("cuda", dim=2) == items("cuda", dim=3) == 4
    assert items("cuda", dim=1) == items("cuda", dim=1, shape=300_000) == 2
    assert items("cuda", dim=1, shape=200_000) == 1
    assert items("vulkan", dim=2) == items("vulkan", dim=1, shape=10**7) == 2
    assert items("vulkan", dim=2, shape=(300, 400)) == 1
    assert items("cuda", dim=2, shape=(100, 100)) == 1
    assert items("cuda", dim=2, shape=(2000, 1000)) == 4
    assert items("cuda", dim=2, shape=(1000, 600)) == 4
    assert items("cuda", dim=2, shape=(300, 400)) == 2
    assert items("cuda", dim=3, shape=(300, 300, 300)) == 4


def test_points_in_two_rows_belong_to_one_array_that_is_read_often() -> None:
    def rows(text: str, **params: Any) -> int:
        variant = tikgen.render("update", equations=text, arch="cuda", dim=3, **params).variant
        return int(variant.schedule.item_rows)

    heat, wave = "u' = u + lap(u)", "q = 2*p - q + c*lap(p)"
    assert rows(heat) == rows(heat, boundary="periodic", order=8) == rows(wave, order=8) == 2
    assert rows("q = -lap(p); s = sum(q*p)", boundary="zero") == 2
    assert rows(wave) == rows(heat, dtype="f64") == rows(heat, shape=(90, 90, 90)) == 1
    assert rows("u' = lap(u); v' = lap(v)", order=8) == rows("u' = dxx(u) + dzz(u)") == 1
    assert rows(heat, order=6, boundary="zero") == 2
    assert rows(heat, order=8, boundary="zero") == 1


@pytest.mark.parametrize("boundary", ["interior", "zero", tikgen.neumann(1)])
def test_by_default_long_texts_take_seconds_to_compile(boundary: Any) -> None:
    text = "u' = u + dx(c*dx(u)) + dy(c*dy(u)) + dz(c*dz(u))"
    params = {"equations": text, "dim": 3, "order": 8, "boundary": boundary, "arch": "cuda"}
    with pytest.raises(CompileBudgetExceeded):
        check_budget("update", tikgen.render("update", **params, items=16).text)
    assert operations(tikgen.render("update", **params).text) < 9000


@pytest.mark.skipif(ARCH == "cpu", reason="threads of cpu take rows")
@pytest.mark.parametrize(("text", "params"), TEXTS, ids=str)
@settings(max_examples=examples(3, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_they_compute_the_same(text: str, params: dict[str, Any], ti_arch: str, data: Any) -> None:
    items = data.draw(st.sampled_from((2, 4, 8)))
    params = {"dim": 2} | params
    if params["dim"] == 3:
        params["item_rows"] = data.draw(st.sampled_from((1, 2, 4)))
    parts = data.draw(st.sampled_from((2, 2048, 262144))) if "s = " in text else 2048
    kernel = tikgen.update(text, **params, items=items, block_dim=32, parts=parts)
    for _ in range(4):
        extents = (1, 2, 5, items, items + 1, 2 * items, 3 * items + 7)
        if params["dim"] == 1:  # Blocks of threads, and what is left.
            extents += tuple(32 * n + rest for n in extents for rest in (-1, 0, 1))
        sizes = st.sampled_from(extents)
        shape = tuple(data.draw(sizes) for _ in range(params["dim"]))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        values = {}
        for argument in kernel.signature.arguments:
            own = (1,) if argument.shape == (1,) else shape
            if argument.dtype.is_float:
                values[argument.name] = rng.uniform(-1, 1, own).astype(argument.dtype.numpy)
            else:
                values[argument.name] = rng.integers(0, 2, own, argument.dtype.numpy)
        before = {name: value.copy() for name, value in values.items()}
        kernel(**values)
        assert_near(kernel, before, values)
