"""Small arrays are done by one thread of a processor, with the numbers of many threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.template.shapes import SMALL_BYTES, are_small

KERNELS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "stencil": ({"dim": 2, "boundary": "clamp"}, {"n0": 9, "n1": 80}),
    "update": (
        {"equations": "u' = u + 0.1*lap(u); t = sum(u*u)", "dim": 2, "boundary": "periodic"},
        {"n0": 9, "n1": 80},
    ),
    "histogram": ({"bins": 40}, {"n": 900}),
    "spmv": ({}, {"rows": 30, "cols": 20, "nnz": 99}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_few_bytes_are_for_one_thread(name: str) -> None:
    params, sizes = KERNELS[name]
    source = tikgen.render(name, arch="cpu", shape=sizes, **params)
    assert source.variant.schedule.serial
    assert "ti.loop_config(serialize=True)" in source.text
    large = {symbol: 1000 * size for symbol, size in sizes.items()}
    for arch, shape in (("cpu", None), ("cpu", large), ("cuda", sizes)):
        assert not tikgen.render(name, arch=arch, shape=shape, **params).variant.schedule.serial


def test_the_bytes_of_all_arrays_count() -> None:
    arguments = tikgen.build("stencil", dim=1, dtype="f64").variant.arguments
    most = SMALL_BYTES // 16
    assert are_small(arguments, {"n0": most - 1})
    assert not are_small(arguments, {"n0": most})
    assert not are_small(arguments, None)


@pytest.mark.skipif(ARCH != "cpu", reason="a GPU has no loop of one thread")
@pytest.mark.parametrize("name", KERNELS)
def test_one_thread_computes_the_same(
    name: str, without_fast_math: None, ti_arch: str, rng: np.random.Generator
) -> None:
    """Bit for bit without fast math, under which LLVM may add up a row in another order."""
    params, sizes = KERNELS[name]
    kernel = tikgen.build(name, **params)
    template, problem = kernel.template, kernel.problem
    inputs = template.inputs(problem, sizes, rng)
    found = []
    for schedule in (None, {}):
        values = [
            inputs[argument.name].copy()
            if isinstance(inputs.get(argument.name), np.ndarray)
            else 0.5
            if not isinstance(argument, tikgen.Array)
            else np.random.default_rng(5)
            .random(tuple(sizes.get(s, 1) if isinstance(s, str) else s for s in argument.shape))
            .astype(argument.dtype.numpy)
            for argument in kernel.variant.arguments
        ]
        own = tikgen.build(name, **params, **({} if schedule is None else {"schedule": schedule}))
        own(*values)
        assert own.schedule.serial is (schedule is None)
        found.append(values)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
