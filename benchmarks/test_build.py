"""Times the stages before the first launch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tikgen
from variants import REQUIRED

TEMPLATES = tikgen.list_templates()


def test_build_again(benchmark: Any) -> None:
    kernel = benchmark(tikgen.build, "stencil", dim=3, dtype="f32")
    assert kernel is tikgen.build("stencil", dim=3)


def test_load_with_taichi_meta(benchmark: Any) -> None:
    meta = pytest.importorskip("taichi_meta")
    text = tikgen.render("stencil", dim=3, dtype="f32").text
    benchmark(meta.MetaKernelLoader().compile_and_load, text, "stencil")


def test_build_new_variant(benchmark: Any) -> None:
    spacings = itertools.count(1)

    def new() -> tuple[tuple[str], dict[str, float]]:
        return ("stencil",), {"spacing": float(next(spacings))}

    benchmark.pedantic(tikgen.build, setup=new, rounds=50)


@pytest.mark.parametrize("name", TEMPLATES)
def test_render(benchmark: Any, name: str) -> None:
    source = benchmark(tikgen.render, name, **REQUIRED.get(name, {}))
    assert "@ti.kernel" in source.text
